"""Image lists as the paper's authors released them: lines `<path> <label>`, one file a split."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from transil.data.source import Block, Source, blocks_of, file_stamp, names_for
from transil.errors import TransilError
from transil.files import digest, told

# The beginning of every released path, to be replaced by where the images really are.
PLACEHOLDER = "/DATASET_PATH"
# Which lists are read, by the split they become; `train` holds the validation images too.
WITH_VALIDATION = {"train": ("train_no_val", "train"), "val": ("val",), "test": ("test",)}


class ListSource(Source):
    """A folder with train.lst (or train_no_val.lst and val.lst) and test.lst.

    `root` replaces `/DATASET_PATH` at the start of a path, and is where relative paths begin.
    `all_train` takes train.lst, validation images included, instead of train_no_val.lst.
    """

    def __init__(self, folder: Path, root: Path | None = None, *, all_train: bool = False) -> None:
        self.folder = folder
        self.name = folder.resolve().name
        self.root = root or folder
        self.files: dict[str, Path] = {}
        for split, names in WITH_VALIDATION.items():
            names = ("train",) if all_train and split == "train" else names
            path = next((p for name in names for p in _candidates(folder, name)), None)
            if path is not None and not (all_train and split == "val"):
                self.files[split] = path
        self._paths: dict[str, list[str]] = {}
        labels = {}
        for split, path in self.files.items():
            self._paths[split], numbers = _read(path)
            labels[split] = np.array(numbers, dtype=np.int64)
        self.labels = labels
        self.class_names = names_for(labels)

    def path(self, split: str, row: int) -> Path:
        """The file of one image."""
        text = self._paths[split][row]
        if text.startswith(PLACEHOLDER):
            text = text[len(PLACEHOLDER) :].lstrip("/")
        return self.root / text

    def blocks(self, split: str) -> Iterator[Block]:
        for rows in blocks_of(range(len(self._paths[split]))):
            yield [self.path(split, row) for row in rows]

    def fingerprint(self) -> str:
        stamps = [[split, *file_stamp(path)] for split, path in sorted(self.files.items())]
        return digest(["lists", str(self.root.resolve()), stamps])

    def where(self, split: str, row: int) -> str:
        return f"{self.path(split, row)} ({self.files[split].name}, image {row + 1})"


def is_list_folder(folder: Path) -> bool:
    """Whether a folder holds image lists."""
    return any(_candidates(folder, name) for name in ("train", "train_no_val"))


def _candidates(folder: Path, name: str) -> list[Path]:
    return [p for p in (folder / f"{name}.lst", folder / f"{name}.txt") if p.is_file()]


def _read(path: Path) -> tuple[list[str], list[int]]:
    paths, labels = [], []
    with told(f"cannot read {path}"):
        lines = path.read_text().splitlines()
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        name, _, label = line.strip().rpartition(" ")
        if not name or not label.isdecimal():
            raise TransilError(
                f"{path}, line {number}: '{line.strip()[:60]}' has no label; "
                "lines are '<path> <whole number>'"
            )
        paths.append(name)
        labels.append(int(label))
    if not paths:
        raise TransilError(f"{path}: no images in it")
    return paths, labels

"""Image lists as the paper's authors released them: lines `<path> <label>`, one file a split."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from transil._common.files import digest, read_text
from transil.data.source import FileSource, file_stamp, names_for
from transil.errors import TransilError
from transil.schedule import IntArray

# The beginning of every released path, to be replaced by where the images really are.
PLACEHOLDER = "/DATASET_PATH"
# No system has longer paths.
LONGEST = 5000
# Which lists are read, by the split they become; `train` holds the validation images too.
LISTS = {"train": ("train_no_val", "train"), "val": ("val",), "test": ("test",)}


class ListSource(FileSource):
    """A folder with train.lst (or train_no_val.lst and val.lst) and test.lst.

    `root` replaces `/DATASET_PATH` at the start of a path, and is where relative paths begin.
    `all_train` takes train.lst, validation images included, instead of train_no_val.lst.
    """

    def __init__(self, folder: Path, root: Path | None = None, *, all_train: bool = False) -> None:
        self.folder = folder
        self.name = folder.resolve().name
        self.root = root or folder
        self.files: dict[str, Path] = {}
        for split, names in LISTS.items():
            names = ("train",) if all_train and split == "train" else names
            path = next((p for name in names for p in _candidates(folder, name)), None)
            if path is not None and not (all_train and split == "val"):
                self.files[split] = path
        self._paths: dict[str, list[str]] = {}
        labels = {}
        for split, path in self.files.items():
            self._paths[split], labels[split] = read_list(path)
        if "val" in labels and self.files["train"].stem == "train":
            # train.lst holds the validation images too; nobody may train on those.
            aside = set(self._paths["val"])
            kept = [i for i, name in enumerate(self._paths["train"]) if name not in aside]
            self._paths["train"] = [self._paths["train"][i] for i in kept]
            labels["train"] = labels["train"][kept]
        self.labels = labels
        self.class_names = names_for(labels)

    def path(self, split: str, row: int) -> Path:
        text = self._paths[split][row]
        if text.startswith(PLACEHOLDER):
            text = text[len(PLACEHOLDER) :].lstrip("/")
        return self.root / text

    def index_stamp(self) -> str:
        return digest(["lists", [[s, *file_stamp(path)] for s, path in sorted(self.files.items())]])

    def where(self, split: str, row: int) -> str:
        return f"{self.path(split, row)} ({self.files[split].name}, image {row + 1})"


def is_list_folder(folder: Path) -> bool:
    """Whether a folder holds image lists."""
    return any(_candidates(folder, name) for name in ("train", "train_no_val"))


def _candidates(folder: Path, name: str) -> list[Path]:
    return [p for p in (folder / f"{name}.lst", folder / f"{name}.txt") if p.is_file()]


def read_list(path: Path) -> tuple[list[str], IntArray]:
    """Paths and labels of the lines of a list."""
    paths, labels = [], []
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        if not line.strip():
            continue
        if len(line) > LONGEST:
            raise TransilError(f"{path}, line {number}: {len(line):,} characters; this is no path")
        name, label = [*line.rsplit(None, 1), ""][:2]
        if not label.isdecimal() or len(label) > 9:
            raise TransilError(
                f"{path}, line {number}: '{line.strip()[:60]}' has no label; "
                "lines are '<path> <whole number>'"
            )
        paths.append(name)
        labels.append(int(label))
    if not paths:
        raise TransilError(f"{path}: no images in it")
    return paths, np.array(labels, dtype=np.int64)

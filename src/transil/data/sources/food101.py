"""Food-101 as its owners publish it: images/CLASS/ID.jpg, meta/train.txt and meta/test.txt."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from transil._common.files import digest, read_bytes
from transil.data.source import FileSource, file_stamp
from transil.errors import TransilError


class Food101Source(FileSource):
    """The folder `food-101`. Lines of the lists are CLASS/ID; classes are in alphabetical order."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.name = folder, "food101"
        self._lines = {split: self._read(split) for split in ("train", "test")}
        self.class_names = tuple(sorted({line.split("/")[0] for line in self._lines["train"]}))
        number = {name: label for label, name in enumerate(self.class_names)}
        # A class of the test list alone has no number; `check` tells it.
        self.labels = {
            split: np.array([number.get(line.split("/")[0], -1) for line in lines], dtype=np.int64)
            for split, lines in self._lines.items()
        }

    def _read(self, split: str) -> list[str]:
        path = self.folder / "meta" / f"{split}.txt"
        text = read_bytes(path).decode(errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        for number, line in enumerate(lines, start=1):
            if line.count("/") != 1 or ".." in line:
                raise TransilError(f"{path}, line {number}: '{line[:60]}' is not CLASS/ID")
        return lines

    def path(self, split: str, row: int) -> Path:
        return self.folder / "images" / f"{self._lines[split][row]}.jpg"

    def index_stamp(self) -> str:
        lists = [file_stamp(self.folder / "meta" / f"{split}.txt") for split in self._lines]
        return digest(["food101", lists])


def is_food101(folder: Path) -> bool:
    """Whether a folder holds Food-101 as it is published."""
    return (folder / "meta" / "train.txt").is_file() and (folder / "images").is_dir()

"""What every source of images offers: labels at once, images only when they are decoded."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from transil.errors import TransilError
from transil.schedule import IntArray

Pixels: TypeAlias = NDArray[np.uint8]
# An image before decoding: a file, its bytes, or pixels (height, width, 3).
Item: TypeAlias = Path | bytes | Pixels
Block: TypeAlias = Sequence[Item] | Pixels

# Images handed out together; bounds the memory of decoding.
BLOCK = 1024


class Source(ABC):
    """An index of images: class names, and for each split the labels and the undecoded images.

    Labels are 0..classes-1. Subclasses fill the attributes and say how to read.
    """

    name: str
    class_names: tuple[str, ...]
    labels: Mapping[str, IntArray]

    @abstractmethod
    def blocks(self, split: str) -> Iterator[Block]:
        """The images of a split in order, in blocks of at most `BLOCK`."""

    @abstractmethod
    def fingerprint(self) -> str:
        """A text that changes when the content does: the key of the decoded cache."""

    def where(self, split: str, row: int) -> str:
        """How messages name one image."""
        return f"{self.name}, split '{split}', row {row}"

    def check(self) -> Source:
        """This source, if every class has training images and every label a class."""
        if "train" not in self.labels:
            there = ", ".join(self.labels) or "none"
            raise TransilError(f"{self.name}: no split 'train' (there are: {there})")
        for split, labels in self.labels.items():
            wrong = np.flatnonzero((labels < 0) | (labels >= len(self.class_names)))
            if len(wrong):
                raise TransilError(
                    f"{self.where(split, int(wrong[0]))}: label {labels[wrong[0]]}, but there are "
                    f"{len(self.class_names)} classes, 0 to {len(self.class_names) - 1}"
                )
        counts = np.bincount(self.labels["train"], minlength=len(self.class_names))
        for label in np.flatnonzero(counts == 0):
            raise TransilError(
                f"{self.name}: class {label} ('{self.class_names[label]}') has no training images; "
                "add some, or leave the class out so that labels have no gap"
            )
        return self


def names_for(labels: Mapping[str, IntArray]) -> tuple[str, ...]:
    """'0', '1', ... up to the largest label, where nothing tells the names."""
    largest = max((int(values.max()) for values in labels.values() if len(values)), default=-1)
    return tuple(str(label) for label in range(largest + 1))


def blocks_of(items: Any) -> Iterator[Any]:
    """Anything that can be sliced, in blocks of at most `BLOCK`."""
    for start in range(0, len(items), BLOCK):
        yield items[start : start + BLOCK]


def file_stamp(path: Path) -> list[Any]:
    """Name, size and time of change of a file: cheap, and different when it was written anew."""
    info = path.stat()
    return [path.name, info.st_size, info.st_mtime_ns]

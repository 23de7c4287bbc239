"""What every source of images offers: labels at once, images only when they are decoded."""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from transil._common.files import sha256
from transil.errors import TransilError
from transil.schedule import IntArray

Pixels: TypeAlias = NDArray[np.uint8]
# An image before decoding: a file, its bytes, or pixels (height, width, 3).
Item: TypeAlias = Path | bytes | Pixels
Block: TypeAlias = Sequence[Item] | Pixels

# Images handed out together; bounds the memory of decoding.
BLOCK = 1024
# Labels beyond this are a mistake, or made to exhaust memory.
MOST_CLASSES = 1_000_000
# Files up to this size are hashed whole.
WHOLE_BYTES = 1 << 29
EDGE_BYTES = 1 << 20


class Source(ABC):
    """An index of images: class names, and for each split the labels and the undecoded images.

    Labels are 0..classes-1. Subclasses fill the attributes and say how to read.
    """

    name: str
    class_names: tuple[str, ...]
    labels: Mapping[str, IntArray]
    # The images of each split, for sources that have them in memory.
    pixels: Mapping[str, Pixels]
    # Whether the stamp knows what is in all files, wherever they lie.
    by_content: bool = True

    def blocks(self, split: str) -> Iterator[Block]:
        """The images of a split in order, in blocks of at most `BLOCK`."""
        return blocks_of(self.pixels[split])

    @abstractmethod
    def stamp(self) -> str:
        """A text that changes when the content does: the key of the decoded cache.

        It is found without decoding, so it may change with place and time as well.
        """

    def blocks_of_rows(self, split: str, rows: IntArray) -> Iterator[Block]:
        """Some images of a split; `rows` are ascending."""
        start = 0
        for block in self.blocks(split):
            first, last = np.searchsorted(rows, (start, start + len(block)))
            inside = rows[first:last] - start
            start += len(block)
            if isinstance(block, np.ndarray) and len(inside):
                yield block[inside]
            elif len(inside):
                yield [block[int(row)] for row in inside]

    def stamp_of_rows(self, rows: Mapping[str, IntArray]) -> str:
        """A stamp of some images of each split; it may change with the others, too."""
        return self.stamp()

    def where(self, split: str, row: int) -> str:
        """How messages name one image."""
        return f"{self.name}, split '{split}', row {row}"

    def check(self) -> Source:
        """This source, if every class has training images and every label a class.

        Names of files may be any bytes; those of classes are written as text.
        """
        self.name = as_text(self.name)
        for number, name in enumerate(self.class_names):
            if as_text(name) != name:
                raise TransilError(
                    f"{self.name}: class {number} is called {name!a}, which is no text in "
                    "UTF-8; rename it"
                )
        if "train" not in self.labels:
            there = ", ".join(self.labels) or "none"
            raise TransilError(f"{self.name}: no split 'train' (there are: {there})")
        self.check_labels()
        if not self.class_names or not len(self.labels["train"]):
            raise TransilError(f"{self.name}: there are no training images in it")
        counts = np.bincount(self.labels["train"], minlength=len(self.class_names))
        for label in np.flatnonzero(counts == 0):
            raise TransilError(
                f"{self.name}: class {label} ('{self.class_names[label]}') has no training images; "
                "add some, or leave the class out so that labels have no gap"
            )
        return self

    def check_labels(self) -> None:
        """An error for a label that is no class."""
        for split, labels in self.labels.items():
            wrong = np.flatnonzero((labels < 0) | (labels >= len(self.class_names)))
            if len(wrong):
                raise TransilError(
                    f"{self.where(split, int(wrong[0]))}: label {labels[wrong[0]]}, but there are "
                    f"{len(self.class_names)} classes, 0 to {len(self.class_names) - 1}"
                )


class FileSource(Source):
    """A source whose images are files of their own. Subclasses say which file a row is."""

    by_content = False

    @abstractmethod
    def path(self, split: str, row: int) -> Path:
        """The file of one image."""

    @abstractmethod
    def index_stamp(self) -> str:
        """What tells the content of the index itself: its lists, or the names of its classes."""

    def blocks(self, split: str) -> Iterator[Block]:
        return self.blocks_of_rows(split, np.arange(len(self.labels[split])))

    def blocks_of_rows(self, split: str, rows: IntArray) -> Iterator[Block]:
        for part in blocks_of(rows):
            yield [self.path(split, int(row)) for row in part]

    def stamp(self) -> str:
        return self.stamp_of_rows({k: np.arange(len(v)) for k, v in self.labels.items()})

    def stamp_of_rows(self, rows: Mapping[str, IntArray]) -> str:
        content = hashlib.sha256(self.index_stamp().encode())
        for split, chosen in sorted(rows.items()):
            content.update(f"{split} {len(chosen)} ".encode())
            for row in chosen:
                path = self.path(split, int(row)).absolute()
                content.update(repr(image_stamp(path)).encode())
        return content.hexdigest()

    def where(self, split: str, row: int) -> str:
        return str(self.path(split, row))


def names_for(labels: Mapping[str, IntArray]) -> tuple[str, ...]:
    """'0', '1', ... up to the largest label, where nothing tells the names."""
    largest = max((int(values.max()) for values in labels.values() if len(values)), default=-1)
    if largest >= MOST_CLASSES:
        raise TransilError(f"label {largest} is too large; labels count the classes from 0")
    return tuple(str(label) for label in range(largest + 1))


def as_text(name: str) -> str:
    """A name as text that can be written; bytes of file names that are none become '?'."""
    return name.encode(errors="replace").decode()


def blocks_of(items: Any) -> Iterator[Any]:
    """Anything that can be sliced, in blocks of at most `BLOCK`."""
    for start in range(0, len(items), BLOCK):
        yield items[start : start + BLOCK]


def hashed_whole(paths: Iterable[Path]) -> bool:
    """Whether the stamps of these files are of their content alone."""
    return all(path.stat().st_size <= WHOLE_BYTES for path in paths)


def file_stamp(path: Path) -> list[Any]:
    """What tells a file's content: a checksum, of very large files only of beginning and end.

    Those are told apart by place and time of change as well.
    """
    size = path.stat().st_size
    if size <= WHOLE_BYTES:
        return [path.name, size, sha256(path)]
    with open(path, "rb") as file:
        ends = file.read(EDGE_BYTES)
        file.seek(size - EDGE_BYTES)
        ends += file.read(EDGE_BYTES)
    return [*image_stamp(path), hashlib.sha256(ends).hexdigest()]


def image_stamp(path: Path) -> list[Any]:
    """What tells one of very many files: its place, size and time of change.

    A file that is not there has a stamp, too: it is told when it is decoded.
    """
    try:
        info = os.stat(path)
    except (OSError, ValueError):  # ValueError: a zero byte in it
        return [str(path), -1, 0]
    return [str(path), info.st_size, info.st_mtime_ns]

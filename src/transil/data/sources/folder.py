"""Image folders: split/class/file, or class/file with all images for training."""

from __future__ import annotations

import hashlib
import os
from array import array
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from transil.data.source import BLOCK, Block, Source
from transil.errors import TransilError
from transil.files import digest
from transil.schedule import IntArray

SPLITS = {"train": "train", "val": "val", "valid": "val", "validation": "val", "test": "test"}
# What Pillow opens everywhere; other files in the folders (notes, thumbnails' indexes) are not images.
ENDINGS = frozenset(
    [
        ".bmp",
        ".gif",
        ".jpeg",
        ".jpg",
        ".pgm",
        ".png",
        ".ppm",
        ".tif",
        ".tiff",
        ".webp",
        ".jp2",
        ".ico",
        ".tga",
        ".avif",
    ]
)


class FolderSource(Source):
    """A tree of image files. Paths are kept as one byte string a split: a million fit easily."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.name = root.resolve().name
        folders = sorted(entry.name for entry in os.scandir(root) if entry.is_dir())
        found = {SPLITS[name]: name for name in folders if name in SPLITS}
        self.folders = found if "train" in found else {"train": "."}
        first = root / self.folders["train"]
        self.class_names = tuple(sorted(e.name for e in os.scandir(first) if e.is_dir()))
        if not self.class_names:
            raise TransilError(
                f"{root}: no folders of classes; expected split/class/file or class/file, "
                "or one of the other kinds of 'transil data list'"
            )
        self.labels = {}
        self._paths: dict[str, tuple[bytes, IntArray]] = {}
        for split, folder in self.folders.items():
            self._index(split, root / folder)

    def _index(self, split: str, folder: Path) -> None:
        unknown = sorted(e.name for e in os.scandir(folder) if e.is_dir())
        for name in unknown:
            if name not in self.class_names:
                raise TransilError(f"{folder / name}: a class that has no training images")
        paths = bytearray()
        ends = array("q", [0])
        counts = []
        for name in self.class_names:
            before = len(ends)
            for file in sorted(_image_files(folder / name)):
                paths += os.fsencode(f"{name}/{file}")
                ends.append(len(paths))
            counts.append(len(ends) - before)
        labels = np.repeat(np.arange(len(counts)), counts)
        self.labels = {**self.labels, split: labels}
        self._paths[split] = bytes(paths), np.frombuffer(ends, dtype=np.int64)

    def path(self, split: str, row: int) -> Path:
        """The file of one image."""
        text, ends = self._paths[split]
        relative = os.fsdecode(text[ends[row] : ends[row + 1]])
        return self.root / self.folders[split] / relative

    def blocks(self, split: str) -> Iterator[Block]:
        rows = len(self.labels[split])
        for start in range(0, rows, BLOCK):
            yield [self.path(split, row) for row in range(start, min(start + BLOCK, rows))]

    def fingerprint(self) -> str:
        content = hashlib.sha256(digest(["folder", list(self.class_names)]).encode())
        for split, labels in sorted(self.labels.items()):
            content.update(f"{split} {len(labels)} ".encode() + self._paths[split][0])
            for row in range(len(labels)):
                info = os.stat(self.path(split, row))
                content.update(f"{info.st_size} {info.st_mtime_ns} ".encode())
        return content.hexdigest()

    def where(self, split: str, row: int) -> str:
        return str(self.path(split, row))


def _image_files(folder: Path) -> Iterator[str]:
    """Image files in a folder and below it, relative to it."""
    if not folder.is_dir():
        return
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                for below in _image_files(folder / entry.name):
                    yield f"{entry.name}/{below}"
            elif os.path.splitext(entry.name)[1].lower() in ENDINGS:
                yield entry.name

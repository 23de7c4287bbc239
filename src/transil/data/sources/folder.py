"""Image folders: split/class/file, or class/file with all images for training."""

from __future__ import annotations

import os
import re
import warnings
from array import array
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from transil._common.files import digest
from transil.data.source import FileSource
from transil.errors import DataWarning, TransilError
from transil.schedule import IntArray

# What folders of splits are called, in upper or lower case.
SPLITS = {
    "train": "train", "training": "train", "val": "val", "valid": "val", "validation": "val",
    "test": "test", "testing": "test",
}  # fmt: skip
# Endings of what is decoded, see `decode.FORMATS`; other files (notes, indexes) are not images.
IMAGE = re.compile(
    r".*\.(avif|bmp|dib|gif|icns|ico|j2k|jfif|jp2|jpe|jpeg|jpg|jpx|pbm|pcx|pgm|png|pnm|ppm|qoi|sgi"
    r"|tga|tif|tiff|webp)",
    re.IGNORECASE | re.DOTALL,
)


class FolderSource(FileSource):
    """A tree of image files. Paths are kept as one byte string a split: a million fit easily."""

    def __init__(self, root: Path, called: Mapping[str, str] = SPLITS) -> None:
        self.root = root
        self.name = root.resolve().name
        found: dict[str, str] = {}
        folders = _folders(root)
        for name in folders:
            # A class may be called 'train' (CIFAR-100 has one): a split holds folders of classes.
            split = called.get(name.lower())
            if split is not None and _folders(root / name):
                if split in found:
                    both = f"'{found[split]}' and '{name}'"
                    raise TransilError(f"{root}: {both} are the same split; keep one")
                found[split] = name
        if found and "train" not in found:
            raise TransilError(f"{root}: no folder 'train' beside {', '.join(found.values())}")
        others = [f"'{name}'" for name in folders if name not in found.values()]
        if found and others:
            warnings.warn(
                f"{root}: {', '.join(others)} is not used; "
                "folders of splits are called train, val and test",
                DataWarning,
                stacklevel=2,
            )
        self.folders = found or {"train": "."}
        self.class_names = tuple(_folders(root / self.folders["train"]))
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
        for name in _folders(folder):
            if name not in self.class_names:
                raise TransilError(f"{folder / name}: a class that has no training images")
        paths = bytearray()
        ends = array("q", [0])
        counts = []
        for name in self.class_names:
            before = len(ends)
            for file in sorted(image_files(folder / name)):
                paths += os.fsencode(f"{name}/{file}")
                ends.append(len(paths))
            counts.append(len(ends) - before)
        labels = np.repeat(np.arange(len(counts)), counts)
        self.labels = {**self.labels, split: labels}
        self._paths[split] = bytes(paths), np.frombuffer(ends, dtype=np.int64)

    def path(self, split: str, row: int) -> Path:
        text, ends = self._paths[split]
        relative = os.fsdecode(text[ends[row] : ends[row + 1]])
        return self.root / self.folders[split] / relative

    def index_stamp(self) -> str:
        return digest(["folder", list(self.class_names)])


def image_files(folder: Path) -> Iterator[str]:
    """Image files in a folder and below it, relative to it."""
    waiting = [""] if folder.is_dir() else []
    while waiting:
        inside = waiting.pop()
        with os.scandir(folder / inside) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                if entry.is_dir(follow_symlinks=False):  # a link to a folder may lead in a circle
                    waiting.append(f"{inside}{entry.name}/")
                # Not a pipe or a device; a link that leads nowhere is a damaged image.
                elif IMAGE.fullmatch(entry.name) and (entry.is_symlink() or entry.is_file()):
                    yield inside + entry.name


def _folders(folder: Path) -> list[str]:
    """The folders in a folder, by name; hidden ones are not classes."""
    with os.scandir(folder) as found:
        names = [e.name for e in found if not e.name.startswith(".")]
    return sorted(name for name in names if (folder / name).is_dir())

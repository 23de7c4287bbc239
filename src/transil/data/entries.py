"""Folders of decoded images: what is in one, whether it is whole, and which a cache holds."""

from __future__ import annotations

import math
import re
import shutil
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import numpy as np

from transil._common.files import digest, locked, read_json, sha256, told
from transil._common.typed import Between, read_file
from transil.data.images import Images, ImageSplit
from transil.data.source import Pixels
from transil.errors import DataWarning, TransilError
from transil.schedule import IntArray
from transil.scores.array_files import load_array

FORMAT, VERSION = "transil-images", 1
META = "meta.json"
# How cache entries are called: NAME-SIZE-KEY.
NAME = re.compile(r".*-(\d+|native)-[0-9a-f]{16}")
# Entries up to this size are compared with their checksums when opened; larger ones by size
# alone, and in full by `transil data cache --verify`.
VERIFY_BYTES = 1 << 30

Size = Annotated[int, Between(0, 2**50)]


@dataclass(frozen=True)
class EntrySplit:
    """What `meta.json` says of one split."""

    shape: tuple[Size, ...]
    bytes: Size
    sha256: str
    labels_sha256: str

    def __post_init__(self) -> None:
        square = len(self.shape) == 4 and self.shape[1:] == (self.shape[1], self.shape[1], 3)
        if not square or math.prod(self.shape) != self.bytes:
            raise TransilError(f"{self.bytes} bytes are no square images of shape {self.shape}")


def content_of(class_names: Sequence[str], splits: Mapping[str, EntrySplit]) -> str:
    """What tells decoded images: their pixels, labels and class names, wherever they come from."""
    return digest(["images", list(class_names), {n: asdict(s) for n, s in splits.items()}])


@dataclass(frozen=True)
class Meta:
    """What `meta.json` says."""

    name: str
    class_names: tuple[str, ...]
    fingerprint: str
    splits: dict[str, EntrySplit]
    skipped: tuple[str, ...]
    duplicates: int

    def __post_init__(self) -> None:
        if "train" not in self.splits:
            raise TransilError("splits.train is missing")


@dataclass(frozen=True)
class Entry(Meta):
    """One folder of decoded images."""

    path: Path = Path()

    @classmethod
    def read(cls, path: Path) -> Entry:
        """Read `meta.json`."""
        meta = read_file(path / META, Meta, FORMAT, VERSION, "meta file", "convert the set again")
        return cls(**vars(meta), path=path)

    @property
    def bytes(self) -> int:
        """The size of its pixels on disk."""
        return sum(split.bytes for split in self.splits.values())

    @property
    def size(self) -> int:
        """Width and height of its images."""
        return self.splits["train"].shape[1]

    def verify(self) -> bool:
        """Whether all files are as they were written."""
        return all(
            sha256(self.path / f"{name}.u8") == split.sha256
            and sha256(self.path / f"{name}.labels.npy") == split.labels_sha256
            for name, split in self.splits.items()
        )

    def images(self) -> Images:
        """The images, mapped."""
        splits = {}
        for name, split in self.splits.items():
            file = self.path / f"{name}.u8"
            if split.bytes:
                pixels: Pixels = np.asarray(np.memmap(file, np.uint8, "r", shape=split.shape))
            else:  # an empty file cannot be mapped
                pixels = np.empty(split.shape, np.uint8)
            splits[name] = ImageSplit(pixels, self.labels(name))
        return Images(
            self.name,
            self.class_names,
            splits,
            self.fingerprint,
            self.skipped,
            self.duplicates,
        )

    def labels(self, split: str) -> IntArray:
        """The labels of a split, (n,); a ValueError where they cannot be."""
        # Mapped first: nothing is set aside for what its header promises.
        labels = load_array(self.path / f"{split}.labels.npy")
        if labels.dtype != np.int64 or labels.shape != self.splits[split].shape[:1]:
            raise ValueError("labels")
        if len(labels) and not (labels.min() >= 0 and labels.max() < len(self.class_names)):
            raise ValueError("labels")
        return np.array(labels)


def is_converted(path: Path) -> bool:
    """Whether a folder holds decoded images, perhaps damaged ones."""
    with suppress(TransilError, KeyError, TypeError):
        return bool(read_json(path / META)["format"] == FORMAT)
    with suppress(OSError):  # a name that no file can have
        return (path / META).is_file() and any(path.glob("*.u8"))
    return False


def open_entry(path: Path) -> Entry | None:
    """The entry at `path` if it is whole."""
    if not (path / META).is_file():
        return None
    try:
        entry = Entry.read(path)
        for name, split in entry.splits.items():
            if (path / f"{name}.u8").stat().st_size != split.bytes:
                return None
            entry.labels(name)
        if entry.bytes <= VERIFY_BYTES and not entry.verify():
            return None
    except (OSError, EOFError, ValueError):
        return None
    return entry


def entry_paths(folder: Path) -> list[Path]:
    """The folders in a cache that are entries by name and content, whole or damaged."""
    found = sorted(meta.parent for meta in folder.glob(f"*/{META}")) if folder.is_dir() else []
    named = (path for path in found if NAME.fullmatch(path.name) and path.name[0] != ".")
    return [path for path in named if is_converted(path)]


def leftovers(path: Path) -> list[Path]:
    """The folders of builds of `path` that were killed, or run."""
    begins = f".{path.name}."
    found = (p for p in path.parent.iterdir() if p.name.startswith(begins) and p.suffix == ".tmp")
    return [left for left in found if left.is_dir() and not left.is_symlink()]


def clear(folder: Path, name: str | None = None) -> list[Path]:
    """Delete the entries whose name begins with `name` (all without one); returns them.

    Only files that an entry consists of are deleted, and what a killed build has left. What
    another process builds is left alone.
    """
    # Beside entry NAME are '.NAME.lock' and, while it is built, '.NAME.x.tmp'.
    hidden = [
        path.name[1:].split(".")[0] for end in ("tmp", "lock") for path in folder.glob(f".*.{end}")
    ]
    entries = {path.name for path in entry_paths(folder)}
    names = entries | {stem for stem in hidden if NAME.fullmatch(stem)}
    gone = []
    for path in (folder / found for found in sorted(names) if found.startswith(name or "")):
        lock = folder / f".{path.name}.lock"
        busy = f"{path.name} is being built by another command and was left alone"
        try:
            with locked(lock, busy):
                if path.name in entries:
                    _delete(path)
                    gone.append(path)
                for left in leftovers(path):
                    shutil.rmtree(left, ignore_errors=True)
                with suppress(OSError):
                    lock.unlink()
        except TransilError as error:
            if str(error) != busy:
                raise
            warnings.warn(busy, DataWarning, stacklevel=2)
    return gone


def _delete(path: Path) -> None:
    with told(f"cannot delete {path}"):
        for file in (path / META, *path.glob("*.u8"), *path.glob("*.labels.npy")):
            file.unlink()
        with suppress(OSError):  # somebody put a file of another kind into it
            path.rmdir()

"""Decode once: uint8 arrays on disk, keyed by source content, size and resize rule.

An entry is a folder with one raw file per split, the labels, and `meta.json`. It is built beside
its final place and renamed, so it is whole or not there; a lock makes a second process wait
instead of building the same again.
"""

from __future__ import annotations

import hashlib
import math
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from transil._common.files import (
    digest,
    locked,
    plain_name,
    private_folder,
    sha256,
    told,
    umask,
    write_json,
)
from transil._common.progress import Progress, no_progress
from transil.data.decode import Rule, UnreadableImage, decode, quietly
from transil.data.entries import (
    FORMAT,
    META,
    VERSION,
    Entry,
    EntrySplit,
    content_of,
    leftovers,
    open_entry,
)
from transil.data.images import Images
from transil.data.source import Item, Pixels, Source, as_text
from transil.errors import DataWarning, TransilError
from transil.schedule import IntArray

ENVIRONMENT = "TRANSIL_CACHE"

# Encoded images below this size are decoded by one thread (32 px: 1 to 3 KiB; 224 px: 10 KiB and more).
SMALL_BYTES = 4096


def default_cache_dir() -> Path:
    """$TRANSIL_CACHE, else the user's cache folder; a temporary one where no home can be used."""
    if os.environ.get(ENVIRONMENT):
        return Path(os.environ[ENVIRONMENT])
    if os.environ.get("XDG_CACHE_HOME"):
        return Path(os.environ["XDG_CACHE_HOME"]) / "transil"
    try:
        base = Path.home() / ".cache"
    except RuntimeError:  # no $HOME, and a user that the system does not know, as in containers
        return _temporary("there is no home folder")
    # Containers give such a user the home '/', too.
    if not (base / "transil").is_dir() and not _may_make(base):
        return _temporary(f"nothing can be written in the home folder {base.parent}")
    return base / "transil"


def _may_make(folder: Path) -> bool:
    """Whether this user may write in the folder, or in the first above it that is there."""
    there = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    return os.access(there, os.W_OK | os.X_OK)


def _temporary(why: str) -> Path:
    """A cache that lasts as long as temporary files do."""
    base = private_folder()
    warnings.warn(
        f"{why}: images are cached in {base}; set {ENVIRONMENT} to a folder that stays",
        DataWarning,
        stacklevel=3,
    )
    return base / "transil"


def cached_images(
    source: Source,
    *,
    size: int | None,
    rule: Rule,
    cache_dir: Path | None = None,
    skip_bad: bool = False,
    progress: Progress = no_progress,
) -> Images:
    """The decoded images of a source, from the cache or into it."""
    folder = cache_dir or default_cache_dir()
    stamp = source.stamp()

    def place(size: int | None) -> Path:
        key = digest([VERSION, stamp, size, rule, skip_bad])[:16]
        return folder / f"{plain_name(source.name)[:40]}-{size or 'native'}-{key}"

    path = place(size)
    with told(f"cannot use the cache folder {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
    entry = open_entry(path)  # no lock to read: a cache may lie on a read-only disk
    if entry is not None:
        return _images(entry, source, stamp)
    if size is not None:  # images that have this size anyway may be there as they are
        entry = open_entry(place(None))
        if entry is not None and entry.size == size:
            return _images(entry, source, stamp)
    with locked(folder / f".{path.name}.lock"):
        entry = open_entry(path)
        if entry is None:
            # What is there was cut short or altered: make it again.
            shutil.rmtree(path, ignore_errors=True)
            work = _Build(source, stamp, size, rule, skip_bad)
            work.into(path, progress)
            entry = open_entry(path)
    if entry is None:
        raise TransilError(f"{path}: the cache entry was changed while it was opened; try again")
    return _images(entry, source, stamp)


def _images(entry: Entry, source: Source, stamp: str) -> Images:
    """The images of an entry, which a transil of before may have written."""
    known = stamp if source.by_content else content_of(entry.class_names, entry.splits)
    return replace(entry, fingerprint=known).images()


def convert(
    source: Source,
    path: Path,
    *,
    size: int | None,
    rule: Rule,
    skip_bad: bool = False,
    progress: Progress = no_progress,
) -> Images:
    """Decode a source into a folder of its own, which `open_images` opens directly."""
    if path.exists():
        raise TransilError(f"cannot write {path}: it exists; choose another folder or delete it")
    with told(f"cannot write {path}"):
        path.parent.mkdir(parents=True, exist_ok=True)
    lock = path.parent / f".{path.name}.lock"
    with locked(lock, f"cannot write {path}: another command is making it"):
        try:
            build = _Build(source, source.stamp(), size, rule, skip_bad)
            build.into(path, progress)
        finally:
            with suppress(OSError):
                lock.unlink()
    return open_converted(path)


def open_converted(path: Path) -> Images:
    """Open a folder made by `convert`."""
    entry = open_entry(path)
    if entry is None:
        raise TransilError(
            f"{path}: cut short or altered; make it again with 'transil data convert'"
        )
    return entry.images()


@dataclass(frozen=True)
class _Build:
    """What is decoded, and how."""

    source: Source
    stamp: str
    size: int | None
    rule: Rule
    skip_bad: bool

    def into(self, path: Path, progress: Progress) -> None:
        """Decode all splits into a folder beside `path` and give it that name at the end.

        The caller holds the lock of `path`, so a folder that is there is one of a killed build.
        """
        source = self.source
        for left in leftovers(path):
            shutil.rmtree(left, ignore_errors=True)
        total = sum(len(labels) for labels in source.labels.values())
        with told(f"cannot write the cache {path}"), quietly():
            work = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent))
            try:
                done, size = 0, self.size
                writers: dict[str, _SplitWriter] = {}
                made: dict[str, EntrySplit] = {}
                for split in sorted(source.labels, key=_place):
                    labels = source.labels[split]
                    writer = writers[split] = _SplitWriter(self, split, work)
                    writer.shape = writers["train"].shape  # all splits have the size of the first
                    for rows in writer.write():
                        progress((done + rows) / total, f"decoding {done + rows:,}/{total:,}")
                    done += len(labels)
                    self._check_kept(writer, labels)
                    made[split] = writer.finish(labels)
                    size = size or writer.shape[0]
                write_json(work / META, self._meta(writers, made, size))
                os.chmod(work, 0o777 & ~umask())
                os.rename(work, path)
            finally:
                shutil.rmtree(work, ignore_errors=True)

    def _check_kept(self, writer: _SplitWriter, labels: IntArray) -> None:
        """An error where images and labels are not equally many, or a class lost all its images."""
        if writer.rows != len(labels):
            raise TransilError(
                f"{self.source.name}, split '{writer.split}': {writer.rows} images but "
                f"{len(labels)} labels; the files do not belong together"
            )
        counts = np.bincount(labels[writer.kept], minlength=len(self.source.class_names))
        if writer.split == "train" and not counts.all():
            name = self.source.class_names[int(np.argmin(counts))]
            raise TransilError(
                f"{self.source.name}: no training image of class '{name}' can be decoded; "
                f"the first that cannot: {writer.skipped[0]}"
            )

    def _meta(
        self, writers: dict[str, _SplitWriter], made: dict[str, EntrySplit], size: int | None
    ) -> dict[str, Any]:
        test = writers["test"].hashes if "test" in writers else []
        train = set(writers["train"].hashes)
        names = list(self.source.class_names)
        return {
            "format": FORMAT,
            "version": VERSION,
            "name": self.source.name,
            "class_names": names,
            "fingerprint": self.stamp if self.source.by_content else content_of(names, made),
            "size": size,
            "rule": self.rule,
            "splits": {name: asdict(split) for name, split in made.items()},
            "skipped": [as_text(what) for writer in writers.values() for what in writer.skipped],
            "duplicates": sum(image in train for image in test),
        }


def _place(split: str) -> tuple[int, str]:
    """train, val, test, then other splits by name."""
    usual = ("train", "val", "test")
    return (usual.index(split) if split in usual else len(usual), split)


def _is_small(item: Item) -> bool:
    if isinstance(item, bytes):
        return len(item) < SMALL_BYTES
    return isinstance(item, np.ndarray) and item.nbytes < SMALL_BYTES


class _SplitWriter:
    """Decodes one split into a raw file, block by block, several images at a time."""

    def __init__(self, build: _Build, split: str, work: Path) -> None:
        self.build, self.split, self.work = build, split, work
        self.shape: tuple[int, ...] = (build.size or 0, build.size or 0, 3)
        self.rows = 0
        self.kept: list[int] = []
        self.skipped: list[str] = []
        self.hashes: list[bytes] = []
        self.checksum = hashlib.sha256()

    def write(self) -> Iterator[int]:
        """Decode everything; gives the number of images done after each block."""
        path = self.work / f"{self.split}.u8"
        with open(path, "wb") as file, ThreadPoolExecutor(os.cpu_count()) as pool:
            for block in self.build.source.blocks(self.split):
                # Of a small image, most of the work is Python's: threads would only wait for each other.
                each = map if all(map(_is_small, block)) else pool.map
                for image in each(self._decode, block, count(self.rows)):
                    if isinstance(image, str):
                        self.skipped.append(image)
                    else:
                        self._keep(image, self.rows, file)
                    self.rows += 1
                yield self.rows

    def _decode(self, item: Item, row: int) -> Pixels | str:
        """Pixels of an image, or what is wrong with it."""
        try:
            return decode(item, self.build.size, self.build.rule)
        except UnreadableImage as error:
            told_where = f"{self.build.source.where(self.split, row)}: {error}"
            if self.build.skip_bad:
                return told_where
            remedy = "mend or remove it, or leave such images out: transil data convert --skip-bad"
            raise TransilError(f"{told_where}; {remedy}") from None

    def _keep(self, image: Pixels, row: int, file: Any) -> None:
        if self.shape[0] == 0:
            self.shape = image.shape
        if image.shape != self.shape or image.shape[0] != image.shape[1]:
            where, (high, wide) = self.build.source.where(self.split, row), image.shape[:2]
            raise TransilError(
                f"{where}: {wide} x {high} pixels; "
                "images that differ in size or are not square need a common --size"
            )
        raw = image.tobytes()
        file.write(raw)
        self.checksum.update(raw)
        self.hashes.append(hashlib.blake2b(raw, digest_size=12).digest())
        self.kept.append(row)

    def finish(self, labels: IntArray) -> EntrySplit:
        """Write the labels of the images that were kept; gives what `meta.json` says of the split."""
        path = self.work / f"{self.split}.labels.npy"
        np.save(path, labels[self.kept])
        shape = (len(self.kept), *self.shape)
        return EntrySplit(shape, math.prod(shape), self.checksum.hexdigest(), sha256(path))

"""Decode once: uint8 arrays on disk, keyed by source content, size and resize rule.

An entry is a folder with one raw file per split, the labels, and `meta.json`. It is built beside
its final place and renamed, so it is whole or not there; a lock makes a second process wait
instead of building the same again.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from transil.data.decode import Rule, UnreadableImage, decode
from transil.data.images import Images, ImageSplit
from transil.data.source import Item, Pixels, Source
from transil.errors import TransilError
from transil.files import digest, locked, read_json, sha256, told, write_json

VERSION = 1
ENVIRONMENT = "TRANSIL_CACHE"
META = "meta.json"
# Entries up to this size are compared with their checksums when opened; larger ones by size
# alone, and in full by `transil data cache --verify`.
VERIFY_BYTES = 1 << 30

# progress(images decoded, images in all)
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Entry:
    """One decoded data set in the cache."""

    path: Path
    meta: dict[str, Any]

    @property
    def bytes(self) -> int:
        """The size of its pixels on disk."""
        return sum(split["bytes"] for split in self.meta["splits"].values())


def default_cache_dir() -> Path:
    """$TRANSIL_CACHE, else the user's cache folder."""
    if os.environ.get(ENVIRONMENT):
        return Path(os.environ[ENVIRONMENT])
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "transil"


def cached_images(
    source: Source,
    *,
    size: int | None,
    rule: Rule,
    cache_dir: Path | None = None,
    skip_bad: bool = False,
    progress: Progress | None = None,
) -> Images:
    """The decoded images of a source, from the cache or into it."""
    folder = cache_dir or default_cache_dir()
    fingerprint = source.fingerprint()
    key = digest([VERSION, fingerprint, size, rule, skip_bad])[:16]
    plain = "".join(c if c.isalnum() or c in "-_" else "-" for c in source.name)[:40]
    path = folder / f"{plain}-{size or 'native'}-{key}"
    with told(f"cannot use the cache folder {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / f".{path.name}.lock"):
        entry = _open(path)
        if entry is None:
            # What is there was cut short or altered, or its build was killed: make it again.
            for old in (path, *folder.glob(f".{path.name}.*.tmp")):
                shutil.rmtree(old, ignore_errors=True)
            work = _Build(source, fingerprint, size, rule, skip_bad)
            work.into(path, progress or _silent)
            entry = _open(path)
    if entry is None:
        raise TransilError(f"{path}: the cache entry was changed while it was opened; try again")
    return _images(entry)


def _silent(done: int, total: int) -> None:
    del done, total


def convert(
    source: Source,
    path: Path,
    *,
    size: int | None,
    rule: Rule,
    skip_bad: bool = False,
    progress: Progress | None = None,
) -> Images:
    """Decode a source into a folder of its own, which `open_images` opens directly."""
    if path.exists():
        raise TransilError(f"cannot write {path}: it exists; choose another folder or delete it")
    with told(f"cannot write {path}"):
        path.parent.mkdir(parents=True, exist_ok=True)
    build = _Build(source, source.fingerprint(), size, rule, skip_bad)
    build.into(path, progress or _silent)
    return open_converted(path)


def is_converted(path: Path) -> bool:
    """Whether a folder is what `convert` makes."""
    return (path / META).is_file()


def open_converted(path: Path) -> Images:
    """Open a folder made by `convert`."""
    entry = _open(path)
    if entry is None:
        raise TransilError(
            f"{path}: cut short or altered; make it again with 'transil data convert'"
        )
    return _images(entry)


def entries(cache_dir: Path | None = None) -> list[Entry]:
    """All entries of a cache folder, by name."""
    folder = cache_dir or default_cache_dir()
    found = sorted(folder.glob(f"*/{META}")) if folder.is_dir() else []
    # A name that begins with a dot is a build that goes on, or was killed.
    return [Entry(p.parent, read_json(p)) for p in found if not p.parent.name.startswith(".")]


def verify(entry: Entry) -> bool:
    """Whether all files of an entry are as they were written."""
    return all(
        (entry.path / f"{name}.u8").is_file()
        and sha256(entry.path / f"{name}.u8") == split["sha256"]
        for name, split in entry.meta["splits"].items()
    )


def clear(cache_dir: Path | None = None, name: str | None = None) -> list[Entry]:
    """Delete the entries whose name begins with `name` (all without one); returns them."""
    gone = [e for e in entries(cache_dir) if name is None or e.path.name.startswith(name)]
    for entry in gone:
        with told(f"cannot delete {entry.path}"):
            shutil.rmtree(entry.path)
    return gone


def _open(path: Path) -> Entry | None:
    """The entry at `path` if it is whole."""
    if not (path / META).is_file():
        return None
    try:
        entry = Entry(path, read_json(path / META))
        for name, split in entry.meta["splits"].items():
            if (path / f"{name}.u8").stat().st_size != split["bytes"]:
                return None
            if len(np.load(path / f"{name}.labels.npy", mmap_mode="r")) != split["shape"][0]:
                return None
        if entry.bytes <= VERIFY_BYTES and not verify(entry):
            return None
    except (TransilError, OSError, EOFError, KeyError, TypeError, ValueError):
        return None
    return entry


def _images(entry: Entry) -> Images:
    splits = {}
    for name, split in entry.meta["splits"].items():
        shape = tuple(split["shape"])
        file = entry.path / f"{name}.u8"
        # An empty file cannot be mapped.
        mapped = (
            np.memmap(file, np.uint8, "r", shape=shape) if shape[0] else np.empty(shape, np.uint8)
        )
        pixels: Pixels = np.asarray(mapped)
        splits[name] = ImageSplit(pixels, np.load(entry.path / f"{name}.labels.npy"))
    return Images(
        name=entry.meta["name"],
        class_names=tuple(entry.meta["class_names"]),
        splits=splits,
        fingerprint=entry.meta["fingerprint"],
        skipped=tuple(entry.meta["skipped"]),
        duplicates=entry.meta["duplicates"],
    )


@dataclass(frozen=True)
class _Build:
    """What is decoded, and how."""

    source: Source
    fingerprint: str
    size: int | None
    rule: Rule
    skip_bad: bool

    def into(self, path: Path, progress: Progress) -> None:
        """Decode all splits into a folder beside `path` and give it that name at the end."""
        source = self.source
        total = sum(len(labels) for labels in source.labels.values())
        with told(f"cannot write the cache {path}"):
            work = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent))
            try:
                done, writers, size = 0, {}, self.size
                for split in sorted(source.labels, key=_place):
                    labels = source.labels[split]
                    writer = writers[split] = _SplitWriter(self, split, size, work)
                    for count in writer.write():
                        progress(done + count, total)
                    done += len(labels)
                    np.save(work / f"{split}.labels.npy", labels[writer.kept])
                    size = size or writer.shape[0]  # all splits have the size of the first
                write_json(work / META, self._meta(writers, size))
                os.rename(work, path)
            finally:
                shutil.rmtree(work, ignore_errors=True)

    def _meta(self, writers: dict[str, _SplitWriter], size: int | None) -> dict[str, Any]:
        test = writers["test"].hashes if "test" in writers else set()
        return {
            "version": VERSION,
            "name": self.source.name,
            "class_names": list(self.source.class_names),
            "fingerprint": self.fingerprint,
            "size": size,
            "rule": self.rule,
            "splits": {split: writer.meta() for split, writer in writers.items()},
            "skipped": [what for writer in writers.values() for what in writer.skipped],
            "duplicates": len(writers["train"].hashes & test),
        }


def _place(split: str) -> tuple[int, str]:
    """train, val, test, then other splits by name."""
    usual = ("train", "val", "test")
    return (usual.index(split) if split in usual else len(usual), split)


class _SplitWriter:
    """Decodes one split into a raw file, block by block, several images at a time."""

    def __init__(self, build: _Build, split: str, size: int | None, work: Path) -> None:
        self.source, self.split, self.size = build.source, split, size
        self.rule, self.skip_bad = build.rule, build.skip_bad
        self.path = work / f"{split}.u8"
        self.shape: tuple[int, ...] = (size or 0, size or 0, 3)
        self.kept: list[int] = []
        self.skipped: list[str] = []
        self.hashes: set[bytes] = set()
        self.checksum = hashlib.sha256()

    def write(self) -> Iterator[int]:
        """Decode everything; gives the number of images done after each block."""
        row = 0
        workers = max(1, os.cpu_count() or 1)
        with open(self.path, "wb") as file, ThreadPoolExecutor(workers) as pool:
            for block in self.source.blocks(self.split):
                parts = np.array_split(np.arange(len(block)), workers)
                jobs: list[Future[list[Pixels | str]]] = [
                    pool.submit(self._decode, block, part, row) for part in parts if len(part)
                ]
                for image in (image for job in jobs for image in job.result()):
                    if isinstance(image, str):
                        self.skipped.append(image)
                    else:
                        self._keep(image, row, file)
                    row += 1
                yield row

    def _decode(self, block: Any, part: Any, first: int) -> list[Pixels | str]:
        """Pixels of each image of a part of a block, or what is wrong with it."""
        return [self._decode_one(block[i], first + int(i)) for i in part]

    def _decode_one(self, item: Item, row: int) -> Pixels | str:
        try:
            return decode(item, self.size, self.rule)
        except UnreadableImage as error:
            told_where = f"{self.source.where(self.split, row)}: {error}"
            if self.skip_bad:
                return told_where
            remedy = "mend or remove it, or leave such images out with --skip-bad"
            raise TransilError(f"{told_where}; {remedy}") from None

    def _keep(self, image: Pixels, row: int, file: Any) -> None:
        if not self.kept and self.size is None:
            self.shape = image.shape
        if image.shape != self.shape or image.shape[0] != image.shape[1]:
            raise TransilError(
                f"{self.source.where(self.split, row)}: {image.shape[1]} x {image.shape[0]} pixels; "
                "images that differ in size or are not square need a common --size"
            )
        raw = image.tobytes()
        file.write(raw)
        self.checksum.update(raw)
        self.hashes.add(hashlib.blake2b(raw, digest_size=12).digest())
        self.kept.append(row)

    def meta(self) -> dict[str, Any]:
        """What `meta.json` keeps of the split."""
        shape = [len(self.kept), *self.shape]
        return {"shape": shape, "bytes": int(np.prod(shape)), "sha256": self.checksum.hexdigest()}

"""CIFAR-10 and CIFAR-100 in their official files: python and binary versions, extracted or tar.gz.

The python version is a pickle; `plain_pickle` reads it, so a crafted file runs nothing. An archive
is read member by member, and no further than the official ones could reach.
"""

from __future__ import annotations

import gzip
import tarfile
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from transil._common.files import MOST_BYTES, digest, open_regular, read_bytes
from transil.data.source import MOST_CLASSES, Pixels, Source, file_stamp
from transil.data.sources.plain_pickle import Array, PlainPickleError, load_plain
from transil.errors import TransilError, reason
from transil.schedule import IntArray

SIZE = 32
GZIP = b"\x1f\x8b"
# Bounds on what an archive unpacks to: all of it, its members, and all their headers. Official ones
# have ten members and 190 MB.
MOST_UNPACKED = 1 << 29
MOST_MEMBERS = 1000
MOST_HEADERS = 4 << 20
# What a file with class names may hold at most.
MOST_NAMES = 1 << 20
CHUNK = 1 << 20
# File names of each version: (train files, test file, names, bytes of label in the binary one).
PYTHON_100 = (["train"], "test", "meta")
PYTHON_10 = ([f"data_batch_{i}" for i in range(1, 6)], "test_batch", "batches.meta")
BINARY_100 = (["train.bin"], "test.bin", "fine_label_names.txt")
BINARY_10 = ([f"data_batch_{i}.bin" for i in range(1, 6)], "test_batch.bin", "batches.meta.txt")


class CifarSource(Source):
    """The official files of CIFAR-10 or CIFAR-100 (fine labels), in a folder or an archive."""

    def __init__(self, path: Path) -> None:
        self.path = path
        files = _Files(path)
        version = next((v for v in VERSIONS if files.has(v[0])), None)
        if version is None:
            raise TransilError(
                f"{path}: not the official files of CIFAR-10 or CIFAR-100; expected a folder with "
                "'train', 'test' and 'meta', or 'data_batch_1' to 5 and 'test_batch' (also as "
                "*.bin), or the tar.gz of one of them"
            )
        (train, test, meta), read = version
        self.name = "cifar100" if len(train) == 1 else "cifar10"
        self.files = [*train, test, meta]
        self.pixels, self.labels = {}, {}
        for split, names in (("train", train), ("test", [test])):
            pixels, labels = zip(*(read(files, name, self.name) for name in names), strict=True)
            self.pixels[split], self.labels[split] = np.concatenate(pixels), np.concatenate(labels)
        self.class_names = _names(files, meta)

    def stamp(self) -> str:
        paths = [self.path] if self.path.is_file() else [self.path / name for name in self.files]
        return digest(["cifar", *map(file_stamp, paths)])


class _Files:
    """Files by name, in a folder or in a tar archive (whatever folder they are in there)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.archive = _unpacked(path) if path.is_file() else None

    def has(self, version: tuple[list[str], str, str]) -> bool:
        train, test, meta = version
        return all(
            (self.path / name).is_file() if self.archive is None else name in self.archive
            for name in (*train, test, meta)
        )

    def read(self, name: str) -> bytes:
        if self.archive is not None:
            return self.archive[name]
        return read_bytes(self.path / name, MOST[name])

    def where(self, name: str) -> str:
        return f"{self.path}: {name}" if self.archive is not None else str(self.path / name)


def _unpacked(path: Path) -> dict[str, bytes]:
    """The members of an archive that are files of a version, by name."""
    with open_regular(path) as file:
        packed = file.peek(len(GZIP)).startswith(GZIP)
        forward = _Forward(path, cast(IO[bytes], gzip.GzipFile(fileobj=file)) if packed else file)
        try:
            found = _members(path, forward)
            forward.seek(None)  # only the end of the stream tells whether it is whole
        except TransilError:
            raise
        except Exception as error:  # a damaged archive can raise nearly anything
            raise TransilError(
                f"{path}: not a tar archive, cut short or altered ({reason(error)})"
            ) from None
    return found


def _members(path: Path, forward: _Forward) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    with tarfile.open(fileobj=cast(IO[bytes], forward), mode="r:") as tar:
        for number, member in enumerate(tar):
            name = Path(member.name).name
            if number >= MOST_MEMBERS:
                raise TransilError(f"{path}: it holds far more than CIFAR's files; unpack those")
            if name not in MOST or not member.isreg():
                continue
            if member.issparse() or member.size > MOST[name]:
                kind = "has holes" if member.issparse() else f"holds {member.size:,} bytes"
                raise TransilError(f"{path}: {name} {kind}; that is not CIFAR's file")
            forward.readable += member.size
            data = tar.extractfile(member)
            assert data is not None  # it is a plain file
            found[name] = data.read()
    return found


class _Forward:
    """A file as `tarfile` needs it, which goes forwards only, and only so far.

    `readable` is what may still be read: the bytes of headers, and of members that are wanted.
    All else is passed over, so it takes no memory.
    """

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self.path, self.file = path, file
        self.at, self.readable = 0, MOST_HEADERS

    def tell(self) -> int:
        return self.at

    def read(self, size: int) -> bytes:
        self.readable -= size
        if self.readable < 0:
            raise TransilError(f"{self.path}: its headers are too long; not CIFAR's archive")
        return self._pass(size)

    def seek(self, target: int | None) -> int:
        """Pass over everything up to a place, or to the end."""
        if target is not None and target < self.at:
            raise tarfile.ReadError("a member before another")
        while target is None or self.at < target:
            if not self._pass(CHUNK if target is None else min(CHUNK, target - self.at)):
                break
        return self.at

    def _pass(self, size: int) -> bytes:
        data = self.file.read(size)
        self.at += len(data)
        if self.at > MOST_UNPACKED:
            raise TransilError(
                f"{self.path}: it unpacks to more than {MOST_UNPACKED >> 20} MiB; "
                "not CIFAR's archive"
            )
        return data


def _unpickle(files: _Files, name: str) -> dict[Any, Any]:
    try:
        data = load_plain(files.read(name))
    except PlainPickleError as error:
        raise TransilError(
            f"{files.where(name)}: refused, not a file of arrays ({error}); nothing was executed"
        ) from None
    if type(data) is not dict:
        kind = type(data).__name__
        raise TransilError(f"{files.where(name)}: expected a dictionary, found {kind}")
    return data


def _read_python(files: _Files, name: str, kind: str) -> tuple[Pixels, IntArray]:
    data, where = _unpickle(files, name), files.where(name)
    key = "fine_labels" if kind == "cifar100" else "labels"
    if b"data" not in data or key.encode() not in data:
        raise TransilError(f"{where}: no 'data' and '{key}' in it")
    flat, labels = _array(data[b"data"]), _array(data[key.encode()])
    if flat is None:
        raise TransilError(f"{where}: 'data' must be an array of bytes")
    if labels is None or labels.shape != flat.shape[:1]:
        raise TransilError(f"{where}: '{key}' must be a whole number an image")
    return _planes(flat, where), labels.astype(np.int64)


def _array(value: Any) -> NDArray[np.integer[Any]] | None:
    """An array of whole numbers, or a list of such; None for anything else."""
    if type(value) is Array:
        return value.values
    if type(value) in (list, tuple) and all(
        type(number) is int and 0 <= number < MOST_CLASSES for number in value
    ):
        return np.array(value, dtype=np.int64)
    return None


def _read_binary(files: _Files, name: str, kind: str) -> tuple[Pixels, IntArray]:
    label_bytes = 2 if kind == "cifar100" else 1  # CIFAR-100: coarse label, then fine
    width = label_bytes + 3 * SIZE * SIZE
    raw = np.frombuffer(files.read(name), dtype=np.uint8)
    if len(raw) == 0 or len(raw) % width:
        raise TransilError(
            f"{files.where(name)}: {len(raw)} bytes, not a multiple of {width}; cut short"
        )
    rows = raw.reshape(-1, width)
    labels = rows[:, label_bytes - 1].astype(np.int64)
    return _planes(rows[:, label_bytes:], files.where(name)), labels


def _planes(flat: NDArray[np.integer[Any]], where: str) -> Pixels:
    """Rows of a red, a green and a blue plane as (n, 32, 32, 3)."""
    if flat.dtype != np.uint8 or flat.ndim != 2 or flat.shape[1] != 3 * SIZE * SIZE:
        raise TransilError(f"{where}: images must be rows of {3 * SIZE * SIZE} bytes")
    return np.ascontiguousarray(flat.reshape(-1, 3, SIZE, SIZE).transpose(0, 2, 3, 1))


def _names(files: _Files, meta: str) -> tuple[str, ...]:
    if meta.endswith(".txt"):
        return tuple(files.read(meta).decode(errors="replace").split())
    data = _unpickle(files, meta)
    names = data.get(b"fine_label_names", data.get(b"label_names"))
    if type(names) is not list or not all(type(name) in (bytes, str) for name in names):
        raise TransilError(f"{files.where(meta)}: no class names in it")
    return tuple(name.decode(errors="replace") if type(name) is bytes else name for name in names)


VERSIONS = (
    (PYTHON_100, _read_python),
    (PYTHON_10, _read_python),
    (BINARY_100, _read_binary),
    (BINARY_10, _read_binary),
)
# How large each file may be.
MOST = {
    name: MOST_NAMES if name == meta else MOST_BYTES
    for (train, test, meta), _ in VERSIONS
    for name in (*train, test, meta)
}


def is_cifar(path: Path) -> bool:
    """Whether a folder holds the official files, or a file is named like their archive."""
    if path.is_file():
        return path.name.startswith("cifar") and ".tar" in path.name
    return any(_Files(path).has(version) for version, _ in VERSIONS)

"""CIFAR-10 and CIFAR-100 in their official files: python and binary versions, extracted or tar.gz.

The python version is a pickle. It is read by an unpickler that can build NumPy arrays, dicts,
lists, strings and numbers, and refuses everything else, so a crafted file runs nothing.
"""

from __future__ import annotations

import gzip
import io
import pickle
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from transil.data.source import Block, Pixels, Source, blocks_of, file_stamp
from transil.errors import TransilError, reason
from transil.files import digest, told
from transil.schedule import IntArray

SIZE = 32
GZIP = b"\x1f\x8b"
# What the pickles of NumPy arrays name, by old and new module paths.
ALLOWED = {
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("_codecs", "encode"),
}
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
        data = {
            "train": [read(files, name, self.name) for name in train],
            "test": [read(files, test, self.name)],
        }
        self.pixels = {
            split: np.concatenate([x for x, _ in parts]) for split, parts in data.items()
        }
        self.labels = {
            split: np.concatenate([y for _, y in parts]) for split, parts in data.items()
        }
        self.class_names = _names(files, meta)

    def blocks(self, split: str) -> Iterator[Block]:
        return blocks_of(self.pixels[split])

    def stamp(self) -> str:
        paths = [self.path] if self.path.is_file() else [self.path / name for name in self.files]
        return digest(["cifar", *map(file_stamp, paths)])


class _Files:
    """Files by name, in a folder or in a tar archive (whatever folder they are in there)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.archive: dict[str, bytes] | None = None
        if path.is_file():
            with told(f"cannot read {path}"):
                raw = path.read_bytes()
            try:
                # The whole stream is unpacked first: only its end tells whether it is whole.
                raw = gzip.decompress(raw) if raw[:2] == GZIP else raw
                with tarfile.open(fileobj=io.BytesIO(raw)) as tar:
                    self.archive = {
                        Path(member.name).name: file.read()
                        for member in tar
                        if member.isfile() and (file := tar.extractfile(member)) is not None
                    }
            except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
                raise TransilError(
                    f"{path}: not a tar archive, cut short or altered ({reason(error)})"
                ) from None

    def has(self, version: tuple[list[str], str, str]) -> bool:
        train, test, meta = version
        names = [*train, test, meta]
        if self.archive is not None:
            return all(name in self.archive for name in names)
        return all((self.path / name).is_file() for name in names)

    def read(self, name: str) -> bytes:
        if self.archive is not None:
            return self.archive[name]
        with told(f"cannot read {self.path / name}"):
            return (self.path / name).read_bytes()

    def where(self, name: str) -> str:
        return f"{self.path}: {name}" if self.archive is not None else str(self.path / name)


class _ArrayUnpickler(pickle.Unpickler):
    """Builds arrays and plain containers; every other name in a pickle is refused."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in ALLOWED:
            return super().find_class(module.replace("numpy.core", "numpy._core"), name)
        raise pickle.UnpicklingError(f"it names {module}.{name}")


def _unpickle(files: _Files, name: str) -> dict[Any, Any]:
    try:
        data = _ArrayUnpickler(io.BytesIO(files.read(name)), encoding="bytes").load()
    except Exception as error:  # a damaged pickle can raise nearly anything
        raise TransilError(
            f"{files.where(name)}: refused, not a file of arrays ({reason(error)}); "
            "nothing was executed"
        ) from None
    if not isinstance(data, dict):
        raise TransilError(
            f"{files.where(name)}: expected a dictionary, found {type(data).__name__}"
        )
    return data


def _read_python(files: _Files, name: str, kind: str) -> tuple[Pixels, IntArray]:
    data = _unpickle(files, name)
    key = b"fine_labels" if kind == "cifar100" else b"labels"
    try:
        flat, labels = np.asarray(data[b"data"]), np.asarray(data[key])
    except (KeyError, ValueError, TypeError):
        raise TransilError(f"{files.where(name)}: no 'data' and '{key.decode()}' in it") from None
    if labels.shape != flat.shape[:1] or not np.issubdtype(labels.dtype, np.integer):
        raise TransilError(f"{files.where(name)}: '{key.decode()}' must be a whole number an image")
    return _planes(flat, files.where(name)), labels.astype(np.int64)


def _read_binary(files: _Files, name: str, kind: str) -> tuple[Pixels, IntArray]:
    label_bytes = 2 if kind == "cifar100" else 1  # CIFAR-100: coarse label, then fine
    width = label_bytes + 3 * SIZE * SIZE
    raw = np.frombuffer(files.read(name), dtype=np.uint8)
    if len(raw) == 0 or len(raw) % width:
        raise TransilError(
            f"{files.where(name)}: {len(raw)} bytes, not a multiple of {width}; cut short"
        )
    rows = raw.reshape(-1, width)
    return _planes(rows[:, label_bytes:], files.where(name)), rows[:, label_bytes - 1].astype(
        np.int64
    )


def _planes(flat: Pixels, where: str) -> Pixels:
    """Rows of a red, a green and a blue plane as (n, 32, 32, 3)."""
    if flat.dtype != np.uint8 or flat.ndim != 2 or flat.shape[1] != 3 * SIZE * SIZE:
        raise TransilError(f"{where}: images must be rows of {3 * SIZE * SIZE} bytes")
    return np.ascontiguousarray(flat.reshape(-1, 3, SIZE, SIZE).transpose(0, 2, 3, 1))


def _names(files: _Files, meta: str) -> tuple[str, ...]:
    if meta.endswith(".txt"):
        return tuple(files.read(meta).decode(errors="replace").split())
    data = _unpickle(files, meta)
    names = data.get(b"fine_label_names") or data.get(b"label_names")
    if not isinstance(names, list):
        raise TransilError(f"{files.where(meta)}: no class names in it")
    return tuple(
        name.decode(errors="replace") if isinstance(name, bytes) else str(name) for name in names
    )


VERSIONS = (
    (PYTHON_100, _read_python),
    (PYTHON_10, _read_python),
    (BINARY_100, _read_binary),
    (BINARY_10, _read_binary),
)


def is_cifar(path: Path) -> bool:
    """Whether a folder holds the official files, or a file is named like their archive."""
    if path.is_file():
        return path.name.startswith("cifar") and ".tar" in path.name
    return any(_Files(path).has(version) for version, _ in VERSIONS)

"""The data files of a score store: one safetensors file for each split and state."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
import weakref
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray

from transil._common.arrays import FloatArray, check_finite, check_scores, to_numpy
from transil._common.files import Draft, sha256, told
from transil._common.typed import Between
from transil.errors import TransilError, reason
from transil.schedule import IntArray, Schedule, read_state
from transil.scores.frames import array_of

if TYPE_CHECKING:
    from typing_extensions import Buffer

DTYPES = ("float16", "float32", "float64")
HEADER = 256  # bytes before the scores
LONGEST_HEADER = 1 << 20
LABELS_KEPT = 1 << 17  # bytes of labels in memory while a file is written
AGAIN = "import it again, or delete it and start the training that made it again"


@dataclass(frozen=True, eq=False)
class StateScores:
    """The scores of one state on one split.

    scores (n, columns) floating; labels (n,) the class labels; columns (n,) the score column of
    each label. Arrays of a store on disk are read-only views of the file.
    """

    scores: FloatArray
    labels: IntArray
    columns: IntArray


Size = Annotated[int, Between(0, 2**50)]


@dataclass(frozen=True)
class FileEntry:
    """What the manifest says about one data file."""

    file: str
    rows: Size
    columns: Size
    dtype: str
    bytes: Size
    sha256: str

    def __post_init__(self) -> None:
        # The name becomes a path that is read, and later deleted: it must be one that we gave.
        if not re.fullmatch(r"[A-Za-z0-9_]+-[0-9]{2,}-[0-9a-f]{12}\.safetensors", self.file):
            raise TransilError(f"'{self.file}' is not the name of a data file")


@dataclass(frozen=True)
class Manifest:
    """What `store.json` says; states are texts there, as keys are."""

    schedule: Schedule
    splits: dict[str, dict[str, FileEntry]]
    method: str | None
    dataset: str | None
    score_kind: str

    def __post_init__(self) -> None:
        self.files()  # tells a state that is none

    def files(self) -> dict[tuple[str, int], FileEntry]:
        """The data file of each split and state."""
        return {
            (split, self.schedule.check_state(read_state(key))): entry
            for split, states in self.splits.items()
            for key, entry in states.items()
        }


def checked_scores(
    scores: Any, labels: Any, schedule: Schedule, state: int, where: str, first_row: int = 0
) -> StateScores:
    """Arrays of one state as `StateScores`; anything wrong in them is told with its place.

    `first_row`: how many rows came before these.
    """
    scores = to_numpy(array_of(scores, where), where)
    labels = to_numpy(labels, f"{where}, labels")
    check_scores(scores, where)
    if scores.dtype.name not in DTYPES:
        raise TransilError(f"{where}: scores of type {scores.dtype}; use {', '.join(DTYPES)}")
    if scores.ndim != 2:
        raise TransilError(f"{where}: scores must be a table (rows, columns), not {scores.shape}")
    schedule.check_columns(scores.shape[1], state, where)
    if labels.shape != scores.shape[:1]:
        raise TransilError(
            f"{where}: {scores.shape[0]} rows of scores but labels of shape {labels.shape}"
        )
    if not len(scores):
        raise TransilError(f"{where}: no rows; leave the state out or give scores")
    check_finite(scores, where, first_row)
    labels = whole_labels(labels, where, first_row)
    return StateScores(scores, labels, schedule.column_of(labels, state, where, first_row))


def check_dtype(dtype: str | None) -> None:
    """An error where scores cannot be stored in this type."""
    if dtype is not None and dtype not in DTYPES:
        raise TransilError(f"dtype '{dtype}': choose one of {', '.join(DTYPES)}")


class DataFile:
    """A data file that is being written: rows are added, and `finish` gives it its name.

    The scores lie before the labels, and both behind a header of one size, so that rows go where they
    stay; the few bytes of labels wait in a file of their own. What is not finished leaves nothing.
    """

    def __init__(self, folder: Path, columns: int, dtype: str, where: str = "scores") -> None:
        check_dtype(dtype)
        self.rows, self.columns, self.dtype, self._where = 0, columns, np.dtype(dtype), where
        with told(f"cannot write {folder}"):
            self._folder, self._draft = folder, Draft(folder)
            labels = tempfile.SpooledTemporaryFile(LABELS_KEPT, dir=str(folder))  # noqa: SIM115
            self._labels: IO[bytes] = labels
            weakref.finalize(self, self._labels.close)
            os.lseek(self._draft.handle, HEADER, os.SEEK_SET)

    def add(self, scores: FloatArray, labels: IntArray) -> None:
        """Scores (n, columns) and labels (n,), checked before."""
        with np.errstate(over="ignore"):
            stored = np.ascontiguousarray(scores, dtype=self.dtype)
        if self.dtype == np.float16 and not np.isfinite(stored).all():
            worst = float(np.abs(scores).max())
            raise TransilError(
                f"{self._where}: a score of {worst:g} is too large for float16; use float32"
            )
        with told(f"cannot write {self._folder}"):
            _write(self._draft.handle, stored.data)
            self._labels.write(np.ascontiguousarray(labels, dtype=np.int64).data)
        self.rows += len(scores)

    def finish(self, split: str, state: int) -> FileEntry:
        """Name it by its content; what the manifest must know of it. Where that fails, it is dropped."""
        try:
            return self._finish(split, state)
        except BaseException:
            self.drop()
            raise

    def _finish(self, split: str, state: int) -> FileEntry:
        from concurrent.futures import ThreadPoolExecutor

        handle = self._draft.handle
        with told(f"cannot write {self._folder}"):
            self._labels.seek(0)
            while part := self._labels.read(LABELS_KEPT):
                _write(handle, part)
            size = os.lseek(handle, 0, os.SEEK_CUR)
            os.lseek(handle, 0, os.SEEK_SET)
            _write(handle, header(self.rows, self.columns, self.dtype))
            os.lseek(handle, 0, os.SEEK_SET)
            # The disk works while the sum is made.
            with os.fdopen(handle, "rb", closefd=False) as file, ThreadPoolExecutor(1) as beside:
                on_disk = beside.submit(os.fsync, handle)
                found = hashlib.file_digest(file, "sha256").hexdigest()
                on_disk.result()
            name = f"{split}-{state:02d}-{found[:12]}.safetensors"
            self._draft.become(self._folder / name, durable=False)
        return FileEntry(name, self.rows, self.columns, self.dtype.name, size, found)

    def drop(self) -> None:
        """Leave nothing of it, where it is not finished."""
        self._draft.drop()


def header(rows: int, columns: int, dtype: np.dtype[Any]) -> bytes:
    """How a data file begins: always as many bytes, so that scores can be written before it is known."""
    size = rows * columns * dtype.itemsize
    scores = {
        "dtype": f"F{8 * dtype.itemsize}",
        "shape": [rows, columns],
        "data_offsets": [0, size],
    }
    labels = {"dtype": "I64", "shape": [rows], "data_offsets": [size, size + 8 * rows]}
    text = json.dumps({"scores": scores, "labels": labels}, separators=(",", ":"))
    return (HEADER - 8).to_bytes(8, "little") + text.ljust(HEADER - 8).encode()


def _write(handle: int, data: Buffer) -> None:
    """All of it, however much the system takes at a time."""
    rest = memoryview(data)
    rest = rest.cast("B") if rest.nbytes else memoryview(b"")
    while rest:
        rest = rest[os.write(handle, rest) :]


def write_data(folder: Path, data: StateScores, dtype: str | None, where: str) -> DataFile:
    """A data file with the scores and labels of a state, to be finished."""
    file = DataFile(folder, data.scores.shape[1], dtype or data.scores.dtype.name, where)
    try:
        file.add(data.scores, data.labels)
    except BaseException:
        file.drop()
        raise
    return file


def checksum(data: StateScores) -> str:
    """The SHA-256 of the data file that these scores and labels make."""
    scores, labels = np.ascontiguousarray(data.scores), np.ascontiguousarray(data.labels)
    found = hashlib.sha256(header(len(scores), scores.shape[1], scores.dtype))
    for array in (scores, labels):
        found.update(array.data)
    return found.hexdigest()


def read_data(path: Path, entry: FileEntry) -> tuple[NDArray[Any], NDArray[Any]]:
    """Scores and labels of a data file, mapped, after a look at its checksum."""
    with told(f"cannot read {path}"):
        info = path.stat()
    _verify(path, entry, (info.st_size, info.st_mtime_ns))
    tensors = _map_safetensors(path)
    if not {"scores", "labels"} <= set(tensors):
        raise TransilError(f"{path}: has no tensors 'scores' and 'labels'; import it again")
    return tensors["scores"], tensors["labels"]


def whole_labels(labels: NDArray[Any], where: str, first_row: int = 0) -> IntArray:
    """Labels as int64. The released files keep them as float32, so whole floats are welcome."""
    if not (np.issubdtype(labels.dtype, np.integer) or np.issubdtype(labels.dtype, np.floating)):
        raise TransilError(f"{where}: labels must be whole numbers, not {labels.dtype}")
    with np.errstate(invalid="ignore"):
        whole = labels.astype(np.int64)
    if not np.array_equal(whole, labels):
        row = int(np.flatnonzero(whole != labels)[0])
        raise TransilError(
            f"{where}: label {labels[row]} in row {first_row + row} is not a whole number below 2^63"
        )
    return whole


@lru_cache(maxsize=4096)
def _verify(path: Path, entry: FileEntry, stamp: tuple[int, int]) -> None:
    """Compare a file with its manifest entry, once for each time it changed on disk."""
    if stamp[0] != entry.bytes:
        raise TransilError(
            f"{path}: {stamp[0]} bytes instead of {entry.bytes}; the file was cut or replaced, "
            f"{AGAIN}"
        )
    if sha256(path) != entry.sha256:
        raise TransilError(f"{path}: the checksum does not match, the file was altered; {AGAIN}")


def _map_safetensors(path: Path) -> dict[str, NDArray[Any]]:
    """The tensors of a safetensors file as read-only views of the mapped file.

    The library's own NumPy reader copies; the header says all that a map needs.
    """
    names = {"F16": np.float16, "F32": np.float32, "F64": np.float64, "I64": np.int64}
    try:
        with told(f"cannot read {path}"):
            whole = np.memmap(path, dtype=np.uint8, mode="r")
        length = int.from_bytes(whole[:8].tobytes(), "little")
        if length > min(len(whole) - 8, LONGEST_HEADER):
            raise ValueError("the header is longer than the file, or than any of ours")
        header = json.loads(whole[8 : 8 + length].tobytes())
        data = whole[8 + length :]
        tensors = {}
        for name, info in header.items():
            if name == "__metadata__":
                continue
            start, stop = info["data_offsets"]
            if not 0 <= start <= stop <= len(data) or any(size < 0 for size in info["shape"]):
                raise ValueError(f"'{name}' does not lie within the file")
            values = np.asarray(data[start:stop]).view(names[info["dtype"]])
            # Labels behind an odd number of float16 scores do not begin where numbers may.
            tensors[name] = np.require(values, requirements="A").reshape(info["shape"])
        return tensors
    except (ArithmeticError, LookupError, ValueError, TypeError, AttributeError,
            RecursionError) as error:  # fmt: skip
        raise TransilError(f"{path}: not a readable safetensors file ({reason(error)})") from None

"""ScoreStore: the scores and labels of every state and split, in memory or in a folder.

The folder holds one safetensors file per state and split and a manifest, `store.json`. Data files
are named by their content and the manifest is replaced last, in one step: a store can be extended
or overwritten at any time, and an interruption leaves the old one readable.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from transil.arrays import FloatArray, check_finite, check_scores, to_numpy
from transil.errors import TransilError
from transil.files import atomic_file, digest, read_json, sha256, told, write_json
from transil.schedule import IntArray, Schedule, ScheduleLike

MANIFEST = "store.json"
FORMAT, VERSION = "transil-scores", 1
DTYPES = ("float16", "float32", "float64")

# (scores (n, columns), labels (n,)) as arrays, tensors or lists.
ArrayPair: TypeAlias = tuple[Any, Any]


@dataclass(frozen=True, eq=False)
class StateScores:
    """The scores of one state on one split.

    scores (n, columns) floating; labels (n,) the class labels; columns (n,) the score column of
    each label. Arrays of a store on disk are read-only views of the file.
    """

    scores: FloatArray
    labels: IntArray
    columns: IntArray


@dataclass(frozen=True)
class _FileEntry:
    """What the manifest says about one data file."""

    file: str
    rows: int
    columns: int
    dtype: str
    bytes: int
    sha256: str

    def __post_init__(self) -> None:
        # The name becomes a path that is read, and later deleted: it must stay in the folder.
        if not re.fullmatch(r"[\w-]+\.safetensors", self.file):
            raise ValueError(f"'{self.file}' is not the name of a data file")


class ScoreStore:
    """Scores and labels per split and state. Make one with `open`, `from_arrays` or `create`."""

    def __init__(
        self,
        schedule: Schedule,
        *,
        method: str | None = None,
        dataset: str | None = None,
        kind: str = "logit",
        path: Path | None = None,
    ) -> None:
        self.schedule = schedule
        self.method = method
        self.dataset = dataset
        self.kind = kind
        self.path = path
        self._memory: dict[tuple[str, int], StateScores] = {}
        self._files: dict[tuple[str, int], _FileEntry] = {}

    # -- ways to get one ----------------------------------------------------------------------

    @classmethod
    def from_arrays(
        cls,
        arrays: Mapping[str, Mapping[int, ArrayPair] | Sequence[ArrayPair]],
        schedule: ScheduleLike,
        *,
        method: str | None = None,
        dataset: str | None = None,
        kind: str = "logit",
    ) -> ScoreStore:
        """A store in memory from `{split: {state: (scores, labels)}}`.

        A list of pairs stands for the states from 1. `save` writes it to a folder.

        >>> store = ScoreStore.from_arrays({"test": [(s1, y1), (s2, y2)]}, [5, 5])  # doctest: +SKIP
        """
        store = cls(Schedule.of(schedule), method=method, dataset=dataset, kind=kind)
        for split, states in arrays.items():
            pairs = states if isinstance(states, Mapping) else dict(enumerate(states, start=1))
            for state, (scores, labels) in pairs.items():
                store.put(split, state, scores, labels)
        return store

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> ScoreStore:
        """Open a store folder. Only the manifest is read; data files follow when asked for."""
        folder = Path(path)
        manifest = folder / MANIFEST
        if not manifest.is_file():
            raise TransilError(
                f"{folder}: no score store here ({MANIFEST} is missing); "
                "make one with 'transil import-scores' or ScoreStore.from_arrays(...).save(...)"
            )
        data = read_json(manifest)
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise TransilError(f"{manifest}: not the manifest of a score store")
        if data.get("version") != VERSION:
            raise TransilError(
                f"{manifest}: format version {data.get('version')}, but this transil reads version "
                f"{VERSION}; use the transil that wrote it, or a newer one"
            )
        try:
            store = cls(
                Schedule.from_json(data["schedule"]),
                method=data["method"],
                dataset=data["dataset"],
                kind=data["score_kind"],
                path=folder,
            )
            for split, states in data["splits"].items():
                for state, entry in states.items():
                    store._files[split, store.schedule.check_state(int(state))] = _FileEntry(
                        **entry
                    )
        except TransilError as error:
            raise TransilError(f"{manifest}: {error}") from None
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise TransilError(
                f"{manifest}: damaged manifest ({type(error).__name__}: {error}); import it again"
            ) from None
        return store

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        schedule: ScheduleLike,
        *,
        method: str | None = None,
        dataset: str | None = None,
        kind: str = "logit",
    ) -> ScoreStore:
        """A new, empty store in a folder; every `put` is on disk when it returns."""
        store = cls(
            Schedule.of(schedule), method=method, dataset=dataset, kind=kind, path=Path(path)
        )
        store._write_manifest()
        return store

    # -- writing ------------------------------------------------------------------------------

    def put(
        self, split: str, state: int, scores: Any, labels: Any, dtype: str | None = None
    ) -> None:
        """Add or replace the scores (n, columns) and labels (n,) of one state and split."""
        checked = self._checked(split, state, scores, labels)
        if self.path is None:
            self._memory[split, state] = checked
            return
        old = self._files.get((split, state))
        self._files[split, state] = self._write_file(self.path, split, state, checked, dtype)
        self._write_manifest()
        self._remove(old)

    def save(self, path: str | os.PathLike[str], dtype: str | None = None) -> ScoreStore:
        """Write the whole store to a folder and open it there.

        `dtype` is the storage type of the scores, as given by default. float16 halves the files,
        but rounds large scores so coarsely that ties appear: LUCIR's raw accuracy on the released
        scores moves by 0.06 points.
        """
        folder = Path(path)
        before = (
            list(ScoreStore.open(folder)._files.values()) if (folder / MANIFEST).exists() else []
        )
        saved = ScoreStore(
            self.schedule, method=self.method, dataset=self.dataset, kind=self.kind, path=folder
        )
        for split, state in self:
            data = self.get(split, state)
            saved._files[split, state] = self._write_file(folder, split, state, data, dtype)
        saved._write_manifest()
        for entry in before:
            saved._remove(entry)
        return saved

    # -- reading ------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[tuple[str, int]]:
        """The (split, state) pairs that are there, in order."""
        return iter(sorted({**self._memory, **self._files}))

    @property
    def splits(self) -> tuple[str, ...]:
        """The names of the splits."""
        return tuple(sorted({split for split, _ in self}))

    def states(self, split: str) -> tuple[int, ...]:
        """The states for which `split` has scores."""
        return tuple(state for name, state in self if name == split)

    def get(self, split: str, state: int) -> StateScores:
        """The scores and labels of one state and split; checked against the manifest once."""
        self.schedule.check_state(state)
        if (split, state) in self._memory:
            return self._memory[split, state]
        entry = self._files.get((split, state))
        if entry is None or self.path is None:
            raise TransilError(
                f"{self.name}: no scores of split '{split}', state {state} "
                f"(there are: {self._contents() or 'none'})"
            )
        path = self.path / entry.file
        _verify(path, entry, _stamp(path))
        tensors = _map_safetensors(path)
        try:
            scores, labels = tensors["scores"], tensors["labels"]
        except KeyError as missing:
            raise TransilError(f"{path}: has no tensor {missing}; import it again") from None
        where = f"{self.name}, split '{split}', state {state}"
        self.schedule.check_columns(scores.shape[-1], state, where)
        return StateScores(scores, labels, self.schedule.column_of(labels, state, where))

    def require(self, split: str) -> tuple[int, ...]:
        """All states of `split`, from 1 without a gap, else an error that names what is missing."""
        states = self.states(split)
        if not states:
            raise TransilError(
                f"{self.name}: no split '{split}' (there are: {self._contents() or 'none'})"
            )
        missing = sorted(set(range(1, self.schedule.states + 1)) - set(states))
        if missing:
            raise TransilError(
                f"{self.name}: split '{split}' lacks state {missing[0]}"
                + (f" and {len(missing) - 1} more" if len(missing) > 1 else "")
                + f"; the schedule has {self.schedule.states} states (import the missing ones)"
            )
        return states

    @property
    def name(self) -> str:
        """How messages and tables call the store."""
        return str(self.path) if self.path is not None else (self.dataset or "store in memory")

    def fingerprint(self) -> str:
        """A checksum of everything in the store, the same wherever it lies."""
        parts = {}
        for split, state in self:
            entry = self._files.get((split, state))
            if entry is None:
                data = self.get(split, state)
                parts[f"{split}-{state}"] = hashlib.sha256(_serialise(data, None)).hexdigest()
            else:
                parts[f"{split}-{state}"] = entry.sha256
        return digest({"schedule": self.schedule.to_json(), "files": parts})

    def __repr__(self) -> str:
        return f"ScoreStore({self.name}: {self.schedule}; {self._contents() or 'empty'})"

    # -- details ------------------------------------------------------------------------------

    def _contents(self) -> str:
        return ", ".join(f"{split} {_ranges(self.states(split))}" for split in self.splits)

    def _checked(self, split: str, state: int, scores: Any, labels: Any) -> StateScores:
        if not re.fullmatch(r"[A-Za-z0-9_]+", split):
            raise TransilError(f"split '{split}': use letters, digits and '_' in its name")
        self.schedule.check_state(state)
        where = f"split '{split}', state {state}"
        scores, labels = to_numpy(scores), to_numpy(labels)
        check_scores(scores, where)
        if scores.ndim != 2:
            raise TransilError(
                f"{where}: scores must be a table (rows, columns), not {scores.shape}"
            )
        self.schedule.check_columns(scores.shape[1], state, where)
        if labels.shape != scores.shape[:1]:
            raise TransilError(
                f"{where}: {scores.shape[0]} rows of scores but labels of shape {labels.shape}"
            )
        if not len(scores):
            raise TransilError(f"{where}: no rows; leave the state out or give scores")
        check_finite(scores, where)
        labels = _whole_labels(labels, where)
        return StateScores(scores, labels, self.schedule.column_of(labels, state, where))

    @staticmethod
    def _write_file(
        folder: Path, split: str, state: int, data: StateScores, dtype: str | None
    ) -> _FileEntry:
        if dtype is not None and dtype not in DTYPES:
            raise TransilError(f"dtype '{dtype}': choose one of {', '.join(DTYPES)}")
        raw = _serialise(data, dtype, f"split '{split}', state {state}")
        checksum = hashlib.sha256(raw).hexdigest()
        name = f"{split}-{state:02d}-{checksum[:12]}.safetensors"
        with atomic_file(folder / name) as file:
            file.write(raw)
        rows, columns = data.scores.shape
        stored = dtype or str(data.scores.dtype)
        return _FileEntry(name, rows, columns, stored, len(raw), checksum)

    def _write_manifest(self) -> None:
        assert self.path is not None
        splits: dict[str, dict[str, Any]] = {}
        for split, state in self:
            splits.setdefault(split, {})[str(state)] = vars(self._files[split, state])
        manifest = {
            "format": FORMAT,
            "version": VERSION,
            "method": self.method,
            "dataset": self.dataset,
            "score_kind": self.kind,
            "schedule": self.schedule.to_json(),
            "splits": splits,
        }
        write_json(self.path / MANIFEST, manifest)

    def _remove(self, entry: _FileEntry | None) -> None:
        """Delete a data file that no entry of the manifest names any more."""
        assert self.path is not None
        if entry and entry.file not in {kept.file for kept in self._files.values()}:
            with suppress(OSError):
                (self.path / entry.file).unlink()


def _whole_labels(labels: NDArray[Any], where: str) -> IntArray:
    """Labels as int64. The released files keep them as float32, so whole floats are welcome."""
    if not (np.issubdtype(labels.dtype, np.integer) or np.issubdtype(labels.dtype, np.floating)):
        raise TransilError(f"{where}: labels must be whole numbers, not {labels.dtype}")
    with np.errstate(invalid="ignore"):
        whole = labels.astype(np.int64)
    if not np.array_equal(whole, labels):
        row = int(np.flatnonzero(whole != labels)[0])
        raise TransilError(f"{where}: label {labels[row]} in row {row} is not a whole number")
    return whole


def _serialise(data: StateScores, dtype: str | None, where: str = "scores") -> bytes:
    from safetensors.numpy import save

    with np.errstate(over="ignore"):
        scores = np.ascontiguousarray(data.scores, dtype=dtype)
    if dtype == "float16" and not np.isfinite(scores).all():
        worst = float(np.abs(data.scores).max())
        raise TransilError(f"{where}: a score of {worst:g} is too large for float16; use float32")
    return save({"scores": scores, "labels": np.ascontiguousarray(data.labels)})


def _stamp(path: Path) -> tuple[int, int]:
    with told(f"cannot read {path}"):
        info = path.stat()
    return info.st_size, info.st_mtime_ns


@lru_cache(maxsize=4096)
def _verify(path: Path, entry: _FileEntry, stamp: tuple[int, int]) -> None:
    """Compare a file with its manifest entry, once for each time it changed on disk."""
    if stamp[0] != entry.bytes:
        raise TransilError(
            f"{path}: {stamp[0]} bytes instead of {entry.bytes}; the file was cut or replaced, "
            "import it again"
        )
    if sha256(path) != entry.sha256:
        raise TransilError(
            f"{path}: the checksum does not match, the file was altered; import it again"
        )


def _map_safetensors(path: Path) -> dict[str, NDArray[Any]]:
    """The tensors of a safetensors file as read-only views of the mapped file.

    The library's own NumPy reader copies; the header says all that a map needs.
    """
    names = {"F16": np.float16, "F32": np.float32, "F64": np.float64, "I64": np.int64}
    try:
        with told(f"cannot read {path}"), open(path, "rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(length))
        whole = np.memmap(path, dtype=np.uint8, mode="r")
        tensors = {}
        for name, info in header.items():
            if name == "__metadata__":
                continue
            start, stop = (8 + length + offset for offset in info["data_offsets"])
            values = np.asarray(whole[start:stop]).view(names[info["dtype"]])
            tensors[name] = values.reshape(info["shape"])
        return tensors
    except (ValueError, KeyError, TypeError) as error:
        raise TransilError(f"{path}: not a readable safetensors file ({error})") from None


def _ranges(states: Sequence[int]) -> str:
    """1, 2, 3, 5 as "1-3, 5"."""
    runs: list[list[int]] = []
    for state in states:
        if runs and state == runs[-1][-1] + 1:
            runs[-1].append(state)
        else:
            runs.append([state])
    return ", ".join(str(r[0]) if len(r) == 1 else f"{r[0]}-{r[-1]}" for r in runs)

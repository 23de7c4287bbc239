"""ScoreStore: the scores and labels of every state and split, in memory or in a folder.

The folder holds one safetensors file per state and split and a manifest, `store.json`. Data files
are named by their content and the manifest is replaced last, in one step: a store can be extended
or overwritten at any time, and an interruption leaves the old one readable.
"""

from __future__ import annotations

import os
import re
import shutil
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

from transil._common.arrays import array_or_tensor
from transil._common.files import (
    check_replaceable,
    digest,
    locked,
    read_json,
    told,
    write_json,
)
from transil._common.typed import read_file
from transil.errors import DataWarning, TransilError
from transil.schedule import Schedule, ScheduleLike
from transil.scores.data_files import (
    DataFile,
    FileEntry,
    Manifest,
    StateScores,
    check_dtype,
    checked_scores,
    checksum,
    read_data,
    write_data,
)
from transil.scores.frames import array_of
from transil.scores.head import Head, HeadOrder

MANIFEST = "store.json"
FORMAT, VERSION = "transil-scores", 1
LOCK = ".store.lock"

# (scores (n, columns), labels (n,)) as arrays, tensors or lists.
ArrayPair: TypeAlias = tuple[Any, Any]


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
        self._files: dict[tuple[str, int], FileEntry] = {}
        self._opened: dict[tuple[str, int], StateScores] = {}

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
        width: int | None = None,
        order: HeadOrder | None = None,
        columns: int = 1,
    ) -> ScoreStore:
        """A store in memory from `{split: {state: (scores, labels)}}`.

        A list of pairs stands for the states from 1. `save` writes it to a folder. `width`, `order` and
        `columns` say how the outputs of a model are laid out that are no scores of a store yet (`Head`).

        >>> store = ScoreStore.from_arrays({"test": [(s1, y1), (s2, y2)]}, [5, 5])  # doctest: +SKIP
        """
        store = cls(Schedule.of(schedule), method=method, dataset=dataset, kind=kind)
        head = Head(width, order, columns)
        wanted = "{split: [(scores, labels) of state 1, of state 2, ...]}"
        if not isinstance(arrays, Mapping):
            raise TransilError(f"scores: expected {wanted}, not {type(arrays).__name__}")
        for split, states in arrays.items():
            if not isinstance(states, Iterable):
                raise TransilError(
                    f"split '{split}': expected {wanted}, not {type(states).__name__}"
                )
            pairs = states if isinstance(states, Mapping) else dict(enumerate(states, start=1))
            for state, pair in pairs.items():
                if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                    raise TransilError(
                        f"split '{split}', state {state}: expected a pair (scores, labels); "
                        f"the whole is {wanted}"
                    )
                where = f"split '{split}', state {state}"
                outputs, labels = array_or_tensor(array_of(pair[0], where), where), pair[1]
                if outputs.ndim == 2:
                    outputs = head.state(store.schedule, state).scores(outputs, where)
                store.put(split, state, outputs, labels)
        return store

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> ScoreStore:
        """Open a store folder. Only the manifest is read; data files follow when asked for.

        The folder of a run opens the scores of its method.
        """
        folder = _scores_of_run(Path(path))
        manifest = folder / MANIFEST
        if not manifest.is_file():
            raise TransilError(
                f"{folder}: no score store here ({MANIFEST} is missing); "
                "make one with 'transil import-scores' or ScoreStore.from_arrays(...).save(...)"
            )
        known = read_file(manifest, Manifest, FORMAT, VERSION, "manifest", "import it again")
        store = cls(
            known.schedule,
            method=known.method,
            dataset=known.dataset,
            kind=known.score_kind,
            path=folder,
        )
        store._files = known.files()
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
        folder = Path(path)
        check_replaceable(folder / MANIFEST, FORMAT, VERSION)
        if (folder / MANIFEST).exists():
            raise TransilError(f"{folder}: there is a score store already; open it, or delete it")
        store = cls(Schedule.of(schedule), method=method, dataset=dataset, kind=kind, path=folder)
        store._write_manifest()
        return store

    # -- writing ------------------------------------------------------------------------------

    def put(
        self, split: str, state: int, scores: Any, labels: Any, dtype: str | None = None
    ) -> None:
        """Add or replace the scores (n, columns) and labels (n,) of one state and split.

        On disk, what other processes have put in the meantime stays.
        """
        check_split(split)
        state = self.schedule.check_state(state)
        where = f"split '{split}', state {state}"
        data = checked_scores(scores, labels, self.schedule, state, where)
        if self.path is None:
            # The caller may refill its own buffer; a mapped file cannot be.
            kept = data.scores.copy() if data.scores.flags.writeable else data.scores
            self._memory[split, state] = StateScores(kept, data.labels.copy(), data.columns)
            return
        self.put_files({(split, state): write_data(self.path, data, dtype, where)})

    def put_files(self, files: Mapping[tuple[str, int], DataFile]) -> None:
        """Add or replace what has been written for these splits and states: all of it, or nothing."""
        assert self.path is not None
        with locked(self.path / LOCK):
            if (self.path / MANIFEST).exists():
                self._files = ScoreStore.open(self.path)._files
            self._replace(files.items(), kept=self._files)

    def save(self, path: str | os.PathLike[str], dtype: str | None = None) -> ScoreStore:
        """Write the whole store to a folder, in place of one that is there, and open it.

        `dtype` is the storage type of the scores, as given by default. float16 halves the files,
        but rounds large scores so coarsely that ties appear: LUCIR's raw accuracy on the released
        scores moves by 0.06 points.
        """
        folder = Path(path)
        check_replaceable(folder / MANIFEST, FORMAT, VERSION)
        saved = ScoreStore(
            self.schedule, method=self.method, dataset=self.dataset, kind=self.kind, path=folder
        )
        check_dtype(dtype)
        is_new = not folder.exists()
        with told(f"cannot write {folder}"):
            folder.mkdir(parents=True, exist_ok=True)
        with locked(folder / LOCK):
            check_replaceable(folder / MANIFEST, FORMAT, VERSION)
            with suppress(TransilError):  # no store there, or a damaged one: it is replaced
                saved._files = ScoreStore.open(folder)._files
            files = ((key, self._written(folder, *key, dtype)) for key in self)
            try:
                saved._replace(files, kept={})
            except BaseException:
                if is_new:
                    shutil.rmtree(folder, ignore_errors=True)
                raise
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

    def has(self, split: str, state: int) -> bool:
        """Whether there are scores of this state and split; on disk, whether their file is there."""
        entry = self._files.get((split, state))
        if entry is None or self.path is None:
            return (split, state) in self._memory
        path = self.path / entry.file
        return path.is_file() and path.stat().st_size == entry.bytes

    def get(self, split: str, state: int) -> StateScores:
        """The scores and labels of one state and split; checked against the manifest once."""
        state = self.schedule.check_state(state)
        if (split, state) in self._memory:
            return self._memory[split, state]
        entry = self._files.get((split, state))
        if entry is None or self.path is None:
            raise TransilError(
                f"{self.name}: no scores of split '{split}', state {state} "
                f"(there are: {self._contents() or 'none'})"
            )
        if (split, state) not in self._opened:
            path = self.path / entry.file
            scores, labels = read_data(path, entry)
            self._opened[split, state] = checked_scores(
                scores, labels, self.schedule, state, f"{path}, state {state}"
            )
        return self._opened[split, state]

    def require(self, split: str, *, unfinished: bool = False) -> tuple[int, ...]:
        """All states of `split`, from 1 without a gap, else an error that names what is missing.

        `unfinished`: the last ones may be missing, which is told by a warning.
        """
        states = self.states(split)
        if not states:
            raise TransilError(
                f"{self.name}: no split '{split}' (there are: {self._contents() or 'none'})"
            )
        missing = sorted(set(range(1, self.schedule.states + 1)) - set(states))
        if unfinished and missing and missing[0] > states[-1]:
            there = f"the states 1 to {states[-1]}" if len(states) > 1 else "state 1"
            warnings.warn(
                f"{self.name}: split '{split}' has {there} of {self.schedule.states}, and no others "
                "are judged",
                DataWarning,
                stacklevel=3,
            )
        elif missing:
            raise TransilError(
                f"{self.name}: split '{split}' lacks state {missing[0]}"
                + (f" and {len(missing) - 1} more" if len(missing) > 1 else "")
                + f"; the schedule has {self.schedule.states} states: add the others, or let the "
                "training go on"
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
                parts[f"{split}-{state}"] = checksum(data)
            else:
                parts[f"{split}-{state}"] = entry.sha256
        return digest({"schedule": self.schedule.to_json(), "files": parts})

    def __repr__(self) -> str:
        return f"ScoreStore({self.name}: {self.schedule}; {self._contents() or 'empty'})"

    # -- details ------------------------------------------------------------------------------

    def _contents(self) -> str:
        return ", ".join(f"{split} {_ranges(self.states(split))}" for split in self.splits)

    def _written(self, folder: Path, split: str, state: int, dtype: str | None) -> DataFile:
        return write_data(folder, self.get(split, state), dtype, f"split '{split}', state {state}")

    def _replace(
        self,
        files: Iterable[tuple[tuple[str, int], DataFile]],
        kept: Mapping[tuple[str, int], FileEntry],
    ) -> None:
        """Finish data files one by one, and make a manifest of them and of those that are kept."""
        assert self.path is not None
        before, new = list(self._files.values()), {}
        there = {path.name for path in self.path.iterdir()}  # a damaged manifest may not name them
        try:
            for key, file in files:
                new[key] = file.finish(*key)
            self._write_manifest({**kept, **new})
        except BaseException:
            # What was there stays, what is new goes.
            self._remove([entry for entry in new.values() if entry.file not in there])
            raise
        self._remove(before)

    def _write_manifest(self, files: Mapping[tuple[str, int], FileEntry] | None = None) -> None:
        """Replace the manifest; only when that is done are the new files part of the store."""
        assert self.path is not None
        files = files or {}
        splits: dict[str, dict[str, Any]] = {}
        for split, state in sorted(files):
            splits.setdefault(split, {})[str(state)] = vars(files[split, state])
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
        self._files = dict(files)
        self._opened.clear()

    def _remove(self, entries: Sequence[FileEntry]) -> None:
        """Delete data files that no entry of the manifest names any more."""
        assert self.path is not None
        kept = {entry.file for entry in self._files.values()}
        for entry in entries:
            if entry.file not in kept:
                with suppress(OSError):
                    (self.path / entry.file).unlink()


def _scores_of_run(folder: Path) -> Path:
    """Where the folder of a run keeps the scores of its method; any other folder as it is."""
    record = folder / "run.json"
    if (folder / MANIFEST).exists() or not record.is_file():
        return folder
    data = read_json(record)
    config = data.get("config") if isinstance(data, dict) else None
    method = config.get("method") if isinstance(config, dict) else None
    return folder / "scores" / method if isinstance(method, str) else folder


def as_store(store: ScoreStore | str | os.PathLike[str]) -> ScoreStore:
    """The store itself, or the one in a folder."""
    return store if isinstance(store, ScoreStore) else ScoreStore.open(store)


def check_split(split: object) -> None:
    """An error where a split cannot have this name."""
    if not isinstance(split, str) or not re.fullmatch(r"[A-Za-z0-9_]+", split):
        raise TransilError(f"split '{split}': use letters, digits and '_' in its name")


def _ranges(states: Sequence[int]) -> str:
    """1, 2, 3, 5 as "1-3, 5"."""
    runs: list[list[int]] = []
    for state in states:
        if runs and state == runs[-1][-1] + 1:
            runs[-1].append(state)
        else:
            runs.append([state])
    return ", ".join(str(r[0]) if len(r) == 1 else f"{r[0]}-{r[-1]}" for r in runs)

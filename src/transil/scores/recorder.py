"""ScoreRecorder: the scores of anybody's training loop, batch by batch, into a score store."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transil._common.arrays import FloatArray, array_or_tensor, probabilities, to_numpy
from transil.errors import TransilError
from transil.schedule import Schedule, ScheduleLike
from transil.scores.data_files import DTYPES, DataFile, check_dtype, checked_scores
from transil.scores.frames import array_of
from transil.scores.head import Head, HeadOrder
from transil.scores.store import MANIFEST, ScoreStore, check_split

BLOCK = 1 << 20  # bytes of scores that are checked and written together


class ScoreRecorder:
    """Keeps the scores of a model state by state; what is finished is an ordinary `ScoreStore` folder.

    After each state's training give it the model's raw outputs, `add`, of validation and of test images
    of all classes seen so far, and then close the state, `next_state`. A state is in the store when that
    returns, or not at all: made again on a folder, the recorder goes on behind the last state that was
    closed (`state`). The schedule may name only the classes known so far, and be longer the next time.

    `width`, `order` and `columns` say how the model's outputs are laid out (`Head`). `dtype` is the
    storage type of the scores, as given by default.

    >>> recorder = ScoreRecorder("scores/", schedule="100/10", method="lwf-t")  # doctest: +SKIP
    >>> recorder.add("val", model(images), labels)                              # doctest: +SKIP
    >>> recorder.next_state()                                                   # doctest: +SKIP
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        schedule: ScheduleLike,
        *,
        method: str | None = None,
        dataset: str | None = None,
        kind: str = "logit",
        width: int | None = None,
        order: HeadOrder | None = None,
        columns: int = 1,
        dtype: str | None = None,
    ) -> None:
        check_dtype(dtype)
        self.head, self.dtype = Head(width, order, columns), dtype
        self.store = open_store(Path(path), Schedule.of(schedule), method, dataset, kind)
        self.state = 1 + last_state(self.store)
        self._splits: dict[str, SplitFile] = {}
        if self.state <= self.store.schedule.states:
            self.head.state(self.store.schedule, self.state)  # tells an order that does not fit

    def add(self, split: str, scores: Any, labels: Any) -> None:
        """Some rows of a split ("val", "test"): outputs (n, columns) and class labels (n,).

        NumPy arrays or torch tensors, on any device. The rows of a split may come in any portions.
        """
        if self.state > self.store.schedule.states:
            raise TransilError(
                f"{self.store.name}: all {self.store.schedule.states} states are recorded; a model that "
                "learns more classes needs a longer schedule, one that is trained anew another folder"
            )
        part = self._splits.get(split)
        part = part or SplitFile(self.store, self.state, split, self.head, self.dtype)
        part.add(scores, labels)
        self._splits[split] = part

    def next_state(self) -> int:
        """Close the state: its scores are in the store, all of them, when this returns.

        Gives the number of the next one.
        """
        where = f"{self.store.name}, state {self.state}"
        if not self._splits:
            raise TransilError(
                f"{where}: nothing is recorded; add scores before the state is closed"
            )
        files = finished(self.store, self.state, self._splits)
        if self.state in {state for _, state in ScoreStore.open(self.store.name)}:
            raise TransilError(f"{where}: another process has recorded it meanwhile")
        self._splits = {}
        self.store.put_files(files)
        self.state += 1
        return self.state


class SplitFile:
    """The rows given so far of one split and state: those of a block here, the others in a file."""

    def __init__(
        self, store: ScoreStore, state: int, split: str, head: Head, dtype: str | None = None
    ) -> None:
        check_split(split)
        self.store, self._state, self._dtype = store, state, dtype
        self._where = f"split '{split}', state {state}"
        self._layout = head.state(store.schedule, state)
        self._labels: list[NDArray[Any]] = []
        self._filled = 0
        self.has_newest = False

    def add(self, scores: Any, labels: Any) -> None:
        """Outputs (n, columns) and labels (n,); the caller may refill its arrays afterwards."""
        where = self._where
        scores = array_or_tensor(array_of(scores, where), where)
        if scores.ndim != 2:
            shape = tuple(scores.shape)
            raise TransilError(f"{where}: scores must be a table (rows, columns), not {shape}")
        rows = to_numpy(self._layout.scores(scores, where), where)
        labels = to_numpy(labels, f"{where}, labels")
        if labels.shape != rows.shape[:1]:
            raise TransilError(
                f"{where}: {len(rows)} rows of scores but labels of shape {labels.shape}"
            )
        dtype = self._dtype or rows.dtype.name
        if dtype not in DTYPES:
            raise TransilError(f"{where}: scores of type {dtype}; use {', '.join(DTYPES)}")
        if not hasattr(self, "file"):
            self._begin(dtype)
        self._keep(rows, labels)

    def _begin(self, dtype: str) -> None:
        """The first rows say which type is stored."""
        columns = self.store.schedule.columns(self._state)
        assert self.store.path is not None
        self.file = DataFile(self.store.path, columns, dtype, self._where)
        rows = max(1, BLOCK // (columns * self.file.dtype.itemsize))
        self._block = np.empty((rows, columns), self.file.dtype)

    def _keep(self, scores: FloatArray, labels: NDArray[Any]) -> None:
        """Rows of the right width."""
        if scores.dtype != self.file.dtype and self._dtype is None:
            raise TransilError(
                f"{self._where}: scores of type {scores.dtype} after others of {self.file.dtype}; give "
                f"all in one type, or say in which they are kept (dtype='{self.file.dtype}')"
            )
        rows = len(scores)
        if self._filled + rows > len(self._block):
            self.flush()
        if rows > len(self._block):
            self._write(scores, labels)
            return
        self._block[self._filled : self._filled + rows] = scores
        self._filled += rows
        self._labels.append(labels.copy())

    def flush(self) -> None:
        """Check and write what waits."""
        if self._filled:
            self._write(self._block[: self._filled], np.concatenate(self._labels))
            self._filled, self._labels = 0, []

    def _write(self, scores: FloatArray, labels: NDArray[Any]) -> None:
        first, schedule = self.file.rows, self.store.schedule
        if self.store.kind == "logit" and not first and (found := probabilities(scores)):
            raise TransilError(
                f"{self._where}: the scores are {found}; give those before softmax or sigmoid, or say "
                "what they are (kind='probability')"
            )
        data = checked_scores(scores, labels, schedule, self._state, self._where, first)
        newest = schedule.group_columns(self._state).start
        self.has_newest = self.has_newest or bool((data.columns >= newest).any())
        self.file.add(data.scores, data.labels)


def finished(
    store: ScoreStore, state: int, splits: Mapping[str, SplitFile]
) -> dict[tuple[str, int], DataFile]:
    """The files of a state for `put_files`; an error where it is likely the model of another one."""
    for part in splits.values():
        part.flush()
    if not any(part.has_newest for part in splits.values()):
        raise TransilError(
            f"{store.name}, state {state}: no image of the classes of group {state} in any split; is "
            f"this the model of state {state}?"
        )
    return {(name, state): part.file for name, part in splits.items()}


def last_state(store: ScoreStore) -> int:
    """The last state that the store has scores of, or 0."""
    return max((state for _, state in store), default=0)


def open_store(
    folder: Path, schedule: Schedule, method: str | None, dataset: str | None, kind: str = "logit"
) -> ScoreStore:
    """The store in the folder, where it is of the same model, or a new one."""
    if not (folder / MANIFEST).exists():
        return ScoreStore.create(folder, schedule, method=method, dataset=dataset, kind=kind)
    store = ScoreStore.open(folder)
    wanted = {"method": method, "dataset": dataset, "score_kind": kind}
    known = {"method": store.method, "dataset": store.dataset, "score_kind": store.kind}
    for name, value in wanted.items():
        if known[name] != value:
            raise TransilError(
                f"{folder}: there are scores already, and their {name} is {known[name]}, not {value}; "
                "record into another folder, or delete this one"
            )
    one, other = sorted((schedule.groups, store.schedule.groups), key=len)
    if other[: len(one)] != one:
        raise TransilError(
            f"{folder}: there are scores already, of another schedule ({store.schedule}); record into "
            "another folder, or delete this one"
        )
    store.schedule = Schedule(other)
    return store

"""One file of scores in, one file of corrected scores out; larger than memory where need be."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np

from transil.arrays import (
    FloatArray,
    Scores,
    check_finite,
    check_raw,
    check_scores,
    is_torch,
    to_numpy,
)
from transil.correction.affine import BLOCK, correct_columns
from transil.correction.bank import Bank
from transil.correction.columns import OrderLike, backwards, read_order, reordered, state_of
from transil.correction.scales import Newest, measured_rows, some_rows
from transil.correction.solvers import Progress, no_progress
from transil.errors import TransilError
from transil.files import atomic_file, reserve
from transil.interop.named import ARRAYS, TORCH, load_named
from transil.interop.tables import TABLES, check_guess, check_table, read_table, write_table
from transil.schedule import IntArray, Schedule
from transil.store_files import DTYPES

if TYPE_CHECKING:
    from transil.adaptation.corrector import Corrector

WRITTEN = (".npy", *TORCH)
SOME_ROWS = 1024  # tell the state of scores that may be larger than memory
Apply: TypeAlias = Callable[[FloatArray, FloatArray], FloatArray]


def correct_file(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    bank: Bank | Corrector,
    state: int | None = None,
    progress: Progress = no_progress,
    *,
    order: OrderLike | None = None,
    rescale: bool = False,
    keep: Sequence[str] = (),
    key: str | None = None,
    cost: Callable[[Newest], None] | None = None,
) -> tuple[int, int]:
    """Correct a file of scores (rows, columns) into another; returns (state, rows).

    `.npy` is read through a memory map and written block by block, so that memory stays small;
    torch files are read with the safe loader. Of several arrays in a file, `key` names the scores.
    In tables all columns of numbers are scores, but for those that `keep` names, or one column of
    lists is, which `key` names. The ending of `target` says what is written. `order` and `rescale`
    are those of `Bank.correct`. A corrector does what it learned, in the state it learned it for.
    """
    source, target = Path(source), Path(target)
    if source.suffix not in (*ARRAYS, *TABLES):
        raise TransilError(
            f"{source}: unknown kind of file; scores are arrays ({', '.join(ARRAYS)}) or tables "
            f"({', '.join(TABLES)})"
        )
    kinds = TABLES if source.suffix in TABLES else WRITTEN
    if target.suffix not in kinds:
        raise TransilError(f"{target}: scores of {source} are written as {', '.join(kinds)}")
    how = _how(bank, state, order, rescale)
    if source.suffix in TABLES:
        return _correct_table(source, target, how, keep, key)
    if keep:
        raise TransilError(f"{source}: only tables have columns to keep ({', '.join(TABLES)})")
    scores = load_named(source, key)
    if target.suffix == ".npy":
        scores = _as_array(scores, source)
    how = how.of(scores, source)
    if target.suffix == ".npy":
        how.check_kind(scores, str(source))
        _write_npy(source, target, scores, how, progress)
    else:
        _save_tensor(source, target, scores, how)
    how.tell_cost(scores)
    return how.known_state, len(scores)


@dataclass(frozen=True)
class _How(ABC):
    """How the scores of a file are corrected."""

    state: int | None

    @property
    @abstractmethod
    def schedule(self) -> Schedule:
        """The groups of classes."""

    @abstractmethod
    def check_kind(self, scores: Any, where: str) -> None:
        """An error where scores (..., columns) are not of the kind that is corrected."""

    @abstractmethod
    def correct(self, scores: Scores) -> Scores:
        """Corrected scores, of the same kind."""

    @abstractmethod
    def in_blocks(self, scores: FloatArray, source: Path) -> Apply:
        """What corrects one block of these scores after the other into a buffer."""

    @abstractmethod
    def check_scale(self, scores: FloatArray) -> None:
        """Warn where the scores are of another size than those that this was fitted on."""

    def first(self, scores: Any) -> Any:
        """Rows that tell the state, columns in learning order."""
        return scores[:SOME_ROWS]

    def of(self, scores: Any, source: Path) -> Self:
        """The same, with the state of these scores (rows, columns); an error where they are none."""
        check_scores(scores, str(source))
        if scores.ndim != 2:
            shape = tuple(scores.shape)
            raise TransilError(f"{source}: expected a table (rows, columns), found shape {shape}")
        state = self.state
        if state is None:
            state = state_of(self.first(scores), self.schedule, str(source))
        self.schedule.check_columns(scores.shape[1], state, str(source))
        return replace(self, state=self.schedule.check_state(state))

    @property
    def known_state(self) -> int:
        assert self.state is not None
        return self.state


@dataclass(frozen=True)
class _ByBank(_How):
    """By a bank."""

    bank: Bank
    order: OrderLike | None = None
    rescale: bool = False

    @property
    def schedule(self) -> Schedule:
        return self.bank.schedule

    def check_kind(self, scores: Any, where: str) -> None:
        self.bank.check_kind(scores, where)

    def places(self, scores: Any) -> IntArray | None:
        return None if self.order is None else read_order(self.order, scores.shape[1])

    def first(self, scores: Any) -> Any:
        return reordered(scores[:SOME_ROWS], self.places(scores))

    def correct(self, scores: Scores) -> Scores:
        return self.bank.correct(scores, self.state, order=self.order, rescale=self.rescale)

    def in_blocks(self, scores: FloatArray, source: Path) -> Apply:
        bank, state, places = self.bank, self.known_state, self.places(scores)
        if self.rescale:
            bank = _like(self, scores, source)
        elif bank.correction.measured:
            bank = bank.ready(reordered(scores, places), state)
        pairs = bank.applied(state)
        back = None if places is None else backwards(places)

        def apply(block: FloatArray, out: FloatArray) -> FloatArray:
            bank.apply(pairs, reordered(block, places), state, out)
            return reordered(out, back)

        return apply

    def check_scale(self, scores: FloatArray) -> None:
        if not self.rescale and (some := some_rows(scores)) is not None:
            self.bank.check_scale(reordered(some, self.places(scores)), self.known_state)


@dataclass(frozen=True)
class _ByCorrector(_How):
    """By what a corrector has learned; it knows where its columns stand."""

    corrector: Corrector

    @property
    def schedule(self) -> Schedule:
        return Schedule.of(self.corrector.schedule or [self.corrector.n_features_in_])

    def check_kind(self, scores: Any, where: str) -> None:
        columns = self.corrector.columns_
        check_raw(scores, where, "a corrector is for raw scores", columns.centred)

    def correct(self, scores: Scores) -> Scores:
        self.check_kind(scores, f"state {self.state}")
        return self.corrector.columns_.correct(scores)

    def in_blocks(self, scores: FloatArray, source: Path) -> Apply:
        columns = self.corrector.columns_

        def apply(block: FloatArray, out: FloatArray) -> FloatArray:
            return correct_columns(
                block, columns.scale, columns.shift, out, centred=columns.centred
            )

        return apply

    def check_scale(self, scores: FloatArray) -> None:
        """Nothing: it was fitted on scores of this very model."""


def _how(bank: Bank | Corrector, state: int | None, order: OrderLike | None, rescale: bool) -> _How:
    """How a bank corrects, or what is said of a corrector."""
    if isinstance(bank, Bank):
        return _ByBank(state, bank, order, rescale)
    if order is not None or rescale:
        raise TransilError(
            "a corrector knows order and size of its scores; leave out "
            f"{'--order' if order is not None else '--rescale'}"
        )
    if state not in (None, bank.state_):
        raise TransilError(
            f"state {state}: this corrector was fitted in state {bank.state_}; fit it again after each "
            "update (transil advise)"
        )
    return _ByCorrector(bank.state_, bank)



def like_file(
    bank: Bank,
    source: str | os.PathLike[str],
    state: int | None = None,
    cost: Callable[[Newest], None] | None = None,
) -> Bank:
    """The bank at the scale of the scores (rows, columns) of a file of arrays, without labels."""
    source = Path(source)
    scores = read_scores(source)
    how = _ByBank(state, bank).of(scores, source)
    bank.check_kind(scores, str(source))
    brought = _like(how, scores, source)
    how.tell_cost(scores)
    return brought


def read_scores(source: str | os.PathLike[str], key: str | None = None) -> FloatArray:
    """The scores of a file of arrays; those of a `.npy` file are a memory map."""
    scores = _as_array(load_named(Path(source), key), source)
    check_scores(scores, str(source))
    return scores


def _as_array(scores: Any, source: str | os.PathLike[str]) -> FloatArray:
    """A tensor as an array; an array as it is, which may be a map of more than fits in memory."""
    return to_numpy(scores, str(source)) if is_torch(scores) else scores


def _like(how: _ByBank, scores: FloatArray, source: Path) -> Bank:
    try:
        rows = reordered(measured_rows(scores), how.places(scores))
        return how.bank.like(rows, how.known_state)
    except TransilError as error:
        raise TransilError(f"{source}: {error}") from None


def _correct_table(
    source: Path, target: Path, how: _How, keep: Sequence[str], key: str | None
) -> tuple[int, int]:
    table, schedule = read_table(source, keep, key), how.schedule
    sizes = schedule.seen if how.state is None else [schedule.columns(how.state)]
    check_table(table, source, sizes)
    if how.state is None:
        check_guess(table, source, keep)
    scores = table.scores
    how = how.of(scores, source)
    try:
        corrected = how.correct(scores)
    except TransilError as error:
        raise TransilError(f"{source}: {error}") from None
    check_finite(corrected, f"{target}, corrected to {corrected.dtype}")
    write_table(target, table.with_scores(corrected))
    how.tell_cost(scores)
    return how.known_state, len(scores)


def _save_tensor(source: Path, target: Path, scores: Any, how: _How) -> None:
    import torch

    if not is_torch(scores) and scores.dtype.name not in DTYPES:
        raise TransilError(
            f"{source}: scores of type {scores.dtype}; torch has {', '.join(DTYPES)}"
        )
    tensor = scores if is_torch(scores) else torch.from_numpy(to_numpy(scores).copy())
    check_finite(to_numpy(tensor), f"{source}, state {how.state}")
    corrected = how.correct(tensor)
    check_finite(to_numpy(corrected), f"{target}, corrected to {corrected.dtype}")
    with atomic_file(target, durable=False) as file:
        torch.save(corrected, file)


def _write_npy(
    source: Path, target: Path, scores: FloatArray, how: _How, progress: Progress
) -> None:
    state, apply = how.known_state, how.in_blocks(scores, source)
    rows = max(1, BLOCK // scores.shape[1])
    buffer = np.empty((min(rows, len(scores)), scores.shape[1]), dtype=scores.dtype)
    with atomic_file(target, durable=False) as file:
        header = {"descr": scores.dtype.str, "fortran_order": False, "shape": scores.shape}
        np.lib.format.write_array_header_2_0(file, header)
        reserve(file, file.tell() + scores.nbytes)
        for start in range(0, len(scores), rows):
            block = scores[start : start + rows]
            out = buffer[: len(block)]
            with np.errstate(over="ignore", invalid="ignore"):
                out = np.ascontiguousarray(apply(block, out))
            if not np.isfinite(out).all():
                # Either the scores hold such a value, or correcting them overflowed their type.
                check_finite(block, f"{source}, state {state}", first_row=start)
                check_finite(out, f"{target}, corrected to {out.dtype}", first_row=start)
            file.write(out.data)
            progress(min(1.0, (start + rows) / len(scores)))
    how.check_scale(scores)

"""Files of scores corrected by a bank or a corrector, and looked at for one state."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from transil._common.arrays import FloatArray, check_finite, check_raw
from transil._common.progress import Progress, no_progress
from transil.adaptation.columns import Columns
from transil.correction.affine import BLOCK
from transil.correction.bank import Bank
from transil.correction.columns import OrderLike, backwards, read_order, reordered, state_of
from transil.correction.scales import Newest, measured_rows, some_rows
from transil.errors import TransilError
from transil.schedule import IntArray, Schedule
from transil.scores.files import ScoreFile, is_table, read_scores, write_scores
from transil.scores.tables import (
    check_guess,
    check_table,
)

if TYPE_CHECKING:
    from transil.adaptation.corrector import Corrector

Cost: TypeAlias = Callable[[Newest], None]
SOME_ROWS = 1024  # tell the state of scores that may be larger than memory


def read_state(
    source: str | os.PathLike[str],
    schedule: Schedule,
    state: int | None,
    key: str | None = None,
    keep: Sequence[str] = (),
    order: OrderLike | None = None,
) -> FloatArray:
    """The scores (rows, columns) of a file, which must be those of a state, as they stand in it."""
    file = read_scores(source, key, keep)
    columns = file.scores.shape[-1] if file.scores.ndim else 0
    _state_of(file, schedule, state, keep, None if order is None else read_order(order, columns))
    return file.scores


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
    cost: Cost | None = None,
) -> tuple[int, int]:
    """Correct a file of scores (rows, columns) into another; returns (state, rows).

    From `.npy` to `.npy` memory stays small, however large they are. `key` and `keep` are those of
    `read_scores`, `order` and `rescale` those of `Bank.correct`; `cost` is given what rescaling does to
    the newest group. A corrector does what it learned, in the state it learned it for.
    """
    target = Path(target)
    is_table(target)
    file = read_scores(source, key, keep)
    if isinstance(bank, Bank):
        way = _ByBank(bank, file, state, keep, order)
        columns = way.ready(rescale, cost)
        state = way.state
    else:
        columns, state = _of_corrector(bank, file, state, keep, order, rescale)
    write_scores(
        target, file, _corrected(file, columns, target, state, progress), file.scores.dtype
    )
    if isinstance(bank, Bank) and not rescale and (some := some_rows(file.scores)) is not None:
        bank.check_scale(reordered(some, way.places), state)
    return state, len(file.scores)


def like_file(
    bank: Bank,
    source: str | os.PathLike[str],
    state: int | None = None,
    key: str | None = None,
    keep: Sequence[str] = (),
    cost: Cost | None = None,
) -> Bank:
    """The bank at the scale of the scores (rows, columns) of a file, without labels."""
    return _ByBank(bank, read_scores(source, key, keep), state, keep).like(cost)


def _state_of(
    file: ScoreFile,
    schedule: Schedule,
    state: int | None,
    keep: Sequence[str],
    places: IntArray | None = None,
) -> int:
    """The state of these scores, said or told from their columns; an error where they are none."""
    scores, source = file.scores, str(file.path)
    if file.table is not None:
        check_table(
            file.table, file.path, schedule.seen if state is None else [schedule.columns(state)]
        )
        if state is None:
            check_guess(file.table, file.path, keep)
    if scores.ndim != 2:
        raise TransilError(
            f"{source}: expected a table (rows, columns), found shape {scores.shape}"
        )
    if state is None:
        state = state_of(reordered(scores[:SOME_ROWS], places), schedule, source)
    schedule.check_columns(scores.shape[1], state, source)
    return schedule.check_state(state)


class _ByBank:
    """How a bank corrects the scores of a file."""

    def __init__(
        self,
        bank: Bank,
        file: ScoreFile,
        state: int | None,
        keep: Sequence[str],
        order: OrderLike | None = None,
    ) -> None:
        self.bank, self.file = bank, file
        columns = file.scores.shape[-1] if file.scores.ndim else 0
        self.places = None if order is None else read_order(order, columns)
        self.state = _state_of(file, bank.schedule, state, keep, self.places)
        bank.check_kind(file.scores, str(file.path))

    def ready(self, rescale: bool, cost: Cost | None) -> Columns:
        """What is done to each column, as they stand in the file."""
        bank = self.bank
        if rescale:
            bank = self.like(cost)
        elif bank.correction.measured:
            bank = bank.ready(reordered(self.file.scores, self.places), self.state)
        columns = Columns.of(bank, self.state)
        return columns if self.places is None else columns.taken(backwards(self.places))

    def like(self, cost: Cost | None) -> Bank:
        """The bank at the scale of these scores."""
        try:
            rows = self.file.scores
            if self.state > 1:
                rows = reordered(measured_rows(rows), self.places)
            made = self.bank.like(rows, self.state)
        except TransilError as error:
            raise TransilError(f"{self.file.path}: {error}") from None
        found = None if cost is None or self.state == 1 else self.bank.newest(rows, self.state)
        if cost is not None and found is not None:
            cost(found)
        return made


def _of_corrector(
    corrector: Corrector,
    file: ScoreFile,
    state: int | None,
    keep: Sequence[str],
    order: OrderLike | None,
    rescale: bool,
) -> tuple[Columns, int]:
    """What a corrector does to each column, and its state."""
    if order is not None or rescale:
        raise TransilError(
            "a corrector knows order and size of its scores; leave out "
            f"{'--order' if order is not None else '--rescale'}"
        )
    if state not in (None, corrector.state_):
        raise TransilError(
            f"state {state}: this corrector was fitted in state {corrector.state_}; fit it again after "
            "each update (transil advise)"
        )
    schedule = Schedule.of(corrector.schedule or [corrector.n_features_in_])
    _state_of(file, schedule, corrector.state_, keep)
    where, columns = f"{file.path}, state {corrector.state_}", corrector.columns_
    check_raw(file.scores, where, "a corrector is for raw scores", columns.centred)
    return columns, corrector.state_


def _corrected(
    file: ScoreFile, columns: Columns, target: Path, state: int, progress: Progress
) -> Iterator[FloatArray]:
    """The corrected scores, in blocks of rows; each is used before the next one is asked for."""
    scores = file.scores
    rows = max(1, BLOCK // scores.shape[1])
    buffer = np.empty((min(rows, len(scores)), scores.shape[1]), dtype=scores.dtype)
    for start in range(0, len(scores), rows):
        block = scores[start : start + rows]
        out = columns.correct(block, buffer[: len(block)])
        if not np.isfinite(out).all():
            # Either the scores hold such a value, or correcting them overflowed their type.
            check_finite(block, f"{file.path}, state {state}", first_row=start)
            check_finite(out, f"{target}, corrected to {out.dtype}", first_row=start)
        yield out
        progress(min(1.0, (start + rows) / len(scores)), "")

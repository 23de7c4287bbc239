"""Corrections that need no bank: weight alignment, and a shift from labelled images of the newest group.

They are the controls of experiments, and for everybody: a bank is worth something only where it beats
them as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from transil._common.arrays import Float64Array, FloatArray, to_numpy
from transil.adaptation.columns import Columns
from transil.errors import TransilError
from transil.schedule import Schedule, ScheduleLike
from transil.scores.data_files import StateScores, checked_scores

if TYPE_CHECKING:
    from transil.adaptation.corrector import Corrector

C = TypeVar("C", bound="Corrector")
LEAST_LABELLED = 16


def align(rows: FloatArray, schedule: Schedule, state: int) -> tuple[float, float]:
    """(alpha, beta) of the newest group by weight alignment (Zhao et al., CVPR 2020).

    rows (columns, d) are those of the last layer: the newest are scaled to the mean length of the
    older ones, and so are their scores.
    """
    lengths = np.linalg.norm(rows, axis=1)
    new = schedule.group_columns(state)
    return float(lengths[: new.start].mean() / lengths[new].mean()), 0.0


def shift(newest: StateScores, schedule: Schedule, state: int) -> tuple[float, float]:
    """(alpha, beta) of the newest group from the scores of labelled images of its classes.

    To such an image, old classes and the other new ones are all wrong. A model without bias gives
    both the same mean score; the shift makes it so.
    """
    new = schedule.group_columns(state)
    scores = np.asarray(newest.scores, dtype=np.float64)
    old_mean = scores[:, : new.start].mean()
    size = new.stop - new.start
    if size == 1:  # there is no other new class: compare with the score of the right one
        return 1.0, float(old_mean - scores[:, new].mean())
    right = scores[np.arange(len(scores)), newest.columns]
    wrong = (scores[:, new].sum(axis=1) - right) / (size - 1)
    return 1.0, float(old_mean - wrong.mean())


def aligned(make: type[C], weight: Any, schedule: ScheduleLike, state: int | None) -> C:
    """A corrector by weight alignment; see `Corrector.from_weights`."""
    rows = _table(weight, "weights")
    schedule, state = _placed(schedule, state, len(rows), "weights: rows")
    lengths = np.linalg.norm(rows, axis=1)
    if not lengths.all():
        raise TransilError(f"weights: row {int(np.flatnonzero(lengths == 0)[0])} is all zeros")
    if float(lengths.std()) < 1e-4 * float(lengths.mean()):
        raise TransilError(
            "weights: all rows have one length, as in a cosine head; there is nothing to align"
        )
    return _made(make, schedule, state, align(rows, schedule, state))


def from_newest(
    make: type[C], scores: Any, labels: Any, schedule: ScheduleLike, state: int | None
) -> C:
    """A corrector by one shift of the newest group; see `Corrector.from_newest`."""
    rows = _table(scores, "scores")
    schedule, state = _placed(schedule, state, rows.shape[1], "scores: columns")
    given = checked_scores(rows, labels, schedule, state, "labelled images of the newest group")
    if len(rows) < LEAST_LABELLED:
        raise TransilError(
            f"{len(rows)} labelled rows tell too little; give at least {LEAST_LABELLED}"
        )
    old = given.columns < schedule.group_columns(state).start
    if old.any():
        raise TransilError(
            f"labels: row {int(np.flatnonzero(old)[0])} is of an old class; give images of the newest "
            f"group alone (group {state})"
        )
    return _made(make, schedule, state, shift(given, schedule, state))


def _placed(
    schedule: ScheduleLike, state: int | None, columns: int, what: str
) -> tuple[Schedule, int]:
    schedule = Schedule.of(schedule)
    state = schedule.state_with(columns) if state is None else schedule.check_state(state)
    if schedule.columns(state) != columns:
        raise TransilError(
            f"{what}: {columns}, but state {state} has {schedule.columns(state)} classes"
        )
    if state == 1:
        raise TransilError("state 1 is not corrected: there are no older classes")
    return schedule, state


def _table(given: Any, what: str) -> Float64Array:
    values = to_numpy(given, what)
    if values.ndim != 2 or values.dtype.kind != "f" or not np.isfinite(values).all():
        raise TransilError(f"{what}: expected a table of finite numbers, one row each")
    return np.asarray(values, dtype=np.float64)


def _made(make: type[C], schedule: Schedule, state: int, pair: tuple[float, float]) -> C:
    """A corrector that does this to the newest group, and nothing to the others."""
    made = make(schedule, bank="none")
    columns = Columns.identity(schedule.columns(state))
    newest = schedule.group_columns(state)
    columns.scale[newest], columns.shift[newest] = pair
    made._known(schedule, state, columns)
    return made

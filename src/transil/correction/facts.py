"""What may be known of a state without a label: the schedule, and what its scores say of each group."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from transil._common.arrays import Float64Array, FloatArray
from transil.schedule import IntArray, Schedule, ScheduleLike

# Rows are looked at in blocks of about this many values.
BLOCK = 1 << 18


@dataclass(frozen=True, eq=False)
class Moments:
    """What scores say of each group, shape (state,), around the mean of each row.

    `share`: of rows predicted in the group; `mean`, `deviation`: of the group's scores; `top`: the mean
    of its highest score in each row.
    """

    share: Float64Array
    mean: Float64Array
    deviation: Float64Array
    top: Float64Array

    @classmethod
    def of(cls, scores: FloatArray, schedule: Schedule, state: int) -> Moments:
        """Those of scores (n, columns) of a state."""
        group = schedule.group_of_column(state) - 1
        sizes = np.bincount(group, minlength=state)
        starts = np.cumsum(sizes) - sizes
        share, total, square, top = (np.zeros(state) for _ in range(4))
        rows = max(1, BLOCK // scores.shape[1])
        for start in range(0, len(scores), rows):
            block = np.asarray(scores[start : start + rows], dtype=np.float64)
            around = block - block.mean(axis=1, keepdims=True)
            share += np.bincount(group[around.argmax(axis=1)], minlength=state)
            total += np.add.reduceat(around, starts, axis=1).sum(axis=0)
            top += np.maximum.reduceat(around, starts, axis=1).sum(axis=0)
            square += np.add.reduceat(np.square(around, out=around), starts, axis=1).sum(axis=0)
        mean = total / (len(scores) * sizes)
        variance = square / (len(scores) * sizes) - mean**2
        share, top = share / len(scores), top / len(scores)
        return cls(share, mean, np.sqrt(np.maximum(variance, 0.0)), top)


@dataclass(frozen=True, eq=False)
class Facts:
    """What a correction may know of a state without a label.

    `scale`: how far the scores spread (`score_scale`); `moments`: what they say of each group. Both
    are None where no scores were looked at.
    """

    schedule: Schedule
    state: int
    scale: float | None = None
    moments: Moments | None = None

    @classmethod
    def of(cls, scores: FloatArray, schedule: ScheduleLike, state: int) -> Facts:
        """Those of a state, and of its scores (n, columns)."""
        from transil.correction.scales import score_scale

        schedule = Schedule.of(schedule)
        moments = Moments.of(scores, schedule, state)
        return cls(schedule, state, score_scale(scores), moments)

    @cached_property
    def sizes(self) -> IntArray:
        """How many classes each group has, (state,)."""
        return np.array(self.schedule.sizes[: self.state])

    @cached_property
    def kept(self) -> float | None:
        """How far old classes stand out of their group, next to how far the newest stands above all.

        The mean over past groups of their highest score above their mean, over the newest group's
        highest above that of any past one. Near 0 where the model has kept nothing of old classes; None
        where nothing tells it: no scores, or no past group of two classes.
        """
        several = self.sizes[:-1] > 1
        if self.moments is None or not self.scale or not several.any():
            return None
        top, mean = self.moments.top, self.moments.mean
        above = max(top[-1] - top[:-1].max(), 0.1 * self.scale)
        return float((top - mean)[:-1][several].mean() / above)

    @property
    def group_of_column(self) -> IntArray:
        """The group of each column, counted from 0, (columns,)."""
        return self.schedule.group_of_column(self.state) - 1

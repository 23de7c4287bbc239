"""Shifts of classes, so that scores predict class frequencies that are assumed.

Of corrected scores z (n, c) and frequencies pi, the shifts b are those for which the mean of
softmax(z + b) over the images is pi. They are the minimum of

    F(b) = mean_i log sum_c exp(z_ic + b_c)  -  pi . b  +  b' V^-1 b / (2 n)

F is convex, since log-sum-exp is: Newton finds its one minimum (up to a common shift, which changes no
prediction). The last term shrinks: few images tell the frequencies roughly, and V says how far shifts
are from zero at all, by what references showed (`Spread`). With it the shifts are the most likely ones
if n images tell as much as n draws do.

No label is used, and no image is kept: only c numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from transil.adaptation.columns import Rows
from transil.arrays import Float64Array, FloatArray
from transil.errors import TransilError
from transil.schedule import IntArray

# Scores are looked at in blocks of about this many values.
BLOCK = 1 << 17
# The optimum is found on this many rows, and then moved to that of all in three passes over them.
SAMPLE = 4096
PASSES = 3
STEPS, HALVES = 100, 12
TOLERANCE = 1e-7
# A curve is used again while each step takes this much of the gradient away.
SLOW = 0.5
# exp of less than this is hardly a number in float32.
FLOAT32_POWERS = -60.0
# Frequencies of 0 would ask for shifts of minus infinity.
RAREST = 1e-3  # times the mean one


@dataclass(frozen=True)
class Spread:
    """How far shifts are from zero, as standard deviations: of whole groups, and of classes within.

    Shifts are in the units of corrected scores, whose differences are log-odds.
    """

    groups: float
    classes: float

    def precision(self, group: IntArray) -> Float64Array:
        """V^-1 of shifts whose parts are those of groups and of classes; `group` (c,) from 0."""
        same = (group[:, None] == group).astype(np.float64)
        variance = self.groups**2 * same + self.classes**2 * np.eye(len(group))
        return np.asarray(np.linalg.inv(variance))


@dataclass(frozen=True)
class Matched:
    """Shifts (c,), the mean of the softmax before and with them, and how far the latter is off."""

    shifts: Float64Array
    before: Float64Array
    after: Float64Array
    steps: int


def match(
    scores: Rows,
    prior: Float64Array,
    *,
    group: IntArray | None = None,
    spread: Spread | None = None,
    before: Float64Array | None = None,
) -> Matched:
    """The shifts for scores (n, c) and a prior (c,), which is brought to a sum of 1.

    `spread` shrinks them, `group` (c,) being the group of each class, from 0; without it they match the
    prior exactly. `before`: the mean of the softmax (c,), where it is known.
    """
    pi = np.maximum(prior / prior.sum(), RAREST / len(prior))
    pi = pi / pi.sum()
    weight = np.zeros((len(pi), len(pi)))
    if spread is not None:
        if group is None:
            raise TransilError("match: a spread of groups needs the group of each class")
        weight = spread.precision(group) / len(scores)
    found = _Problem(scores[:: -(-len(scores) // SAMPLE)], pi, weight)
    shifts, steps = _minimum(found)
    if before is None:
        before = mean_softmax(scores)
    if len(found.powers) == len(scores):
        return Matched(shifts, before, found.mean(shifts), steps)
    high, inverse = np.empty(len(scores)), found.inverse(shifts)
    for number in range(PASSES):  # the curve of the sample is nearly that of all
        after = _mean_softmax(scores, shifts, high, first=number == 0)
        shifts = shifts - inverse @ (after - pi + weight @ shifts)
    return Matched(shifts, before, after, steps)


def mean_softmax(scores: Rows, shifts: Float64Array | float = 0.0) -> Float64Array:
    """The mean over rows (n, c) of the softmax of scores with shifts, (c,)."""
    high, given = np.empty(len(scores)), np.zeros(scores.shape[1]) + shifts
    return _mean_softmax(scores, given, high, first=True)


def _mean_softmax(
    scores: Rows, shifts: Float64Array, high: Float64Array, first: bool = False
) -> Float64Array:
    """As `mean_softmax`; `high` (n,) keeps the highest score of each row, which `first` finds."""
    columns = scores.shape[1]
    shifts = shifts - shifts.max()  # a common one changes nothing
    wide = shifts.min() < FLOAT32_POWERS
    work = np.promote_types(scores.dtype, np.float64 if wide else np.float32)
    rows, factor = max(1, BLOCK // columns), np.exp(shifts).astype(work)
    buffer = np.empty((min(rows, len(scores)), columns), dtype=work)
    mean = np.zeros(columns)
    for start in range(0, len(scores), rows):
        block = scores[start : start + rows]
        there, powers = slice(start, start + len(block)), buffer[: len(block)]
        if first:
            high[there] = block.max(axis=1)
        np.subtract(block, high[there, None].astype(work), out=powers)
        np.exp(powers, out=powers)
        mean += (1.0 / (powers @ factor)) @ powers
    found: Float64Array = mean * factor / len(scores)
    return found


class _Problem:
    """F of some rows. `powers` (n, c): exp of the distance of each score from the highest of its row."""

    def __init__(self, scores: FloatArray, pi: Float64Array, weight: Float64Array) -> None:
        some = np.asarray(scores, dtype=np.float64)
        self.powers = np.exp(some - some.max(axis=1, keepdims=True))
        self.pi, self.weight = pi, weight

    def value(self, shifts: Float64Array) -> float:
        """F but for a constant, which is that of the highest scores."""
        with np.errstate(over="ignore"):  # a step too far, which is then halved
            norm = self.powers @ np.exp(shifts)
        return float(np.log(norm).mean() - self.pi @ shifts + 0.5 * shifts @ self.weight @ shifts)

    def mean(self, shifts: Float64Array) -> Float64Array:
        """The mean of the softmax, (c,)."""
        factor = np.exp(shifts)
        found: Float64Array = (1.0 / (self.powers @ factor)) @ self.powers * factor
        return found / len(self.powers)

    def gradient(self, shifts: Float64Array) -> Float64Array:
        """Of F, (c,)."""
        return self.mean(shifts) - self.pi + self.weight @ shifts

    def scaled(self, shifts: Float64Array) -> Float64Array:
        """A step of iterative scaling: it never raises F where nothing shrinks."""
        mean = np.maximum(self.mean(shifts), np.finfo(np.float64).tiny)
        return np.asarray(shifts + np.log(self.pi / mean))

    def inverse(self, shifts: Float64Array) -> Float64Array:
        """The inverse of the curvature of F (c, c).

        Without a spread F is flat along the common shift of all classes: that is held where it is.
        """
        share = self.powers * np.exp(shifts)
        share /= share.sum(axis=1, keepdims=True)
        curve = np.diag(share.mean(axis=0)) - share.T @ share / len(share) + self.weight
        scale = np.trace(curve) / len(curve)
        if not self.weight.any():
            curve = curve + scale / len(curve)
        return np.asarray(np.linalg.inv(curve + 1e-9 * scale * np.eye(len(curve))))


def _minimum(problem: _Problem) -> tuple[Float64Array, int]:
    """Where F is lowest, and in how many steps.

    Each step lowers F, until rounding is all that is left: one of Newton leads downhill, so halving it
    must find a lower F; where that fails, since F is nearly flat, scaling does (`_Problem.scaled`).
    """
    shifts = np.zeros(len(problem.pi))
    inverse, value = problem.inverse(shifts), problem.value(shifts)
    gradient, steps = problem.gradient(shifts), 0
    while steps < STEPS and (size := float(np.abs(gradient).max())) > TOLERANCE:
        step = inverse @ gradient
        ways = (*(shifts - step * 0.5**half for half in range(HALVES)), problem.scaled(shifts))
        lower = ((there, f) for there in ways if (f := problem.value(there)) < value)
        found = next(lower, None)
        if found is None:
            break
        shifts, value = found
        gradient, steps = problem.gradient(shifts), steps + 1
        if np.abs(gradient).max() > SLOW * size:
            inverse = problem.inverse(shifts)
    return shifts, steps

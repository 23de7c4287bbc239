"""Shifts of classes, so that scores predict class frequencies that are assumed.

Of corrected scores z (n, c) and frequencies pi, the shifts b are those for which the mean of
softmax(z + b) over the images is pi. They are the minimum of

    F(b) = mean_i log sum_c exp(z_ic + b_c)  -  pi . b  +  (b - m)' V^-1 (b - m) / (2 n)

F is convex, since log-sum-exp is: it has one minimum (up to a common shift, which changes no
prediction). The last term shrinks: few images tell the frequencies roughly. A model without bias would
be shifted by m = log pi alone, and V says how far from that shifts are, by what models showed
(`Spread`). Where pi only repeats what is predicted it tells nothing of a bias, so m is the same for
such classes. With this term the shifts are the most likely ones if n images tell as much as n draws do.

No label is used, and no image is kept: only c numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from transil._common.arrays import Float64Array, FloatArray
from transil.adaptation.columns import Columns, Corrected
from transil.errors import TransilError
from transil.schedule import IntArray

# Scores are looked at in blocks of about this many values.
BLOCK = 1 << 17
# The optimum is found on this many rows, and then moved to that of all in two passes over them.
SAMPLE = 4096
PASSES = 2
SCALING, STEPS, HALVES = 30, 100, 12
TOLERANCE = 1e-7
# A curve is used again while each step leaves no more than this of the gradient.
SLOW = 0.5
# exp of less than this is hardly a number in float32.
SMALLEST_POWER = -60.0
# Frequencies of 0 would ask for shifts of minus infinity.
RAREST = 1e-3  # times the mean one


@dataclass(frozen=True)
class Spread:
    """How far shifts are from log pi, as standard deviations: of whole groups, and of classes within.

    Shifts are in the units of corrected scores, whose differences are log-odds. By default what models
    showed that no bank was fitted on (docs/adaptation.md has the table).
    """

    groups: float = 0.5
    classes: float = 1.0

    def precision(self, group: IntArray) -> Float64Array:
        """V^-1 of shifts whose parts are those of groups and of classes; `group` (c,) from 0."""
        same = (group[:, None] == group).astype(np.float64)
        variance = self.groups**2 * same + self.classes**2 * np.eye(len(group))
        return np.asarray(np.linalg.inv(variance))


@dataclass(frozen=True)
class Matched:
    """Shifts (c,), the mean of the softmax with them, and how many steps it took."""

    shifts: Float64Array
    after: Float64Array
    steps: int


def match(
    scores: FloatArray | Corrected,
    prior: Float64Array,
    *,
    group: IntArray | None = None,
    spread: Spread | None = None,
    centre: Float64Array | None = None,
    images: float | None = None,
) -> Matched:
    """The shifts for scores (n, c) and a prior (c,), which is brought to a sum of 1.

    `spread` shrinks them, `group` (c,) being the group of each class, from 0; without it they match the
    prior exactly. `centre` (c,): shares that a model without bias would be shifted by, else the prior;
    `images`: as how many different ones the rows count, else all.
    """
    rows = _seen(scores)
    pi = _positive(prior)
    middle = np.log(pi if centre is None else _positive(centre))
    weight = np.zeros((len(pi), len(pi)))
    if spread is not None:
        if group is None:
            raise TransilError("match: a spread of groups needs the group of each class")
        weight = spread.precision(group) / (images or len(rows))
    few = rows.every(-(-len(rows) // SAMPLE))
    found = _Problem(few[:], pi, weight, middle)
    shifts, steps = _minimum(found)
    if len(few) == len(rows):
        return Matched(shifts, found.mean(shifts), steps)
    for _ in range(PASSES):
        before, mean = shifts, mean_softmax(rows, shifts)
        shifts = found.stepped(shifts, mean)
    # What the last step does to the mean of all it does to that of the sample, nearly.
    return Matched(shifts, mean + found.mean(shifts) - found.mean(before), steps)


def mean_softmax(
    scores: FloatArray | Corrected, shifts: Float64Array | float = 0.0
) -> Float64Array:
    """The mean over rows (n, c) of the softmax of scores with shifts, (c,)."""
    rows = _seen(scores)
    columns = rows.shape[1]
    count = max(1, BLOCK // columns)
    buffer = np.empty((min(count, len(rows)), columns), dtype=rows.dtype)
    added = rows.shifts + shifts
    added = added - added.max()  # a common one changes nothing
    factor = np.exp(added).astype(rows.dtype)
    usual = added.min() > SMALLEST_POWER
    mean = np.zeros(columns)
    for start in range(0, len(rows), count):
        some = slice(start, start + count)
        powers = rows.powers(some, buffer)
        norm = powers @ factor
        if usual and np.isfinite(norm).all() and norm.all():
            mean += ((1.0 / norm) @ powers) * factor
        else:  # scores so large that their powers are no numbers: take them from the highest
            away = rows[some].astype(np.float64) + shifts
            powers = np.exp(away - away.max(axis=1, keepdims=True))
            mean += (powers / powers.sum(axis=1, keepdims=True)).sum(axis=0)
    return mean / len(rows)


def _positive(shares: Float64Array) -> Float64Array:
    """With a sum of 1, and none of them 0."""
    found = np.maximum(shares / shares.sum(), RAREST / len(shares))
    return np.asarray(found / found.sum())


def _seen(scores: FloatArray | Corrected) -> Corrected:
    """Scores as they are, or as they are corrected."""
    if isinstance(scores, Corrected):
        return scores
    return Corrected(scores, Columns.identity(scores.shape[1]))


class _Problem:
    """F of some rows. `powers` (n, c): exp of the distance of each score from the highest of its row."""

    def __init__(
        self, scores: FloatArray, pi: Float64Array, weight: Float64Array, centre: Float64Array
    ) -> None:
        some = np.asarray(scores, dtype=np.float64)
        self.powers = np.exp(some - some.max(axis=1, keepdims=True))
        self.pi, self.weight, self.centre = pi, weight, centre
        self.shrinks = bool(weight.any())

    def value(self, shifts: Float64Array) -> float:
        """F but for a constant, which is that of the highest scores."""
        with np.errstate(over="ignore", invalid="ignore"):  # a step too far is halved
            norm = self.powers @ np.exp(shifts)
        away = shifts - self.centre
        return float(np.log(norm).mean() - self.pi @ shifts + 0.5 * away @ self.weight @ away)

    def mean(self, shifts: Float64Array) -> Float64Array:
        """The mean of the softmax, (c,)."""
        factor = np.exp(shifts)
        found: Float64Array = (1.0 / (self.powers @ factor)) @ self.powers * factor
        return found / len(self.powers)

    def gradient(self, shifts: Float64Array, mean: Float64Array) -> Float64Array:
        """Of F, (c,), from the mean of the softmax there."""
        return np.asarray(mean - self.pi + self.weight @ (shifts - self.centre))

    def stepped(self, shifts: Float64Array, mean: Float64Array) -> Float64Array:
        """One step of all rows, whose softmax has that mean: their curve is nearly that of these."""
        if not self.shrinks:
            return self.scaled(shifts, mean)
        return shifts - self.inverse(shifts) @ self.gradient(shifts, mean)

    def scaled(self, shifts: Float64Array, mean: Float64Array) -> Float64Array:
        """A step of iterative scaling: it never raises F where nothing shrinks."""
        return np.asarray(shifts + np.log(self.pi / np.maximum(mean, np.finfo(np.float64).tiny)))

    def inverse(self, shifts: Float64Array) -> Float64Array:
        """The inverse of the curvature of F (c, c).

        Where nothing shrinks F is flat along the common shift of all classes: that is held where it is.
        """
        share = (self.powers * np.exp(shifts - shifts.max())).astype(np.float32)
        share /= share.sum(axis=1, keepdims=True)
        mean = share.mean(axis=0, dtype=np.float64)
        curve = np.diag(mean) - (share.T @ share).astype(np.float64) / len(share) + self.weight
        scale = np.trace(curve) / len(curve)
        if not self.shrinks:
            curve = curve + scale / len(curve)
        return np.asarray(np.linalg.inv(curve + 1e-7 * scale * np.eye(len(curve))))


def _minimum(problem: _Problem) -> tuple[Float64Array, int]:
    """Where F is lowest, and in how many steps.

    Steps of iterative scaling come near it at little cost, those of Newton reach it. Each of these
    lowers F, until rounding is all that is left: it leads downhill, so halving it must find a lower F;
    where F is nearly flat and that fails, scaling does.
    """
    shifts = np.zeros(len(problem.pi))
    for _ in range(SCALING):
        shifts = problem.scaled(shifts, problem.mean(shifts))
    value, mean = problem.value(shifts), problem.mean(shifts)
    inverse, steps = None, 0
    while steps < STEPS:
        gradient = problem.gradient(shifts, mean)
        size = float(np.abs(gradient).max())
        if size < TOLERANCE:
            break
        if inverse is None:
            inverse = problem.inverse(shifts)
        step = inverse @ gradient
        halved = (shifts - step * 0.5**half for half in range(HALVES))
        ways = (*halved, problem.scaled(shifts, mean))
        found = next(((there, f) for there in ways if (f := problem.value(there)) < value), None)
        if found is None:
            break
        (shifts, value), steps = found, steps + 1
        mean = problem.mean(shifts)
        if np.abs(problem.gradient(shifts, mean)).max() > SLOW * size:
            inverse = None  # a curve is used again only while it serves
    return shifts, steps

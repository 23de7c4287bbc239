"""What a correction gains or loses for each share of the newest group, by the scores' own account.

If corrected scores tell how likely each class is, the accuracy of any predictions is the mean of what
they give to the predicted class. It is an estimate: only labelled images tell. How good it is stands in
docs/advise.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from transil._common.arrays import Float64Array
from transil.schedule import IntArray

# Shares of the newest group that are looked at.
SHARES = tuple(round(0.02 * i, 2) for i in range(1, 48))


@dataclass(frozen=True)
class Risk:
    """Gains over raw predictions at each of `shares` of the newest group, as accuracies from -1 to 1.

    `even`: the share from which on raw predictions are better, None where they never are.
    `before`, `after`: how many images of the newest group are right, raw and corrected, at the share
    that is assumed.
    """

    shares: tuple[float, ...]
    gains: tuple[float, ...]
    even: float | None
    before: float
    after: float


def gain_of(powers: Float64Array, raw: IntArray, corrected: IntArray) -> float:
    """Expected accuracy of the corrected less that of the raw predictions (n,); softmax (n, columns)."""
    rows = np.arange(len(powers))
    return float(np.mean(powers[rows, corrected] - powers[rows, raw]))


def risk_of(powers: Float64Array, raw: IntArray, corrected: IntArray, start: int) -> Risk:
    """From the softmax (n, columns) under an assumed prior; the newest classes begin at `start`.

    The rows stay the same. For another share of the newest group all its classes are shifted alike, so
    that what is told within it, and within the others, stays as it is.
    """
    rows = np.arange(len(powers))
    newest = np.clip(powers[:, start:].sum(axis=1), 1e-12, 1 - 1e-12)
    odds = np.log(newest / (1 - newest))
    given = [_within(powers[rows, d], d >= start, newest) for d in (raw, corrected)]
    gains = []
    for share in SHARES:
        there = _shifted(odds, share)
        right = [np.where(new, there, 1 - there) * part for new, part in given]
        gains.append(float(np.mean(right[1] - right[0])))
    before, after = (
        float(np.mean(np.where(new, newest, 0.0) * part) / newest.mean()) for new, part in given
    )
    return Risk(SHARES, tuple(gains), _even(gains), before, after)


def _within(
    likely: Float64Array, new: NDArray[np.bool_], newest: Float64Array
) -> tuple[NDArray[np.bool_], Float64Array]:
    """Whether the newest group is predicted, and how likely the class is within what is predicted."""
    return new, likely / np.where(new, newest, 1 - newest)


def _shifted(odds: Float64Array, share: float) -> Float64Array:
    """How likely the newest group is in each row, shifted so that the mean is `share`; by bisection."""
    low, high = -60.0 - float(odds.max()), 60.0 - float(odds.min())
    for _ in range(60):
        middle = (low + high) / 2
        if _logistic(odds + middle).mean() < share:
            low = middle
        else:
            high = middle
    return _logistic(odds + (low + high) / 2)


def _logistic(values: Float64Array) -> Float64Array:
    return np.asarray(0.5 * (1.0 + np.tanh(values / 2)))


def _even(gains: list[float]) -> float | None:
    """Where a gain turns into a loss that stays; None where there is none."""
    if gains[-1] >= 0:
        return None
    last = max((i for i, gain in enumerate(gains) if gain >= 0), default=-1)
    if last < 0:
        return 0.0
    above, below = gains[last], gains[last + 1]
    return SHARES[last] + (SHARES[last + 1] - SHARES[last]) * above / (above - below)

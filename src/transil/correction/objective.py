"""The penalised likelihood that a correction minimises, with closed-form gradient and Hessian.

For one state, with scores o and the pairs of the groups (alpha_k, beta_k), which are affine in the
parameters theta that are fitted (see `design`):

    z_ic = alpha_k(c) * o_ic + beta_k(c)                                               (Eq. 2)
    L    = mean_i [ logsumexp_c z_ic - z_iy ] + sum_j c_j * theta_j^2                  (Eq. 3)

z is affine in the parameters, so L is convex. With p = softmax(z) and

    A_ik = sum_{c in k} p_ic o_ic,    B_ik = sum_{c in k} p_ic,    D_ik = sum_{c in k} p_ic o_ic^2

the gradient is mean_i [A, B] less the share of the true class, and the Hessian is
[[diag(mean D), diag(mean A)], [diag(mean A), diag(mean B)]] - F'F / n with F = [A, B].
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from transil._common.arrays import Float64Array, FloatArray
from transil.correction.design import Design
from transil.correction.facts import Facts
from transil.correction.layers import Correction
from transil.errors import TransilError
from transil.schedule import Schedule

# Rows are passed through in blocks of about this many values.
BLOCK = 1 << 17
# From so many groups on, most of the work is the Hessian's.
MANY = 32


@dataclass(frozen=True)
class Penalty:
    """The penalty c_alpha * sum alpha^2 + c_beta * sum beta^2 on the fitted pairs.

    The defaults are what the released code amounts to: weight decay 0.005 on both gives
    0.0025 * theta^2, and its own term 0.1 / 2 * beta^2 comes on top. Note that alpha shrinks
    towards 0, not 1, as in the released code.
    """

    alpha: float = 0.0025
    beta: float = 0.0525

    def __post_init__(self) -> None:
        for name in ("alpha", "beta"):
            value = getattr(self, name)
            if not (isinstance(value, int | float) and np.isfinite(value) and value >= 0):
                raise TransilError(f"penalty: {name} is {value}; it must be a number >= 0")

    def at_least(self, ridge: float) -> Penalty:
        """The same penalty with `ridge` as the smallest coefficient."""
        return Penalty(max(self.alpha, ridge), max(self.beta, ridge))

    def of(self, design: Design) -> Float64Array:
        """The coefficient of each parameter: that of alpha for those that move an alpha, (m,)."""
        return np.where(design.moves_alpha, self.alpha, self.beta)


@dataclass(frozen=True)
class Problem:
    """One state's fitting problem: its data and which pairs are fitted.

    scores (n, columns), the true class of each row as a column number (n,).
    """

    scores: FloatArray
    columns: NDArray[np.int64]
    schedule: Schedule
    state: int
    correction: Correction

    @cached_property
    def facts(self) -> Facts:
        """What is known of the state without labels; scores are looked at where it is wanted."""
        if self.correction.measured:
            return Facts.of(self.scores, self.schedule, self.state)
        return Facts(self.schedule, self.state)

    @cached_property
    def design(self) -> Design:
        """How what is fitted becomes the pairs of the groups."""
        return self.correction.designed(self.facts)

    def seen(self, rows: slice | NDArray[np.int64]) -> FloatArray:
        """The scores of some rows as the correction looks at them, (rows, columns)."""
        return self.correction.seen(self.scores[rows])


@dataclass(frozen=True)
class Expansion:
    """Value, gradient (m,) and Hessian (m, m) at one point."""

    value: float
    gradient: Float64Array
    hessian: Float64Array


class Objective:
    """The penalised mean cross-entropy of one state as a function of the parameters theta (m,).

    The rows are passed through in blocks that stay in the cache: beside the scores themselves it
    needs a few MB, however many they are.
    """

    def __init__(self, problem: Problem, penalty: Penalty) -> None:
        state, schedule = problem.state, problem.schedule
        self.problem = problem
        self.count = len(problem.scores)
        self.sizes = np.array(schedule.sizes[:state])
        self.starts = np.cumsum(self.sizes) - self.sizes
        self.design = problem.design
        self.penalty = penalty.of(self.design)
        # The true class enters the likelihood linearly, so only two sums per group are needed.
        true_group = schedule.group_of_column(state)[problem.columns] - 1
        true_score = np.concatenate([self._true_scores(part) for part in self._parts()])
        sums = [np.bincount(true_group, weights=w, minlength=state) for w in (true_score, None)]
        self.true_share = np.concatenate(sums) / self.count

    def expand(self, theta: Float64Array) -> Expansion:
        """Value, gradient and Hessian at `theta`."""
        alpha, beta = np.split(self.design.spread(theta), 2)
        groups = len(alpha)
        likelihood = 0.0
        mean, square = np.zeros(2 * groups), np.zeros(groups)
        full = np.zeros((2 * groups, 2 * groups))
        for scores, mass, total, peak in self._blocks(alpha, beta):
            likelihood += float((np.log(total) + peak).sum())
            inverse = 1.0 / total
            # F' = [A, B], (2 * groups, rows)
            factor = np.empty((2 * groups, len(total)))
            np.multiply(self._by_group(mass), inverse, out=factor[groups:])
            mass *= scores
            np.multiply(self._by_group(mass), inverse, out=factor[:groups])
            mass *= scores
            square += self._by_group((mass @ inverse)[:, None])[:, 0]  # D
            mean += factor.sum(axis=1)
            # The Hessian only steers the step: of many groups, where it is nearly all of the
            # work, its largest part is summed in half the digits, within a block.
            fine = factor if groups <= MANY else factor.astype(np.float32)
            full -= fine @ fine.T
        mean, square, full = mean / self.count, square / self.count, full / self.count
        k = np.arange(groups)
        full[k, k] += square
        full[k, k + groups] += mean[:groups]
        full[k + groups, k] += mean[:groups]
        full[k + groups, k + groups] += mean[groups:]
        return Expansion(
            self._value(theta, likelihood),
            self.design.gather(mean - self.true_share) + 2.0 * self.penalty * theta,
            self.design.gather(self.design.gather(full).T) + np.diag(2.0 * self.penalty),
        )

    def value(self, theta: Float64Array) -> float:
        """The objective at `theta`."""
        blocks = self._blocks(*np.split(self.design.spread(theta), 2))
        likelihood = sum(float((np.log(total) + peak).sum()) for _, _, total, peak in blocks)
        return self._value(theta, likelihood)

    def _blocks(
        self, alpha: Float64Array, beta: Float64Array
    ) -> Iterator[tuple[Float64Array, Float64Array, Float64Array, Float64Array]]:
        """Of each block of rows: o, exp(z - max z), its sums, max z.

        Classes are along the first axis: reductions over them then run along contiguous rows.
        """
        alpha, beta = (np.repeat(v, self.sizes)[:, None] for v in (alpha, beta))
        for part in self._parts():
            scores = np.ascontiguousarray(self.problem.seen(part).T, dtype=np.float64)
            z = scores * alpha
            z += beta
            peak = z.max(axis=0)
            z -= peak
            np.exp(z, out=z)
            yield scores, z, z.sum(axis=0), peak

    def _parts(self) -> Iterator[slice]:
        rows = max(1, BLOCK // self.problem.scores.shape[1])
        return (slice(start, start + rows) for start in range(0, self.count, rows))

    def _true_scores(self, part: slice) -> FloatArray:
        """Each row's score of its true class, (rows,)."""
        scores, columns = self.problem.seen(part), self.problem.columns[part]
        return scores[np.arange(len(scores)), columns]

    def _by_group(self, values: Float64Array) -> Float64Array:
        """Sums over the classes of each group, (columns, rows) -> (groups, rows)."""
        if len(values) == len(self.sizes):
            return values
        if (self.sizes == self.sizes[0]).all():  # several times as fast
            by_group: Float64Array = values.reshape(len(self.sizes), self.sizes[0], -1).sum(axis=1)
        else:
            by_group = np.add.reduceat(values, self.starts, axis=0)
        return by_group

    def _value(self, theta: Float64Array, likelihood: float) -> float:
        true_mean = float(self.true_share @ self.design.spread(theta))
        return likelihood / self.count - true_mean + float(self.penalty @ theta**2)

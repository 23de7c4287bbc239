"""The penalised likelihood that a correction minimises, with closed-form gradient and Hessian.

For one state, with scores o and the pairs spread over the groups (alpha_k, beta_k):

    z_ic = alpha_k(c) * o_ic + beta_k(c)                                               (Eq. 2)
    L    = mean_i [ logsumexp_c z_ic - z_iy ] + c_alpha * sum alpha^2 + c_beta * sum beta^2  (Eq. 3)

z is affine in the parameters, so L is convex. With p = softmax(z) and

    A_ik = sum_{c in k} p_ic o_ic,    B_ik = sum_{c in k} p_ic,    D_ik = sum_{c in k} p_ic o_ic^2

the gradient is mean_i [A, B] less the share of the true class, and the Hessian is
[[diag(mean D), diag(mean A)], [diag(mean A), diag(mean B)]] - F'F / n with F = [A, B].
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from transil.arrays import Float64Array, FloatArray
from transil.correction.layers import Correction, Pairs
from transil.errors import TransilError
from transil.schedule import Schedule


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


@dataclass(frozen=True)
class Expansion:
    """Value, gradient (2m,) and Hessian (2m, 2m) at one point; parameters are [alpha, beta]."""

    value: float
    gradient: Float64Array
    hessian: Float64Array


class Objective:
    """The penalised mean cross-entropy of one state as a function of theta = [alpha, beta]."""

    def __init__(self, problem: Problem, penalty: Penalty) -> None:
        state, schedule = problem.state, problem.schedule
        self.count = len(problem.scores)
        # Classes along the first axis: reductions over them then run along contiguous rows.
        self.scores = np.ascontiguousarray(problem.scores.T, dtype=np.float64)
        self.column_group = schedule.group_of_column(state) - 1
        self.group_sum = (self.column_group == np.arange(state)[:, None]).astype(np.float64)
        # theta -> [alpha_1..s, beta_1..s]: the design for both halves, and (1, 0) where unmoved.
        design = problem.correction.matrix(state)
        pairs = design.shape[1]
        self.spread = np.kron(np.eye(2), design)
        self.unmoved = np.concatenate([1.0 - design.sum(axis=1), np.zeros(state)])
        self.penalty = np.repeat([penalty.alpha, penalty.beta], pairs)
        # The true class enters the likelihood linearly, so only two sums per group are needed.
        true_score = self.scores[problem.columns, np.arange(self.count)]
        true_group = self.column_group[problem.columns]
        self.true_share = (
            np.concatenate(
                [
                    np.bincount(true_group, weights=true_score, minlength=state),
                    np.bincount(true_group, minlength=state),
                ]
            )
            / self.count
        )
        self._exp = np.empty_like(self.scores)
        self._work = np.empty_like(self.scores)

    def expand(self, theta: Float64Array) -> Expansion:
        """Value, gradient and Hessian at `theta`."""
        total = self._exponentials(theta)
        value = self._value(theta, total)
        inverse = 1.0 / total
        group_mass = (self.group_sum @ self._exp) * inverse  # B
        np.multiply(self._exp, self.scores, out=self._work)
        group_score = (self.group_sum @ self._work) * inverse  # A
        np.multiply(self._work, self.scores, out=self._work)
        mean_square = self.group_sum @ (self._work @ inverse) / self.count  # mean of D
        factor = np.concatenate([group_score, group_mass])  # F', (2 * groups, n)
        mean = factor.mean(axis=1)
        groups = len(self.group_sum)
        full = -(factor @ factor.T) / self.count
        k = np.arange(groups)
        full[k, k] += mean_square
        full[k, k + groups] += mean[:groups]
        full[k + groups, k] += mean[:groups]
        full[k + groups, k + groups] += mean[groups:]
        gradient = self.spread.T @ (mean - self.true_share) + 2.0 * self.penalty * theta
        hessian = self.spread.T @ full @ self.spread + np.diag(2.0 * self.penalty)
        return Expansion(value, gradient, hessian)

    def value(self, theta: Float64Array) -> float:
        """The objective at `theta`."""
        return self._value(theta, self._exponentials(theta))

    def _exponentials(self, theta: Float64Array) -> Float64Array:
        """Fill `_exp` with exp(z - max z), keep the maxima, return the sums, shape (n,)."""
        alpha, beta = np.split(self.spread @ theta + self.unmoved, 2)
        z = np.multiply(self.scores, alpha[self.column_group, None], out=self._exp)
        z += beta[self.column_group, None]
        self._peak = z.max(axis=0)
        z -= self._peak
        np.exp(z, out=z)
        total: Float64Array = z.sum(axis=0)
        return total

    def _value(self, theta: Float64Array, total: Float64Array) -> float:
        true_mean = float(self.true_share @ (self.spread @ theta + self.unmoved))
        likelihood = float(np.mean(np.log(total) + self._peak)) - true_mean
        return likelihood + float(self.penalty @ theta**2)


def as_theta(pairs: Pairs) -> Float64Array:
    """[alpha, beta] as one vector, shape (2m,)."""
    return np.concatenate([pairs.alpha, pairs.beta])


def as_pairs(theta: Float64Array) -> Pairs:
    """The inverse of `as_theta`."""
    alpha, beta = np.split(theta, 2)
    return Pairs(alpha, beta)

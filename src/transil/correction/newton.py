"""`newton`: the exact optimum of the penalised objective by damped Newton steps in float64."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from transil._common.arrays import Float64Array
from transil._common.progress import Progress, no_progress
from transil.correction.objective import Expansion, Objective, Penalty, Problem
from transil.correction.parameters import Parameters
from transil.correction.solvers import Fit, FitRecord, Solver
from transil.errors import ConvergenceWarning, TransilError

# Armijo's condition: a step must bring this share of the decrease its slope promises.
SUFFICIENT = 1e-4
# Differences of the objective below this (relative) are rounding, not progress.
ROUNDING = 1e-13
# A start is sought on every so-manieth row, if that leaves so many rows for each parameter.
PART, ENOUGH = 8, 3


@dataclass(frozen=True)
class Newton(Solver):
    """Damped Newton; a handful of iterations, deterministic.

    Without a penalty on beta the objective does not change under a common shift of all betas,
    and without one on alpha separable data have no optimum at all: both coefficients are
    therefore never below `ridge`. `tolerance` bounds the gradient norm at the result.

    No penalty beyond that by default: pairs fitted so transfer best, from one reference to another
    that was left out (docs/solvers.md). `Penalty()` is the released code's.
    """

    name: ClassVar[str] = "newton"

    penalty: Penalty = field(default_factory=lambda: Penalty(0.0, 0.0))
    tolerance: float = 1e-9
    max_iterations: int = 200
    ridge: float = 1e-6

    def __post_init__(self) -> None:
        super().__post_init__()
        for setting in ("tolerance", "max_iterations", "ridge"):
            if not getattr(self, setting) > 0:
                raise TransilError(f"{self.name}: {setting} must be above 0")

    def fit(
        self,
        problem: Problem,
        previous: Parameters | None = None,  # not used: the optimum is unique
        progress: Progress = no_progress,
    ) -> Fit:
        """The optimum of one state."""
        began = time.perf_counter()
        theta, value, norm, iterations = self._descend(problem, self._start(problem), progress)
        converged = norm <= self.tolerance
        if not converged:
            warnings.warn(
                f"newton, state {problem.state}: stopped after {iterations} iterations with "
                f"gradient norm {norm:.1e} (wanted {self.tolerance:.1e}); "
                "raise the penalty or max_iterations",
                ConvergenceWarning,
                stacklevel=2,
            )
        progress(1.0, "")
        seconds = time.perf_counter() - began
        return Fit(
            problem.design.parameters(theta),
            FitRecord(value, norm, iterations, seconds, converged=converged),
        )

    def _start(self, problem: Problem) -> Float64Array:
        """Where to begin: the optimum of a part of the rows, where a part tells enough.

        From there on all rows a few iterations are left, of about nine.
        """
        start = problem.design.start
        if len(problem.scores) < PART * ENOUGH * len(start):
            return start
        part = replace(problem, scores=problem.scores[::PART], columns=problem.columns[::PART])
        return self._descend(part, self._start(part), no_progress)[0]

    def _descend(
        self, problem: Problem, theta: Float64Array, progress: Progress
    ) -> tuple[Float64Array, float, float, int]:
        """Newton steps from `theta`: where they end, the value and gradient norm there, how many."""
        objective = Objective(problem, self.penalty.at_least(self.ridge))
        here = objective.expand(theta)
        first_norm = norm = float(np.linalg.norm(here.gradient))
        iterations, length = 0, 1.0
        while norm > self.tolerance and iterations < self.max_iterations:
            step = _newton_step(here)
            moved = _line_search(objective, theta, here, step, min(1.0, 8.0 * length))
            if moved is None:
                break
            theta, here, length = moved
            norm = float(np.linalg.norm(here.gradient))
            iterations += 1
            progress(_fraction(first_norm, norm, self.tolerance), "")
        return theta, here.value, norm, iterations


def _newton_step(here: Expansion) -> Float64Array:
    """The Newton direction; the Hessian is lifted until it is positive definite in float64."""
    identity = np.eye(len(here.hessian))
    scale = float(np.trace(here.hessian)) / len(here.hessian)
    for lift in (0.0, *(scale * 10.0**power for power in range(-14, 3))):
        try:
            np.linalg.cholesky(here.hessian + lift * identity)
        except np.linalg.LinAlgError:
            continue
        return np.asarray(np.linalg.solve(here.hessian + lift * identity, -here.gradient))
    return -here.gradient  # nothing helped; the line search will say whether this does


def _line_search(
    objective: Objective,
    theta: Float64Array,
    here: Expansion,
    step: Float64Array,
    longest: float,
) -> tuple[Float64Array, Expansion, float] | None:
    """A point along `step` that decreases the objective enough, and how far along it lies.

    A rejected length is replaced by the minimum of the parabola through what is known. Far from
    the optimum the softmax is saturated and Newton's step much too long; near it the first trial
    passes, so its gradient and Hessian are computed together with its value.
    """
    slope = float(here.gradient @ step)
    slack = ROUNDING * max(1.0, abs(here.value))
    length = longest
    for _ in range(60):
        trial = theta + length * step
        there = objective.expand(trial)
        rise = there.value - here.value
        if rise <= SUFFICIENT * length * slope + slack:
            return trial, there, length
        parabola = -slope * length**2 / (2.0 * (rise - slope * length))
        length = min(max(parabola, 0.01 * length), 0.5 * length)
    return None


def _fraction(first: float, now: float, goal: float) -> float:
    """How far the gradient norm has come down, on a logarithmic scale, from 0 to 1."""
    if now <= goal or first <= goal:
        return 1.0
    return float(np.clip(np.log(first / now) / np.log(first / goal), 0.0, 1.0))

"""What the fit of one state of one reference tells a function of many schedules, without its scores.

Around its optimum the loss of a state is a quadratic in the pairs of its groups: the exact pairs and
the Hessian there. With the facts of the state they stand for the scores, so forms of a function can
be fitted and compared on a few kilobytes for each state.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from transil._common.arrays import Float64Array
from transil.correction.facts import Facts, Moments
from transil.correction.layers import AdBiCCentred
from transil.correction.newton import Newton
from transil.correction.objective import Objective, Problem
from transil.correction.parameters import Pairs
from transil.errors import TransilError
from transil.schedule import Schedule

# Quadratics need no more digits than this; the last steps of an exact fit are spared.
NEWTON = Newton(tolerance=1e-6)
# A state whose exact pairs point away from others tells nothing of these: it keeps next to no weight.
LEAST = 0.01
MOMENTS = {"share": "share", "mean": "mean", "deviation": "std", "top": "max"}


@dataclass(frozen=True, eq=False)
class Evidence:
    """One state of one reference: exact pairs and the Hessian of the loss there, (2s, 2s).

    `reference`: its images; `run`: one model trained on them; `training`: how, where evidence is of
    several methods.
    """

    reference: str
    run: str
    facts: Facts
    pairs: Pairs
    hessian: Float64Array
    training: str = ""

    @classmethod
    def of(cls, reference: str, run: str, problem: Problem) -> Evidence:
        """Fit one state's problem and keep what it tells."""
        facts = Facts.of(problem.scores, problem.schedule, problem.state)
        fitted = NEWTON.fit(problem).pairs
        there = Objective(problem, NEWTON.penalty.at_least(NEWTON.ridge)).expand(fitted.vector)
        return cls(reference, run, facts, Pairs(fitted["alpha"], fitted["beta"]), there.hessian)

    def loss(self, pairs: Pairs) -> float:
        """By how much the loss is above its optimum with other pairs, as the quadratic says."""
        away = pairs.vector - self.pairs.vector
        return float(0.5 * away @ self.hessian @ away)

    def at_level(self, pairs: Pairs) -> Evidence:
        """The same loss of pairs that are divided by the factor that brings them nearest to others.

        All pairs of a state times one factor predict the same: how large they are says how sure the
        model was, which differs between networks and methods more than their bias does.
        """
        pull = self.hessian @ pairs.vector
        own, other = float(pull @ self.pairs.vector), float(pull @ pairs.vector)
        factor = max(own / other, LEAST) if other > 0 else LEAST
        alpha, beta = np.split(self.pairs.vector / factor, 2)
        return replace(self, pairs=Pairs(alpha, beta), hessian=factor**2 * self.hessian)


def read_evidence(path: str | os.PathLike[str]) -> list[Evidence]:
    """The file that `tools/any_schedule.py` keeps of a method's runs."""
    from safetensors.numpy import load_file

    try:
        tensors = load_file(path)
    except Exception as error:
        raise TransilError(f"{path}: cannot be read as evidence: {error}") from None
    runs: dict[str, dict[str, Any]] = {}
    for key, value in tensors.items():
        run, _, rest = key.partition("/")
        runs.setdefault(run, {})[rest] = value
    try:
        return [one for run, kept in sorted(runs.items()) for one in _states(run, kept)]
    except (KeyError, IndexError, ValueError) as error:
        raise TransilError(f"{path}: not a file of evidence ({error!r})") from None


def _states(run: str, kept: Mapping[str, Any]) -> Iterator[Evidence]:
    schedule = Schedule.from_sizes(kept["sizes"].tolist())
    name = f"{AdBiCCentred.name}"
    for state in range(2, schedule.states + 1):
        moments = Moments(**{k: kept[f"{state}/{v}"].astype(float) for k, v in MOMENTS.items()})
        facts = Facts(schedule, state, float(kept[f"{state}/scale"][-1]), moments)
        pairs = Pairs(kept[f"{state}/{name}/alpha"], kept[f"{state}/{name}/beta"])
        hessian = np.zeros((2 * state, 2 * state))
        hessian[np.tril_indices(2 * state)] = kept[f"{state}/{name}/hessian"]
        hessian += np.tril(hessian, -1).T
        yield Evidence(run.split("--")[0], run, facts, pairs, hessian)

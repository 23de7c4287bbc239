"""Fit the function of `adbic-any` by likelihood on the evidence of all references and schedules at once.

The loss of each state is a quadratic in its pairs, these are linear in the coefficients, so the
optimum is one linear system. The coefficients are kept small in the norm of the function, which fades
to the mean of what was seen where nothing like it was.

How large the pairs of a state are together is left open, since it changes no prediction: each state's
factor and the coefficients are found in turn, a few times, starting at uncorrected scores.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from transil._common.arrays import Float64Array
from transil.correction.any_schedule import WEIGHTS, AdBiCAny
from transil.correction.evidence import Evidence
from transil.correction.parameters import Pairs, Parameters
from transil.errors import TransilError

# Chosen between references, as the features were (docs/any-schedule.md).
CENTRES = 150
PENALTY = 0.03
ROUNDS = 10
# The distance within which this share of the states of references that were left out lies.
WITHIN = 0.95

System: TypeAlias = tuple[Float64Array, Float64Array]
Run: TypeAlias = tuple[str, tuple[int, ...], str]  # a reference, the sizes of groups, the training


def fit_any(
    evidence: Sequence[Evidence],
    *,
    weights: Mapping[str, float] = WEIGHTS,
    penalty: float = PENALTY,
    centres: int = CENTRES,
) -> tuple[AdBiCAny, Parameters]:
    """The correction with its centres, and its coefficients."""
    form = form_of(evidence, weights=weights, centres=centres)
    runs = by_run(levelled(form, evidence, penalty))
    parts = {run: system_of(form, of) for run, of in runs.items()}
    fitted = solve(form, list(parts.values()), penalty)
    return _with_residuals(form, runs, parts, penalty), fitted


def form_of(
    evidence: Sequence[Evidence], *, weights: Mapping[str, float] = WEIGHTS, centres: int = CENTRES
) -> AdBiCAny:
    """The correction with its centres among what was seen; nothing is fitted yet."""
    if not evidence:
        raise TransilError("a function of schedules is fitted on one state at least")
    form = AdBiCAny(weights=dict(weights), centres=np.zeros((1, len(weights))))
    return replace(form, centres=spread_out(_points(form, evidence), centres))


def levelled(
    form: AdBiCAny, evidence: Sequence[Evidence], penalty: float, rounds: int = ROUNDS
) -> list[Evidence]:
    """The evidence with the factor of each state that suits the function best."""
    made = list(evidence)
    pairs = [Pairs.identity(one.facts.state) for one in evidence]
    for _ in range(rounds):
        made = [one.at_level(near) for one, near in zip(evidence, pairs, strict=True)]
        fitted = solve(form, [system_of(form, made)], penalty)
        pairs = [form.spread(fitted, one.facts) for one in evidence]
    return made


def by_run(evidence: Sequence[Evidence]) -> dict[Run, list[Evidence]]:
    """The evidence of each reference, schedule and training."""
    found: dict[Run, list[Evidence]] = {}
    for one in evidence:
        run = (one.reference, one.facts.schedule.sizes, one.training)
        found.setdefault(run, []).append(one)
    return found


def others_of(run: Run, runs: Iterable[Run]) -> list[Run]:
    """The runs of other images, another schedule and another training.

    Where all had one training, or one schedule, that cannot be left out.
    """
    found = [other for other in runs if other[0] != run[0]]
    for part in (2, 1):
        found = [other for other in found if other[part] != run[part]] or found
    return found


def spread_out(points: Float64Array, count: int) -> Float64Array:
    """Up to `count` of the points (n, d), each as far as can be from those before it."""
    chosen = [int(((points - points.mean(axis=0)) ** 2).sum(axis=1).argmin())]
    away = np.full(len(points), np.inf)
    while len(chosen) < count:
        away = np.minimum(away, ((points - points[chosen[-1]]) ** 2).sum(axis=1))
        if away.max() <= 0.0:
            break
        chosen.append(int(away.argmax()))
    return points[chosen]


def _points(form: AdBiCAny, evidence: Sequence[Evidence]) -> Float64Array:
    return np.concatenate([form.points(one.facts) for one in evidence])


def system_of(form: AdBiCAny, evidence: Sequence[Evidence]) -> System:
    """Sums over states of D'HD and D'H(pairs - offset), D being the design."""
    size = 2 * len(form.centres)
    left, right = np.zeros((size, size)), np.zeros(size)
    for one in evidence:
        design = form.design(one.facts)
        weighted = design.matrix.T @ one.hessian
        left += weighted @ design.matrix
        right += weighted @ (one.pairs.vector - design.offset)
    return left, right


def solve(form: AdBiCAny, parts: Sequence[System], penalty: float) -> Parameters:
    """The coefficients that suit the sums of several references best."""
    left, right = (np.sum(values, axis=0) for values in zip(*parts, strict=True))
    norm = np.kron(np.eye(2), form.smoothness)
    # What rounding leaves of directions in which nothing was seen.
    lift = 1e-9 * np.trace(left) / len(left) * np.eye(len(left))
    found = np.linalg.solve(left + penalty * norm + lift, right)
    half = len(found) // 2
    return Parameters({"of_alpha": found[:half], "of_beta": found[half:]})


def _with_residuals(
    form: AdBiCAny,
    runs: Mapping[Run, Sequence[Evidence]],
    parts: Mapping[Run, System],
    penalty: float,
) -> AdBiCAny:
    """The form, with what runs tell of its errors and reach when images and schedule are left out."""
    squares: list[Float64Array] = []
    points: list[Float64Array] = []
    distances: list[float] = []
    for run, left_out in runs.items():
        others = others_of(run, runs)
        if not others:
            return form
        fitted = solve(form, [parts[other] for other in others], penalty)
        seen = _points(form, [one for other in others for one in runs[other]])
        near = replace(form, centres=spread_out(seen, len(form.centres)))
        for one in left_out:
            away = form.spread(fitted, one.facts).vector - one.pairs.vector
            alpha, beta = np.split(away, 2)
            beta = (beta - beta.mean()) / (one.facts.scale or 1.0)  # a common shift changes nothing
            squares.append(np.stack([alpha, beta], axis=1) ** 2)
            points.append(form.points(one.facts))
            distances.append(near.distance(one.facts))
    weight = np.exp(-0.5 * form._squares(np.concatenate(points)))  # (points, centres)
    mean = weight.T @ np.concatenate(squares) / weight.sum(axis=0)[:, None]
    return replace(form, residuals=np.sqrt(mean), reach=float(np.quantile(distances, WITHIN)))

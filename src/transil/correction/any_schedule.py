"""`adbic-any`: a pair per group, as one smooth function of what is known without labels.

Where `adbic` fits a pair for every group of every state of one schedule, this fits the coefficients
of a function that gives the pair of any group, in any state of any schedule:

    alpha_k = 1 + sum_j a_j phi_j(x_k),    beta_k = scale * sum_j b_j phi_j(x_k)

x_k says where the group stands in the schedule, how large it is, and what the model's own scores say of
it: their mean, deviation and highest, in units of the score scale. phi_j are bumps around centres that
references have shown, with a constant and a slope:

    phi_j(x) = exp(-|x - c_j|^2 / 2) + LINEAR * x . c_j + 1

The corrected scores are linear in a and b, so fits have one optimum. Beyond the paper: its Sec. 3.3
averages pairs over references of the target's own schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from transil._common.arrays import Float64Array
from transil.correction.design import Design
from transil.correction.facts import Facts, Moments
from transil.correction.layers import Correction
from transil.correction.parameters import Pairs
from transil.errors import TransilError

LINEAR = 0.1
NEAREST = 1e-9  # what is nearer than that is in the same place
LARGEST = (
    1e6  # of a setting: a weight, or a coordinate of a centre; of a moment in units of the scale
)

Feature = Callable[[Facts], Any]


def _moment(name: str) -> Feature:
    """A moment of each group's scores, in units of the scale."""

    def read(facts: Facts) -> Float64Array:
        moments: Moments | None = facts.moments
        if moments is None:
            raise TransilError("these facts hold no moments of scores")
        if not facts.scale:
            raise TransilError("all scores of a row are equal; such scores have no scale")
        value: Float64Array = np.asarray(getattr(moments, name)) / facts.scale
        if not (np.abs(value) < LARGEST).all():
            raise TransilError(
                f"state {facts.state}: the {name} of a group's scores is not of the size of scores"
            )
        return value

    return read


def _places(facts: Facts) -> Any:
    return np.arange(1, facts.state + 1)


# What a group is known by, (state,) each. Logarithms: what counts is by which factor sizes differ.
FEATURES: Mapping[str, Feature] = {
    "age": lambda f: np.log1p(f.state - _places(f)),
    "state": lambda f: np.full(f.state, np.log(f.state)),
    "place": lambda f: (_places(f) - 1) / max(1, f.state - 1),
    "newest": lambda f: (_places(f) == f.state) * 1.0,
    "first": lambda f: (_places(f) == 1) * 1.0,
    "size": lambda f: np.log(f.sizes / f.sizes.mean()),
    "newest size": lambda f: np.full(f.state, np.log(f.sizes[-1] / f.sizes.mean())),
    "after": lambda f: 1.0 - np.cumsum(f.sizes) / f.sizes.sum(),
    "before": lambda f: np.log(f.sizes / np.concatenate([f.sizes[:1], f.sizes[:-1]])),
    "behind": lambda f: np.log(np.concatenate([f.sizes[1:], f.sizes[-1:]]) / f.sizes),
    "classes": lambda f: np.full(f.state, np.log(f.sizes.sum())),
    "mean": _moment("mean"),
    "deviation": _moment("deviation"),
    "top": _moment("top"),
}

# How much each feature counts: the inverse of the distance over which pairs change. Chosen between
# forms by leaving out references and schedules (docs/any-schedule.md).
PLACE = {"age": 1.0, "state": 0.7, "place": 1.0, "newest": 1.0, "first": 0.7}
SIZE = {"size": 0.5, "classes": 0.3}
SCORES = {"mean": 1.0, "deviation": 1.0, "top": 0.5}
WEIGHTS: Mapping[str, float] = {**PLACE, **SIZE, **SCORES}


@dataclass(frozen=True, eq=False)
class AdBiCAny(Correction):
    """Eq. 2 around the mean of each row, with pairs from a function that holds for any schedule.

    `weights`: which features count, and how much; `centres` (m, features), weighted already;
    `residuals` (m, 2): how far exact alpha and beta / scale of a reference that was left out lie from
    the function, around each centre; `reach`: how far groups of such references lie from a centre.
    """

    name = "adbic-any"
    summary = "a pair per group, a function of schedule and unlabelled scores (beyond the paper)"
    centred = True
    measured = True

    weights: Mapping[str, float] = field(default_factory=lambda: dict(WEIGHTS))
    centres: Float64Array = field(default_factory=lambda: np.zeros((1, len(WEIGHTS))))
    residuals: Float64Array | None = None
    reach: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.weights, Mapping) or not self.weights:
            raise TransilError(f"{self.name}: weights must be a number for each of some features")
        for name, weight in self.weights.items():
            _number(weight, f"{self.name}, weight of '{name}'")
            if name not in FEATURES:
                raise TransilError(
                    f"{self.name}: no feature '{name}'; there are: {', '.join(FEATURES)}"
                )
        centres = _numbers(self.centres, f"{self.name}, centres")
        if centres.ndim != 2 or not len(centres) or centres.shape[1] != len(self.weights):
            raise TransilError(f"{self.name}: a centre has a number for each of the features")
        object.__setattr__(self, "centres", centres)
        if self.residuals is not None:
            residuals = _numbers(self.residuals, f"{self.name}, residuals")
            if residuals.shape != (len(centres), 2):
                raise TransilError(f"{self.name}: two residuals for each centre are needed")
            object.__setattr__(self, "residuals", residuals)
        if self.reach is not None and _number(self.reach, f"{self.name}, reach") < 0.0:
            raise TransilError(f"{self.name}: reach must be 0 or more, not {self.reach}")

    def settings(self) -> dict[str, Any]:
        made: dict[str, Any] = {"weights": dict(self.weights), "centres": self.centres.tolist()}
        if self.residuals is not None:
            made["residuals"] = self.residuals.tolist()
        if self.reach is not None:
            made["reach"] = self.reach
        return made

    def points(self, facts: Facts) -> Float64Array:
        """Where the groups of a state lie among the centres, (state, features)."""
        columns = [weight * FEATURES[name](facts) for name, weight in self.weights.items()]
        return np.stack(columns, axis=1)

    def kernel(self, points: Float64Array) -> Float64Array:
        """Phi of points (n, features), shape (n, m)."""
        return np.exp(-0.5 * self._squares(points)) + LINEAR * points @ self.centres.T + 1.0

    @cached_property
    def smoothness(self) -> Float64Array:
        """Phi of the centres themselves (m, m): the norm in which fits are kept small."""
        return self.kernel(self.centres)

    def design(self, facts: Facts) -> Design:
        phi = self.kernel(self.points(facts))
        return Design.of_coefficients({"of_alpha": phi}, {"of_beta": (facts.scale or 1.0) * phi})

    def uncertainty(self, facts: Facts) -> Pairs | None:
        if self.residuals is None:
            return None
        squares = self._squares(self.points(facts))
        near = np.exp(-0.5 * (squares - squares.min(axis=1, keepdims=True)))
        near /= near.sum(axis=1, keepdims=True)
        alpha, beta = np.sqrt(near @ self.residuals**2).T
        return Pairs(alpha, (facts.scale or 1.0) * beta)

    def unlike(self, facts: Facts) -> float:
        if self.reach is None or self.reach < NEAREST:
            return 0.0
        return self.distance(facts) / self.reach

    def distance(self, facts: Facts) -> float:
        """How far the group that is least like any of the references' lies from all of them."""
        return float(np.sqrt(self._squares(self.points(facts)).min(axis=1)).max())

    def _squares(self, points: Float64Array) -> Float64Array:
        """Squared distances of points (n, features) from the centres, (n, m)."""
        lengths: Float64Array = (points**2).sum(1)[:, None] + (self.centres**2).sum(1)
        return np.maximum(lengths - 2.0 * points @ self.centres.T, 0.0)


def _numbers(values: Any, where: str) -> Float64Array:
    """As an array; an error where they are none."""
    try:
        given = np.asarray(values)
    except (TypeError, ValueError):
        raise TransilError(f"{where}: expected numbers") from None
    if given.dtype.kind not in "iuf":  # texts would be read as numbers, long whole ones are objects
        raise TransilError(f"{where}: expected numbers")
    made = given.astype(np.float64)
    if not (np.abs(made) < LARGEST).all():
        raise TransilError(f"{where}: NaN, infinite, or too large")
    return made


def _number(value: Any, where: str) -> float:
    """One of them."""
    made = _numbers(value, where)
    if made.ndim:
        raise TransilError(f"{where}: expected one number")
    return float(made)

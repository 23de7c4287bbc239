"""Priors: which class frequencies are assumed of the traffic. Always named with a result.

A rule is a function from what is known without labels (`Situation`) to the share of each class. Other
packages add theirs by decorator, or announce them as entry points in `transil.priors`.

| name         | share of a class                                                                     |
|--------------|--------------------------------------------------------------------------------------|
| `predicted`  | as the corrected scores predict it: nothing is shifted                               |
| `uniform`    | all alike; dangerous where that is false                                             |
| `remembered` | within its group as the ledger remembers it, the group's by its number of classes    |
| `cautious`   | within its group as the ledger remembers it, the group's as predicted                |

`cautious` is what `None` stands for. Models favour some of the new classes, too. So what is remembered
is drawn towards equal shares: all the way where classes come alike, little in a long tail. Where
nothing is remembered of a group, the shares within it are taken as they are predicted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from transil._common.arrays import Float64Array, to_numpy
from transil._common.registry import Registry, nearest
from transil.errors import TransilError
from transil.schedule import IntArray

CAUTIOUS = "cautious"
# Of recorded log shares so much variance is the model's, not the traffic's: chosen on references
# (results/adaptation/variants.md). Shares are recorded with six digits.
NOISE, LEAST = 0.05, 1e-6
MOST = 1e100  # of a share, before all are made to add up to 1


@dataclass(frozen=True, eq=False)
class Situation:
    """What a prior may look at; one entry for each class seen so far, (c,).

    `group`: from 0; `predicted`: the shares that the corrected scores predict; `remembered`: shares
    within each group when it was new, NaN for groups that nobody recorded; None without a ledger.
    """

    group: IntArray
    predicted: Float64Array
    remembered: Float64Array | None = None

    @property
    def sizes(self) -> IntArray:
        """How many classes each group has, (state,)."""
        return np.bincount(self.group)

    @property
    def of_groups(self) -> Float64Array:
        """The shares of groups that the corrected scores predict, (state,)."""
        return np.asarray(np.bincount(self.group, weights=self.predicted), dtype=np.float64)

    @property
    def within(self) -> Float64Array:
        """The share of each class within its group: remembered, else predicted."""
        now = self.predicted / self.of_groups[self.group]
        if self.remembered is None:
            return now
        return np.where(np.isnan(self.remembered), now, self.drawn(self.remembered))

    def drawn(self, shares: Float64Array, noise: float = NOISE) -> Float64Array:
        """Shares within groups, drawn towards alike ones as far as they differ without a reason.

        Logarithms from the mean of their group are taken times 1 - noise / their variance, or 0: the
        rule of James and Stein. Groups that are NaN stay so.
        """
        logs = np.log(np.maximum(shares, LEAST))
        away = logs - (np.bincount(self.group, weights=logs) / self.sizes)[self.group]
        known = self.group[~np.isnan(away)]
        variance = np.nansum(away**2) / max(len(known) - len(np.unique(known)), 1)
        powers = np.exp(away * (1.0 - noise / max(variance, noise)))
        return np.asarray(powers / np.bincount(self.group, weights=powers)[self.group])

    def telling(self, shares: Float64Array) -> Float64Array:
        """What shares tell of the bias: in groups where they repeat what is predicted, all alike."""
        ratio = shares / np.maximum(self.predicted, 1e-300)
        starts = np.cumsum(self.sizes) - self.sizes
        low, high = np.minimum.reduceat(ratio, starts), np.maximum.reduceat(ratio, starts)
        even = np.bincount(self.group, weights=shares) / self.sizes
        return np.where((high <= low * (1 + 1e-9))[self.group], even[self.group], shares)


@dataclass(frozen=True, eq=False)
class Prior:
    """Assumed shares of the classes (c,), the name of the rule, and the assumption in words."""

    name: str
    shares: Float64Array
    says: str


class Rule(Protocol):
    """A registered prior."""

    name: str
    says: str

    def __call__(self, situation: Situation) -> Float64Array: ...


PRIORS: Registry[Rule] = Registry("prior", "transil.priors")


def register_prior(name: str, says: str) -> Callable[[Any], Any]:
    """Make a function a prior of that name; `says`: what it assumes, in words."""

    def register(function: Any) -> Any:
        function.name, function.says = name, says
        return PRIORS.register(function)

    return register


@register_prior("predicted", "class frequencies are as the corrected scores predict them")
def predicted(situation: Situation) -> Float64Array:
    """Nothing is shifted."""
    return situation.predicted


@register_prior("uniform", "all classes come equally often")
def uniform(situation: Situation) -> Float64Array:
    """All classes alike."""
    return np.full(len(situation.group), 1.0 / len(situation.group))


@register_prior(
    "remembered",
    "classes come as often within their group as when it was new, groups by their number of classes",
)
def remembered(situation: Situation) -> Float64Array:
    """What is remembered within groups, and groups in proportion to their classes."""
    _needs_ledger(situation, "remembered")
    sizes = situation.sizes / situation.sizes.sum()
    return np.asarray(sizes[situation.group] * situation.within)


@register_prior(
    CAUTIOUS,
    "classes come as often within their group as when it was new, groups as the scores predict them",
)
def cautious(situation: Situation) -> Float64Array:
    """What is remembered within groups, and groups as they are predicted."""
    return np.asarray(situation.of_groups[situation.group] * situation.within)


def _needs_ledger(situation: Situation, name: str) -> None:
    if situation.remembered is None or np.isnan(situation.remembered).all():
        raise TransilError(
            f"prior '{name}': nothing is remembered; give a ledger (ledger=, --ledger) in which shares "
            "were recorded"
        )


def find_prior(given: Any, situation: Situation, names: Sequence[Any]) -> Prior:
    """The prior that `given` stands for.

    None, the name of a rule, shares of the classes (c,) or of the groups (state,), or shares by the
    `names` of the classes.
    """
    if given is None:
        given = CAUTIOUS
    if isinstance(given, str):
        rule = PRIORS.find(given)
        if given == CAUTIOUS and situation.remembered is None:
            rule = PRIORS.find("predicted")  # which is the same, and says so
        return Prior(rule.name, rule(situation), rule.says)
    if isinstance(given, Mapping):
        shares = _by_name(given, names)
    else:
        shares = _numbers(given)
        if len(shares) == len(situation.sizes) != len(names):
            shares = shares[situation.group] * situation.within
            return Prior("known groups", _checked(shares), "the shares of groups that you gave")
        if len(shares) != len(names):
            raise TransilError(
                f"prior: {len(shares)} shares, but {len(names)} classes were seen in "
                f"{len(situation.sizes)} groups; give one share for each class or each group"
            )
    return Prior("known", _checked(shares), "the class frequencies that you gave")


def with_newest(prior: Prior, situation: Situation, share: float) -> Prior:
    """A prior in which the newest group has a share that is known, and the others keep their ratios."""
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share < 1:
        raise TransilError(
            f"newest: the share of the newest group is between 0 and 1, not {share!r}"
        )
    newest = situation.group == situation.group.max()
    if newest.all():
        raise TransilError("newest: in state 1 there is one group, whose share is 1")
    shares = prior.shares / prior.shares.sum()
    part = float(shares[newest].sum())
    shares = np.where(newest, shares * share / part, shares * (1 - share) / (1 - part))
    return Prior(
        f"{prior.name}, newest {share:g}",
        shares,
        f"the newest group is {share:.0%} of the traffic; apart from that {prior.says}",
    )


def _by_name(given: Mapping[Any, Any], names: Sequence[Any]) -> Float64Array:
    place = {str(name): i for i, name in enumerate(names)}
    unknown = [name for name in given if str(name) not in place]
    if unknown:
        hint = nearest(str(unknown[0]), list(place)[:1000])
        raise TransilError(f"prior: no class '{unknown[0]}' among those seen so far; {hint}")
    shares = np.full(len(names), np.nan)
    for name, share in given.items():
        shares[place[str(name)]] = _numbers([share])[0]
    if np.isnan(shares).any():
        lacking = names[int(np.flatnonzero(np.isnan(shares))[0])]
        more = int(np.isnan(shares).sum()) - 1
        others = f" and {more} more" if more else ""
        raise TransilError(
            f"prior: class '{lacking}'{others} has no share; give one for every class"
        )
    return shares


def _numbers(given: Any) -> Float64Array:
    try:
        values = np.asarray(to_numpy(given, "prior"), dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise TransilError("prior: expected numbers, one share for each class") from None
    if values.ndim != 1:
        raise TransilError(
            f"prior: expected a list of shares, not an array of shape {values.shape}"
        )
    return values


def _checked(shares: Float64Array) -> Float64Array:
    good = (shares >= 0) & (shares <= MOST)
    if not good.all():
        place = int(np.flatnonzero(~good)[0])
        raise TransilError(
            f"prior: the share of class {place} is {shares[place]:g}; shares are 0 or more, and at most "
            f"{MOST:g}"
        )
    total = math.fsum(shares.tolist())
    if total <= 0:
        raise TransilError("prior: all shares are 0; at least one class must come")
    return shares / total

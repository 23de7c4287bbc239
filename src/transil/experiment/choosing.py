"""Which solver and which penalty transfer best? Asked of the references alone.

Each reference in turn is the target: pairs of the others that share no class with it are averaged
and applied to its scores. A target has no say, unless it is a reference, too. What is judged are
the held-out validation images, since the test images of a reference may be those of a target.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from transil.correction.bank import Bank
from transil.evaluation.hits import applied, average, hits_of
from transil.experiment.fits import Fits
from transil.experiment.results import Choice
from transil.scores.store import ScoreStore

if TYPE_CHECKING:
    from transil.experiment.plan import Plan

SPLIT = "val"


def study_choices(
    plan: Plan,
    fits: Fits,
    stores: Mapping[str, ScoreStore],
    to_fit: Mapping[str, ScoreStore],
    targets: Mapping[str, ScoreStore],
    method: str,
    states: int,
    seed: int,
) -> Iterator[Choice]:
    """All candidates of one method, S and seed. `to_fit`: the references' stores as they are fitted."""
    for correction, text in plan.experiment.candidate_ways:
        bank = fits.bank(to_fit, correction, text)
        seen = {}
        for target, store in targets.items():
            there = [r for r in plan.references_of(target) if r in to_fit]
            if there:
                seen[target] = transferred(store, bank.subset(there), "test")
        found = left_out(bank, stores, plan)
        raw = {name: transferred(stores[name], None, SPLIT) for name in found}
        yield Choice(method, states, seed, correction, text, found, raw, seen)


def left_out(bank: Bank, stores: Mapping[str, ScoreStore], plan: Plan) -> dict[str, float]:
    """The average accuracy on each reference with the pairs of the others; in states 2..S."""
    names = [reference.name for reference in bank.references]
    found = {}
    for held_out in names:
        others = [name for name in plan.references_of(held_out) if name in names]
        if others:
            found[held_out] = transferred(stores[held_out], bank.subset(others), SPLIT)
    return found


def transferred(store: ScoreStore, bank: Bank | None, split: str) -> float:
    """The average accuracy with a bank's pairs, or without any."""
    correct = None if bank is None else applied(bank)
    return average([hits_of(store, split, state, correct) for state in store.require(split)])


def choose(choices: Iterable[Choice], correction: str = "adbic") -> dict[str, str]:
    """For each method the candidate with the highest average over references, states and seeds.

    Candidates that were not tried everywhere do not count. Of equals, the one named first.
    """
    return {
        method: max(means, key=lambda name: means[name])
        for method, means in candidate_means(choices, correction).items()
    }


def candidate_means(
    choices: Iterable[Choice], correction: str = "adbic"
) -> dict[str, dict[str, float]]:
    """By method and candidate: the mean over all numbers of states and seeds, each the same."""
    found: dict[str, dict[str, dict[tuple[int, int], float]]] = {}
    for c in choices:
        if c.correction == correction and c.left_out:
            places = found.setdefault(c.method, {}).setdefault(c.candidate, {})
            places[c.states, c.seed] = float(np.mean(list(c.left_out.values())))
    means = {}
    for method, candidates in found.items():
        most = max(len(places) for places in candidates.values())
        means[method] = {
            name: float(np.mean(list(places.values())))
            for name, places in candidates.items()
            if len(places) == most
        }
    return means

"""Which images are predicted right, as the model is or corrected."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from transil.correction.bank import Bank
from transil.correction.layers import correct_groups
from transil.experiment.bootstrap import Hits
from transil.scores import ScoreStore

# pairs(state) gives (alpha, beta), each (state,): what is applied to the groups of a state.
PairsOf = Callable[[int], tuple[Any, Any]]


def hits_of(store: ScoreStore, split: str, state: int, pairs: PairsOf | None = None) -> Hits:
    """Which images (n,) of a state are predicted right; with `pairs` after correction."""
    data = store.get(split, state)
    scores = data.scores
    if pairs is not None:
        scores = correct_groups(scores, *pairs(state), store.schedule, state)
    right: Hits = scores.argmax(axis=1) == data.columns
    return right


def applied(bank: Bank) -> PairsOf:
    """What a bank applies to the groups of each state."""

    def pairs(state: int) -> tuple[Any, Any]:
        made = bank.applied(state)
        return made.alpha, made.beta

    return pairs


def average(hits: Sequence[Hits]) -> float:
    """Average incremental accuracy, states 2..S, of the hits of states 1..S."""
    return float(np.mean([h.mean() for h in hits[1:]]))

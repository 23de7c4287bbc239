"""Which images are predicted right, as the model is or corrected."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from transil._common.arrays import FloatArray
from transil.correction.bank import Bank
from transil.schedule import IntArray
from transil.scores.store import ScoreStore

Hits: TypeAlias = NDArray[np.bool_]

# correct(scores of a state (n, columns), state): the same, corrected.
Correct: TypeAlias = Callable[[FloatArray, int], FloatArray]


def hits_of(store: ScoreStore, split: str, state: int, correct: Correct | None = None) -> Hits:
    """Which images (n,) of a state are predicted right; with `correct` after correction."""
    data = store.get(split, state)
    scores = data.scores
    if correct is not None:
        scores = correct(scores, state)
    right: Hits = scores.argmax(axis=1) == data.columns
    return right


def applied(bank: Bank) -> Correct:
    """What a bank does to the scores of each state."""
    return lambda scores, state: bank.apply(bank.ready(scores, state).applied(state), scores, state)


def average(hits: Sequence[Hits]) -> float:
    """Average incremental accuracy, states 2..S, of the hits of states 1..S."""
    return float(np.mean([h.mean() for h in hits[1:]]))


def are_nested(labels: Sequence[IntArray]) -> bool:
    """Whether the images of each state, told by their labels, are the first ones of the next state's."""
    return all(np.array_equal(b[: len(a)], a) for a, b in pairwise(labels))

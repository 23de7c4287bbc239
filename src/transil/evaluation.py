"""Metrics of a score store, as it is or corrected by a bank."""

from __future__ import annotations

from transil.correction.bank import Bank
from transil.metrics import Metrics, state_metrics
from transil.scores import ScoreStore


def evaluate(
    store: ScoreStore,
    bank: Bank | None = None,
    *,
    split: str = "test",
    topk: tuple[int, ...] = (5,),
    same_method: bool = True,
) -> Metrics:
    """The metrics of all states of one split, raw or corrected by `bank`."""
    if bank is not None:
        bank.check_store(store, same_method=same_method)
    states = []
    for state in store.require(split):
        data = store.get(split, state)
        scores = data.scores if bank is None else bank.correct(data.scores, state)
        states.append(state_metrics(scores, data.columns, store.schedule, state, topk))
    return Metrics(states)

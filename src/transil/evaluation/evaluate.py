"""Metrics of a score store, as it is or corrected by a bank."""

from __future__ import annotations

import os
import warnings

from transil.correction.bank import Bank
from transil.correction.checks import HARDLY
from transil.correction.scales import FEWEST_ROWS, measured_scales, tell_once
from transil.correction.shipped import bank_for
from transil.errors import CorrectionWarning, TransilError
from transil.evaluation.metrics import Metrics, StateMetrics, state_metrics
from transil.scores.store import ScoreStore, as_store


def evaluate(
    store: ScoreStore | str | os.PathLike[str],
    bank: Bank | str | os.PathLike[str] | None = None,
    *,
    split: str = "test",
    topk: int | tuple[int, ...] = 5,
    same_method: bool = True,
    rescale: bool = False,
    strength: float | None = None,
) -> Metrics:
    """The metrics of all states of one split of a store (or its folder), raw or corrected.

    Of a store that is not finished the states that are there, with a warning. The bank may be given
    as a file or by the name of a shipped one; one for any schedule is made for the store's. `rescale`
    brings it to the scale of these scores, without their labels; `strength` is that of
    `Bank.at_strength`.
    """
    store = as_store(store)
    ranks = (topk,) if isinstance(topk, int) else tuple(topk)
    if min(ranks, default=1) < 1:
        raise TransilError(f"topk {topk}: it must be at least 1")
    if bank is not None:
        bank = bank_for(bank, store.schedule)
        bank = bank if strength is None else bank.at_strength(strength)
        bank.check_store(store, same_method=same_method)
        if rescale:
            bank = bank.at_scale(measured_scales(store, split))
    states, found = [], []
    for state in store.require(split, unfinished=True):
        data = store.get(split, state)
        scores = data.scores
        if bank is not None:
            found.append(bank.mismatch(scores, state))
            scores = bank.correct(scores, state, quiet=True)
        states.append(state_metrics(scores, data.columns, store.schedule, state, ranks))
    tell_once(found)
    if bank is not None:
        _tell_over_corrected(bank, states)
    return Metrics(states)


def _tell_over_corrected(bank: Bank, states: list[StateMetrics]) -> None:
    """One warning where the newest group is hardly predicted any more, as `check_bank` says it."""
    few = [
        s
        for s in states[1:]
        if s.images >= FEWEST_ROWS and s.prediction_share[-1] < HARDLY * s.image_share[-1]
    ]
    if few:
        last, others = few[-1], len(few) - 1
        warnings.warn(
            f"state {last.state}: newest group hardly predicted any more with the {bank.words()}, for "
            f"{last.prediction_share[-1]:.1%} of rows ({last.image_share[-1]:.1%} are of it): it "
            "over-corrects; try a smaller strength, another bank, or none"
            + (f" (and {others} other state{'s' * (others > 1)})" if others else ""),
            CorrectionWarning,
            stacklevel=3,
        )

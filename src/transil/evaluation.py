"""Metrics of a score store, as it is or corrected by a bank."""

from __future__ import annotations

import os
import warnings

import numpy as np

from transil.correction.bank import Bank, measured_scales
from transil.correction.shipped import load_bank
from transil.errors import ScoreScaleWarning, TransilError
from transil.metrics import Metrics, state_metrics
from transil.scores import ScoreStore, as_store

# Scores that are this much larger or smaller than any reference's are told.
ALIKE = 1.125


def evaluate(
    store: ScoreStore | str | os.PathLike[str],
    bank: Bank | str | os.PathLike[str] | None = None,
    *,
    split: str = "test",
    topk: int | tuple[int, ...] = 5,
    same_method: bool = True,
    rescale: bool = False,
) -> Metrics:
    """The metrics of all states of one split of a store (or its folder), raw or corrected.

    Of a store that is not finished the states that are there, with a warning. The bank may be given
    as a file or by the name of a shipped one. `rescale` brings it to the
    scale of these scores, without their labels.
    """
    store = as_store(store)
    ranks = (topk,) if isinstance(topk, int) else tuple(topk)
    if min(ranks, default=1) < 1:
        raise TransilError(f"topk {topk}: it must be at least 1")
    if isinstance(bank, str | os.PathLike):
        bank = load_bank(bank)
    if bank is not None:
        bank.check_store(store, same_method=same_method)
        if rescale:
            bank = bank.at_scale(measured_scales(store, split))
    states = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ScoreScaleWarning)
        for state in store.require(split, unfinished=True):
            data = store.get(split, state)
            scores = data.scores
            if bank is not None:
                scores = bank.correct(scores, state)
            states.append(state_metrics(scores, data.columns, store.schedule, state, ranks))
    told = _tell_once(caught)
    if bank is not None and not rescale and not told:
        _tell_scale(store, bank, split)
    return Metrics(states)


def _tell_scale(store: ScoreStore, bank: Bank, split: str) -> None:
    """A hint where scores spread farther, or less, than those of all the bank's references.

    References that are trained alike mostly differ by some per cent (FT+ and SIW in twenty states
    by up to a quarter); with LUCIR a fifth more, by another weight decay, cost four points of
    accuracy (docs/banks.md).
    """
    try:
        scales = measured_scales(store, split)
    except TransilError:  # too few rows, or masked scores
        return
    off = []
    for state, scale in scales.items():
        known = [r.scale[state] for r in bank.references if state in r.scale]
        if known:
            off.append(scale / min(max(scale, min(known)), max(known)))
    typical = float(np.median(off)) if off else 1.0
    if max(typical, 1.0 / typical) > ALIKE:
        warnings.warn(
            f"{store.name}: the scores spread {typical:.2f} times as much as those of the nearest of "
            "the bank's references; if the model was trained in another way, rescale=True (--rescale) "
            "may serve it better",
            ScoreScaleWarning,
            stacklevel=3,
        )


def _tell_once(caught: list[warnings.WarningMessage]) -> bool:
    """Give warnings on; of another scale only the last one, not one for each state. Was there one?"""
    scales = [w for w in caught if issubclass(w.category, ScoreScaleWarning)]
    for w in caught:
        if w not in scales:
            warnings.warn_explicit(w.message, w.category, w.filename, w.lineno)
    if scales:
        more = f" (and {len(scales) - 1} other states)" if len(scales) > 1 else ""
        warnings.warn(f"{scales[-1].message}{more}", ScoreScaleWarning, stacklevel=3)
    return bool(scales)

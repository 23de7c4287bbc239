"""How a bank goes with scores: their size against the references', and what rescaling would do."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from transil._common.arrays import FloatArray
from transil.correction.facts import Facts
from transil.correction.parameters import Pairs
from transil.correction.scales import (
    ALIKE,
    Comparison,
    Distance,
    Mismatch,
    Newest,
    measured_rows,
    score_scale,
    some_rows,
)
from transil.errors import TransilError

if TYPE_CHECKING:
    from transil.correction.bank import Bank


def compared(bank: Bank, scores: Any, state: int) -> Comparison | None:
    """What `Bank.mismatch` tells."""
    if state in bank.facts:
        return _distance(bank, bank.facts[state])
    rows = some_rows(scores) if state > 1 else None
    if rows is not None and bank.correction.measured:
        return _distance(bank, Facts.of(rows, bank.schedule, state))
    if rows is None or not (scales := bank.scales(state)):
        return None
    with np.errstate(invalid="ignore"):  # scores that are not finite are not judged here
        ratio = score_scale(rows) / median(scales)
    if not (math.isfinite(ratio) and ratio > 0):
        return None
    found = Mismatch(state, ratio, _usual(scales), bank=bank.words())
    if not found.off:
        return found
    pairs = bank.applied(state)
    # As `like` does, but for what references differ in scale among themselves.
    rescaled = Pairs(pairs.alpha, ratio * pairs.beta)
    newest, changed = _rescaling(bank, rows, state, rescaled)
    rescales = bank.correction.rescales
    return replace(
        found,
        changed=changed,
        newest=newest,
        rescales=rescales and all(reference.scale.get(state) for reference in bank.used(state)),
    )


def brought_to(bank: Bank, scores: Any, state: int) -> tuple[Bank, Comparison | None]:
    """The bank at the scale of these scores (..., columns), and how that compares with its own."""
    if state == 1:
        return bank, None
    rows, known = measured_rows(scores), bank.scales(state)
    if bank.correction.measured:
        facts = Facts.of(rows, bank.schedule, state)
        return replace(bank, facts={**bank.facts, state: facts}), _distance(bank, facts)
    scale = score_scale(rows)
    ratio = scale / median(known) if known else 1.0
    earlier = {s: bank.scale(s) for s in range(2, state)}  # `bic-all` applies their pairs
    scales = {s: x * ratio for s, x in earlier.items() if x}
    brought = bank.at_scale({**scales, state: scale})
    rescales = bank.correction.rescales
    found = Mismatch(
        state, ratio, _usual(known), bank=bank.words(), rescales=rescales, rescaled=True
    )
    if found.unlike:  # only then it is told
        found = replace(found, newest=newest_of(bank, rows, state, brought))
    return brought, found


def at_scale(bank: Bank, scales: Mapping[int, float]) -> Bank:
    """What `Bank.at_scale` gives."""
    if not isinstance(scales, Mapping):
        raise TransilError(f"scales are given by state, as {{7: 6.2}}, not as {scales!r}")
    if bank.correction.measured:  # it looks at the scores anyway
        return bank
    lack = set(range(2, max(scales, default=0))) - set(scales)
    if lack and bank.correction.lasting:
        raise TransilError(
            f"'{bank.correction.name}' applies the pairs of all states so far: give the scale of "
            f"state {min(lack)}, too, or use Bank.like"
        )
    for state, scale in scales.items():
        bank.schedule.check_state(state)
        if not (math.isfinite(scale) and scale > 0):
            raise TransilError(f"state {state}: a scale is above 0, not {scale}")
    wanted = {state: float(scale) for state, scale in scales.items() if state > 1}
    references = []
    for one in bank.used():
        pairs = dict(one.pairs)
        for state, scale in wanted.items():
            if not one.scale.get(state):
                raise TransilError(
                    f"bank, reference '{one.name}': the scale of its scores in state "
                    f"{state} is not known, so it cannot be brought to another one"
                )
            # Of scores that are larger, beta grows and alpha does not.
            moves = bank.correction.designed(Facts(bank.schedule, state)).moves_beta
            ratio = np.where(moves, scale / one.scale[state], 1.0)
            pairs[state] = pairs[state].replaced(ratio * pairs[state].vector)
        references.append(replace(one, pairs=pairs, scale={**one.scale, **wanted}))
    provenance = {**bank.provenance, "rescaled": True}
    return replace(bank, references=tuple(references), provenance=provenance)


def newest_of(bank: Bank, scores: Any, state: int, rescaled: Bank | None = None) -> Newest | None:
    """What `Bank.newest` tells; `rescaled` is the bank at the scale of the scores, where it is known."""
    if state == 1 or bank.correction.measured or some_rows(scores) is None:
        return None
    rows = measured_rows(scores)
    rescaled = rescaled or brought_to(bank, rows, state)[0]
    return _rescaling(bank, rows, state, rescaled.applied(state))[0]


def _rescaling(bank: Bank, rows: FloatArray, state: int, rescaled: Pairs) -> tuple[Newest, float]:
    """What other pairs would do: to the newest group, and to how many predictions."""
    first = bank.schedule.group_columns(state).start
    made = [bank.apply(pairs, rows, state) for pairs in (bank.applied(state), rescaled)]
    raw, one, other = (np.asarray(x).argmax(axis=1) for x in (rows, *made))
    shares = (float((found >= first).mean()) for found in (raw, one, other))
    return Newest(*shares), float((one != other).mean())


def _distance(bank: Bank, facts: Facts) -> Distance:
    return Distance(facts.state, bank.correction.unlike(facts), bank.words(), facts.kept)


def _usual(scales: Sequence[float]) -> float:
    """By which factor the scores of models trained alike may differ, by the references' scales."""
    return max(ALIKE, max(scales) / min(scales)) if scales else ALIKE

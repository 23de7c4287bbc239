"""What a bank gains, and what one gains over another, with intervals that know of test images."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from transil._common.arrays import Float64Array
from transil.correction.bank import Bank
from transil.correction.scales import measured_scales, tell_once
from transil.correction.shipped import bank_for
from transil.errors import TransilError
from transil.evaluation.hits import Correct, Hits, applied, are_nested, hits_of
from transil.schedule import Schedule
from transil.scores.store import ScoreStore, as_store

AnyBank: TypeAlias = Bank | str | os.PathLike[str]

# 95 % of a normal distribution lie within so many deviations.
WIDTH = 1.959964


@dataclass(frozen=True)
class Gain:
    """Of the average incremental accuracy (states 2..S): shares, with a 95 % interval.

    The interval is None where states are tested on other images than those before: then nothing
    says how their accuracies go together.
    """

    of: str
    over: str
    gain: float
    low: float | None
    high: float | None


def gains(
    store: ScoreStore | str | os.PathLike[str],
    banks: Mapping[str, AnyBank] | AnyBank | Iterable[AnyBank],
    *,
    split: str = "test",
    same_method: bool = True,
    rescale: bool = False,
    strength: float | None = None,
) -> list[Gain]:
    """What each bank gains over the raw scores, and each later one over the first.

    `banks`: one, several, or several by a name of yours; each may be a file, or the name of a
    shipped one. The differences are paired: on the same images. `rescale` brings them all to the
    scale of these scores, without their labels; `strength` is that of `Bank.at_strength` for all.
    """
    store = as_store(store)
    named = _named(banks, store.schedule)
    if "raw" in named:
        raise TransilError("a bank cannot be called 'raw' here: so are the scores without one")
    for bank in named.values():
        bank.check_store(store, same_method=same_method)
    states = store.require(split, unfinished=True)[1:]
    _check_groups(store, split, states)
    if not states:
        raise TransilError(f"{store.name}: there is no state after the first, so nothing is gained")
    if strength is not None:
        named = {name: bank.at_strength(strength) for name, bank in named.items()}
    for name, bank in named.items():
        if rescale:
            named[name] = bank.at_scale(measured_scales(store, split))
        else:
            tell_once(bank.mismatch(store.get(split, s).scores, s) for s in states)
    ways: dict[str, Correct | None] = {"raw": None}
    ways |= {name: applied(bank) for name, bank in named.items()}
    hits = {name: [hits_of(store, split, s, way) for s in states] for name, way in ways.items()}
    nested = are_nested([store.get(split, state).labels for state in states])
    first = next(iter(named), "raw")
    pairs = [(name, "raw") for name in named] + [(name, first) for name in list(named)[1:]]
    return [Gain(of, over, *paired(hits[over], hits[of], nested)) for of, over in pairs]


def _check_groups(store: ScoreStore, split: str, states: Sequence[int]) -> None:
    """An average needs images of all groups seen so far; those of an earlier state must be there."""
    seen: set[int] = set()
    for state in (1, *states):
        there = set(store.schedule.group_of_column(state)[store.get(split, state).columns].tolist())
        if seen - there:
            raise TransilError(
                f"{store.name}: split '{split}' has no images of group {min(seen - there)} in state "
                f"{state}, so there is no average to gain; take a split with images of all classes"
            )
        seen |= there


def _named(
    banks: Mapping[str, AnyBank] | AnyBank | Iterable[AnyBank], schedule: Schedule
) -> dict[str, Bank]:
    """Banks by name: the one given, that of the file, or 'bank 2' for one that has none."""
    if isinstance(banks, Bank):
        return {"bank": banks}
    if isinstance(banks, Mapping):
        entries = {str(name): bank for name, bank in banks.items()}
    else:
        several: list[AnyBank] = [banks] if isinstance(banks, str | os.PathLike) else list(banks)
        entries = {
            f"bank {k}" if isinstance(bank, Bank) else os.fspath(bank): bank
            for k, bank in enumerate(several, start=1)
        }
    return {name: bank_for(bank, schedule) for name, bank in entries.items()}


def paired(
    before: Sequence[Hits], after: Sequence[Hits], nested: bool = True
) -> tuple[float, float | None, float | None]:
    """The gain of the mean of accuracies, with its interval; hits (n_s,) of states on nested images."""
    if not nested:
        means = [float(a.mean() - b.mean()) for b, a in zip(before, after, strict=True)]
        return float(np.mean(means)), None, None
    return weighted_gain(before, after, [np.full(len(hits), 1.0 / len(hits)) for hits in before])


def weighted_gain(
    before: Sequence[Hits], after: Sequence[Hits], weights: Sequence[Float64Array]
) -> tuple[float, float, float]:
    """As `paired`, of images that count with weights (n_s,) which sum to 1 in each state.

    An image counts in every state from that in which its class is learned. What it adds to the gain,
    in all of them together, is one draw; the interval is that of the mean of such draws. (A
    bootstrap over images, as `transil run` has it, gives the same but for its own noise.)
    """
    means = []
    adds = np.zeros(max(map(len, weights)))
    for b, a, weight in zip(before, after, weights, strict=True):
        change = a.astype(np.float64) - b
        means.append(float(weight @ change))
        adds[: len(weight)] += weight * (change - means[-1])
    gain = float(np.mean(means))
    half = WIDTH * float(np.sqrt(np.square(adds).sum())) / len(means)
    return gain, gain - half, gain + half

"""What a bank gains, and what one gains over another, with intervals that know of test images."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from transil.correction.bank import Bank
from transil.correction.shipped import load_bank
from transil.errors import TransilError
from transil.hits import Correct, Hits, applied, are_nested, hits_of
from transil.scores import ScoreStore, as_store

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
    banks: Mapping[str, Bank] | Bank | str | Iterable[str],
    *,
    split: str = "test",
    same_method: bool = True,
) -> list[Gain]:
    """What each bank gains over the raw scores, and each later one over the first.

    `banks`: one, or several by name; also files and names of shipped ones. The differences are
    paired: on the same images.
    """
    store = as_store(store)
    if isinstance(banks, Bank):
        banks = {"bank": banks}
    elif not isinstance(banks, Mapping):
        several = [banks] if isinstance(banks, str | os.PathLike) else list(banks)
        banks = {str(name): load_bank(name) for name in several}
    if "raw" in banks:
        raise TransilError("a bank cannot be called 'raw' here: so are the scores without one")
    for bank in banks.values():
        bank.check_store(store, same_method=same_method)
    states = store.require(split, unfinished=True)[1:]
    if not states:
        raise TransilError(f"{store.name}: there is no state after the first, so nothing is gained")
    ways: dict[str, Correct | None] = {"raw": None}
    ways |= {name: applied(bank) for name, bank in banks.items()}
    hits = {name: [hits_of(store, split, s, way) for s in states] for name, way in ways.items()}
    nested = are_nested([store.get(split, state).labels for state in states])
    first = next(iter(banks), "raw")
    pairs = [(name, "raw") for name in banks] + [(name, first) for name in list(banks)[1:]]
    return [Gain(of, over, *paired(hits[over], hits[of], nested)) for of, over in pairs]


def paired(
    before: Sequence[Hits], after: Sequence[Hits], nested: bool = True
) -> tuple[float, float | None, float | None]:
    """The gain of the mean of accuracies, with its interval; hits (n_s,) of states on nested images.

    An image counts in every state from that in which its class is learned. What it adds to the gain,
    in all of them together, is one draw; the interval is that of the mean of such draws. (A
    bootstrap over images, as `transil run` has it, gives the same but for its own noise.)
    """
    means = [float(a.mean() - b.mean()) for b, a in zip(before, after, strict=True)]
    gain = float(np.mean(means))
    if not nested:
        return gain, None, None
    adds = np.zeros(max(len(hits) for hits in before))
    for b, a, mean in zip(before, after, means, strict=True):
        adds[: len(b)] += (a.astype(np.float64) - b - mean) / len(b)
    half = WIDTH * float(np.sqrt(np.square(adds).sum())) / len(means)
    return gain, gain - half, gain + half

"""A trial: how well priors do on simulated traffic, from the scores of all states of a model.

State by state the unlabelled half of the traffic is recorded in a ledger, a corrector is fitted on it
for each prior, and the other half is judged.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from transil._common.arrays import Float64Array, FloatArray
from transil._common.registry import nearest
from transil.adaptation.corrector import LEAST_ROWS, Corrector
from transil.adaptation.ledger import Ledger
from transil.adaptation.priors import PRIORS
from transil.adaptation.traffic import Cut, Traffic
from transil.correction.bank import Bank
from transil.correction.shipped import bank_for, load_bank
from transil.errors import AdaptationWarning, ScheduleWarning, ScoreScaleWarning, TransilError
from transil.evaluation.gains import weighted_gain
from transil.evaluation.hits import Correct, Hits, are_nested
from transil.scores.store import ScoreStore, as_store

RAW, BANK = "raw", "bank"
DEFAULTS = (
    "none", "none+ledger", "uniform", "remembered", "known",
    "none+newest", "none+ledger+newest", "remembered+newest",
)  # fmt: skip


@dataclass(frozen=True)
class Assumed:
    """What a corrector is told: a prior by its name, None or 'known', a ledger, the newest's share."""

    prior: str | None
    ledger: bool = False
    newest: bool = False

    @classmethod
    def of(cls, name: str) -> Assumed:
        """From 'none', 'uniform', 'known', any registered prior, with '+ledger' and '+newest'."""
        prior, *more = name.split("+")
        named = [*PRIORS.names(), "none", "known"]
        if prior not in named:
            raise TransilError(f"prior '{prior}' is unknown; {nearest(prior, named)}")
        for word in more:
            if word not in ("ledger", "newest"):
                raise TransilError(f"prior '{name}': '+{word}' is unknown; +ledger or +newest")
        ledger = prior == "remembered" or "ledger" in more
        return cls(None if prior == "none" else prior, ledger, "newest" in more)


@dataclass(frozen=True)
class Column:
    """One way to correct, judged: shares, with 95 % intervals over judged images.

    `accuracy` of states 2..S and their mean, `average`; `over_raw` and `over_bank`: gain, low, high,
    on the same images. `abstained`: the states in which nothing was done.
    """

    accuracy: tuple[float, ...]
    average: float
    low: float
    high: float
    over_raw: tuple[float, float, float]
    over_bank: tuple[float, float, float]
    abstained: tuple[int, ...] = ()


@dataclass(frozen=True)
class Trial:
    """What a trial found: a column for 'raw', 'bank', each prior, and each way that was given beside.

    `adapted`: how many images there were to adapt to, in states 2..S; `short`: the states (from 1) in
    which they were too few, so that nothing was recorded or corrected by bank and priors.
    """

    traffic: Traffic
    columns: Mapping[str, Column]
    adapted: tuple[int, ...]
    short: tuple[int, ...]


def trial(
    store: ScoreStore | str | os.PathLike[str],
    traffic: Traffic,
    priors: Sequence[str] = DEFAULTS,
    *,
    bank: Bank | str | os.PathLike[str] | None = None,
    method: str | None = None,
    split: str = "test",
    others: Mapping[str, Correct] | None = None,
) -> Trial:
    """Adapt to one half of the images of every state under each prior, and judge the other half.

    `priors`: names as `Assumed.of` reads them. `bank`: one of your own, 'none', or by default the
    shipped one of the `method`, which is the store's where it is not given. `others`: ways to correct
    that are judged beside them.
    """
    store = as_store(store)
    method = store.method if method is None else method
    told = {name: Assumed.of(name) for name in priors}
    others = others or {}
    if taken := {RAW, BANK, *told} & set(others):
        raise TransilError(f"trial: '{min(taken)}' is the name of a column of its own")
    states = store.require(split)
    if len(states) < 2:
        raise TransilError(f"{store.name}: there is no state after the first to correct")
    if not are_nested([store.get(split, state).labels for state in states]):
        raise TransilError(f"{store.name}: the {split} images of states are not nested")
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        for kind in (AdaptationWarning, ScoreScaleWarning, ScheduleWarning):
            warnings.simplefilter("ignore", kind)
        walk = _Walk(store, split, traffic, told, others, _found(bank, method, store))
        walk.all_states(states, Ledger(Path(folder) / "ledger.json", store.schedule))
        return walk.judged()


def _found(
    bank: Bank | str | os.PathLike[str] | None, method: str | None, store: ScoreStore
) -> Any:
    """What correctors are given as a bank; a file is read once."""
    if isinstance(bank, str) and bank == "none":
        return bank
    return load_bank(method, schedule=store.schedule) if bank is None else bank_for(
        bank, store.schedule
    )  # fmt: skip


class _Walk:
    """From state to state, with the hits of each column."""

    def __init__(
        self,
        store: ScoreStore,
        split: str,
        traffic: Traffic,
        told: Mapping[str, Assumed],
        others: Mapping[str, Correct],
        bank: Any,
    ) -> None:
        self.store, self.split, self.traffic = store, split, traffic
        self.told, self.others, self.bank = told, others, bank
        self.hits: dict[str, list[Hits]] = {name: [] for name in (RAW, BANK, *told, *others)}
        self.abstained: dict[str, list[int]] = {name: [] for name in told}
        self.weights: list[Float64Array] = []
        self.adapted: list[int] = []
        self.short: list[int] = []

    def all_states(self, states: Iterable[int], ledger: Ledger) -> None:
        """Record, adapt and judge."""
        for state in states:
            data = self.store.get(self.split, state)
            cut = self.traffic.cut(data.columns, self.store.schedule, state)
            enough = len(cut.adapt) >= LEAST_ROWS
            if not enough:
                self.short.append(state)
            elif any(one.ledger for one in self.told.values()):
                ledger.record(state, data.scores[cut.adapt], bank=self.bank)
            if state == 1:
                continue
            if not len(cut.judged):
                raise TransilError(f"{self.store.name}: no image of state {state} is left to judge")
            self.weights.append(cut.weight)
            self.adapted.append(len(cut.adapt))
            self._state(data.scores, data.columns, cut, state, ledger if enough else None)

    def _state(
        self,
        scores: FloatArray,
        columns: Any,
        cut: Cut,
        state: int,
        ledger: Ledger | None,
    ) -> None:
        """All columns of one state; without a ledger there is too little to adapt to."""
        rows, adapt = cut.judged, scores[cut.adapt]
        given = scores[rows]

        def judge(name: str, corrected: FloatArray) -> None:
            hits = np.zeros(len(scores), dtype=bool)
            hits[rows] = corrected.argmax(axis=1) == columns[rows]
            self.hits[name].append(hits)

        judge(RAW, given)
        for name, correct in self.others.items():
            judge(name, correct(given, state))
        for name, assumed in {BANK: Assumed("predicted"), **self.told}.items():
            if ledger is None:
                judge(name, given)
                continue
            corrector = self._corrector(assumed, cut, state, ledger).fit(adapt, state=state)
            judge(name, corrector.transform(given))
            if name != BANK and corrector.abstained_ is not None:
                self.abstained[name].append(state)

    def _corrector(self, assumed: Assumed, cut: Cut, state: int, ledger: Ledger) -> Corrector:
        newest = self.store.schedule.group_columns(state)
        remembers = assumed.ledger and bool(ledger.states)
        prior: Any = assumed.prior
        if prior == "known":
            prior = cut.shares
        elif prior == "remembered" and not remembers:
            prior = None
        return Corrector(
            self.store.schedule,
            bank=self.bank,
            prior=prior,
            newest=float(cut.shares[newest].sum()) if assumed.newest else None,
            ledger=ledger if remembers else None,
        )

    def judged(self) -> Trial:
        """The columns."""
        columns = {name: self._column(name) for name in self.hits}
        return Trial(self.traffic, columns, tuple(self.adapted), tuple(self.short))

    def _column(self, name: str) -> Column:
        hits, nothing = self.hits[name], [np.zeros(len(w), dtype=bool) for w in self.weights]
        average, low, high = weighted_gain(nothing, hits, self.weights)
        return Column(
            tuple(float(w @ h) for w, h in zip(self.weights, hits, strict=True)),
            average, max(low, 0.0), min(high, 1.0),
            weighted_gain(self.hits[RAW], hits, self.weights),
            weighted_gain(self.hits[BANK], hits, self.weights),
            tuple(self.abstained.get(name, ())),
        )  # fmt: skip

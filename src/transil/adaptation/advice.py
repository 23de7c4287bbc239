"""What unlabelled scores say, which correction they call for, and what that would change.

`advise` looks at the scores of a deployed model and prints nothing: `Advice` holds what the command of
the same name and its page put into words.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from transil._common.arrays import FloatArray, check_raw
from transil.adaptation.assumptions import Assumption, assumptions_of
from transil.adaptation.corrector import LEAST_ROWS, NO_BANK, Corrector
from transil.adaptation.ledger import Ledger
from transil.adaptation.left import LEAST_LEFT
from transil.adaptation.newest import Counted, NewestShare
from transil.adaptation.newest_rows import NewestRows, newest_rows
from transil.adaptation.priors import Prior
from transil.adaptation.risk import Risk
from transil.adaptation.table import read_table
from transil.adaptation.view import Given, View, levels
from transil.correction.bank import Bank
from transil.correction.columns import OrderLike, read_order, state_of
from transil.correction.open_bank import GENERIC
from transil.correction.scales import Distance
from transil.correction.shipped import ANY, load_bank
from transil.errors import AdaptationWarning, TransilError
from transil.schedule import Schedule, ScheduleLike

# Rows, from all over, that shares and assumptions are worked out on: more move a share by half a point.
LOOKED = 8192
# Fewer rows for each class leave the shifts of classes rough.
ROUGH = 2


@dataclass(frozen=True)
class GroupShares:
    """A group of classes: its share of the classes, of the predictions, and of what is assumed.

    `raw` and `corrected`: quantiles of its highest score over the rows, see `QUANTILES`, around the
    mean of each row's highest scores of groups.
    """

    group: int
    classes: int
    fair: float
    before: float
    after: float
    assumed: float
    raw: tuple[float, ...]
    corrected: tuple[float, ...]


@dataclass(frozen=True)
class BankTried:
    """A bank that was looked at: its name, and how far scores lie from its references (1 is usual)."""

    name: str
    distance: float | None
    far: bool
    expected: str | None = None


@dataclass(frozen=True, eq=False)
class Advice:
    """What scores say, and what to do.

    `groups` are the shares of each; `banks` those that were looked at, and `bank` the name of the one
    that is used, None where none is. `left`: what is left of old classes, from 0 to 1; `moved`: the
    share of predictions that the correction changes. `newest`: the share of the newest group that is
    counted on, and `newest_from` where it comes from ('given' or 'estimated'); `estimate`: what labels
    of the newest group say of it, `recall` which share of those rows is right before and after.
    `risk`: what the correction would gain or lose for each share of the newest group, None where it
    does nothing. `abstained`: why nothing is done, or None; `cautions`: what else to know.
    `corrector` does what is advised.
    """

    schedule: Schedule
    state: int
    rows: int
    looked: int
    corrector: Corrector
    groups: tuple[GroupShares, ...]
    banks: tuple[BankTried, ...]
    bank: str | None
    method: str | None
    left: float | None
    moved: float
    prior: Prior
    assumptions: tuple[Assumption, ...]
    newest: float | None = None
    newest_from: str | None = None
    estimate: NewestShare | None = None
    recall: tuple[float, float] | None = None
    labelled: int = 0
    risk: Risk | None = None
    abstained: str | None = None
    cautions: tuple[str, ...] = ()

    @property
    def nothing_left(self) -> bool:
        """Whether no correction can bring old classes back."""
        return self.left is not None and self.left < LEAST_LEFT

    @property
    def shifted(self) -> bool:
        """Whether the correction is more than the bank, so that a file is needed to repeat it."""
        return bool(np.any(self.corrector.shifts_))


def advise(
    scores: Any,
    schedule: ScheduleLike,
    *,
    state: int | None = None,
    method: str | None = None,
    prior: Any = None,
    newest: float | None = None,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    newest_labels: Any = None,
    before: Any = None,
    order: OrderLike | None = None,
) -> Advice:
    """Look at unlabelled scores (n, columns) of a deployed model and say what to do with them.

    The words are those of `Corrector`. `newest_labels` (n,): the class of those rows that are known to
    be of the newest group, -1 elsewhere; they tell how well that is recognised, and are not part of the
    traffic. `before` (m, columns): scores, by the same model, of traffic from before the newest classes
    existed; with it the share of the newest group is estimated, and counted on unless `newest` is
    given.
    """
    given = _read(scores, schedule, state, order)
    marked = newest_rows(given.table, newest_labels, before, given.schedule, given.state, order)
    traffic = _traffic(given, marked)
    learned = _sample(given.learned(traffic))
    told: list[str] = []
    banks, bank = _choose(method, given.schedule, learned, given.state, told)
    base = _fit(given, _sample(traffic), bank, prior="predicted", order=order)
    estimate = None if marked is None else marked.estimate(traffic, base.columns_)
    counted = Counted.of(newest, estimate)
    words: dict[str, Any] = {"prior": prior, "newest": counted.share, "ledger": ledger}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = _fit(given, traffic, bank, method=method, order=order, **words)
    said = [str(one.message) for one in caught if issubclass(one.category, AdaptationWarning)]
    told += [text for text in said if text != made.abstained_]
    assert made.prior_ is not None
    view = View(given, learned, base, made)
    with np.errstate(over="ignore"):  # a step that goes too far is taken back
        assumptions, risk = assumptions_of(view, counted)
    moved = float(np.mean(view.raw != view.corrected))
    return Advice(
        schedule=given.schedule,
        state=given.state,
        rows=len(traffic),
        looked=len(learned),
        corrector=made,
        groups=_groups(view),
        banks=tuple(banks),
        bank=None if bank is None else bank[0],
        method=method,
        left=base.left_,
        moved=moved,
        prior=made.prior_,
        assumptions=assumptions,
        newest=counted.share,
        newest_from=counted.source,
        estimate=estimate,
        recall=None if marked is None else marked.recall(made.columns_),
        labelled=0 if marked is None else len(marked.scores),
        risk=risk,
        abstained=_abstained(made, bank is None, moved),
        cautions=_cautions(given, len(traffic), made, counted, told),
    )


def _read(scores: Any, schedule: ScheduleLike, state: int | None, order: Any) -> Given:
    schedule = Schedule.of(schedule)
    table = read_table(scores).scores
    state = state_of(table, schedule) if state is None else schedule.check_state(state)
    schedule.check_columns(table.shape[1], state)
    if state == 1:
        raise TransilError(
            "state 1: there are no older classes yet, so there is no bias to correct and nothing to "
            "advise; record its shares in a ledger (transil ledger record)"
        )
    check_raw(table, "scores", "advice is for raw scores", centred=True)
    places = None if order is None else read_order(order, table.shape[1])
    return Given(table, schedule, state, places)


def _traffic(given: Given, marked: NewestRows | None) -> FloatArray:
    """The rows without a label."""
    rows = given.table if marked is None else given.table[marked.unlabelled]
    if len(rows) < LEAST_ROWS:
        raise TransilError(
            f"scores: {len(rows)} unlabelled rows tell too little; give at least {LEAST_ROWS}"
        )
    return rows


def _choose(
    method: str | None, schedule: Schedule, learned: FloatArray, state: int, told: list[str]
) -> tuple[list[BankTried], tuple[str, Bank] | None]:
    """The bank of the method, else the generic one; none where the scores lie far from both."""
    tried: list[BankTried] = []
    for name in dict.fromkeys((method or GENERIC, GENERIC)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            bank = load_bank(f"{name}{ANY}", schedule=schedule)
            found = bank.mismatch(learned, state)
        distance = found.ratio if isinstance(found, Distance) else None
        far = found is not None and found.matters
        expected = bank.provenance.get("expected")
        tried.append(
            BankTried(name, distance, far, expected if isinstance(expected, str) else None)
        )
        if not far:
            told += [str(one.message) for one in caught]
            return tried, (name, bank)
    return tried, None


def _fit(given: Given, rows: FloatArray, bank: tuple[str, Bank] | None, **words: Any) -> Corrector:
    chosen = NO_BANK if bank is None else bank[1]
    return Corrector(given.schedule, bank=chosen, **words).fit(rows, state=given.state)


def _sample(rows: FloatArray) -> FloatArray:
    return rows[:: -(-len(rows) // LOOKED) or 1]


def _groups(view: View) -> tuple[GroupShares, ...]:
    prior = view.made.prior_
    assert prior is not None
    group, sizes = view.given.group, view.situation.sizes
    before, after = view.shares(view.raw), view.shares(view.corrected)
    assumed = np.bincount(group, weights=prior.shares / prior.shares.sum())
    raw = levels(view.learned, sizes)
    corrected = levels(view.advised.correct(view.learned), sizes)
    return tuple(
        GroupShares(
            k + 1, int(size), float(size / sizes.sum()), float(before[k]), float(after[k]),
            float(assumed[k]), tuple(raw[k].tolist()), tuple(corrected[k].tolist()),
        )
        for k, size in enumerate(sizes)
    )  # fmt: skip


def _abstained(made: Corrector, no_bank: bool, moved: float) -> str | None:
    if made.abstained_ is not None:
        return made.abstained_
    if no_bank and moved == 0:
        return (
            f"state {made.state_}: these scores lie too far from those that any bank was fitted on, and "
            "nothing is known of class frequencies, so scores are left as they are; name the share of "
            "the newest group, or fit a bank on references (transil fit)"
        )
    return None


def _cautions(
    given: Given,
    rows: int,
    made: Corrector,
    counted: Counted,
    told: list[str],
) -> tuple[str, ...]:
    said = list(dict.fromkeys(told))
    columns = given.table.shape[1]
    shifts = bool(np.any(made.shifts_))
    if rows < ROUGH * columns and shifts:
        said.append(
            f"{rows} rows for {columns} classes leave the shifts of classes rough; {ROUGH * columns} "
            "or more would be better"
        )
    share, estimate = counted.share, counted.estimate
    if share is not None and estimate is not None and not estimate.low <= share <= estimate.high:
        said.append(
            f"the newest group was said to be {share:.0%} of the traffic, but its labels speak for "
            f"{estimate.low:.0%} to {estimate.high:.0%}"
        )
    if made.left_ is not None and made.left_ < LEAST_LEFT and made.abstained_ is None:
        said.append(
            f"the model keeps nothing of its old classes ({made.left_:.2f} of 1): what is taken from "
            "the newest group helps nobody"
        )
    return tuple(said)

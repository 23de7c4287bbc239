"""What a bank would do to scores, told without any label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from transil._common.arrays import check_finite, check_scores, to_numpy
from transil.correction.bank import Bank
from transil.correction.columns import OrderLike, read_order, reordered
from transil.correction.comparing import brought_to
from transil.correction.scales import FEWEST_ROWS, MOST_ROWS, Comparison, Distance
from transil.correction.shipped import ShippedBank, shipped_banks
from transil.errors import TransilError
from transil.scores.frames import array_of

# Of the newest group's share of the classes. On the authors' LUCIR scores (states 2, 4, 7, 10) the
# default bank of LUCIR leaves it 0.3 to 2.3 times that share, rescaled or not, the one of LwF 0.16 times
# at most.
HARDLY = 0.2


@dataclass(frozen=True)
class BankCheck:
    """How a bank and the scores of a state go together; shares are of the rows looked at.

    `size`: how the scores compare with those of the references, in size or in all that a bank for any
    schedule looks at; None where that is not known. `changed`: predictions that the correction
    changes. `newest_before` and `newest_after`: predictions of the newest group, raw and corrected;
    `newest_fair`: its share of the classes, which is what they should be where classes come equally
    often. Where the bank was rescaled all of these are about that, and `newest_as_is` is what
    `newest_after` would be without; else it is None.
    """

    state: int
    rows: int
    size: Comparison | None
    changed: float
    newest_before: float
    newest_after: float
    newest_fair: float
    newest_as_is: float | None = None

    @property
    def verdict(self) -> str:
        """What size and shares say, in a few words; not whether the bank helps, which labels tell."""
        said = [self._of_size()]
        if self.newest_after < HARDLY * self.newest_fair:
            said.append("newest group hardly predicted any more")
        elif self.newest_after > self.newest_before > self.newest_fair:
            said.append("newest group favoured even more")
        return "; ".join(said)

    def _of_size(self) -> str:
        if self.size is None:
            return "size of the references not known"
        if isinstance(self.size, Distance):
            if self.size.far:
                return "likely another method or loss"
            return "nothing kept of old classes" if self.size.matters else "scores as fitted"
        if self.size.unlike:
            return "likely another method or loss"
        if self.size.rescaled and self.size.off:
            served = self.size.rescales
            return "other size, rescaled" if served else "other size: rescaling does not serve it"
        if self.size.matters:
            return "other size: rescale" if self.size.rescales else "other size: fit another bank"
        return "other size, hardly matters" if self.size.off else "size as fitted"


def check_bank(
    bank: Bank,
    scores: Any,
    state: int,
    *,
    order: OrderLike | None = None,
    rescale: bool = False,
) -> BankCheck:
    """Compare raw scores (..., columns) of a state with what a bank was fitted on; no labels needed.

    `order` and `rescale` are those of `Bank.correct`: with `rescale` the rescaled bank is judged. Of
    many rows some from all over are taken.
    """
    scores = array_of(scores)
    check_scores(scores)
    schedule, columns = bank.schedule, scores.shape[-1]
    state = schedule.check_state(state)
    schedule.check_columns(columns, state)
    if state == 1:
        raise TransilError("state 1 is not corrected: there is nothing to check")
    rows = scores.reshape(-1, columns)
    if len(rows) < FEWEST_ROWS:
        raise TransilError(f"{len(rows)} rows tell too little; give at least {FEWEST_ROWS}")
    rows = to_numpy(rows[:: -(-len(rows) // MOST_ROWS)])
    check_finite(rows, "scores")
    if order is not None:
        rows = reordered(rows, read_order(order, columns))
    judged, size = brought_to(bank, rows, state) if rescale else (bank, bank.mismatch(rows, state))
    ways = {"after": judged, "as is": bank} if judged is not bank else {"after": bank}
    made = {way: x.correct(rows, state, quiet=True) for way, x in ways.items()}
    predicted = {way: x.argmax(axis=1) for way, x in {"before": rows, **made}.items()}
    first = schedule.group_columns(state).start
    newest = {way: float(np.mean(x >= first)) for way, x in predicted.items()}
    return BankCheck(
        state=state,
        rows=len(rows),
        size=size,
        changed=float(np.mean(predicted["before"] != predicted["after"])),
        newest_before=newest["before"],
        newest_after=newest["after"],
        newest_fair=schedule.sizes[state - 1] / columns,
        newest_as_is=newest.get("as is"),
    )


def fitting_banks(state: int, columns: int) -> list[ShippedBank]:
    """The shipped banks whose state has as many columns; an error where there are none."""
    found = []
    widths: dict[int, int | None] = {}  # banks of one number of states have one schedule
    for item in shipped_banks():
        if item.states not in widths:
            schedule = item.load().schedule
            known = 1 <= state <= schedule.states
            widths[item.states] = schedule.columns(state) if known else None
        if widths[item.states] == columns:
            found.append(item)
    if not found:
        shown = ", ".join(f"{w} in those of {n}" for n, w in sorted(widths.items()) if w)
        raise TransilError(
            f"no shipped bank has {columns} columns in state {state}"
            + (f" (but {shown} states)" if shown else "")
            + "; give the sizes of all groups (--schedule 12,5,5), or name a bank"
        )
    return found

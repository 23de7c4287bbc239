"""What a bank would do to scores, told without any label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from transil.arrays import check_finite, check_scores, to_numpy
from transil.correction.bank import Bank
from transil.correction.columns import OrderLike, read_order, reordered
from transil.correction.scales import FEWEST_ROWS, MOST_ROWS, Comparison, Distance
from transil.correction.shipped import ShippedBank, shipped_banks
from transil.errors import TransilError

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
    often.
    """

    state: int
    rows: int
    size: Comparison | None
    changed: float
    newest_before: float
    newest_after: float
    newest_fair: float

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

    `order` and `rescale` are those of `Bank.correct`. Of many rows some from all over are taken.
    """
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
    corrected = bank.correct(rows, state, rescale=rescale, quiet=True)
    before, after = (x.argmax(axis=1) for x in (rows, corrected))
    newest = schedule.group_columns(state).start
    return BankCheck(
        state=state,
        rows=len(rows),
        size=bank.mismatch(rows, state),
        changed=float(np.mean(before != after)),
        newest_before=float(np.mean(before >= newest)),
        newest_after=float(np.mean(after >= newest)),
        newest_fair=schedule.sizes[state - 1] / columns,
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

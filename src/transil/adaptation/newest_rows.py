"""Rows of scores that are known to be of the newest group, and what they tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transil._common.arrays import FloatArray, to_numpy
from transil.adaptation.columns import Columns, Corrected
from transil.adaptation.newest import Count, NewestShare, newest_share
from transil.adaptation.table import read_table
from transil.correction.columns import OrderLike, backwards, read_order
from transil.errors import TransilError
from transil.schedule import IntArray, Schedule
from transil.scores.data_files import whole_labels

LEAST_LABELLED = 16
UNKNOWN = -1
BLOCK = 4096  # rows


@dataclass(frozen=True, eq=False)
class NewestRows:
    """`scores` (m, columns) of labelled rows, and the column of each one's class; columns as given.

    `unlabelled` (n,): which rows are the traffic; `before`: scores from before the newest group
    existed; `newest` (columns,): which columns are of it.
    """

    scores: FloatArray
    columns: IntArray
    unlabelled: NDArray[np.bool_]
    before: FloatArray | None
    newest: NDArray[np.bool_]

    def estimate(self, traffic: FloatArray, bank: Columns) -> NewestShare:
        """The share of the newest group in the traffic, from predictions as a bank corrects them."""
        mistaken = None if self.before is None else self._count(self.before, bank)
        return newest_share(self._count(traffic, bank), self._count(self.scores, bank), mistaken)

    def recall(self, advised: Columns) -> tuple[float, float]:
        """Which share of the labelled rows is right, raw and corrected."""
        corrected = advised.correct(self.scores)
        before, after = (float(np.mean(z.argmax(axis=1) == self.columns))
                         for z in (self.scores, corrected))  # fmt: skip
        return before, after

    def _count(self, scores: FloatArray, columns: Columns) -> Count:
        view, hits = Corrected(scores, columns), 0
        for start in range(0, len(scores), BLOCK):
            hits += int(self.newest[view[start : start + BLOCK].argmax(axis=1)].sum())
        return hits, len(scores)


def newest_rows(
    scores: FloatArray,
    labels: Any,
    before: Any,
    schedule: Schedule,
    state: int,
    order: OrderLike | None,
) -> NewestRows | None:
    """The labelled rows of scores (n, columns); None where no labels are given."""
    if labels is None:
        if before is not None:
            raise TransilError(
                "before: it goes with labels of the newest group (newest_labels=, --newest-labels)"
            )
        return None
    given = to_numpy(labels, "newest labels")
    if given.shape != scores.shape[:1]:
        raise TransilError(
            f"newest labels: {len(scores):,} rows of scores, but labels of shape {given.shape}"
        )
    given = whole_labels(given, "newest labels")
    known = given != UNKNOWN
    if known.sum() < LEAST_LABELLED:
        raise TransilError(
            f"newest labels: {int(known.sum())} rows with a label tell too little; at least "
            f"{LEAST_LABELLED} do"
        )
    seen, newest_columns = schedule.classes(state), schedule.group_columns(state)
    filled = np.where(known, given, seen[newest_columns.start])
    columns = schedule.column_of(filled, state, "newest labels")
    if len(old := np.flatnonzero(columns < newest_columns.start)):
        raise TransilError(
            f"newest labels: class {given[old[0]]} in row {old[0]} is of an old class; give the classes "
            f"of group {state}, and {UNKNOWN} for all other rows"
        )
    columns = columns[known]
    newest = np.arange(scores.shape[1]) >= newest_columns.start
    if order is not None:
        learned = read_order(order, scores.shape[1])
        columns, newest = learned[columns], newest[backwards(learned)]
    return NewestRows(scores[known], columns, ~known, _before(before, scores.shape[1]), newest)


def _before(before: Any, columns: int) -> FloatArray | None:
    if before is None:
        return None
    rows = read_table(before).scores
    if rows.shape[1] != columns:
        raise TransilError(
            f"before: {rows.shape[1]} columns, but the scores have {columns}; give scores by the same "
            "model, of images from before the newest classes existed"
        )
    if len(rows) < LEAST_LABELLED:
        raise TransilError(
            f"before: {len(rows)} rows tell too little; at least {LEAST_LABELLED} do"
        )
    return rows

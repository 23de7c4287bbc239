"""Scores of a model as one looks at them for advice: raw, as a bank corrects them, and as advised."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from transil._common.arrays import Float64Array, FloatArray
from transil.adaptation.columns import Columns, Corrected
from transil.adaptation.corrector import Corrector
from transil.adaptation.priors import Situation
from transil.schedule import IntArray, Schedule

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True, eq=False)
class Given:
    """Scores as they were given, and what of."""

    table: FloatArray
    schedule: Schedule
    state: int
    places: IntArray | None

    def learned(self, rows: FloatArray) -> FloatArray:
        """Columns in the order in which their classes were learned."""
        return rows if self.places is None else rows[:, self.places]

    @property
    def group(self) -> IntArray:
        """The group of each column, from 0."""
        return self.schedule.group_of_column(self.state) - 1


class View:
    """Some rows of the traffic in learning order: raw, as the bank corrects them, and as advised.

    Predictions are columns, (n,).
    """

    def __init__(
        self,
        given: Given,
        learned: FloatArray,
        base: Corrector,
        made: Corrector,
    ) -> None:
        self.given, self.learned, self.made = given, learned, made
        columns = self._placed(base.columns_)
        self.base = Corrected(learned, columns, base.temperature_)
        self.advised = self._placed(made.columns_)
        self.raw: IntArray = learned.argmax(axis=1)
        self.corrected: IntArray = self.advised.correct(learned).argmax(axis=1)
        assert base.predicted_ is not None
        within = None if made._ledger is None else made._ledger.within(given.state)
        if within is not None and np.isnan(within).all():
            within = None
        self.situation = Situation(given.group, base.predicted_, within)
        self.start = given.schedule.group_columns(given.state).start

    def _placed(self, columns: Columns) -> Columns:
        places = self.given.places
        return columns if places is None else columns.taken(places)

    def shares(self, predictions: IntArray) -> Float64Array:
        """The share of predictions of each group, (state,)."""
        counts = np.bincount(self.given.group[predictions], minlength=self.given.state)
        return np.asarray(counts / len(predictions))


def levels(scores: FloatArray, sizes: IntArray) -> Float64Array:
    """Quantiles over rows (n, columns) of the highest score of each group, (groups, quantiles).

    They are around the mean over groups: a common shift of a row changes no prediction.
    """
    tops = np.maximum.reduceat(np.asarray(scores, np.float64), np.cumsum(sizes) - sizes, axis=1)
    found = np.quantile(tops - tops.mean(axis=1, keepdims=True), QUANTILES, axis=0)
    return np.asarray(found.T)

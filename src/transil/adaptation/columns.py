"""A correction of one state as two numbers for each column, and scores seen through it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from transil._common.arrays import Float64Array, FloatArray, Scores
from transil.correction.affine import correct_columns
from transil.correction.bank import Bank
from transil.correction.scales import score_scale
from transil.schedule import IntArray


@dataclass(frozen=True, eq=False)
class Columns:
    """z = scale * o + shift, (columns,) each; centred: `scale` multiplies the distance from the mean."""

    scale: Float64Array
    shift: Float64Array
    centred: bool = False

    @classmethod
    def of(cls, bank: Bank, state: int) -> Columns:
        """What a bank does in a state."""
        pairs, group = bank.applied(state), bank.schedule.group_of_column(state) - 1
        return cls(pairs.alpha[group], pairs.beta[group], bank.correction.centred)

    @classmethod
    def identity(cls, columns: int) -> Columns:
        """Nothing is done."""
        return cls(np.ones(columns), np.zeros(columns))

    def shifted(self, shifts: Float64Array) -> Columns:
        """With a shift of each column more."""
        return Columns(self.scale, self.shift + shifts, self.centred)

    def taken(self, places: IntArray) -> Columns:
        """The columns that stand in these places."""
        return Columns(self.scale[places], self.shift[places], self.centred)

    def correct(self, scores: Scores, out: FloatArray | None = None) -> Scores:
        """Scores (..., columns), the same kind and dtype; `out` (NumPy only) receives them."""
        return correct_columns(scores, self.scale, self.shift, out, centred=self.centred)


class Corrected:
    """Scores (n, columns) as `columns` corrects them, over a temperature; nothing is kept of them."""

    def __init__(self, scores: FloatArray, columns: Columns, temperature: float = 1.0) -> None:
        self.scores, self.columns, self.temperature = scores, columns, temperature
        self.shape = scores.shape
        self.dtype: np.dtype[np.floating] = np.promote_types(scores.dtype, np.float32)
        self._scale = (columns.scale / temperature).astype(self.dtype)
        # The weights of the mean that each row is taken from: of what alpha multiplies, or of all.
        even = np.full(len(self._scale), 1.0 / len(self._scale), dtype=self.dtype)
        self._mean = even if columns.centred else even * self._scale

    def __len__(self) -> int:
        return len(self.scores)

    def __getitem__(self, rows: slice, /) -> FloatArray:
        """Some rows, corrected."""
        block = self.columns.correct(np.asarray(self.scores[rows], dtype=self.dtype))
        if self.temperature != 1.0:
            block /= self.dtype.type(self.temperature)
        return block

    def every(self, step: int) -> Corrected:
        """Every `step`-th row."""
        return Corrected(self.scores[::step], self.columns, self.temperature)

    def powers(self, rows: slice, out: FloatArray) -> FloatArray:
        """Exp of the distances of some rows from their mean, without the shifts of the columns.

        Written into `out`, which has room for them. The fewest steps over the values: this is where the
        time goes.
        """
        block = np.asarray(self.scores[rows], dtype=self.dtype)
        made, mean = out[: len(block)], (block @ self._mean)[:, None]
        if self.columns.centred:
            np.subtract(block, mean, out=made)
            made *= self._scale
        else:
            np.multiply(block, self._scale, out=made)
            made -= mean
        with np.errstate(over="ignore"):
            return np.exp(made, out=made)

    @property
    def shifts(self) -> Float64Array:
        """What `powers` leaves out, (columns,)."""
        return self.columns.shift / self.temperature


# How far scores spread across classes in units of log-odds, once they are calibrated. Models of the
# references are best corrected with 2 to 3; well trained ones are surer (docs/adaptation.md).
SPREAD = 3.0


def temperature_of(corrected: FloatArray) -> float:
    """By what corrected scores (n, columns) are divided, so that their softmax is of use.

    Banks leave open how large scores are, and those of another framework may be of any size.
    """
    return score_scale(corrected) / SPREAD or 1.0

"""What a Corrector is given: scores as a table, and how to give back the same kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from transil._common.arrays import FloatArray, check_finite, is_torch, refuse_masks, to_numpy
from transil.errors import TransilError, reason
from transil.scores.frames import array_of, column_names, is_frame, like_frame


@dataclass(frozen=True, eq=False)
class Table:
    """`scores` (n, columns) on the CPU; `given`: what is to be corrected; `names` of the columns.

    `back` makes of corrected scores what came in.
    """

    scores: FloatArray
    given: Any
    names: list[Any] | None = None
    back: Callable[[Any], Any] = lambda corrected: corrected

    def check_names(self, known: Any) -> None:
        """An error where columns have other names than those learned from."""
        if self.names is not None and known is not None and list(known) != self.names:
            raise TransilError(
                "The feature names should match those that were passed during fit: the columns of "
                "scores are named otherwise, or stand in another order"
            )


def read_table(given: Any) -> Table:
    """Scores (n, columns) as arrays, tensors, lists or DataFrames; anything else is told."""
    if is_frame(given):
        scores = _checked(array_of(given))
        names = [str(name) for name in column_names(given)]
        return Table(scores, scores, names, lambda made: like_frame(given, made))
    if is_torch(given):
        scores = to_numpy(given, "scores")
        if not given.is_floating_point():
            raise TransilError(f"scores: expected floating-point scores, not {given.dtype}")
        return Table(_checked(scores), given)
    if hasattr(given, "toarray"):
        raise TransilError("scores: a sparse matrix; give a dense array (.toarray())")
    refuse_masks(given)
    try:
        array = np.asarray(given)
    except Exception as error:  # whatever the conversion of somebody's object raises
        raise TransilError(f"scores: not a table of numbers ({reason(error)})") from None
    if np.iscomplexobj(array):
        raise TransilError("Complex data not supported: scores are real numbers")
    if array.dtype.kind in "biu":
        array = array.astype(np.float64)
    if array.dtype.kind != "f":
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise TransilError(f"scores: not numbers in every place ({reason(error)})") from None
    scores = _checked(array)
    return Table(scores, scores)


def _checked(scores: FloatArray) -> FloatArray:
    if scores.ndim != 2:
        raise TransilError(
            f"scores: expected a table of rows and columns, not an array of shape {scores.shape}. "
            "Reshape your data: scores.reshape(1, -1) for one image"
        )
    if scores.shape[1] == 0:
        raise TransilError(
            f"scores: 0 feature(s) (shape={scores.shape}) while a minimum of 1 is required."
        )
    check_finite(scores, "scores")
    return scores

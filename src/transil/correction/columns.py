"""Which state the columns of scores are of, and in which order they stand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from transil._common.arrays import FloatArray, Scores, is_torch, readable, to_numpy
from transil.errors import TransilError
from transil.schedule import IntArray, Schedule

if TYPE_CHECKING:
    import torch

# order[i]: the column of the i-th class that was learned.
OrderLike: TypeAlias = "Sequence[int] | NDArray[np.integer[Any]] | torch.Tensor"


def state_of(scores: Any, schedule: Schedule, where: str = "scores") -> int:
    """The state that has as many columns as these scores (..., columns).

    A head may have all its columns from the start, and those of classes still to come at minus
    infinity in every row. Such scores are of an earlier state: an error names it.
    """
    state = schedule.state_with(scores.shape[-1])
    if not readable(scores) or 0 in scores.shape:
        return state
    rows = scores.reshape(-1, scores.shape[-1])
    if rows[0, -1].item() != -math.inf:  # spares files larger than memory
        return state
    likely = state
    while likely and bool((rows[:, schedule.group_columns(likely)] == -math.inf).all()):
        likely -= 1
    if 0 < likely < state:
        seen = schedule.columns(likely)
        raise TransilError(
            f"{where}: {seen} of the {rows.shape[1]} columns hold scores, those of later groups are "
            f"minus infinity in every row, so the model is likely in state {likely}; keep the first "
            f"{seen} columns and give that state"
        )
    return state


def read_order(order: Any, columns: int) -> IntArray:
    """`order` as an array, shape (columns,); an error where it does not name every column once."""
    try:
        places = to_numpy(order)
    except ValueError:  # lists of different lengths
        places = np.empty(0)
    if places.ndim != 1 or not np.issubdtype(places.dtype, np.integer):
        raise TransilError(
            "order: expected a list of whole numbers, the column of each class in the order in which "
            "they were learned"
        )
    if len(places) != columns:
        raise TransilError(
            f"order: it names {len(places)} columns, but the scores have {columns}; name each once, "
            "from 0"
        )
    outside = places[(places < 0) | (places >= columns)]
    if len(outside):
        raise TransilError(f"order: no column {outside[0]}; the columns are 0 to {columns - 1}")
    times = np.bincount(places, minlength=columns)
    if times.max(initial=1) > 1:
        twice, never = int(times.argmax()), int(times.argmin())
        raise TransilError(
            f"order: column {twice} is named {times[twice]} times and column {never} is not; name "
            "each once"
        )
    return places.astype(np.int64)


def reordered(scores: Scores, places: IntArray | None) -> Scores:
    """Column `places[i]` of scores (..., columns) as column i; as they are without `places`."""
    if places is None:
        return scores
    if is_torch(scores):
        import torch

        return cast(Scores, scores[..., torch.as_tensor(places, device=scores.device)])
    return cast(Scores, np.take(cast(FloatArray, scores), places, axis=-1))


def backwards(places: IntArray) -> IntArray:
    """The order that undoes `places`."""
    return np.argsort(places)

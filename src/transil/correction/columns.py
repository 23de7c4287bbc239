"""Which state the columns of scores are of."""

from __future__ import annotations

import math
from typing import Any

from transil.arrays import readable
from transil.errors import TransilError
from transil.schedule import Schedule


def state_of(scores: Any, schedule: Schedule, where: str = "scores") -> int:
    """The state that has as many columns as these scores (..., columns).

    A head may have all its columns from the start, and those of classes still to come at minus
    infinity in every row. Such scores are of an earlier state: an error names it.
    """
    state = schedule.state_with(scores.shape[-1])
    if not readable(scores) or 0 in scores.shape:
        return state
    rows = scores.reshape(-1, scores.shape[-1])
    if float(rows[0, -1]) != -math.inf:  # spares files larger than memory
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

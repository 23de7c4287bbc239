"""Controls: corrections that need neither a reference nor old images.

On a model that has forgotten everything any correction of the newest classes looks good. A transfer
is worth something only where it beats these as well.
"""

from __future__ import annotations

import numpy as np

from transil.arrays import FloatArray
from transil.schedule import Schedule
from transil.store_files import StateScores


def align(rows: FloatArray, schedule: Schedule, state: int) -> tuple[float, float]:
    """(alpha, beta) of the newest group by weight alignment (Zhao et al., CVPR 2020).

    rows (columns, d) are those of the last layer: the newest are scaled to the mean length of the
    older ones, and so are their scores.
    """
    lengths = np.linalg.norm(rows, axis=1)
    new = schedule.group_columns(state)
    return float(lengths[: new.start].mean() / lengths[new].mean()), 0.0


def shift(train: StateScores, schedule: Schedule, state: int) -> tuple[float, float]:
    """(alpha, beta) of the newest group from the scores of its own training images.

    To such an image, old classes and the other new ones are all wrong. A model without bias gives
    both the same mean score; the shift makes it so.
    """
    new = schedule.group_columns(state)
    scores = np.asarray(train.scores, dtype=np.float64)
    old_mean = scores[:, : new.start].mean()
    size = new.stop - new.start
    if size == 1:  # there is no other new class: compare with the score of the right one
        return 1.0, float(old_mean - scores[:, new].mean())
    right = scores[np.arange(len(scores)), train.columns]
    wrong = (scores[:, new].sum(axis=1) - right) / (size - 1)
    return 1.0, float(old_mean - wrong.mean())

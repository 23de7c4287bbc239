"""Labels that a model's own predictions were taken for."""

from __future__ import annotations

import numpy as np

from transil._common.arrays import FloatArray
from transil.errors import TransilError
from transil.schedule import IntArray

# That all labels are what the scores predict is not enough: a good model of few easy classes is right
# in some hundred rows. But then it is sure of itself, while predictions come from a model as unsure as
# any. So there must be close calls: rows whose highest score leads the next one by less than a quarter
# of the usual lead, in which many honest labels would differ. 8 to 17 % of the rows of models with a
# bias are such; we ask for 8 of them, and a twentieth of all. With 100 rows or more that tells 90 to
# 100 % of such labels, with 64 about half. Of honest models (normal or heavy-tailed features, 2 to 30
# classes, 64 to 2,000 rows, the separation that is worst for us) it refused 1.4 % at most.
FEWEST_ROWS = 64
CLOSE, FEWEST_CLOSE, CLOSE_SHARE = 0.25, 8, 0.05


def refuse_predictions(scores: FloatArray, columns: IntArray, where: str) -> None:
    """An error where label columns (n,) are the argmax of scores (n, columns), and by no accident."""
    rows = len(scores)
    if rows < FEWEST_ROWS or (columns == columns[0]).all():
        return
    if not np.array_equal(scores.argmax(axis=1), columns):
        return
    two = np.partition(scores, -2, axis=1)[:, -2:].astype(np.float64)
    lead = two[:, 1] - two[:, 0]
    close = int((lead < CLOSE * np.median(lead)).sum())
    if close >= max(FEWEST_CLOSE, CLOSE_SHARE * rows):
        raise TransilError(
            f"{where}: all {rows:,} labels are what the scores predict, even in {close:,} close calls: "
            "they look like predictions, not true labels; give those of the images themselves"
        )

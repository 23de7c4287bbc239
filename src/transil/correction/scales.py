"""How far scores spread, and whether a bank fits scores that spread so.

A pair's beta is of the size of the scores it was fitted on. How much a difference in size costs
depends on the pairs: LwF's hardly care, LUCIR's exact ones are undone by a fifth (docs/banks.md).
So the scores themselves are asked: how many predictions would change were the bank rescaled?
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from transil.arrays import FloatArray, is_torch, readable, to_numpy
from transil.errors import DataWarning, ScoreScaleWarning, TransilError
from transil.scores import ScoreStore

# References trained alike mostly differ by less than the first factor. Beyond the second one
# scores are on another scale, whatever comes of it.
ALIKE, APART = 1.125, 1.5
# The share of predictions from which on a difference between the two matters.
CHANGED = 0.1
SCALE_ROWS = 256
# To measure a scale: fewer rows tell too little, more tell nothing new.
FEWEST_ROWS, MOST_ROWS = 64, 20_000


@dataclass(frozen=True)
class Mismatch:
    """How scores of a state compare with those a bank was fitted on.

    `ratio`: how many times as far they spread as those of the nearest reference; `changed`: the
    share of them that the bank, brought to their size, would predict otherwise.
    """

    state: int
    ratio: float
    changed: float

    @property
    def apart(self) -> bool:
        """Whether they are on another scale."""
        return not 1.0 / APART <= self.ratio <= APART

    @property
    def matters(self) -> bool:
        """Whether to tell."""
        return self.apart or (self.ratio != 1.0 and self.changed > CHANGED)

    def warn(self, more: str = "", *, stacklevel: int = 2) -> None:
        """Tell it."""
        lead = (
            f"state {self.state}: these scores spread {self.ratio:.2g} times as much as those the "
            "bank was fitted on"
        )
        remedy = (
            "it holds for raw scores of the same method (logits, not probabilities), and of another "
            "scale with rescale=True (--rescale)"
            if self.apart
            else f"brought to their size it would predict {self.changed:.0%} of them otherwise; if "
            "the model was trained in another way, use rescale=True (--rescale)"
        )
        warnings.warn(f"{lead}; {remedy}{more}", ScoreScaleWarning, stacklevel=stacklevel + 1)


def ratio_to_nearest(scale: float, known: list[float]) -> float:
    """`scale` over that of the nearest reference; 1 between two of them, and where all are alike."""
    ratio = scale / min(max(scale, min(known)), max(known))
    return ratio if max(ratio, 1.0 / ratio) > ALIKE else 1.0


def some_rows(scores: Any) -> FloatArray | None:
    """Up to 256 rows (n, columns) from all over the scores (..., columns); None for too few rows.

    Nor does it look at tensors on a GPU, or in code that torch compiles.
    """
    if not readable(scores):
        return None
    rows = scores.reshape(-1, scores.shape[-1])
    rows = rows[:: -(-len(rows) // SCALE_ROWS) or 1]
    if len(rows) < FEWEST_ROWS:
        return None
    return rows.detach().double().numpy() if is_torch(rows) else np.asarray(rows)


def score_scale(scores: Any) -> float:
    """How far scores spread: the mean over rows of the deviation across columns. (n, columns).

    It does not change with a common shift of a row, which no prediction depends on.
    """
    return float(np.std(scores, axis=1, dtype=np.float64).mean())


def measured_scale(scores: Any) -> float:
    """`score_scale` of scores (..., columns) of any kind; of some of them where there are many."""
    rows = scores.reshape(-1, scores.shape[-1])
    if len(rows) < FEWEST_ROWS:
        raise TransilError(
            f"{len(rows)} rows do not tell the scale of the scores, at least {FEWEST_ROWS} do; "
            "measure it once on more, and use Bank.at_scale"
        )
    rows = to_numpy(rows[:: -(-len(rows) // MOST_ROWS)])
    if not np.isfinite(rows).all():
        raise TransilError("scores that are not finite have no scale; remove or repair those rows")
    scale = score_scale(rows)
    if scale == 0.0:
        raise TransilError("all scores of a row are equal; such scores have no scale")
    return scale


def measured_scales(store: ScoreStore, split: str = "test") -> dict[int, float]:
    """The scale of each state's scores; labels are not looked at. For `Bank.at_scale`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # of states to come: told by what judges them
        states = store.require(split, unfinished=True)
    return {s: measured_scale(store.get(split, s).scores) for s in states[1:]}

"""How far scores spread, and whether a bank fits scores that spread so.

A pair's beta is of the size of the scores it was fitted on. How much a difference in size costs
depends on the pairs: LwF's hardly care, LUCIR's exact ones are undone by a fifth (docs/banks.md).
So the scores themselves are asked: how many predictions would change were the bank rescaled?
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from transil._common.arrays import FloatArray, check_scores, is_torch, readable, to_numpy
from transil.errors import DataWarning, ScoreScaleWarning, TransilError
from transil.scores.store import ScoreStore

# Values that are looked at together.
BLOCK = 1 << 20

# Models trained alike mostly differ by less than the first factor, or as much as the references
# do among themselves. Beyond the second one scores are of another kind, whatever comes of it.
ALIKE, APART = 1.1, 3.0
# Models of one method that rescaling served had scores 0.8 to 1.8 times the references' (docs/banks.md).
# Beyond this factor it is rather another method: SIW's are 4 to 19 times those of the others.
UNLIKE = 2.0
# Beyond so many times the usual distance the pairs of a function are a guess (docs/any-schedule.md).
FAR = 1.5
# Below this (`Facts.kept`) references gained nothing: all states of plain fine-tuning, half of those
# of LwF over all classes, no others (docs/any-schedule.md).
FORGOTTEN = 0.1
# The share of predictions from which on a difference between the two matters.
CHANGED = 0.1
SCALE_ROWS = 1024
# To measure a scale: fewer rows tell too little, more tell nothing new.
FEWEST_ROWS, MOST_ROWS = 64, 20_000


class Newest(NamedTuple):
    """Shares of scores predicted as newest group: raw, corrected, and corrected after rescaling."""

    raw: float
    corrected: float
    rescaled: float

    def __str__(self) -> str:
        """After 'predicts'."""
        return (
            f"the newest group for {self.rescaled:.0%} of rows instead of {self.corrected:.0%} "
            f"(raw: {self.raw:.0%})"
        )


@dataclass(frozen=True)
class Mismatch:
    """How scores of a state compare with those a bank was fitted on.

    `ratio`: how many times as far they spread; `usual`: by which factor models trained alike may
    differ. Where it is more, `changed` is the share of them that the bank, brought to their size,
    would predict otherwise, and `newest` what that does to the newest group; `bank`: which one;
    `rescales`: whether that is of use; `rescaled`: whether it was done.
    """

    state: int
    ratio: float
    usual: float = ALIKE
    changed: float = 0.0
    bank: str = "bank"
    rescales: bool = True
    rescaled: bool = False
    newest: Newest | None = None

    @property
    def factor(self) -> float:
        """By which factor they differ in size, whichever are larger."""
        return max(self.ratio, 1.0 / self.ratio)

    @property
    def off(self) -> bool:
        """Whether they differ in size by more than is usual."""
        return self.factor > self.usual

    @property
    def unlike(self) -> bool:
        """Whether they differ by more than those of one method do."""
        return self.factor > max(UNLIKE, self.usual)

    @property
    def apart(self) -> bool:
        """Whether they are of another kind."""
        return self.factor > APART

    @property
    def matters(self) -> bool:
        """Whether to tell."""
        if self.rescaled:
            return self.unlike
        return self.apart or (self.off and self.changed > CHANGED)

    @property
    def sort(self) -> str:
        """What is told: each sort once for each state."""
        large = "larger" if self.ratio > 1.0 else "smaller"
        return f"{'rescaled, ' * self.rescaled}{'far ' * self.apart}{large}"

    def warn(self, more: str = "", *, stacklevel: int = 2) -> None:
        """Tell it."""
        text = "; ".join(self._said()) + more
        warnings.warn(text, ScoreScaleWarning, stacklevel=stacklevel + 1)

    def _said(self) -> Iterator[str]:
        yield (
            f"state {self.state}: these scores spread {self.ratio:.2g} times as much as those the "
            f"{self.bank} was fitted on"
        )
        if self.unlike:
            yield (
                "so large a difference rather means another method or loss, for which the bank does "
                "not hold, rescaled or not"
            )
        if self.rescaled:
            if self.newest is not None:
                yield f"rescaled it predicts {self.newest}"
            yield "if method and loss are the bank's, ignore this (transil bank check tells more)"
            return
        told = self.rescales and self.newest is not None  # what is recommended says its cost
        yield (
            f"brought to their size it would predict {self.changed:.0%} of them otherwise"
            + (f", and {self.newest}" if told else "")
        )
        if self.apart:
            yield "it holds for raw scores of the same method (logits, not probabilities)"
        only = "only " if self.unlike else ""
        yield (
            f"if the model was {only}trained in another way, use rescale=True (--rescale)"
            if self.rescales
            else "rescaling does not serve it: fit one on references whose scores are of that size"
        )


@dataclass(frozen=True)
class Distance:
    """How far scores of a state lie from those a function of scores was fitted on.

    `ratio`: how many times as far as those of references that are left out usually lie from the others;
    `kept`: see `Facts.kept`.
    """

    state: int
    ratio: float
    bank: str = "bank"
    kept: float | None = None
    apart: bool = False  # one state alone says little

    @property
    def far(self) -> bool:
        """Whether the scores are unlike all that were seen."""
        return self.ratio > FAR

    @property
    def matters(self) -> bool:
        """Whether to tell."""
        return self.far or (self.kept is not None and self.kept < FORGOTTEN)

    @property
    def sort(self) -> str:
        """What is told: each sort once for each state."""
        return "unlike" if self.far else "forgotten"

    def warn(self, more: str = "", *, stacklevel: int = 2) -> None:
        """Tell it."""
        said = (
            f"these scores are unlike those the {self.bank} was fitted on ({self.ratio:.1f} times as "
            "far as usual), so its pairs are a guess; likely another method or loss"
            if self.far
            else "old classes hardly stand out at all, so the model has kept next to nothing of them, "
            "which no correction brings back; references like this gained nothing, or lost"
        )
        text = f"state {self.state}: {said}{more}"
        warnings.warn(text, ScoreScaleWarning, stacklevel=stacklevel + 1)


# How scores compare with those of the references: in size, or in what a function looks at.
Comparison: TypeAlias = Mismatch | Distance


def tell_once(found: Iterable[Comparison | None], *, stacklevel: int = 2) -> None:
    """One warning for many states: where scores of one are of another kind, or half of them matter."""
    judged = [one for one in found if one is not None]
    worst = [one for one in judged if one.apart]
    if not worst:
        worst = [one for one in judged if one.matters]
        if 2 * len(worst) < len(judged):
            return
    if worst:
        others = len(worst) - 1
        more = f" (and {others} other state{'s' * (others > 1)})" if others else ""
        worst[-1].warn(more, stacklevel=stacklevel + 1)


def some_rows(scores: Any) -> FloatArray | None:
    """Up to 1,024 rows (n, columns) from all over the scores (..., columns); None for too few rows.

    Nor does it look at tensors on a GPU, or in code that torch compiles.
    """
    if not readable(scores):
        return None
    rows = scores.reshape(-1, scores.shape[-1])
    rows = rows[:: -(-len(rows) // SCALE_ROWS) or 1]
    if len(rows) < FEWEST_ROWS:
        return None
    return rows.detach().double().numpy() if is_torch(rows) else np.asarray(rows)


def score_scale(scores: FloatArray) -> float:
    """How far scores spread: the mean over rows of the deviation across columns. (n, columns).

    It does not change with a common shift of a row, which no prediction depends on.
    """
    rows = max(1, BLOCK // scores.shape[1])
    parts = (scores[start : start + rows] for start in range(0, len(scores), rows))
    with np.errstate(over="ignore", invalid="ignore"):  # huge scores have no finite scale
        return float(np.concatenate([np.std(p, axis=1, dtype=np.float64) for p in parts]).mean())


def measured_rows(scores: Any) -> FloatArray:
    """Rows (n, columns) that tell how scores (..., columns) spread; of many some from all over."""
    check_scores(scores)
    rows = scores.reshape(-1, scores.shape[-1])
    if len(rows) < FEWEST_ROWS:
        raise TransilError(
            f"{len(rows)} rows do not tell the scale of the scores, at least {FEWEST_ROWS} do; "
            "measure it once on more, by Bank.like or transil bank make --like, and use that bank"
        )
    rows = to_numpy(rows[:: -(-len(rows) // MOST_ROWS)])
    if np.isneginf(rows).any():
        raise TransilError(
            "scores with masked classes (minus infinity) have no scale; measure it before masking"
        )
    if not np.isfinite(rows).all():
        raise TransilError("scores that are not finite have no scale; remove or repair those rows")
    if score_scale(rows) == 0.0:
        raise TransilError("all scores of a row are equal; such scores have no scale")
    return rows


def measured_scales(store: ScoreStore, split: str = "test") -> dict[int, float]:
    """The scale of each state's scores; labels are not looked at. For `Bank.at_scale`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # of states to come: told by what judges them
        states = store.require(split, unfinished=True)
    return {s: score_scale(measured_rows(store.get(split, s).scores)) for s in states[1:]}

"""Metrics of class-incremental learning, with unambiguous names. All shares are between 0 and 1.

Two choices hide behind one name in the literature, so each has its own name here:

- *with or without the first state*: the paper's average incremental accuracy leaves out state 1,
  which is not incremental (`average_incremental_accuracy`); others keep it (`..._with_first`).
- *pooled or group mean*: over all test images alike (`accuracy`), or the mean of the groups'
  accuracies (`accuracy_group_mean`). They agree where groups have equally many test images.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from transil._common.arrays import Float64Array, FloatArray
from transil.errors import TransilError
from transil.schedule import IntArray, Schedule

# Rows are taken in blocks of about this many scores, to bound the memory of the softmax.
BLOCK = 1 << 21


def topk_hits(scores: FloatArray, columns: IntArray, k: int = 1) -> np.ndarray[Any, Any]:
    """Whether the true class is among the k highest scores, per row: bool, shape (n,).

    scores (n, classes), columns (n,) the true column. Equal scores are ranked by their column,
    the lower first, so that k = 1 is `argmax`.
    """
    rows = np.arange(len(scores))
    true = scores[rows, columns][:, None]
    if k == 1:
        return np.asarray(scores.argmax(axis=1) == columns)
    earlier = np.arange(scores.shape[1]) < columns[:, None]
    better = (scores > true) | ((scores == true) & earlier)
    return np.asarray(better.sum(axis=1) < k)


def group_means(values: FloatArray, groups: IntArray, count: int) -> Float64Array:
    """The mean of `values` (n,) in each of the groups 1..count; NaN where a group has no rows."""
    rows = np.bincount(groups - 1, minlength=count)
    with np.errstate(invalid="ignore"):
        means: Float64Array = np.bincount(groups - 1, weights=values, minlength=count) / rows
    return means


def hits_in_group(scores: FloatArray, columns: IntArray, groups: IntArray) -> Any:
    """Whether the true class is the best of its own group, per row: bool, shape (n,).

    scores (n, classes), columns (n,) the true column, groups (classes,) the group of each column.
    """
    true = groups[columns]
    hit = np.zeros(len(scores), dtype=bool)
    for group in np.unique(true):
        rows, own = np.flatnonzero(true == group), np.flatnonzero(groups == group)
        best = scores[np.ix_(rows, own)].argmax(axis=1)
        hit[rows] = own[best] == columns[rows]
    return hit


def expected_calibration_error(scores: FloatArray, columns: IntArray, bins: int = 15) -> float:
    """Mean gap between confidence (highest softmax probability) and accuracy over equal-width bins.

    scores (n, classes), columns (n,). Each bin counts with its share of the rows.
    """
    confidence = np.empty(len(scores))
    hit = np.empty(len(scores))
    for start, stop in _blocks(scores):
        block = scores[start:stop].astype(np.float64)
        with np.errstate(over="ignore"):  # what is so far below the highest counts for nothing
            block -= block.max(axis=1, keepdims=True)
        confidence[start:stop] = 1.0 / np.exp(block).sum(axis=1)
        hit[start:stop] = block.argmax(axis=1) == columns[start:stop]
    bin_of = np.minimum((confidence * bins).astype(np.int64), bins - 1)
    gap = np.bincount(bin_of, weights=hit - confidence, minlength=bins)
    return float(np.abs(gap).sum() / len(scores))


@dataclass(frozen=True)
class StateMetrics:
    """What the model of one state does on one split. Lists over groups have length `state`."""

    state: int
    classes: int
    images: int
    accuracy: float
    accuracy_group_mean: float
    accuracy_known_group: float  # among the classes of each image's own group
    topk: dict[int, float]
    group_accuracy: list[float]  # NaN where a group has no test images
    mean_score: list[float]  # mean score of each group's columns, over all images
    score_deviation: list[float]  # standard deviation of the same scores
    prediction_share: list[float]  # share of the predictions that fall into each group
    image_share: list[float]  # share of the images that belong to each group
    # Images of each group (row) that are predicted as a class of each group (column): counts, laid out
    # as scikit-learn and torchmetrics do.
    group_confusion: list[list[int]]
    calibration_error: float


def state_metrics(
    scores: FloatArray,
    columns: IntArray,
    schedule: Schedule,
    state: int,
    topk: tuple[int, ...] = (5,),
) -> StateMetrics:
    """All metrics of one state. scores (n, columns), columns (n,) the true column of each row."""
    group_of_column = schedule.group_of_column(state)
    groups = group_of_column[columns]
    predicted = scores.argmax(axis=1)
    hit = (predicted == columns).astype(np.float64)
    by_group = group_means(hit, groups, state)
    mean, deviation = _score_moments(scores, schedule, state)
    cells = (groups - 1) * state + group_of_column[predicted] - 1
    confusion = np.bincount(cells, minlength=state * state).reshape(state, state)
    return StateMetrics(
        state=state,
        classes=scores.shape[1],
        images=len(scores),
        accuracy=float(hit.mean()),
        accuracy_group_mean=float(np.nanmean(by_group)),
        accuracy_known_group=float(hits_in_group(scores, columns, group_of_column).mean()),
        topk={k: _topk_accuracy(scores, columns, k) for k in topk},
        group_accuracy=by_group.tolist(),
        mean_score=mean.tolist(),
        score_deviation=deviation.tolist(),
        prediction_share=(confusion.sum(axis=0) / len(scores)).tolist(),
        image_share=(confusion.sum(axis=1) / len(scores)).tolist(),
        group_confusion=confusion.tolist(),
        calibration_error=expected_calibration_error(scores, columns),
    )


@dataclass(frozen=True)
class Metrics:
    """The metrics of a whole incremental process, computed from its states (all of 1..S).

    Averages over no state at all (the paper's, where there is only state 1) are NaN, and so are all
    of them where a state has lost the images of a past group (`lost`): it is not judged on them.
    """

    states: list[StateMetrics]
    accuracy_matrix: Float64Array = field(init=False, repr=False)  # (S, S), NaN above the diagonal
    average_incremental_accuracy: float = field(init=False)
    average_incremental_accuracy_with_first: float = field(init=False)
    average_incremental_accuracy_group_mean: float = field(init=False)
    average_incremental_accuracy_group_mean_with_first: float = field(init=False)
    average_incremental_accuracy_known_group: float = field(init=False)
    average_incremental_topk: dict[int, float] = field(init=False)
    last_accuracy: float = field(init=False)
    last_accuracy_group_mean: float = field(init=False)
    forgetting: float = field(init=False)
    backward_transfer: float = field(init=False)

    def __post_init__(self) -> None:
        if [s.state for s in self.states] != list(range(1, len(self.states) + 1)):
            raise TransilError("metrics: the states 1..S are needed, without a gap")
        pooled = [s.accuracy for s in self.states]
        by_group = [s.accuracy_group_mean for s in self.states]
        matrix = accuracy_matrix(self.states)
        object.__setattr__(self, "accuracy_matrix", matrix)
        lost = {state for state, _ in self.lost}

        def mean(values: list[float]) -> float:
            return _mean([] if lost else values)

        judged = len(self.states) not in lost
        values = {
            "average_incremental_accuracy": mean(pooled[1:]),
            "average_incremental_accuracy_with_first": mean(pooled),
            "average_incremental_accuracy_group_mean": mean(by_group[1:]),
            "average_incremental_accuracy_group_mean_with_first": mean(by_group),
            "average_incremental_accuracy_known_group": mean(
                [s.accuracy_known_group for s in self.states[1:]]
            ),
            "average_incremental_topk": {
                k: mean([s.topk[k] for s in self.states[1:]]) for k in self.states[0].topk
            },
            "last_accuracy": pooled[-1] if judged else float("nan"),
            "last_accuracy_group_mean": by_group[-1] if judged else float("nan"),
            "forgetting": forgetting(matrix),
            "backward_transfer": backward_transfer(matrix),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def absent(self) -> list[tuple[int, int]]:
        """(state, group) of groups seen so far without an image: no average knows of them."""
        return [
            (state.state, group)
            for state in self.states
            for group in range(1, state.state + 1)
            if np.isnan(self.accuracy_matrix[state.state - 1, group - 1])
        ]

    @property
    def lost(self) -> list[tuple[int, int]]:
        """Those of `absent` whose group has images in an earlier state: then there is no average."""
        there = ~np.isnan(self.accuracy_matrix)
        return [(s, k) for s, k in self.absent if there[: s - 1, k - 1].any()]

    def to_json(self) -> dict[str, Any]:
        """Plain values for JSON; NaN (no images, no state) becomes null."""
        data = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "states"}
        return {**_plain(data), "states": [_plain(vars(state)) for state in self.states]}


def accuracy_matrix(states: list[StateMetrics]) -> Float64Array:
    """Accuracy of the model of state s (row) on group k (column); NaN above the diagonal."""
    matrix = np.full((len(states), len(states)), np.nan)
    for row, state in enumerate(states):
        matrix[row, : row + 1] = state.group_accuracy
    return matrix


def forgetting(matrix: Float64Array) -> float:
    """Mean over the past groups of the last model's loss against the best earlier model.

    `matrix` a (S, S) as `accuracy_matrix` gives it: mean over k < S of
    max_{k <= s < S} a[s, k] - a[S, k].
    """
    past = matrix[:-1, :-1]
    # Groups with test images in the last state and in an earlier one.
    measured = ~np.isnan(matrix[-1, :-1]) & ~np.isnan(past).all(axis=0)
    if not measured.any():
        return float("nan")
    best = np.nanmax(past[:, measured], axis=0)
    return float(np.mean(best - matrix[-1, :-1][measured]))


def backward_transfer(matrix: Float64Array) -> float:
    """What learning later groups did to the past ones (Lopez-Paz and Ranzato, NeurIPS 2017).

    `matrix` a (S, S) as `accuracy_matrix` gives it: mean over k < S of a[S, k] - a[k, k], over groups
    that have test images in both states.
    """
    changes = (matrix[-1] - matrix.diagonal())[:-1]
    return _mean(changes[~np.isnan(changes)].tolist())


def forward_transfer(matrix: Float64Array, untrained: Float64Array) -> float:
    """What earlier groups did for one before it was learned (the same paper).

    Mean over k > 1 of a[k - 1, k] - untrained[k]: `matrix` (S, S) with accuracies above the diagonal,
    `untrained` (S,) those of a model that learned nothing. Scores of the classes seen so far do not
    have them, so `Metrics` does not either; a model with all its columns from the start may.
    """
    ahead = matrix.diagonal(1) - np.asarray(untrained, dtype=np.float64)[1:]
    return _mean(ahead[~np.isnan(ahead)].tolist())


def _topk_accuracy(scores: FloatArray, columns: IntArray, k: int) -> float:
    hits = sum(topk_hits(scores[a:b], columns[a:b], k).sum() for a, b in _blocks(scores))
    return float(hits / len(scores))


def _score_moments(
    scores: FloatArray, schedule: Schedule, state: int
) -> tuple[Float64Array, Float64Array]:
    """Mean and standard deviation of the scores in each group's columns, shape (state,) each."""
    sizes = np.array(schedule.sizes[:state])
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    with np.errstate(over="ignore", invalid="ignore"):  # huge scores have infinite moments
        column_mean = scores.mean(axis=0, dtype=np.float64)
        mean = np.add.reduceat(column_mean, starts) / sizes
        shift = np.repeat(mean, sizes)
        squares = np.zeros(scores.shape[1])
        for a, b in _blocks(scores):
            squares += ((scores[a:b] - shift) ** 2).sum(axis=0)
        return mean, np.sqrt(np.add.reduceat(squares, starts) / (sizes * len(scores)))


def _blocks(scores: FloatArray) -> list[tuple[int, int]]:
    rows = max(1, BLOCK // scores.shape[1])
    return [(a, min(a + rows, len(scores))) for a in range(0, len(scores), rows)]


def _mean(values: list[float]) -> float:
    return float(np.mean(values)) if values else float("nan")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(v) for v in value]
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    return value

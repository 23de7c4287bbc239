"""Metrics against numbers worked out by hand, and against plain definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support import UNEQUAL, unequal_store
from transil import Schedule, evaluate
from transil.evaluation.metrics import (
    Metrics,
    StateMetrics,
    backward_transfer,
    expected_calibration_error,
    forgetting,
    forward_transfer,
    hits_in_group,
    state_metrics,
    topk_hits,
)

NAN = float("nan")


def test_one_state_by_hand() -> None:
    schedule = Schedule.from_sizes([2, 1])
    scores = np.array(
        [
            [3.0, 1.0, 2.0],  # true 0, predicted 0
            [0.0, 1.0, 5.0],  # true 1, predicted 2
            [1.0, 4.0, 0.0],  # true 1, predicted 1
            [0.0, 2.0, 6.0],  # true 2, predicted 2
        ]
    )
    m = state_metrics(scores, np.array([0, 1, 1, 2]), schedule, 2, topk=(2,))
    assert m.accuracy == 0.75
    assert m.group_accuracy == [pytest.approx(2 / 3), 1.0]
    assert m.accuracy_group_mean == pytest.approx((2 / 3 + 1) / 2)
    assert m.accuracy_known_group == 1.0
    assert m.topk == {2: 1.0}
    assert m.prediction_share == [0.5, 0.5]
    assert m.image_share == [0.75, 0.25]
    assert m.group_confusion == [[2, 1], [0, 1]]
    assert m.mean_score == [12 / 8, 13 / 4]
    assert m.score_deviation[1] == pytest.approx(np.std([2.0, 5.0, 0.0, 6.0]))


def _states(*accuracies: list[float]) -> list[StateMetrics]:
    return [
        StateMetrics(
            state=s,
            classes=s,
            images=1,
            accuracy=sum(row) / s,
            accuracy_group_mean=row[-1],
            accuracy_known_group=max(row),
            topk={5: 1.0 / s},
            group_accuracy=row,
            mean_score=[0.0] * s,
            score_deviation=[0.0] * s,
            prediction_share=[1.0] * s,
            image_share=[1.0] * s,
            group_confusion=[[1] * s] * s,
            calibration_error=0.0,
        )
        for s, row in enumerate(accuracies, start=1)
    ]


def test_averages_with_and_without_the_first_state() -> None:
    m = Metrics(_states([0.9], [0.5, 0.7], [0.2, 0.4, 0.6]))
    assert m.average_incremental_accuracy == pytest.approx((0.6 + 0.4) / 2)
    assert m.average_incremental_accuracy_with_first == pytest.approx((0.9 + 0.6 + 0.4) / 3)
    assert m.average_incremental_accuracy_group_mean == pytest.approx((0.7 + 0.6) / 2)
    assert m.average_incremental_accuracy_group_mean_with_first == pytest.approx(2.2 / 3)
    assert m.average_incremental_topk == {5: pytest.approx((1 / 2 + 1 / 3) / 2)}
    assert m.average_incremental_accuracy_known_group == pytest.approx((0.7 + 0.6) / 2)
    assert m.last_accuracy == pytest.approx(0.4)
    assert m.last_accuracy_group_mean == 0.6
    # Group 1 was best at 0.9, group 2 at 0.7; the last group cannot be forgotten yet.
    assert m.forgetting == pytest.approx(((0.9 - 0.2) + (0.7 - 0.4)) / 2)
    assert m.backward_transfer == pytest.approx(((0.2 - 0.9) + (0.4 - 0.7)) / 2)
    np.testing.assert_array_equal(
        m.accuracy_matrix, [[0.9, NAN, NAN], [0.5, 0.7, NAN], [0.2, 0.4, 0.6]]
    )


def test_a_single_state_has_no_incremental_average() -> None:
    m = Metrics(_states([0.9]))
    assert np.isnan(m.average_incremental_accuracy)
    assert np.isnan(m.forgetting)
    assert np.isnan(m.backward_transfer)
    assert m.to_json()["average_incremental_accuracy"] is None


def test_transfer_by_hand() -> None:
    matrix = np.array([[0.9, 0.2, NAN], [0.5, 0.7, 0.4], [0.6, NAN, 0.8]])
    assert backward_transfer(matrix) == pytest.approx(0.6 - 0.9)  # group 2 has no images any more
    assert forward_transfer(matrix, np.array([0.1, 0.1, 0.1])) == pytest.approx((0.1 + 0.3) / 2)
    assert np.isnan(forward_transfer(np.tril(matrix) + np.triu([[NAN] * 3] * 3, 1), matrix[0]))


def test_the_conventions_are_those_of_scikit_learn() -> None:
    sklearn = pytest.importorskip("sklearn.metrics")
    data, schedule = unequal_store().get("test", 5), Schedule.of(UNEQUAL)
    m = state_metrics(data.scores, data.columns, schedule, 5, topk=(3,))
    predicted, group = data.scores.argmax(axis=1), schedule.group_of_column(5)
    assert m.accuracy == pytest.approx(sklearn.accuracy_score(data.columns, predicted))
    top = sklearn.top_k_accuracy_score(data.columns, data.scores, k=3, labels=range(100))
    assert m.topk[3] == pytest.approx(top)
    by_group = sklearn.confusion_matrix(group[data.columns], group[predicted])
    np.testing.assert_array_equal(m.group_confusion, by_group)


def test_forgetting_can_be_negative() -> None:
    assert forgetting(np.array([[0.5, NAN], [0.7, 0.1]])) == pytest.approx(-0.2)


@given(
    st.integers(2, 6).flatmap(
        lambda c: st.lists(
            st.tuples(st.lists(st.integers(-2, 2), min_size=c, max_size=c), st.integers(0, c - 1)),
            min_size=1,
            max_size=8,
        )
    ),
    st.integers(1, 4),
)
def test_topk_is_the_rank_in_a_stable_sort(rows: list[tuple[list[int], int]], k: int) -> None:
    scores = np.array([row for row, _ in rows], dtype=float)
    columns = np.array([true for _, true in rows])
    best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    expected = (best == columns[:, None]).any(axis=1)
    np.testing.assert_array_equal(topk_hits(scores, columns, k), expected)


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.integers(0, 2**32 - 1),
    st.floats(0.01, 5.0),
    st.floats(-50.0, 50.0),
)
def test_a_known_group_leaves_its_own_classes_to_confuse(
    sizes: list[int], seed: int, alpha: float, beta: float
) -> None:
    schedule, random = Schedule.from_sizes(sizes), np.random.default_rng(seed)
    groups = schedule.group_of_column(len(sizes))
    scores, columns = random.normal(size=(30, sum(sizes))), random.integers(0, sum(sizes), 30)
    hit = hits_in_group(scores, columns, groups)
    for row, true in enumerate(columns):
        own = [c for c in range(sum(sizes)) if groups[c] == groups[true]]
        assert hit[row] == all(scores[row, true] >= scores[row, c] for c in own)
    assert (hit | ~topk_hits(scores, columns)).all()
    newest = np.where(groups == len(sizes), alpha * scores + beta, scores)
    np.testing.assert_array_equal(hits_in_group(newest, columns, groups), hit)


def test_calibration_error_by_hand() -> None:
    # Two sure rows (confidence near 1), one right, one wrong: gap 0.5. Two rows at confidence
    # 0.6, both right: gap 0.4. Each bin holds half the rows.
    sure, unsure = [50.0, 0.0], [np.log(0.6), np.log(0.4)]
    scores = np.array([sure, sure, unsure, unsure])
    error = expected_calibration_error(scores, np.array([0, 1, 0, 0]))
    assert error == pytest.approx(0.5 * 0.5 + 0.5 * 0.4)


def test_a_calibrated_model_has_a_small_error() -> None:
    random = np.random.default_rng(0)
    scores = random.normal(0, 2, (20_000, 5))
    p = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    columns = (random.random(20_000)[:, None] > p.cumsum(axis=1)).sum(axis=1)
    assert expected_calibration_error(scores, columns) < 0.015
    assert expected_calibration_error(3 * scores, columns) > 0.1


def test_groups_of_unequal_size() -> None:
    m = evaluate(unequal_store())
    assert [s.classes for s in m.states] == np.cumsum(UNEQUAL).tolist()
    last = m.states[-1]
    # Pooled: groups count by their images; group mean: alike.
    weights = np.array(UNEQUAL) / 100
    assert last.accuracy == pytest.approx(float(weights @ last.group_accuracy))
    assert last.accuracy_group_mean == pytest.approx(np.mean(last.group_accuracy))
    assert last.image_share == pytest.approx(weights)


def test_a_group_without_test_images_is_left_out() -> None:
    schedule = Schedule.from_sizes([1, 1, 1])
    m = state_metrics(np.eye(3)[[0, 2]], np.array([0, 2]), schedule, 3)
    assert m.accuracy_group_mean == 1.0
    assert np.isnan(m.group_accuracy[1])


def test_the_first_rows_of_large_scores_are_no_special_case(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = unequal_store().get("test", 5)
    whole = state_metrics(data.scores, data.columns, Schedule.of(UNEQUAL), 5)
    monkeypatch.setattr("transil.evaluation.metrics.BLOCK", 700)  # seven rows at a time
    blocks = state_metrics(data.scores, data.columns, Schedule.of(UNEQUAL), 5)
    assert blocks.topk == whole.topk
    assert blocks.calibration_error == pytest.approx(whole.calibration_error, rel=1e-12)
    assert blocks.score_deviation == pytest.approx(whole.score_deviation, rel=1e-12)


def test_there_is_no_average_where_a_state_has_lost_images_of_a_past_group() -> None:
    lost = Metrics(_states([0.5], [NAN, 0.9], [NAN, 0.2, 0.9]))
    assert lost.lost == [(2, 1), (3, 1)]
    assert np.isnan(lost.average_incremental_accuracy)
    assert np.isnan(lost.average_incremental_accuracy_group_mean_with_first)
    assert np.isnan(lost.average_incremental_topk[5])
    assert np.isnan(lost.last_accuracy)
    assert lost.to_json()["average_incremental_accuracy"] is None
    # One that never had any images is left out, as it was.
    never = Metrics(_states([0.5], [0.5, NAN], [0.5, NAN, 0.9]))
    assert never.lost == []
    assert never.absent == [(2, 2), (3, 2)]
    assert never.last_accuracy_group_mean == 0.9

"""Shifts that make scores predict assumed frequencies: one minimum, found whatever the scores are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from transil import TransilError
from transil.adaptation.columns import Columns, Corrected
from transil.adaptation.matching import Spread, _Problem, match, mean_softmax
from transil.adaptation.sample import SIZE, Sample, different


def some_scores(seed: int, rows: int = 200, columns: int = 5, size: float = 2.0) -> Any:
    random = np.random.default_rng(seed)
    return random.normal(0.0, size, (rows, columns)) + random.normal(0.0, size, columns)


def some_prior(seed: int, columns: int = 5) -> Any:
    return np.random.default_rng([seed, 1]).dirichlet(np.full(columns, 0.7))


SEEDS = st.integers(0, 10**6)
SIZES = st.floats(0.01, 12.0)


@given(SEEDS, SIZES)
def test_the_softmax_means_what_was_assumed(seed: int, size: float) -> None:
    scores, prior = some_scores(seed, size=size), some_prior(seed)
    found = match(scores, prior)
    floor = np.maximum(prior, 1e-3 / 5)
    assert_allclose(found.after, floor / floor.sum(), atol=1e-6)
    assert_allclose(mean_softmax(scores, found.shifts), found.after, atol=1e-9)


@given(SEEDS, SIZES, st.floats(0.05, 3.0))
def test_it_is_the_one_minimum_of_a_convex_function(seed: int, size: float, spread: float) -> None:
    scores, prior = some_scores(seed, size=size), some_prior(seed)
    group = np.array([0, 0, 1, 1, 1])
    known = Spread(spread, spread / 2)
    found = match(scores, prior, group=group, spread=known)
    floor = np.maximum(prior, 1e-3 / 5)
    pi = floor / floor.sum()
    problem = _Problem(scores, pi, known.precision(group) / len(scores), np.log(pi))
    best = problem.value(found.shifts)
    random = np.random.default_rng(seed)
    for _ in range(5):
        other = found.shifts + random.normal(0.0, 1.0, 5)
        assert problem.value(other) > best - 1e-9
        middle = problem.value((other + found.shifts) / 2)
        assert middle <= (problem.value(other) + best) / 2 + 1e-9
    assert np.abs(problem.gradient(found.shifts, found.after)).max() < 1e-6


@given(SEEDS, st.floats(-50.0, 50.0))
def test_what_changes_no_prediction_changes_no_shift(seed: int, common: float) -> None:
    scores, prior = some_scores(seed), some_prior(seed)
    usual = np.diff(match(scores, prior).shifts)
    rows = np.random.default_rng(seed).normal(0.0, 10.0, (len(scores), 1))
    for other in (scores + common, scores + rows, scores[::-1]):
        assert_allclose(np.diff(match(other, prior).shifts), usual, atol=1e-3)
    lifted = scores + np.arange(5.0)  # a bias of the columns is taken back
    assert_allclose(np.diff(match(lifted, prior).shifts), usual - 1.0, atol=1e-3)


def test_shifts_of_scores_that_predict_it_already_are_nothing() -> None:
    scores = some_scores(3)
    found = match(scores, mean_softmax(scores))
    assert_allclose(found.shifts, 0.0, atol=1e-5)


def test_many_rows_are_matched_as_exactly_as_few() -> None:
    scores = some_scores(5, rows=3 * SIZE + 17).astype(np.float32)
    prior = some_prior(5)
    found = match(scores, prior)
    assert_allclose(mean_softmax(scores, found.shifts), prior, atol=2e-3)


def test_rows_seen_through_a_correction_are_matched_as_if_they_were_corrected() -> None:
    scores, prior = some_scores(7), some_prior(7)
    columns = Columns(np.array([1.0, 0.5, 2.0, 1.5, 1.0]), np.arange(5.0), centred=True)
    seen = Corrected(scores, columns, 2.0)
    given_whole = np.asarray(columns.correct(scores)) / 2.0
    assert_allclose(match(seen, prior).shifts, match(given_whole, prior).shifts, atol=1e-9)


def test_few_images_and_small_spreads_shrink_shifts() -> None:
    scores, prior = some_scores(1, rows=5000), some_prior(1)
    group = np.array([0, 0, 1, 1, 1])
    away = {}  # from what a model without bias would need
    for rows, size in ((20, 0.3), (5000, 0.3), (5000, None)):
        spread = None if size is None else Spread(size, size)
        found = match(scores[:rows], prior, group=group, spread=spread)
        away[rows, size] = float(np.ptp(found.shifts - np.log(prior)))
    assert away[20, 0.3] < 0.8 * away[5000, 0.3] < 0.8 * away[5000, None]
    with pytest.raises(TransilError, match="group of each class"):
        match(scores, prior, spread=Spread(1.0, 1.0))


def test_a_class_that_never_comes_is_shifted_no_further_than_can_be_told() -> None:
    scores = some_scores(2)
    found = match(scores, np.array([0.5, 0.5, 0.0, 0.0, 0.0]))
    assert np.isfinite(found.shifts).all()
    assert found.after[2:].max() < 1e-3


@given(SEEDS, st.integers(1, 3), st.sampled_from([None, 100, 20_000]))
def test_a_sample_of_a_stream_does_not_grow(seed: int, batches: int, half_life: int | None) -> None:
    sample = Sample(half_life)
    random = np.random.default_rng(seed)
    for _ in range(batches):
        sample.add(random.normal(size=(3000, 2)))
    assert sample.seen == 3000 * batches
    assert len(sample.rows) <= min(SIZE, sample.seen)


def test_each_row_of_a_stream_is_as_likely_in_the_sample_unless_old_ones_fade() -> None:
    rows = np.arange(40_000.0)[:, None]
    for half_life, expected in ((None, 20_000.0), (4_000, 40_000 - 4_000 / np.log(2))):
        sample = Sample(half_life)
        for start in range(0, len(rows), 1000):
            sample.add(rows[start : start + 1000])
        assert abs(sample.rows.mean() - expected) < 600


@given(SEEDS, st.integers(1, 7), st.sampled_from([np.float32, np.float64]))
def test_copies_count_as_one_image(seed: int, copies: int, dtype: Any) -> None:
    scores = some_scores(seed).astype(dtype)
    assert different(scores) == len(scores)
    often = np.concatenate([scores] * copies)
    assert different(often) == pytest.approx(len(scores))
    one = np.concatenate([scores, np.repeat(scores[:1], 10_000, axis=0)])  # one that never stops
    assert different(one) < 2

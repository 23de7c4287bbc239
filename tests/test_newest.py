"""The share of the newest group, estimated from rates of recognition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transil import TransilError
from transil.adaptation import newest_share
from transil.adaptation.newest import Count, Counted

counts = st.integers(1, 2000).flatmap(
    lambda of: st.tuples(st.integers(0, of), st.just(of))
)  # fmt: skip


@given(
    st.integers(0, 100), st.integers(60, 100), st.integers(0, 40),
)  # fmt: skip
def test_rates_that_are_exact_give_the_share_back(share: int, right: int, wrong: int) -> None:
    """p = t q + f (1 - q), with counts that hold without rounding."""
    hits = right * share + wrong * (100 - share)
    found = newest_share((hits, 10_000), (right * 10, 1000), (wrong * 10, 1000))
    assert found.share is not None
    assert found.share == pytest.approx(share / 100, abs=1e-9)
    assert found.low <= found.share <= found.high


@given(counts, counts, st.none() | counts, st.sampled_from([0.5, 0.9, 0.99]))
def test_the_interval_is_within_0_and_1_and_grows_with_its_level(
    predicted: Count, recognised: Count, mistaken: Count | None, level: float
) -> None:
    found = newest_share(predicted, recognised, mistaken, level=level)
    assert 0 <= found.low <= found.high <= 1
    wider = newest_share(predicted, recognised, mistaken, level=0.999)
    assert wider.low <= found.low + 1e-12
    assert wider.high >= found.high - 1e-12
    if found.share is None:
        assert found.low == 0  # nothing bounds it from below
        assert found.tells == (found.high < 1)
    else:
        assert found.low <= found.share <= found.high
        assert found.recognised > (found.mistaken or 0)


@given(counts, counts, counts)
def test_without_the_rate_of_mistakes_the_range_holds_every_possible_share(
    predicted: Count, recognised: Count, mistaken: Count
) -> None:
    """Whatever the rate of mistakes, the share that it gives is at most p / t."""
    known = newest_share(predicted, recognised, mistaken)
    found = newest_share(predicted, recognised)
    assert found.share is None
    if known.share is not None:
        assert known.share <= found.high + 1e-12
    if found.predicted < found.recognised:
        assert found.high >= found.predicted / found.recognised


@given(counts, st.integers(0, 99))
def test_more_predictions_of_the_newest_group_mean_more_of_it(count: Count, more: int) -> None:
    hits, of = count
    fewer, others = ((k, of + 100) for k in (hits, hits + more))
    a, b = (newest_share(p, (90, 100), (10, 100)).share for p in (fewer, others))
    assert a is not None
    assert b is not None
    assert a <= b


def test_the_interval_covers_as_often_as_it_says() -> None:
    random, n = np.random.default_rng(0), 4000
    for share, t, f in ((0.1, 0.6, 0.1), (0.5, 0.85, 0.05), (0.3, 0.5, 0.2)):
        p = t * share + f * (1 - share)
        draws = [(600, p), (80, t), (300, f)]
        hits = [random.binomial(of, rate, n) for of, rate in draws]
        covered = sum(
            (
                found := newest_share(
                    *((int(k[i]), of) for k, (of, _) in zip(hits, draws, strict=True))
                )
            ).low
            <= share
            <= found.high
            for i in range(n)
        )
        assert 0.93 < covered / n < 0.98
        below = sum(newest_share((int(hits[0][i]), 600), (int(hits[1][i]), 80)).high >= share
                    for i in range(n))  # fmt: skip
        assert below / n > 0.94


def test_where_nothing_is_told_apart_nothing_is_said() -> None:
    for mistaken in ((50, 100), (60, 100), (45, 100)):
        found = newest_share((300, 600), (50, 100), mistaken)
        assert (found.share, found.low, found.high, found.tells) == (None, 0.0, 1.0, False)
    assert newest_share((500, 600), (50, 100)).high == 1.0


def test_what_is_no_count_is_told() -> None:
    for count in ((1, 0), (5, 4), (-1, 4)):
        with pytest.raises(TransilError, match="give counts from 0"):
            newest_share(count, (9, 10))
    with pytest.raises(TransilError, match="level: between 0 and 1"):
        newest_share((1, 2), (9, 10), level=float("nan"))


def test_what_a_person_says_comes_first() -> None:
    estimate = newest_share((300, 600), (90, 100), (10, 100))
    assert Counted.of(0.2, estimate).share == 0.2
    assert Counted.of(None, estimate).source == "estimated"
    assert Counted.of(None, newest_share((0, 600), (90, 100), (10, 100))).share == 0.001
    assert Counted.of(None, newest_share((300, 600), (90, 100))).share is None

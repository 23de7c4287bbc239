"""What every prior must do, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from transil import TransilError
from transil.adaptation.priors import PRIORS, Situation, find_prior, register_prior, with_newest

GROUP = np.array([0, 0, 0, 1, 2, 2])
NAMES = ["cat", "dog", "owl", "bee", "elk", "fox"]


def situation(seed: int = 0, remembered: bool = True) -> Situation:
    random = np.random.default_rng(seed)
    within = np.concatenate([random.dirichlet(np.ones(size)) for size in np.bincount(GROUP)])
    return Situation(GROUP, random.dirichlet(np.ones(6)), within if remembered else None)


@pytest.mark.parametrize("name", PRIORS.names())
@given(st.integers(0, 1000))
def test_a_prior_gives_each_class_a_share(name: str, seed: int) -> None:
    made = find_prior(name, situation(seed), NAMES)
    assert made.shares.shape == (6,)
    assert (made.shares >= 0).all()
    assert made.shares.sum() == pytest.approx(1.0)
    assert made.name == name
    assert len(made.says) > 20


@pytest.mark.parametrize("name", PRIORS.names())
def test_a_prior_does_not_hang_on_the_order_of_classes_in_a_group(name: str) -> None:
    turned = np.array([2, 0, 1, 3, 5, 4])
    usual = situation(4)
    assert usual.remembered is not None
    other = Situation(GROUP, usual.predicted[turned], usual.remembered[turned])
    assert_allclose(PRIORS.find(name)(other), PRIORS.find(name)(usual)[turned])


def test_what_is_remembered_holds_within_groups_and_nowhere_else() -> None:
    here = situation(2)
    assert here.remembered is not None
    for name, groups in (("remembered", np.array([3, 1, 2]) / 6), ("cautious", here.of_groups)):
        shares = find_prior(name, here, NAMES).shares
        assert_allclose(np.bincount(GROUP, weights=shares), groups)
        within = shares / np.bincount(GROUP, weights=shares)[GROUP]
        assert_allclose(within, here.drawn(here.remembered))


def test_little_that_is_remembered_of_even_traffic_is_taken_for_frequency() -> None:
    within = np.array([0.36, 0.33, 0.31, 1.0, 0.45, 0.55])
    here = Situation(GROUP, np.full(6, 1 / 6), within)
    even = 1 / np.bincount(GROUP)[GROUP]
    assert_allclose(here.within, even)
    skewed = np.array([0.9, 0.09, 0.01, 1.0, 0.2, 0.8])
    drawn = here.drawn(skewed)
    assert_allclose(drawn, skewed, atol=0.02)
    assert_allclose(np.bincount(GROUP, weights=drawn), 1.0)
    ratio = np.log(drawn[[0, 0, 4]] / drawn[[1, 2, 5]]) / np.log(
        skewed[[0, 0, 4]] / skewed[[1, 2, 5]]
    )
    assert_allclose(ratio, ratio[0])  # one factor for all groups, a little below 1
    assert 0.95 < ratio[0] < 1.0


def test_a_group_that_nobody_recorded_is_taken_as_predicted() -> None:
    here = situation(3)
    assert here.remembered is not None
    lacking = Situation(GROUP, here.predicted, np.where(GROUP == 0, np.nan, here.remembered))
    shares = find_prior(None, lacking, NAMES).shares
    assert_allclose(shares[:3], here.predicted[:3])


def test_none_assumes_nothing_where_nothing_is_remembered() -> None:
    here = situation(remembered=False)
    made = find_prior(None, here, NAMES)
    assert made.name == "predicted"
    assert made.shares is here.predicted


@pytest.mark.parametrize(
    "given_shares",
    [
        {"cat": 3, "dog": 1, "owl": 1, "bee": 2, "elk": 1, "fox": 2},
        [0.3, 0.1, 0.1, 0.2, 0.1, 0.2],
        np.array([30, 10, 10, 20, 10, 20]),
    ],
)
def test_known_shares_may_be_given_in_any_form(given_shares: Any) -> None:
    made = find_prior(given_shares, situation(), NAMES)
    assert_allclose(made.shares, [0.3, 0.1, 0.1, 0.2, 0.1, 0.2])
    assert made.name == "known"


def test_shares_of_groups_are_shared_out_as_remembered() -> None:
    here = situation(6)
    made = find_prior([0.2, 0.3, 0.5], here, NAMES)
    assert_allclose(np.bincount(GROUP, weights=made.shares), [0.2, 0.3, 0.5])
    assert_allclose(made.shares[4:] / 0.5, here.within[4:])


@given(st.integers(0, 1000), st.floats(0.01, 0.99))
def test_the_share_of_the_newest_group_leaves_the_others_their_ratios(
    seed: int, share: float
) -> None:
    here = situation(seed)
    usual = find_prior("uniform", here, NAMES)
    made = with_newest(usual, here, share)
    assert made.shares[4:].sum() == pytest.approx(share)
    assert_allclose(made.shares[:4], (1 - share) / 4)
    assert f"newest {share:g}" in made.name


@pytest.mark.parametrize(
    ("prior", "says"),
    [
        ("unifrom", "did you mean 'uniform'"),
        ({"cat": 1.0}, "class 'dog' and 4 more has no share"),
        ({**dict.fromkeys(NAMES, 1.0), "cow": 1.0}, "no class 'cow'"),
        ([1, 1, 1, 1, 1, -1], "share of class 5 is -1"),
        ([0, 0, 0, 0, 0, 0], "all shares are 0"),
        ([1, 1, 1, 1, 1, np.nan], "share of class 5 is nan"),
        ([1, 1], "2 shares, but 6 classes"),
        ([[1, 1, 1, 1, 1, 1]], "list of shares"),
        (["a", "b", "c", "d", "e", "f"], "expected numbers"),
        (np.inf, "list of shares"),
    ],
)
def test_priors_that_are_none(prior: Any, says: str) -> None:
    with pytest.raises(TransilError, match=says):
        find_prior(prior, situation(), NAMES)


@pytest.mark.parametrize("share", [0, 1, -0.2, 2, "half", True])
def test_newest_shares_that_are_none(share: Any) -> None:
    here = situation()
    with pytest.raises(TransilError, match="between 0 and 1"):
        with_newest(find_prior("uniform", here, NAMES), here, share)


def test_remembered_needs_a_ledger() -> None:
    with pytest.raises(TransilError, match="give a ledger"):
        find_prior("remembered", situation(remembered=False), NAMES)
    one = Situation(np.zeros(3, dtype=np.int64), np.full(3, 1 / 3))
    with pytest.raises(TransilError, match="one group"):
        with_newest(find_prior("uniform", one, "abc"), one, 0.5)


@pytest.fixture
def halves() -> Iterator[None]:
    """A rule of another package."""

    @register_prior("halves", "the first class is half of the traffic")
    def rule(here: Situation) -> Any:
        rest = 0.5 / (len(here.group) - 1)
        return np.array([0.5, *[rest] * (len(here.group) - 1)])

    yield
    del PRIORS._things["halves"]


def test_others_may_add_a_prior(halves: None) -> None:
    assert find_prior("halves", situation(), NAMES).shares[0] == 0.5


def test_shares_that_repeat_what_is_predicted_tell_nothing_of_the_bias() -> None:
    group = np.array([0, 0, 0, 1, 1])
    predicted = np.array([0.3, 0.2, 0.1, 0.1, 0.3])
    without = Situation(group, predicted)
    half = with_newest(find_prior(None, without, "abcde"), without, 0.5)
    assert without.telling(half.shares) == pytest.approx([1 / 6] * 3 + [0.25] * 2)
    kept = Situation(group, predicted, np.array([np.nan] * 3 + [0.9, 0.1]))
    told = find_prior("cautious", kept, "abcde").shares
    assert kept.telling(told) == pytest.approx(
        [0.2] * 3 + [0.4 * share for share in kept.within[3:]]
    )
    known = np.array([0.5, 0.2, 0.1, 0.1, 0.1])
    assert without.telling(known) == pytest.approx(known)

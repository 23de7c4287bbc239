"""Simulated traffic, and priors tried on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transil import Schedule, ScoreStore, TransilError, fit, load_bank
from transil.adaptation.corrector import Corrector
from transil.adaptation.traffic import Traffic
from transil.adaptation.trial import DEFAULTS, Assumed, trial
from transil.interop import dkt
from transil.testing import biased_scores

RELEASED = Path(__file__).resolve().parents[2] / "shared" / "released-scores" / "logits_lucir_s10"
SIZES = [4, 1, 3, 2]
SCHEDULE = Schedule.from_sizes(SIZES)
STORE = biased_scores("4,1,3,2", seed=3, images_per_class=120, splits=("test",))


def newest(state: int, shares: Any) -> float:
    return float(shares[SCHEDULE.group_columns(state)].sum())


# -- frequencies -------------------------------------------------------------------------------


@settings(max_examples=50)
@given(
    st.floats(1, 1000),
    st.sampled_from(["classes", "groups"]),
    st.integers(1, 4),
    st.integers(0, 99),
)
def test_a_tail_falls_by_one_factor_in_an_order_of_the_seed(
    ratio: float, over: Any, state: int, seed: int
) -> None:
    traffic = Traffic(ratio, over, seed=seed)
    last = traffic.frequencies(SCHEDULE, 4)
    assert last.sum() == pytest.approx(1)
    assert last.max() / last.min() == pytest.approx(ratio)
    steps = np.unique(np.round(np.log(last), 9)) if over == "groups" else np.sort(np.log(last))
    if ratio > 1.01:
        assert np.diff(steps) == pytest.approx(np.log(ratio) / (len(steps) - 1), abs=1e-6)
        assert len(steps) == (4 if over == "groups" else 10)
    seen = traffic.frequencies(SCHEDULE, state)  # of the classes seen, in the same proportions
    assert seen == pytest.approx(last[: len(seen)] / last[: len(seen)].sum())


@given(st.floats(0.01, 0.99), st.floats(0.01, 100), st.integers(2, 4))
def test_the_share_of_the_newest_group(share: float, times: float, state: int) -> None:
    as_usual = Traffic(10).frequencies(SCHEDULE, state)
    given_share = Traffic(10, newest=share).frequencies(SCHEDULE, state)
    assert newest(state, given_share) == pytest.approx(share)
    often = Traffic(10, newest_times=times).frequencies(SCHEDULE, state)
    before, after = newest(state, as_usual), newest(state, often)
    assert after / (1 - after) == pytest.approx(times * before / (1 - before))
    old = slice(0, SCHEDULE.columns(state - 1))
    for changed in (given_share, often):  # apart from that nothing is changed
        assert changed[old] / changed[old].sum() == pytest.approx(
            as_usual[old] / as_usual[old].sum()
        )
    assert Traffic(newest=share).frequencies(SCHEDULE, 1).sum() == pytest.approx(1)


def test_absent_classes_are_some_of_each_group_and_the_same_in_every_state() -> None:
    last = Traffic(10, absent=0.5).frequencies(SCHEDULE, 4)
    away = [int((last[SCHEDULE.group_columns(k)] == 0).sum()) for k in (1, 2, 3, 4)]
    assert away == [2, 0, 1, 1]
    before = Traffic(10, absent=0.5).frequencies(SCHEDULE, 3)
    assert before == pytest.approx(last[:8] / last[:8].sum())
    columns = STORE.get("test", 4).columns
    cut = Traffic(10, absent=0.5).cut(columns, SCHEDULE, 4)
    for rows in (cut.adapt, cut.judged):
        assert not (last[columns[rows]] == 0).any()
        assert len(rows)


def test_frequencies_that_drift_are_the_same_tail_in_another_order() -> None:
    three, four = (Traffic(10, drifts=True).frequencies(SCHEDULE, state)[:8] for state in (3, 4))
    assert three / three.sum() != pytest.approx(four / four.sum(), rel=0.1)
    whole = Traffic(10).frequencies(SCHEDULE, 4)
    assert np.sort(Traffic(10, drifts=True).frequencies(SCHEDULE, 4)) == pytest.approx(
        np.sort(whole)
    )


def test_copies_are_of_so_many_times_fewer_images() -> None:
    columns = STORE.get("test", 4).columns
    once, often = (Traffic(copies=n).cut(columns, SCHEDULE, 4) for n in (1, 10))
    assert len(often.adapt) == len(once.adapt)
    assert len(set(often.adapt.tolist())) == -(-len(once.adapt) // 10)
    assert set(often.adapt.tolist()) <= set(once.adapt.tolist())
    assert often.judged.tolist() == once.judged.tolist()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"ratio": 0.5}, "1 or more, not 0.5"),
        ({"ratio": float("nan")}, "1 or more, not nan"),
        ({"over": "images"}, "over classes or groups, not 'images'"),
        ({"newest": 1.0}, "between 0 and 1, not 1"),
        ({"newest_times": 0.0}, "above 0, not 0"),
        ({"newest": 0.5, "newest_times": 2.0}, "newest or newest_times, not both"),
        ({"most": 0}, "above 0, not 0"),
        ({"absent": 1.0}, "below 1, not 1"),
        ({"copies": 0}, "above 0, not 0"),
        ({"seed": -1}, "0 or more, not -1"),
    ],
)
def test_what_cannot_be(words: dict[str, Any], says: str) -> None:
    with pytest.raises(TransilError, match=says):
        Traffic(**words)


def test_each_traffic_has_a_name_of_its_own() -> None:
    names = {
        "classes 1:1": Traffic(),
        "groups 10:1": Traffic(10, over="groups"),
        "newest 0.5": Traffic(newest=0.5),
        "newest x0.1": Traffic(newest_times=0.1),
        "classes 100:1, newest 0.2, 300 images": Traffic(100, newest=0.2, most=300),
        "classes 10:1, 30% absent": Traffic(10, absent=0.3),
        "classes 10:1, drifting": Traffic(10, drifts=True),
        "classes 10:1, 10 copies": Traffic(10, copies=10),
    }
    assert {name: traffic.name for name, traffic in names.items()} == {name: name for name in names}


# -- halves ------------------------------------------------------------------------------------


@settings(max_examples=30)
@given(st.floats(1, 100), st.integers(0, 99), st.sampled_from([None, 30]))
def test_nothing_is_judged_that_was_adapted_to(ratio: float, seed: int, most: int | None) -> None:
    traffic = Traffic(ratio, most=most, seed=seed)
    judged: set[int] = set()
    adapted: set[int] = set()
    for state in (1, 2, 3, 4):
        columns = STORE.get("test", state).columns
        cut = traffic.cut(columns, SCHEDULE, state)
        # Nested states: an image that is judged in one was never adapted to in an earlier one.
        judged |= set(cut.judged.tolist())
        adapted |= set(cut.adapt.tolist())
        assert not judged & adapted
        weights = np.bincount(columns, weights=cut.weight, minlength=len(cut.shares))
        assert weights == pytest.approx(cut.shares)
        assert most is None or len(cut.adapt) <= most
        assert len(set(cut.adapt.tolist())) == len(cut.adapt)


def test_the_half_that_is_adapted_to_has_the_frequencies_on_average() -> None:
    columns = STORE.get("test", 4).columns
    counts = np.zeros(10)
    order = Traffic(30, seed=5)
    for seed in range(200):
        # The same frequencies, other images and roundings.
        object.__setattr__(traffic := Traffic(30, seed=seed), "frequencies", order.frequencies)
        counts += np.bincount(columns[traffic.cut(columns, SCHEDULE, 4).adapt], minlength=10)
    shares = order.frequencies(SCHEDULE, 4)
    assert counts.max() == 200 * 60  # all of the commonest
    assert counts / counts.sum() == pytest.approx(shares, rel=0.05)


def test_classes_of_one_image_and_of_none() -> None:
    columns = np.array([0] * 40 + [1] * 3 + [3])
    cut = Traffic().cut(columns, Schedule.from_sizes([2, 2]), 2)
    assert np.bincount(columns[cut.adapt], minlength=4).tolist() == [1, 1, 0, 0]
    weights = np.bincount(columns, weights=cut.weight, minlength=4)
    assert weights == pytest.approx([1 / 3, 1 / 3, 0, 1 / 3])


# -- trials ------------------------------------------------------------------------------------

BANK = fit([biased_scores("4,1,3,2", seed=seed) for seed in (1, 2)], correction="adbic")


def test_columns_are_those_of_correctors_on_the_halves() -> None:
    traffic = Traffic(10, seed=2)
    found = trial(STORE, traffic, ("none", "predicted", "known"), bank=BANK)
    assert list(found.columns) == ["raw", "bank", "none", "predicted", "known"]
    raw, known, shares = [], [], []
    for state in (2, 3, 4):
        data = STORE.get("test", state)
        cut = traffic.cut(data.columns, SCHEDULE, state)
        corrector = Corrector(SCHEDULE, bank=BANK, prior=cut.shares)
        better = corrector.fit(data.scores[cut.adapt], state=state).transform(data.scores)
        raw.append(cut.weight @ (data.scores.argmax(axis=1) == data.columns))
        known.append(cut.weight @ (better.argmax(axis=1) == data.columns))
        shares.append(len(cut.adapt))
    assert found.columns["raw"].accuracy == pytest.approx(raw)
    assert found.columns["known"].accuracy == pytest.approx(known)
    assert found.adapted == tuple(shares)
    assert found.short == ()
    column, base = found.columns["known"], found.columns["bank"]
    assert column.average == pytest.approx(np.mean(known))
    assert column.low < column.average < column.high
    assert column.over_bank[0] == pytest.approx(column.average - base.average)
    assert column.over_raw[1] < column.over_raw[0] < column.over_raw[2]
    assert found.columns["predicted"] == found.columns["none"] == base


def test_a_tail_is_better_known() -> None:
    """A model with a strong bias: what is known, or remembered, of the frequencies helps."""
    found = trial(STORE, Traffic(30, seed=1), DEFAULTS, bank=BANK)
    average = {name: column.average for name, column in found.columns.items()}
    assert average["known"] > average["none"]
    assert average["known"] > average["uniform"]
    assert average["remembered"] > average["uniform"]
    assert set(average) == {"raw", "bank", *DEFAULTS}
    again = trial(STORE, Traffic(30, seed=1), DEFAULTS, bank=BANK)
    assert again == found  # nothing but the seed is drawn


def test_others_are_judged_beside_and_may_not_take_a_name() -> None:
    found = trial(
        STORE, Traffic(), ("uniform",), bank=BANK, others={"zero": lambda z, _: z * 0 - z}
    )
    assert found.columns["zero"].average < found.columns["raw"].average
    with pytest.raises(TransilError, match="'uniform' is the name of a column"):
        trial(STORE, Traffic(), ("uniform",), bank=BANK, others={"uniform": lambda z, _: z})


def test_too_few_images_leave_scores_as_they_are() -> None:
    found = trial(STORE, Traffic(most=40), ("none+ledger", "remembered", "uniform"), bank=BANK)
    assert found.short == (1, 2, 3, 4)
    raw = found.columns["raw"]
    assert all(column == raw for column in found.columns.values())


def test_what_state_1_did_not_tell_is_not_remembered() -> None:
    """One class of 60 images is too little; the later states are recorded."""
    store = biased_scores("1,6,3", seed=3, images_per_class=120, splits=("test",))
    bank = fit([biased_scores("1,6,3", seed=seed) for seed in (1, 2)], correction="adbic")
    found = trial(store, Traffic(5), ("none", "remembered"), bank=bank)
    assert found.short == (1,)
    assert found.columns["remembered"].accuracy[1] != found.columns["none"].accuracy[1]


def test_names_of_priors() -> None:
    assert Assumed.of("none") == Assumed(None)
    assert Assumed.of("remembered") == Assumed("remembered", ledger=True)
    assert Assumed.of("uniform+newest") == Assumed("uniform", newest=True)
    with pytest.raises(TransilError, match="did you mean 'uniform'"):
        Assumed.of("unform")
    with pytest.raises(TransilError, match="'\\+newst' is unknown"):
        Assumed.of("none+newst")


def test_stores_that_cannot_be_tried() -> None:
    one = ScoreStore.from_arrays({}, "10/1")
    one.put("test", 1, STORE.get("test", 4).scores, STORE.get("test", 4).labels)
    with pytest.raises(TransilError, match="no state after the first"):
        trial(one, Traffic())
    turned = ScoreStore.from_arrays({}, SIZES)
    for state in (1, 2, 3, 4):
        data = STORE.get("test", state)
        turned.put("test", state, data.scores[::-1], data.labels[::-1])
    with pytest.raises(TransilError, match="test images of states are not nested"):
        trial(turned, Traffic(), bank=BANK)


@pytest.mark.skipif(not RELEASED.exists(), reason="the authors' released scores are not here")
def test_the_authors_model_on_a_tail() -> None:
    store = dkt.import_scores(RELEASED)
    found = trial(store, Traffic(10), ("none", "none+ledger", "uniform", "remembered", "known"))
    average = {name: 100 * column.average for name, column in found.columns.items()}
    assert average["known"] > average["remembered"] > average["none"] + 3 > average["raw"] + 10
    assert average["uniform"] < average["remembered"] - 3
    whole = load_bank("lucir", schedule=store.schedule)
    assert trial(store, Traffic(10), (), bank=whole).columns["bank"] == found.columns["bank"]

"""`advise`: what scores show, what is advised, and what would follow from other class frequencies."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from transil import Corrector, Ledger, ScoreStore, TransilError
from transil._common.arrays import FloatArray
from transil.adaptation import Advice, advise
from transil.adaptation.left import softmax
from transil.adaptation.risk import SHARES, gain_of, risk_of
from transil.schedule import IntArray
from transil.testing import biased_scores

SIZES = "12,5,5,8,3,4"
OLD = 33  # classes before the newest group


def traffic(images: int = 20, seed: int = 3) -> tuple[FloatArray, IntArray]:
    """Scores (n, 37) of state 6, and labels that no advice sees."""
    made = biased_scores(SIZES, seed=seed, images_per_class=images).get("test", 6)
    return np.array(made.scores), made.labels


def quiet(*args: Any, **words: Any) -> Advice:
    """Advice that warns of nothing: it says all in its own words."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return advise(*args, **words)


def test_shares_are_those_of_the_predictions_and_the_corrector_does_what_is_advised() -> None:
    scores, _ = traffic()
    found = quiet(scores, SIZES, method="lwf-t")
    corrected = Corrector(SIZES, method="lwf-t").fit_transform(scores)
    assert (found.state, found.rows, found.bank, found.abstained) == (6, len(scores), "lwf-t", None)
    np.testing.assert_array_equal(found.corrector.transform(scores), corrected)
    before, after = scores.argmax(axis=1), corrected.argmax(axis=1)
    assert found.moved == np.mean(before != after) > 0.2
    last = found.groups[-1]
    assert (last.before, last.after) == (np.mean(before >= OLD), np.mean(after >= OLD))
    assert last.after < last.before > last.fair == 4 / 37
    for name in ("fair", "before", "after", "assumed"):
        assert sum(getattr(group, name) for group in found.groups) == pytest.approx(1)
    advised = [row for row in found.assumptions if row.advised]
    assert [row.name for row in advised] == ["predicted"]
    assert (advised[0].moved, advised[0].called) == (0, last.after)
    assert not found.shifted


def test_the_bank_is_the_methods_else_the_generic_one_else_none() -> None:
    scores, _ = traffic()
    generic = quiet(scores, SIZES)
    assert (generic.bank, len(generic.banks)) == ("generic", 1)
    assert "generic bank knows less" in generic.cautions[0]
    scores[:, 12:17] += 50.0  # no reference of this method has one group alone predicted
    far = quiet(scores, SIZES, method="lwf-t")
    assert [(bank.name, bank.far) for bank in far.banks] == [("lwf-t", True), ("generic", False)]
    assert far.bank == "generic"


def test_far_from_all_references_it_abstains_but_for_what_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("transil.correction.scales.FAR", 0.1)
    scores, _ = traffic()
    found = quiet(scores, SIZES, method="lwf-t")
    assert [bank.far for bank in found.banks] == [True, True]
    assert found.bank is None
    assert found.abstained is not None
    assert "any bank was fitted on" in found.abstained
    np.testing.assert_array_equal(found.corrector.transform(scores), scores)
    told = quiet(scores, SIZES, method="lwf-t", newest=0.1)
    assert (told.bank, told.abstained, told.shifted) == (None, None, True)
    assert told.groups[-1].after < told.groups[-1].before


def test_what_is_known_of_the_newest_group_is_used() -> None:
    scores, labels = traffic(40)
    known = (labels >= OLD) & (np.arange(len(labels)) % 2 == 0)
    marks = np.where(known, labels, -1)
    before = scores[labels < OLD][::2]
    estimated = quiet(scores, SIZES, method="lwf-t", newest_labels=marks, before=before)
    assert estimated.estimate is not None
    share = np.mean(labels[~known] >= OLD)
    assert estimated.estimate.low <= share <= estimated.estimate.high
    assert estimated.newest == estimated.estimate.share
    assert estimated.newest_from == "estimated"
    assert (estimated.rows, estimated.labelled) == ((~known).sum(), known.sum())
    right = [np.mean(z[known].argmax(axis=1) == labels[known])
             for z in (scores, estimated.corrector.transform(scores))]  # fmt: skip
    assert estimated.recall == tuple(right)
    ranged = quiet(scores, SIZES, method="lwf-t", newest_labels=marks)
    assert ranged.newest is None
    assert ranged.estimate is not None
    assert (ranged.estimate.share, ranged.estimate.low) == (None, 0.0)
    assert share < ranged.estimate.high < 1
    assert ranged.assumptions[-1].name == f"newest {ranged.estimate.high:.0%}, at most"
    given = quiet(scores, SIZES, method="lwf-t", newest=0.6, newest_labels=marks, before=before)
    assert (given.newest, given.newest_from) == (0.6, "given")
    assert any("labels speak for" in text for text in given.cautions)
    assert given.groups[-1].assumed == pytest.approx(0.6)


def test_columns_in_another_order_give_the_same_advice() -> None:
    scores, labels = traffic()
    marks = np.where((labels >= OLD) & (np.arange(len(labels)) % 2 == 0), labels, -1)
    order = np.random.default_rng(0).permutation(37)
    mixed = scores[:, np.argsort(order)]
    words = {"method": "lwf-t", "newest_labels": marks, "before": scores[:100]}
    plain = quiet(scores, SIZES, **words)
    words["before"] = mixed[:100]
    other = quiet(mixed, SIZES, order=order, **words)
    for one, same in zip(other.groups, plain.groups, strict=True):
        assert (one.before, one.after) == (same.before, same.after)
        assert one.assumed == pytest.approx(same.assumed, rel=1e-5)
    assert other.estimate == plain.estimate
    assert other.recall == plain.recall
    for a, b in zip(other.assumptions, plain.assumptions, strict=True):
        assert a.name == b.name
        for name in ("share", "called", "moved", "gain"):
            assert getattr(a, name) == pytest.approx(getattr(b, name), rel=1e-4)


def test_a_ledger_is_used_and_a_lost_one_is_told(tmp_path: Path) -> None:
    scores, _ = traffic()
    ledger = Ledger(tmp_path / "ledger.json", SIZES, "lwf-t")
    store = biased_scores(SIZES, seed=3, images_per_class=20)
    for state in range(1, 7):
        ledger.record(state, store.get("test", state).scores)
    found = quiet(scores, SIZES, method="lwf-t", ledger=tmp_path / "ledger.json")
    assert [row.name for row in found.assumptions][:4] == [
        "cautious", "predicted", "uniform", "remembered",
    ]  # fmt: skip
    assert found.shifted
    lost = quiet(scores, SIZES, method="lwf-t", ledger=tmp_path / "none.json")
    assert any("no such ledger" in text for text in lost.cautions)
    assert not lost.shifted


def test_where_nothing_is_left_of_old_classes_it_abstains() -> None:
    random = np.random.default_rng(0)
    scores, _ = traffic()
    scores[:, :OLD] = -8.0 + random.normal(0, 0.01, (len(scores), OLD))
    found = quiet(scores, SIZES, method="ft")
    assert found.nothing_left
    assert found.abstained is not None
    assert "keeps nothing of its old classes" in found.abstained
    assert (found.moved, found.risk) == (0, None)
    forced = quiet(scores, SIZES, method="ft", prior="uniform")
    assert forced.abstained is None
    assert any("keeps nothing" in text for text in forced.cautions)


def drawn(random: np.random.Generator, logits: FloatArray) -> IntArray:
    """A label of each row, as likely as the softmax says."""
    powers = softmax(logits)
    return np.asarray((powers.cumsum(axis=1) > random.random((len(powers), 1))).argmax(axis=1))


def test_the_risk_is_the_accuracy_that_is_expected_under_each_share() -> None:
    """Labels are drawn with the newest group more or less likely in the same rows."""
    random = np.random.default_rng(1)
    logits = random.normal(0, 2, (40_000, 6))
    raw, corrected = (logits + 2.0 * (np.arange(6) >= 4)).argmax(axis=1), logits.argmax(axis=1)
    risk = risk_of(softmax(logits), raw, corrected, 4)
    for shift in (-3.0, -1.0, 0.0, 1.0, 2.5):
        there = logits + shift * (np.arange(6) >= 4)
        labels = drawn(random, there)
        new = labels >= 4
        gain = np.mean(corrected == labels) - np.mean(raw == labels)
        assert gain_of(softmax(there), raw, corrected) == pytest.approx(gain, abs=0.01)
        share = softmax(there)[:, 4:].sum(axis=1).mean()
        assert np.interp(share, SHARES, risk.gains) == pytest.approx(gain, abs=0.01)
        if shift == 0:
            assert risk.before == pytest.approx(np.mean(raw[new] == labels[new]), abs=0.01)
            assert risk.after == pytest.approx(np.mean(corrected[new] == labels[new]), abs=0.01)
    assert risk.even is not None
    assert 0.4 < risk.even < 0.6
    assert np.interp(risk.even, SHARES, risk.gains) == pytest.approx(0, abs=1e-9)
    assert risk_of(softmax(logits), corrected, corrected, 4).even is None
    assert risk_of(softmax(logits), corrected, 5 - corrected, 4).even == 0


def test_any_kind_of_scores_is_looked_at() -> None:
    scores, _ = traffic()
    plain = quiet(scores, SIZES, method="lwf-t")
    for form in (torch.from_numpy(scores), scores.tolist()):
        assert quiet(form, SIZES, method="lwf-t").groups[-1].after == plain.groups[-1].after


@pytest.mark.parametrize(
    ("change", "words", "says"),
    [
        (lambda s: s[:63], {}, "63 unlabelled rows tell too little; give at least 64"),
        (lambda s: np.exp(s) / np.exp(s).sum(1, keepdims=True), {}, "these are probabilities"),
        (lambda s: np.where(s > 9, np.nan, s), {}, "score nan in row"),
        (lambda s: s, {"state": 9}, "state 9 does not exist"),
        (lambda s: s, {"state": 5}, "37 columns, but state 5 has 33"),
        (lambda s: s[:, :12], {}, "state 1: there are no older classes yet"),
        (lambda s: s, {"method": "lwft"}, "no shipped bank has method 'lwft'"),
        (lambda s: s, {"newest": 1.5}, "newest: the share of the newest group is between 0 and 1"),
        (lambda s: s, {"prior": "remembered"}, "prior 'remembered': nothing is remembered"),
        (lambda s: s, {"prior": [1, -1, 1, 1, 1, 1]}, "the share of class"),
        (lambda s: s, {"prior": [0] * 6}, "all shares are 0"),
        (lambda s: s, {"prior": [10**400] * 6}, "prior: expected numbers"),
        (lambda s: s, {"prior": {"0": 1}}, "class '1' and 35 more has no share"),
        (lambda s: s, {"prior": {"x": 1}}, "no class 'x' among those seen so far"),
        (lambda s: s, {"before": np.zeros((64, 37))}, "before: it goes with labels"),
        (lambda s: s, {"newest_labels": np.full(9, -1)}, "740 rows of scores, but labels of shape"),
        (lambda s: s, {"newest_labels": np.full(740, -1)}, "0 rows with a label tell too little"),
        (lambda s: s, {"newest_labels": np.full(740, 36)}, "0 unlabelled rows tell too little"),
        (lambda s: s, {"newest_labels": np.repeat([-1, 3], 370)}, "class 3 in row 370 is of an old"),
        (lambda s: s, {"newest_labels": np.repeat([-1, 99], 370)}, "label 99 in row 370 is not one"),
        (lambda s: s, {"newest_labels": np.full(740, 0.5)}, "label 0.5 in row 0 is not a whole"),
        (lambda s: s, {"newest_labels": np.repeat([-1, 36], 370), "before": np.zeros((64, 33))},
         "before: 33 columns, but the scores have 37"),
        (lambda s: s, {"newest_labels": np.repeat([-1, 36], 370), "before": np.zeros((9, 37))},
         "before: 9 rows tell too little"),
    ],
)  # fmt: skip
def test_bad_input_is_told(change: Any, words: dict[str, Any], says: str) -> None:
    scores, _ = traffic()
    with pytest.raises(TransilError, match=says.replace("(", r"\(")):
        quiet(change(scores), SIZES, **words)


def test_on_the_authors_scores(released: ScoreStore) -> None:
    """What is estimated without a label, against what labels tell: states 2, 4, 7 and 10 of LUCIR."""
    for state in (2, 4, 7, 10):
        given = released.get("test", state)
        found = quiet(given.scores, released.schedule, state=state, method="lucir")
        assert found.bank == "lucir"
        assert found.abstained is None
        assert found.risk is not None
        new = given.columns >= released.schedule.group_columns(state).start
        right = [z.argmax(axis=1) == given.columns
                 for z in (given.scores, found.corrector.transform(given.scores))]  # fmt: skip
        lost = np.mean(right[0][new]) - np.mean(right[1][new])
        gained = np.mean(right[1][~new]) - np.mean(right[0][~new])
        assert found.risk.even == pytest.approx(gained / (gained + lost), abs=0.12)
        assert found.risk.before - found.risk.after == pytest.approx(lost, abs=0.09)
        known = new & (np.arange(len(new)) % 2 == 0)
        old = ~new & (np.arange(len(new)) % 2 == 0)
        labels = np.where(known, given.labels, -1)[~old]
        told = quiet(given.scores[~old], released.schedule, state=state, method="lucir",
                     newest_labels=labels, before=given.scores[old])  # fmt: skip
        assert told.estimate is not None
        assert told.estimate.low <= np.mean(new[~old & ~known]) <= told.estimate.high

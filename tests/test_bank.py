from __future__ import annotations

import warnings
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from support import UNEQUAL, unequal_bank, unequal_store
from transil import (
    AdBiC,
    AdBiCCentred,
    Bank,
    Penalty,
    Schedule,
    ScoreScaleWarning,
    ScoreStore,
    TransilError,
    evaluate,
    fit,
    fit_state,
    load_bank,
    transfer,
)
from transil.correction import (
    Pairs,
    Reference,
    Transfer,
    correct_groups,
    get_correction,
    measured_scales,
    merge,
)
from transil.testing import biased_scores

THREE = cache(unequal_bank)


@pytest.fixture(scope="module")
def bank() -> Bank:
    return THREE()


@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy])
def test_correct_gives_back_what_it_gets(bank: Bank, kind: Any) -> None:
    scores = unequal_store(9).get("test", 4).scores
    better = bank.correct(kind(np.array(scores)), state=4)
    assert type(better) is type(kind(np.array(scores)))
    pairs = bank.applied(4)
    expected = correct_groups(scores, pairs.alpha, pairs.beta, Schedule.of(UNEQUAL), 4)
    np.testing.assert_allclose(np.asarray(better), expected, rtol=1e-6, atol=1e-6)
    # The number of columns tells the state.
    np.testing.assert_array_equal(np.asarray(bank.correct(kind(np.array(scores)))), better)


def test_correct_accepts_any_leading_shape(bank: Bank) -> None:
    scores = np.random.default_rng(0).normal(size=(2, 3, 60))
    single = bank.correct(scores[1, 2], state=2)
    np.testing.assert_array_equal(bank.correct(scores, state=2)[1, 2], single)


def test_state_one_is_never_changed(bank: Bank) -> None:
    scores = np.random.default_rng(0).normal(size=(4, 50))
    np.testing.assert_array_equal(bank.correct(scores, state=1), scores)


def test_wrong_state_is_told(bank: Bank) -> None:
    with pytest.raises(TransilError, match="60 columns, but state 3 has 65"):
        bank.correct(np.zeros((2, 60)), state=3)
    with pytest.raises(TransilError, match="states 1 to 5"):
        bank.correct(np.zeros((2, 60)), state=6)
    for wrong in (True, np.True_, 2.0, "2"):
        with pytest.raises(TransilError, match="a state is a whole number, from 1"):
            bank.correct(np.zeros((2, 60)), state=wrong)  # type: ignore[arg-type]
    assert bank.correct(np.zeros((2, 60)), state=np.int64(2)).shape == (2, 60)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy])
def test_a_head_with_masked_classes_to_come_is_not_taken_for_the_last_state(
    bank: Bank, kind: Any
) -> None:
    scores = np.random.default_rng(0).normal(size=(4, 100))
    scores[:, 65:] = -np.inf  # groups 4 and 5
    says = "65 of the 100 columns .* likely in state 3; keep the first 65 columns and give that"
    with pytest.raises(TransilError, match=says):
        bank.correct(kind(scores))
    bank.correct(kind(scores), state=5)  # said by the user: classes may be masked
    scores[0, 70] = 0.0
    assert bank.correct(kind(scores)).shape == (4, 100)
    assert bank.correct(kind(np.full((4, 100), -np.inf))).shape == (4, 100)
    assert bank.correct(kind(np.zeros((0, 100)))).shape == (0, 100)


@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy])
@pytest.mark.parametrize("correction", [AdBiC(), AdBiCCentred()])
def test_columns_in_another_order_are_corrected_where_they_are(
    bank: Bank, correction: Any, kind: Any
) -> None:
    bank = replace(bank, correction=correction)
    scores = np.array(unequal_store(9).get("test", 4).scores)
    order = np.random.default_rng(1).permutation(66)
    mine = np.empty_like(scores)
    mine[:, order] = scores  # the i-th class learned stands in column order[i]
    for form in (order, order.tolist(), torch.from_numpy(order), order.astype(np.uint8)):
        better = bank.correct(kind(mine), 4, order=form)
        assert type(better) is type(kind(mine))
        expected = bank.correct(kind(scores), 4)
        np.testing.assert_array_equal(np.asarray(better)[:, order], np.asarray(expected))
    large = bank.correct(kind(1.5 * mine), 4, order=order, rescale=True)
    expected = bank.correct(kind(1.5 * scores), 4, rescale=True)
    np.testing.assert_allclose(np.asarray(large)[:, order], expected, rtol=1e-5)
    layer = bank.layer(4, order=order)
    np.testing.assert_allclose(
        layer(torch.from_numpy(mine))[:, order], bank.correct(scores, 4), rtol=1e-5, atol=1e-5
    )
    mine[3, 5] = np.nan
    with pytest.raises(TransilError, match="row 3, column 5"):
        bank.correct(mine, 4, order=order)


@pytest.mark.parametrize(
    ("order", "says"),
    [
        (range(59), "it names 59 columns, but the scores have 60; name each once, from 0"),
        ([*range(1, 61)], "no column 60; the columns are 0 to 59"),
        ([-1, *range(59)], "no column -1"),
        ([0, 0, *range(1, 59)], "column 0 is named 2 times and column 59 is not; name each once"),
        ([0.5] * 60, "expected a list of whole numbers"),
        ([[1], [2, 3]], "expected a list of whole numbers"),
        ("abc", "expected a list of whole numbers"),
        ([True] * 60, "expected a list of whole numbers"),
    ],
)
def test_an_order_names_each_column_once(bank: Bank, order: Any, says: str) -> None:
    with pytest.raises(TransilError, match=f"^order: {says}"):
        bank.correct(np.zeros((2, 60)), 2, order=order)


def test_it_improves_a_target_it_has_never_seen(bank: Bank) -> None:
    target = unequal_store(50, splits=("test",))
    raw, corrected = evaluate(target), evaluate(target, bank)
    gain = corrected.average_incremental_accuracy - raw.average_incremental_accuracy
    assert gain > 0.03


def test_scores_on_another_scale_warn(bank: Bank) -> None:
    scores = biased_scores("50,10,5,1,34", seed=7, images_per_class=6, splits=("test",))
    good = np.array(scores.get("test", 5).scores)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bank.correct(good, 5)
        bank.correct(torch.from_numpy(good), 5)
        bank.correct(good[:4] * 100, 5)  # too few rows to judge
    with pytest.warns(ScoreScaleWarning, match="1e\\+02 times as much"):
        bank.correct(good * 100, 5)
    with pytest.warns(ScoreScaleWarning, match="logits, not probabilities"):
        bank.correct(good[:64] / 100, 5)


@pytest.mark.parametrize("rows", [1, 300])
@pytest.mark.parametrize("rescale", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.filterwarnings("ignore::transil.ScoreScaleWarning")
def test_probabilities_are_refused(
    bank: Bank, rows: int, rescale: bool, dtype: torch.dtype
) -> None:
    scores = torch.from_numpy(np.array(unequal_store(7).get("test", 5).scores))[:rows]
    kinds = {"probabilities": scores.softmax(1), "log-probabilities": scores.log_softmax(1)}
    for kind, values in kinds.items():
        given = values.to(dtype)
        with pytest.raises(TransilError, match=f"state 5: these are {kind}"):
            bank.correct(given, 5, rescale=rescale)
        if dtype != torch.bfloat16:
            with pytest.raises(TransilError, match=f"state 5: these are {kind}"):
                bank.correct(given.numpy(), 5, rescale=rescale)
    # Around the mean of its row a shifted row is as good as another.
    centred = replace(bank, correction=AdBiCCentred())
    shifted, plain = (centred.correct(x, 5).argmax(1) for x in (kinds["log-probabilities"], scores))
    assert torch.equal(shifted, plain)
    # Perfect answers look like probabilities and may be scores.
    bank.correct(torch.eye(100, dtype=dtype)[:rows], 5)
    replace(bank, score_kind="probability").correct(kinds["probabilities"], 5)


@given(factor=st.floats(0.01, 100.0), how=st.sampled_from(["mean", "median", "single"]))
@settings(max_examples=25, deadline=None)
def test_a_bank_at_another_scale_corrects_larger_scores_as_the_smaller(
    factor: float, how: Any
) -> None:
    bank = transfer(THREE(), how, reference="generated-2" if how == "single" else None)
    scores = np.array(unequal_store(9).get("test", 4).scores, dtype=np.float64)
    # References of one scale: bringing the bank to it changes only what differs between them.
    alike = bank.at_scale(dict.fromkeys(range(1, 6), 2.0))
    larger = alike.at_scale({4: 2.0 * factor})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ScoreScaleWarning)
        np.testing.assert_allclose(
            larger.correct(factor * scores, 4), factor * alike.correct(scores, 4), rtol=1e-9
        )
    assert alike.scale(4) == 2.0
    assert larger.scale(3) == 2.0
    assert larger.scale(4) == pytest.approx(2.0 * factor)
    assert larger.provenance["rescaled"] is True


@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy])
def test_scores_of_another_scale_are_corrected_by_rescaling(bank: Bank, kind: Any) -> None:
    store = biased_scores("50,10,5,1,34", seed=7, images_per_class=6, splits=("test",))
    scores = np.array(store.get("test", 5).scores)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        small = bank.correct(kind(scores), 5, rescale=True)
        first = kind(np.array(store.get("test", 1).scores))
        np.testing.assert_array_equal(bank.correct(first, 1, rescale=True), first)
    with pytest.warns(ScoreScaleWarning, match="another method"):
        large = replace(bank).correct(kind(100 * scores), 5, rescale=True)
    np.testing.assert_allclose(large, 100 * np.asarray(small), rtol=1e-3)
    expected = bank.at_scale(measured_scales(store)).correct(scores, 5)
    np.testing.assert_allclose(small, expected, rtol=1e-5)
    for wrong, says in (
        (scores[:4], "4 rows do not tell the scale"),
        (np.where(scores == scores[0, 0], np.nan, scores), "not finite"),
        (np.ones_like(scores), "all scores of a row are equal"),
    ):
        with pytest.raises(TransilError, match=says):
            bank.correct(kind(wrong), 5, rescale=True)


@pytest.mark.parametrize("correction", ["adbic", "bic", "bic-past", "bic-all"])
@pytest.mark.filterwarnings("ignore::transil.ScoreScaleWarning")
def test_rescaling_gives_larger_scores_the_same_predictions(correction: str) -> None:
    bank = unequal_bank((1, 2), correction)
    scores = np.array(unequal_store(9).get("test", 4).scores, dtype=np.float64)
    alike = bank.like(scores, 4)
    np.testing.assert_allclose(
        bank.correct(7 * scores, 4, rescale=True), 7 * alike.correct(scores, 4), rtol=1e-9
    )
    # All pairs that are applied follow, also those fitted in earlier states.
    before, after = bank.applied(4), bank.like(7 * scores, 4).applied(4)
    ratio = 7 * alike.scale(4) / bank.scale(4)  # type: ignore[operator]
    np.testing.assert_allclose(after.alpha, before.alpha)
    np.testing.assert_allclose(after.beta, ratio * before.beta, rtol=0.05, atol=0.05)


def test_scales_that_cannot_be() -> None:
    bank = unequal_bank((1,))
    for scale in (0.0, -1.0, float("nan")):
        with pytest.raises(TransilError, match="state 3: a scale is above 0"):
            bank.at_scale({3: scale})
    with pytest.raises(TransilError, match="state 9"):
        bank.at_scale({9: 1.0})
    unknown = replace(bank, references=(replace(bank.references[0], scale={}),))
    with pytest.raises(TransilError, match="the scale of its scores in state 3 is not known"):
        unknown.at_scale({3: 1.0})


# -- transfer ----------------------------------------------------------------------------------


def test_mean_and_median_over_references(bank: Bank) -> None:
    alpha = np.stack([reference.pairs[4].alpha for reference in bank.references])
    assert bank.transfer.how == "mean"
    np.testing.assert_allclose(bank.pairs(4).alpha, alpha.mean(axis=0))
    np.testing.assert_allclose(transfer(bank, "median").pairs(4).alpha, np.median(alpha, axis=0))


def test_single_and_subsets(bank: Bank) -> None:
    one = transfer(bank, "single", reference="generated-2")
    assert one.pairs(3) == bank.reference("generated-2").pairs[3]
    two = bank.subset(["generated-1", "generated-3"])
    assert [r.name for r in two.references] == ["generated-1", "generated-3"]
    betas = [bank.reference(n).pairs[3].beta for n in ("generated-1", "generated-3")]
    np.testing.assert_allclose(two.pairs(3).beta, np.mean(betas, axis=0))


def test_oracle_takes_the_best_reference_of_each_state(bank: Bank, tmp_path: Path) -> None:
    target = unequal_store(50, splits=("test",))
    oracle = transfer(bank, "oracle", target=target)
    accuracies = {
        r.name: [
            s.accuracy for s in evaluate(target, transfer(bank, "single", reference=r.name)).states
        ]
        for r in bank.references
    }
    best = [s.accuracy for s in evaluate(target, oracle).states]
    assert best == [max(a[i] for a in accuracies.values()) for i in range(5)]
    assert len(set(oracle.transfer.choice.values())) > 1  # the choice is made state by state
    oracle.save(tmp_path / "o.json")
    assert oracle.to_json()["transfer"]["upper_bound"] is True
    assert load_bank(tmp_path / "o.json").transfer.choice == oracle.transfer.choice


def test_oracle_of_bic_all_uses_whole_histories() -> None:
    bank = unequal_bank(correction="bic-all")
    target = unequal_store(50, splits=("test",))
    oracle = transfer(bank, "oracle", target=target)
    chosen = bank.reference(oracle.transfer.choice[5])
    assert oracle.applied(5) == bank.alone(chosen.name).applied(5)


def test_banks_are_joined_only_if_made_alike(bank: Bank) -> None:
    one, two = unequal_bank((1,)), unequal_bank((2,))
    joined = merge([one, two])
    assert [r.name for r in joined.references] == ["generated-1", "generated-2"]
    assert joined.provenance["datasets"] == ["generated-1", "generated-2"]
    with pytest.raises(TransilError, match="two references are called 'generated-1'"):
        merge([one, one])
    for other, what in (
        (unequal_bank((2,), "bic"), "correction"),
        (unequal_bank((2,), solver="authors", epochs=1), "solver"),
        (unequal_bank((2,), penalty=Penalty()), "settings"),
        (replace(two, method="lwf"), "method"),
        (fit(biased_scores("20/4", seed=1)), "schedule"),
    ):
        with pytest.raises(TransilError, match=f"bank 2: its {what} is not that of the first"):
            transfer([one, other])


def test_transfer_mistakes_are_told(bank: Bank) -> None:
    with pytest.raises(TransilError, match="did you mean 'mean'"):
        transfer(bank, "meen")
    with pytest.raises(TransilError, match="needs the name of a reference"):
        transfer(bank, "single")
    with pytest.raises(TransilError, match="no reference 'x'"):
        transfer(bank, "single", reference="x")
    with pytest.raises(TransilError, match="needs the target's score store"):
        transfer(bank, "oracle")
    with pytest.raises(TransilError, match="no bank"):
        transfer([])


# -- does it fit the store? --------------------------------------------------------------------


def test_a_bank_of_another_schedule_or_method_is_refused(bank: Bank) -> None:
    with pytest.raises(TransilError, match="is not the bank's"):
        evaluate(biased_scores("20/4"), bank)
    other = unequal_store(5)
    other.method = "lwf"
    with pytest.raises(TransilError, match="from 'lwf', the bank is for 'generated'"):
        evaluate(other, bank)
    assert evaluate(other, bank, same_method=False).states


def test_a_model_in_an_early_state_can_use_a_longer_bank(bank: Bank) -> None:
    early = biased_scores("50,10,5", seed=5, images_per_class=4)
    assert len(evaluate(early, bank).states) == 3


@pytest.mark.filterwarnings("ignore::transil.ScoreScaleWarning")
def test_groups_of_another_size(tmp_path: Path) -> None:
    bank = fit([biased_scores("20/5", seed=s, images_per_class=4) for s in (1, 2)])
    target = biased_scores("60/5", seed=9, images_per_class=10)
    with pytest.raises(TransilError, match="is not the bank's .* transil transfer --schedule"):
        evaluate(target, bank)
    larger = bank.for_schedule(target.schedule)
    assert larger.schedule.sizes == (12,) * 5
    for state in range(1, 6):
        assert larger.applied(state) == bank.applied(state)
    scores = target.get("test", 3).scores
    pairs = bank.applied(3)
    expected = scores * np.repeat(pairs.alpha, 12) + np.repeat(pairs.beta, 12)
    np.testing.assert_allclose(larger.correct(scores, state=3), expected, rtol=1e-5, atol=1e-5)
    raw, corrected = evaluate(target), evaluate(target, larger)
    assert corrected.average_incremental_accuracy > raw.average_incremental_accuracy
    # The file says what it was fitted on, whatever it was changed to in between.
    larger.for_schedule("40/5").save(tmp_path / "again.json")
    again = load_bank(tmp_path / "again.json")
    assert again.provenance["fitted_sizes"] == [4] * 5
    assert "fitted_sizes" not in bank.for_schedule("20/5").provenance


def test_groups_that_do_not_compare_alike_are_refused() -> None:
    bank = fit([biased_scores("20/5", seed=s, images_per_class=4) for s in (1, 2)])
    with pytest.raises(TransilError, match="it is for 5 groups, not 10"):
        bank.for_schedule("200/10")
    with pytest.raises(TransilError, match="group 2 has 4 classes and group 1 8, the bank's have"):
        bank.for_schedule([8, 4, 4, 4, 4])
    unequal = replace(
        bank, schedule=replace(bank.schedule, groups=((0, 1), (2,), (3,), (4,), (5,)))
    )
    assert unequal.for_schedule([20, 10, 10, 10, 10]).schedule.sizes == (20, 10, 10, 10, 10)
    with pytest.raises(TransilError, match="compare alike"):
        unequal.for_schedule("50/5")


# -- alone -----------------------------------------------------------------------------------


def test_a_bank_by_hand() -> None:
    pairs = {2: Pairs(np.array([0.5]), np.array([-1.0]))}
    bank = Bank(get_correction("bic"), Schedule.of("4/2"), (Reference("mine", pairs),))
    assert bank.transfer == Transfer("mean")
    corrected = bank.correct(np.array([[1.0, 2.0, 3.0, 4.0]]), state=2)
    np.testing.assert_allclose(corrected, [[1.0, 2.0, 0.5, 1.0]])


def test_scores_of_the_newest_group_alone_are_no_reference() -> None:
    whole = biased_scores("12/3", images_per_class=8)
    target = ScoreStore(whole.schedule, method="lwf")
    for state in (1, 2, 3):
        data = whole.get("val", state)
        new = whole.schedule.group_of_column(state)[data.columns] == state
        target.put("val", state, data.scores[new], data.labels[new])
    for correction in ("adbic", "bic"):
        with pytest.raises(TransilError, match="state 2: no scores of images of group 1; .*--role"):
            fit(target, correction=correction)
    data = target.get("val", 3)
    with pytest.raises(TransilError, match="of group 1, 2;"):
        fit_state(data.scores, data.labels, "4,4,4")


def test_correct_names_the_row_that_is_not_finite() -> None:
    bank = fit(biased_scores("12/3", images_per_class=8))
    scores = biased_scores("12/3", images_per_class=8).get("test", 3).scores.copy()
    scores[5, 7] = np.nan
    with pytest.raises(TransilError, match=r"state 3.*row 5"):
        bank.correct(scores, state=3)
    with pytest.raises(TransilError, match=r"state 3.*row 5"):
        bank.correct(scores[:6].reshape(2, 3, 12), state=3)


def test_what_is_applied_may_be_changed_by_the_caller(bank: Bank) -> None:
    pairs = bank.applied(2)
    pairs.alpha[:] = 7.0
    assert bank.applied(2) != pairs
    assert bank.applied(2) == bank.applied(2)


def test_a_bank_is_shown_in_one_line() -> None:
    bank = fit(biased_scores("12/3", images_per_class=8))
    assert (
        repr(bank) == "Bank(generated adbic newton: 12 classes, 3 groups of 4; mean of generated-0)"
    )


def test_of_many_references_each_is_checked_a_few_times_only(
    bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not once for every other: a bank of 100,000 would take hours to show."""
    many = replace(
        bank, references=tuple(replace(bank.references[i % 3], name=f"{i}") for i in range(200))
    )
    checked: list[str] = []
    monkeypatch.setattr(
        "transil.correction.bank.check_references",
        lambda references, *_: checked.extend(one.name for one in references),
    )
    unsure = many.uncertainty(4)
    assert unsure is not None
    assert len(checked) == 200
    each = np.stack([many.reference(name).pairs[4].vector for name in many._by_name])
    np.testing.assert_allclose(unsure.vector, each.std(axis=0, ddof=1))


def test_outputs_of_sigmoids_are_no_raw_scores() -> None:
    """One class against all others, as LwF has them: most near 0, some near 1."""
    bank = fit(biased_scores("12/3", images_per_class=8))
    random = np.random.default_rng(0)
    scores = random.normal(-4.0, 1.5, (200, 12))
    scores[np.arange(200), random.integers(0, 12, 200)] += 7.0
    bank.correct(scores, 3, quiet=True)
    with pytest.raises(TransilError, match="as a sigmoid gives them"):
        bank.correct(1 / (1 + np.exp(-scores)), 3)

"""References of one bank: of one method, of raw scores, and of about one scale."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from support import ok_here, run_here
from test_interop import write_released_bank
from transil import ScoreStore, TransilError, evaluate, fit, load_bank, transfer
from transil._common.arrays import probabilities
from transil.correction.scales import Mismatch
from transil.errors import ScoreScaleWarning
from transil.interop.dkt import import_bank
from transil.testing import biased_scores


def changed(
    seed: int, factor: float = 1.0, *, lead: float = 0.0, softmax: bool = False, **facts: Any
) -> ScoreStore:
    """Generated scores, times a factor, or as probabilities. `lead` puts the newest group ahead."""
    made = biased_scores("12/3", seed=seed, images_per_class=20)
    store = ScoreStore.from_arrays({}, made.schedule, dataset=f"set{seed}", **facts)
    for split, state in made:
        found = made.get(split, state)
        scores = found.scores.astype(np.float64)
        scores[:, -4:] += lead * (state > 1)
        scores *= factor
        if softmax:
            scores = np.exp(scores - scores.max(axis=1, keepdims=True))
            scores /= scores.sum(axis=1, keepdims=True)
        store.put(split, state, scores, found.labels)
    return store


def test_references_of_another_scale_are_told() -> None:
    with pytest.warns(ScoreScaleWarning, match="'set2' spread .* times as much as .* 'set1'"):
        fit([changed(1), changed(2, 10.0)])
    one, two = fit(changed(1)), fit(changed(2, 10.0))
    with pytest.warns(ScoreScaleWarning, match="their mean fits neither"):
        transfer([one, two])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit([changed(1), changed(2, 1.5)])
        transfer(two)


def test_references_of_unknown_scale_are_taken(tmp_path: Path) -> None:
    unknown = import_bank(write_released_bank(tmp_path / "bic", 3), classes=12)
    other = import_bank(tmp_path / "bic", classes=12, name="again")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(transfer([unknown]).references) == 1
        assert len(transfer([unknown, other]).references) == 2


def test_probabilities_are_not_fitted_as_raw_scores() -> None:
    with pytest.raises(TransilError, match=r"set1, split 'val', state 2: these are probabilities"):
        fit(changed(1, softmax=True))
    store = changed(1, softmax=True, kind="probability")  # said to be such: as the user likes
    assert evaluate(store, fit(store)).average_incremental_accuracy > 0


def test_a_store_that_does_not_say_its_method_is_named() -> None:
    with pytest.raises(TransilError, match="where both are of lwf, say so when .* of set2 are"):
        fit([changed(1, method="lwf"), changed(2)])
    with pytest.raises(TransilError, match="say so when the scores of set1 are"):
        fit([changed(1), changed(2, method="lwf")])


@pytest.mark.filterwarnings("ignore::transil.errors.CorrectionWarning")
@pytest.mark.parametrize("factor", [0.75, 0.85, 1.25, 1.4])
def test_a_difference_in_size_is_told_where_it_changes_predictions(factor: float) -> None:
    """As of LUCIR: its shifts are many times the spread of a row, and then a fifth undoes them."""
    bank = fit([changed(1, lead=12.0), changed(2, lead=12.0)])
    store = changed(1, factor, lead=12.0)
    cost = r"the newest group for \d+% of rows instead of \d+% \(raw: \d+%\)"
    told = (
        rf"spread [01]\.\d+ times .* would predict \d+% of them otherwise, and {cost}; .*--rescale"
    )
    with pytest.warns(ScoreScaleWarning, match=told + r".* \(and 1 other state\)") as warned:
        plain = evaluate(store, bank)
    assert sum(one.category is ScoreScaleWarning for one in warned) == 1
    with pytest.warns(ScoreScaleWarning, match="state 3: these scores " + told):
        bank.correct(store.get("test", 3).scores, 3)
    found = bank.mismatch(store.get("test", 3).scores, 3)
    assert found is not None
    assert found.ratio == pytest.approx(factor, abs=0.05)
    rescaled = evaluate(store, bank, rescale=True)
    assert rescaled.average_incremental_accuracy > plain.average_incremental_accuracy


def test_a_difference_in_size_that_changes_little_is_not_told() -> None:
    bank = fit([changed(1), changed(2)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for store in (changed(1), changed(2, 1.05), changed(1, 1.3), changed(2, 0.75)):
            evaluate(store, bank)
            bank.correct(store.get("test", 3).scores, 3)
        evaluate(changed(1, 5.0), bank, rescale=True)
    with pytest.warns(ScoreScaleWarning, match="logits, not probabilities") as told:
        evaluate(changed(1, 5.0), bank)  # far off: told whatever comes of it, and once
    assert len(told) == 1


@pytest.mark.parametrize("factor", [0.4, 2.6])
def test_rescaling_does_not_hide_another_method(factor: float) -> None:
    """A size that no training of one method gives is told, also where the bank is brought to it."""
    bank = fit([changed(1, lead=12.0), changed(2, lead=12.0)])
    other = changed(1, factor, lead=12.0).get("test", 3).scores
    said = "rather means another method or loss, for which the bank does not hold, rescaled or not"
    with pytest.warns(
        ScoreScaleWarning, match=rf"{said}; rescaled it predicts the newest .*\); if method and"
    ) as told:
        bank.correct(other, 3, rescale=True)
    assert told[0].filename == __file__
    with pytest.warns(ScoreScaleWarning, match=f"{said}; .* only trained in another way, use resc"):
        bank.correct(other, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bank.correct(other, 3, rescale=True)  # told already
        replace(bank).correct(other, 3, rescale=True, quiet=True)
        for usual in (0.6, 0.8, 1.8):
            bank.correct(changed(1, usual, lead=12.0).get("test", 3).scores, 3, rescale=True)
    with pytest.warns(ScoreScaleWarning, match=said):
        replace(bank).like(other, 3)


@pytest.mark.parametrize("factor", [0.7, 1.4, 4.0])
def test_rescaling_says_what_it_does_to_the_newest_group(factor: float) -> None:
    bank = fit([changed(1, lead=12.0), changed(2, lead=12.0)])
    scores = changed(1, factor, lead=12.0).get("test", 3).scores
    ways = (
        scores,
        bank.correct(scores, 3, quiet=True),
        bank.correct(scores, 3, rescale=True, quiet=True),
    )
    expected = [float((x.argmax(axis=1) >= 8).mean()) for x in ways]
    assert bank.newest(scores, 3) == pytest.approx(expected)
    assert bank.newest(torch.from_numpy(scores), 3) == bank.newest(scores, 3)
    found = bank.mismatch(scores, 3)
    assert isinstance(found, Mismatch)
    assert found.newest == pytest.approx(
        expected, abs=0.02
    )  # each reference has a scale of its own
    said = "the newest group for {2:.0%} of rows instead of {1:.0%} \\(raw: {0:.0%}\\)"
    with pytest.warns(ScoreScaleWarning, match=said.format(*found.newest or ())):
        bank.correct(scores, 3)
    assert bank.newest(scores[:9], 3) is None  # too few to tell
    assert bank.newest(scores[:, :4], 1) is None


def test_sorted_rows_do_not_hide_the_size_of_the_others() -> None:
    """Test images often come class by class; rows from all over are looked at."""
    bank = fit([changed(1), changed(2)])
    scores = np.repeat(changed(1).get("test", 3).scores, 4, axis=0)
    scores[300:] *= 10.0
    for given in (scores, torch.from_numpy(scores)):
        with pytest.warns(ScoreScaleWarning, match="logits, not probabilities"):
            replace(bank).correct(given, 3)


def test_a_loop_over_batches_is_warned_once() -> None:
    bank = fit([changed(1), changed(2)])
    batch = changed(1, 3.0).get("test", 3).scores
    with pytest.warns(ScoreScaleWarning, match="state 3"):
        bank.correct(batch, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bank.correct(1.2 * batch, 3)
    with pytest.warns(ScoreScaleWarning, match="state 2"):
        bank.correct(changed(1, 3.0).get("test", 2).scores, 2)
    with pytest.warns(ScoreScaleWarning, match=r"spread 0\.1"):
        bank.correct(batch / 30, 3)


def test_a_bank_that_knows_the_scale_of_some_references_judges_by_those() -> None:
    bank = fit([changed(1, lead=12.0), changed(2, lead=12.0)])
    half = replace(bank, references=(bank.references[0], replace(bank.references[1], scale={})))
    scores = changed(1, 0.8, lead=12.0).get("test", 3).scores
    with pytest.warns(ScoreScaleWarning, match="fit one on references whose scores are of that"):
        half.correct(scores, 3)  # it cannot be brought to another scale
    with pytest.raises(
        TransilError, match="'set2': the scale of its scores in state 2 is not known"
    ):
        half.correct(scores, 3, rescale=True)
    with pytest.warns(ScoreScaleWarning, match="logits, not probabilities"):
        half.correct(4.0 * scores, 3)
    alone = transfer(half, "single", reference="set1")  # the other one is not in use
    assert evaluate(changed(1, 0.8, lead=12.0), alone, rescale=True).states


def test_only_references_in_use_are_judged_by() -> None:
    small, large = changed(1, 0.5, lead=12.0), changed(2, lead=12.0)
    bank = transfer([fit(small), fit(large)])
    scores = large.get("test", 3).scores
    ratios = [
        found.ratio
        for name in ("set1", "set2")
        if (found := transfer(bank, "single", reference=name).mismatch(scores, 3))
    ]
    assert ratios == pytest.approx([2.0, 1.0], rel=0.05)
    oracle = transfer(bank, "oracle", target=large)
    found = oracle.mismatch(scores, 3)
    assert found is not None
    assert found.ratio == pytest.approx(
        {"set1": 2.0, "set2": 1.0}[oracle.transfer.choice[3]], rel=0.05
    )


def test_rescaling_is_not_recommended_for_bic() -> None:
    bank = fit([changed(1, lead=12.0), changed(2, lead=12.0)], correction="bic")
    with pytest.warns(
        ScoreScaleWarning, match=r"the bank \(bic, newton\) .* otherwise; .* does not serve it: fit"
    ):
        bank.correct(changed(1, 0.7, lead=12.0).get("test", 3).scores, 3)


def test_scales_of_some_states_do_not_do_for_pairs_of_all() -> None:
    bank = fit(changed(1), correction="bic-all")
    with pytest.raises(
        TransilError, match=r"'bic-all' .*: give the scale of state 2, too, or use Bank\.like"
    ):
        bank.at_scale({3: 1.0})
    with pytest.raises(TransilError, match="by state, as {7: 6.2}, not as 3.0"):
        bank.at_scale(3.0)  # type: ignore[arg-type]
    assert bank.at_scale({2: 1.0, 3: 1.0}).scale(3) == 1.0


@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy])
def test_masked_classes(kind: Callable[[Any], Any]) -> None:
    """Around the mean of a row all scores are needed; and a part of a row has another spread."""
    scores = np.array(changed(1).get("test", 3).scores)
    scores[:, 2] = -np.inf
    plain, centred = (fit(changed(1), correction=c) for c in ("adbic", "adbic-centred"))
    assert float(plain.correct(kind(scores), 3)[0, 2]) == -np.inf
    with pytest.raises(TransilError, match="state 3: some classes are masked .* first, then mask"):
        centred.correct(kind(scores), 3)
    with pytest.raises(TransilError, match="masked classes .* measure it before masking"):
        plain.correct(kind(scores), 3, rescale=True)


def test_the_command_measures_once(tmp_path: Path) -> None:
    bank = fit([changed(1), changed(2)])
    bank.save(tmp_path / "bank.json")
    scores = changed(3, 1.7).get("test", 3).scores
    np.save(tmp_path / "mine.npy", scores)
    torch.save(torch.from_numpy(scores), tmp_path / "mine.pt")
    words = ["transfer", "bank.json", "-o", "mine.json", "--state", "3", "--like"]
    for file in ("mine.npy", "mine.pt"):
        said = ok_here(*words, file, cwd=tmp_path)
        assert "rescaled the bank predicts the newest group for" in said
        mine = load_bank(tmp_path / "mine.json")
        assert mine.applied(3) == bank.like(scores, 3).applied(3)
    np.save(tmp_path / "few.npy", scores[:9])
    for file, says in (
        ("few.npy", "few.npy: 9 rows do not tell the scale of the scores, at least 64 do"),
        ("mine.xyz", "mine.xyz: unknown kind of file; scores are arrays (.npy"),
        ("none.npy", "none.npy"),
    ):
        done = run_here(*words, file, cwd=tmp_path)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert says in done.stderr
    done = run_here(*words[:-1], cwd=tmp_path)
    assert "--state, --key and --keep go with --like" in done.stderr


def test_torch_functions_pass_through() -> None:
    """Tensors within torch.func have no values to look at."""
    bank = fit([changed(1), changed(2)], correction="adbic-centred")
    scores = torch.from_numpy(changed(1).get("test", 3).scores)
    expected = bank.correct(scores, 3)
    torch.testing.assert_close(torch.vmap(lambda row: bank.correct(row, 3))(scores), expected)
    slope = torch.func.grad(lambda z: bank.correct(z, 3).sum())(scores)
    assert torch.isfinite(slope).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        leaf = scores.clone().requires_grad_()
        bank.correct(leaf, 3).sum().backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(leaf.grad, slope)


@pytest.mark.parametrize("decimals", [1, 2, 3])
def test_rounded_logarithms_are_recognised(decimals: int) -> None:
    scores = 2.4 * biased_scores("12/3", seed=1).get("test", 3).scores.astype(np.float64)
    shifted = scores - scores.max(axis=1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    assert probabilities(logs.round(decimals)) == "log-probabilities"
    assert probabilities(np.exp(logs).round(decimals + 1)) == "probabilities"
    bank = fit([changed(1), changed(2)])
    for wrong in (logs.round(decimals), shifted):
        with pytest.raises(TransilError, match="before softmax or sigmoid"):
            bank.correct(wrong, 3)
    # A few rows of raw scores may have such sums by chance.
    assert probabilities(logs[:3].round(decimals)) is None
    assert probabilities(shifted[:3]) is None
    assert probabilities(scores) is None
    # A sigmoid for each of 100 classes that only knows how often a class comes adds up to 1.01.
    ignorant = np.random.default_rng(0).normal(np.log(0.01 / 0.99), 0.01, (64, 100))
    assert probabilities(ignorant) is None


def test_masked_arrays_are_refused() -> None:
    scores = biased_scores("12/3", seed=1).get("test", 3)
    masked = np.ma.masked_array(scores.scores, mask=scores.scores > 3.0)
    with pytest.raises(TransilError, match=r"a masked array; fill it, scores with \.filled"):
        fit([changed(1), changed(2)]).correct(masked, 3)
    with pytest.raises(TransilError, match="a masked array"):
        ScoreStore.from_arrays({"test": [(masked, scores.labels)]}, [12])


def test_logarithms_of_half_precision_are_recognised() -> None:
    scores = torch.from_numpy(2.4 * biased_scores("12/3", seed=1).get("test", 3).scores)
    logs = scores.bfloat16().log_softmax(1).float()
    assert probabilities(logs) == "log-probabilities"
    assert probabilities(scores.bfloat16().float()) is None
    means = torch.randn(30, 16, generator=torch.Generator().manual_seed(0))
    distances = -torch.cdist(means.repeat(3, 1) + 0.1, 8 * means).square()  # a nearest-mean head
    for factor in (1.0, 0.1, 0.01):
        assert probabilities((factor * distances).bfloat16().float()) is None


@pytest.mark.parametrize("form", ["float64", "float32", "float16", "rounded"])
def test_probabilities_in_per_cent_are_recognised(form: str) -> None:
    percent = 100.0 * changed(1, softmax=True).get("test", 3).scores
    given = percent.round(1) if form == "rounded" else percent.astype(form)
    assert probabilities(given) == "probabilities times 100"
    bank = fit(changed(1), correction="adbic-centred")
    for kind in (np.asarray, torch.from_numpy):
        with pytest.raises(TransilError, match="state 3: these are probabilities times 100, and"):
            bank.correct(kind(given), 3)
    assert probabilities(given[:15]) is None  # a few sums may be alike by chance


def test_raw_scores_are_not_taken_for_probabilities_in_per_cent() -> None:
    random = np.random.default_rng(0)
    normal = random.normal(2.0, 3.0, (64, 12))
    rows = random.permuted(np.tile(np.eye(12) * 10, (6, 1)), axis=1)[:64]
    for given in (
        np.maximum(normal, 0.0),
        np.abs(normal).round(1),
        normal + 1e5,  # sums that hardly differ, as the scores themselves
        np.tile(np.abs(normal[:1]), (64, 1)),
        np.ones((64, 12)),
        rows,
        changed(1).get("test", 3).scores,
    ):
        assert probabilities(given) is None

"""Banks for any schedule: the function, its fit, how it warns, and the commands."""

from __future__ import annotations

import json
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import transil
from support import ok_here, refused, run_here
from transil import Bank, Schedule, ScoreStore, TransilError, evaluate, load_bank
from transil.correction.any_schedule import AdBiCAny
from transil.correction.checks import check_bank
from transil.correction.facts import Facts
from transil.correction.fitting import fit_any_schedule
from transil.correction.open_bank import OpenBank
from transil.correction.shipped import find_bank, shipped_any
from transil.errors import ScheduleWarning, ScoreScaleWarning
from transil.testing import biased_scores

RESULTS = Path(__file__).parents[1] / "results/any-schedule"
SEEN = ("30/5", "12,6,6,4,4,2", "4,4,6,6,12", "20,2,6,2")
UNSEEN = "16,3,6,3,8"


@pytest.fixture(scope="module")
def curve() -> OpenBank:
    """Fitted on two generated sets, each of which learned four schedules."""
    stores = [biased_scores(text, seed=seed) for text in SEEN for seed in (1, 2)]
    return fit_any_schedule(stores)


@pytest.fixture(scope="module")
def target() -> ScoreStore:
    """Another set, on a schedule that no reference had."""
    store = biased_scores(UNSEEN, seed=9)
    store.method = "generated"
    return store


def scores_of(sizes: list[int], seed: int = 0, rows: int = 80) -> Any:
    """Scores of the last state of a schedule, the newest group lifted."""
    random = np.random.default_rng(seed)
    scores = random.normal(0.0, 2.0, (rows, sum(sizes)))
    scores[:, -sizes[-1] :] += 2.0
    return scores


# -- the function ------------------------------------------------------------------------------


@settings(max_examples=15)
@given(
    st.lists(st.integers(1, 9), min_size=2, max_size=6),
    st.floats(0.01, 100.0),
    st.integers(0, 99),
)
def test_size_and_common_shifts_of_scores_change_no_prediction(
    sizes: list[int], factor: float, seed: int
) -> None:
    """What the function looks at is in units of the scale, around the mean of each row."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ScheduleWarning)  # few classes
        bank = load_bank("lucir", schedule=sizes)
    state, scores = len(sizes), scores_of(sizes, seed)
    plain = bank.correct(scores, state, quiet=True)
    larger = bank.correct(factor * scores, state, quiet=True)
    np.testing.assert_allclose(larger, factor * plain, rtol=1e-6, atol=1e-9 * factor)
    shifted = bank.correct(scores + 7.0, state, quiet=True)
    np.testing.assert_allclose(shifted, plain + 7.0, rtol=1e-9, atol=1e-9)


@pytest.mark.filterwarnings("ignore::transil.errors.ScheduleWarning")
def test_the_order_of_the_classes_of_a_group_changes_nothing() -> None:
    sizes = [4, 3, 5]
    scores = scores_of(sizes)
    places = np.array([2, 0, 3, 1, 6, 5, 4, 11, 10, 9, 8, 7])
    bank = load_bank("lwf", schedule=sizes)
    given = bank.correct(scores[:, places], 3, quiet=True)
    np.testing.assert_allclose(given, bank.correct(scores, 3, quiet=True)[:, places])


# -- fitted on stores --------------------------------------------------------------------------


def test_it_helps_on_a_schedule_and_a_set_that_it_was_not_fitted_on(
    curve: OpenBank, target: ScoreStore
) -> None:
    bound = transil.fit(target, correction="adbic-centred")
    raw, mine, best = (
        evaluate(target, bank).average_incremental_accuracy
        for bank in (None, curve.for_schedule(UNSEEN), bound)
    )
    assert mine - raw > 0.7 * (best - raw) > 0.05
    assert curve.references == ("generated-1", "generated-2")
    assert curve.method == "generated"


def test_it_tells_how_sure_it_is(curve: OpenBank, target: ScoreStore) -> None:
    bank = curve.for_schedule(UNSEEN)
    assert bank.uncertainty(5) is None  # the scores were not looked at
    unsure = bank.like(target.get("test", 5).scores, 5).uncertainty(5)
    assert unsure is not None
    assert (unsure.alpha > 0).all()
    assert (unsure.beta > 0).all()
    assert (unsure.alpha < 1.0).all()


def test_scores_of_another_kind_are_told(curve: OpenBank) -> None:
    bank = curve.for_schedule(UNSEEN)
    usual = biased_scores(UNSEEN, seed=11).get("test", 5).scores
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bank.correct(usual, 5)
    odd = np.exp(2.0 * usual)
    with pytest.warns(ScoreScaleWarning, match=r"unlike those the generated bank .* a guess"):
        bank.correct(odd, 5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bank.correct(odd, 5)  # told once
        bank.correct(odd, 5, quiet=True)


def forgetful(sizes: list[int], seed: int = 0) -> Any:
    """Scores of a model that was fine-tuned: only the newest classes stand out."""
    scores = np.random.default_rng(seed).normal(0.0, 0.05, (80, sum(sizes)))
    scores[:, -sizes[-1] :] += 3.0
    scores[np.arange(80), -1 - np.arange(80) % sizes[-1]] += 2.0
    return scores


@pytest.mark.parametrize("name", ["ft", "generic"])
@pytest.mark.filterwarnings("ignore::transil.errors.ScheduleWarning")
def test_a_model_that_kept_nothing_of_old_classes_is_told(name: str) -> None:
    sizes = [10, 10, 10]
    bank = load_bank(name, schedule=sizes)
    with pytest.warns(ScoreScaleWarning, match="kept next to nothing of them"):
        bank.correct(forgetful(sizes), 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bank.correct(forgetful(sizes), 3)  # told once
        bank.correct(biased_scores("10,10,10", seed=3).get("test", 3).scores, 3)
    verdict = check_bank(bank, forgetful(sizes), 3).verdict
    assert verdict.startswith("nothing kept of old classes")


def test_what_is_kept_needs_a_past_group_of_two_classes() -> None:
    assert Facts.of(scores_of([3, 4]), [3, 4], 2).kept is not None
    assert Facts.of(scores_of([1, 4]), [1, 4], 2).kept is None
    assert Facts(Schedule.of([3, 4]), 2).kept is None
    facts = Facts.of(forgetful([10, 10]), [10, 10], 2)
    larger = Facts.of(100 * forgetful([10, 10]), [10, 10], 2)
    assert facts.kept == pytest.approx(larger.kept)


def test_single_images_need_scores_that_were_measured_before(
    curve: OpenBank, target: ScoreStore, tmp_path: Path
) -> None:
    bank, scores = curve.for_schedule(UNSEEN), target.get("test", 4).scores
    with pytest.raises(TransilError, match=r"measure it once on more, by Bank\.like"):
        bank.correct(scores[:3], 4)
    ready = bank.like(scores, 4)
    ready.save(tmp_path / "mine.json")
    again = load_bank(tmp_path / "mine.json")
    expected = bank.correct(scores, 4)
    np.testing.assert_allclose(again.correct(scores[:3], 4), expected[:3], rtol=1e-6)
    tensor = torch.from_numpy(scores)
    torch.testing.assert_close(again.layer(4)(tensor), torch.from_numpy(expected))
    with pytest.raises(TransilError, match="looks at the scores; measure them once"):
        again.layer(3)


def test_files_give_the_same_bank_again(curve: OpenBank, tmp_path: Path) -> None:
    curve.save(tmp_path / "curve.json")
    again = find_bank(tmp_path / "curve.json")
    assert isinstance(again, OpenBank)
    again.save(tmp_path / "again.json")
    assert (tmp_path / "curve.json").read_bytes() == (tmp_path / "again.json").read_bytes()
    made = load_bank(tmp_path / "curve.json", schedule=UNSEEN)
    made.save(tmp_path / "made.json")
    assert Bank.load(tmp_path / "made.json").to_json() == made.to_json()
    with pytest.raises(TransilError, match="holds for any schedule: say which one"):
        Bank.load(tmp_path / "curve.json")


def test_stores_of_two_methods_are_refused() -> None:
    one, other = biased_scores("12/3", seed=1), biased_scores("9,3", seed=2)
    other.method = "lwf"
    with pytest.raises(TransilError, match="its method is not that of"):
        fit_any_schedule([one, other])
    with pytest.raises(TransilError, match="2 names for 1 stores"):
        fit_any_schedule(one, names=["a", "b"])


def test_banks_of_two_functions_are_not_joined(curve: OpenBank) -> None:
    """Their coefficients are of other centres: a mean would be of nothing."""
    other = fit_any_schedule([biased_scores(text, seed=5) for text in SEEN])
    with pytest.raises(TransilError, match="its correction's settings"):
        transil.transfer([curve.for_schedule(UNSEEN), other.for_schedule(UNSEEN)])


# -- the shipped ones --------------------------------------------------------------------------


@pytest.mark.parametrize("name", shipped_any())
@pytest.mark.parametrize("sizes", [[12, 5, 5, 8, 3, 4], [50] + [10] * 5, [1, 1], [5] * 20])
@pytest.mark.filterwarnings("ignore::transil.errors.ScheduleWarning")
def test_any_schedule_has_a_bank(name: str, sizes: list[int]) -> None:
    bank = load_bank(name, schedule=sizes)
    state = len(sizes)
    scores = scores_of(sizes).astype(np.float32)
    corrected = bank.correct(scores, state, quiet=True)
    assert corrected.shape == scores.shape
    assert corrected.dtype == np.float32
    assert np.isfinite(corrected).all()
    tensor = bank.correct(torch.from_numpy(scores), state, quiet=True)
    np.testing.assert_allclose(tensor.numpy(), corrected, rtol=1e-5, atol=1e-5)


def test_the_banks_of_equal_states_are_found_as_before() -> None:
    assert load_bank("lwf", states=10).correction.name == "adbic"
    assert load_bank("lwf-s10").schedule == Schedule.equal(100, 10)
    assert load_bank("lwf", schedule="100/10").correction.name == "adbic-any"
    assert load_bank("lwf-s10", schedule="200/10").schedule.sizes == (20,) * 10
    with pytest.raises(TransilError, match="states, correction and solver do not go with it"):
        load_bank("lwf-any", states=10)


def test_the_generic_bank_says_that_it_knows_less() -> None:
    for name in (None, "generic", "generic-any"):
        with pytest.warns(ScheduleWarning, match=r"generic bank knows less .* ft, .*expected: "):
            bank = load_bank(name, schedule=[20, 10, 10])
    with pytest.warns(ScoreScaleWarning, match="the generic bank"):
        bank.correct(np.exp(4.0 * scores_of([20, 10, 10])), 3)


@pytest.mark.parametrize(
    ("schedule", "says"),
    [
        ([10, 0, 5], "group 2 has size 0; sizes are at least 1"),
        ([10, -3], "group 2 has size -3"),
        ([10, 2.5], "a group size must be a whole number"),
        ([2] * 301, "301 states; a bank is made for at most 300"),
        ("10,x", "schedule: cannot read '10,x'"),
        ([], "schedule: it has no groups"),
        ([10], "one of a single state has nothing to correct"),
    ],
)
def test_schedules_that_are_none(schedule: Any, says: str) -> None:
    with pytest.raises(TransilError) as raised:
        load_bank("lwf-t", schedule=schedule)
    assert says in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_schedule_far_from_what_was_seen_is_told_with_its_distance() -> None:
    with pytest.warns(ScheduleWarning, match=r"120 states \(2 to 25 were seen: 4\.8 times off\)"):
        load_bank("lwf", schedule=[1] * 120)
    with pytest.warns(ScheduleWarning, match=r"1,000 classes .* 10\.0 times off"):
        load_bank("lwf", schedule=[100] * 10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_bank("lwf", schedule=[12, 5, 5, 8, 3, 4])


@pytest.mark.filterwarnings("ignore::transil.errors.ScheduleWarning")
def test_two_hundred_states_take_less_than_a_second() -> None:
    load_bank("lwf", schedule=[5, 5])  # reads the file
    start = time.perf_counter()
    load_bank("lwf", schedule=[10] * 200)
    assert time.perf_counter() - start < 1.0


# -- settings of the function ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"weights": {"age": "x"}}, "weight of 'age': expected numbers"),
        ({"weights": {"height": 1.0}, "centres": [[0.0]]}, "no feature 'height'; there are: age"),
        ({"centres": [[0.0]]}, "a centre has a number for each of the features"),
        ({"centres": [["a"] * 10]}, "centres: expected numbers"),
        ({"centres": [[np.inf] * 10]}, "centres: NaN, infinite, or too large"),
        ({"residuals": [[1.0]]}, "two residuals for each centre are needed"),
    ],
)
def test_settings_that_are_none(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(TransilError) as raised:
        AdBiCAny(**settings)
    assert says in str(raised.value)


def test_without_what_left_out_references_tell_nothing_is_unlike() -> None:
    facts = Facts.of(scores_of([3, 4]), [3, 4], 2)
    assert AdBiCAny().unlike(facts) == 0.0
    assert AdBiCAny().uncertainty(facts) is None
    assert replace(AdBiCAny(), reach=1e-6).unlike(facts) > 1.0


# -- commands ----------------------------------------------------------------------------------


@pytest.fixture
def work(tmp_path: Path, target: ScoreStore) -> Path:
    """Stores of references and a target, and a file of scores."""
    for number, text in enumerate(SEEN):
        biased_scores(text, seed=number % 2 + 1).save(tmp_path / f"ref{number}")
    target.save(tmp_path / "target")
    np.save(tmp_path / "scores.npy", target.get("test", 5).scores)
    return tmp_path


def test_from_stores_to_corrected_scores(work: Path, target: ScoreStore) -> None:
    said = ok_here(
        *["fit", "ref0", "ref1", "ref2", "ref3", "--any-schedule", "-o", "curve.json"], cwd=work
    )
    assert "4 to 6 states, 30 to 34 classes" in said
    assert "next: transil bank make curve.json" in said
    ok_here(*f"bank make curve.json --schedule {UNSEEN} -o mine.json".split(), cwd=work)
    assert "alpha and beta depend on your scores" in ok_here("bank", "show", "mine.json", cwd=work)
    ok_here(
        *["correct", "scores.npy", "--bank", "mine.json", "--state", "5", "-o", "a.npy"], cwd=work
    )
    ok_here(
        *f"correct scores.npy --bank curve.json --schedule {UNSEEN} --state 5 -o b.npy".split(),
        cwd=work,
    )
    expected = load_bank(work / "mine.json").correct(target.get("test", 5).scores, 5)
    for name in ("a.npy", "b.npy"):
        np.testing.assert_array_equal(np.load(work / name), expected)
    data = json.loads(ok_here(*["evaluate", "target", "--bank", "curve.json", "--json"], cwd=work))
    raw, corrected = (data[k]["average_incremental_accuracy"] for k in ("raw", "corrected"))
    assert corrected > raw + 0.05
    make = f"bank make curve.json --schedule {UNSEEN} --like scores.npy --state 5 -o five.json"
    ok_here(*make.split(), cwd=work)
    shown = ok_here("bank", "show", "five.json", cwd=work)
    assert "state 5" in shown
    assert "uncertainty (standard deviation over references), state 5" in shown
    assert "schedule    any" in ok_here("bank", "show", "curve.json", cwd=work)
    assert "generated" in ok_here("bank", "show", "curve.json", "--json", cwd=work)
    difference = ok_here("bank", "compare", "five.json", "five.json", cwd=work)
    assert "0.0000" in difference


def test_bank_check_asks_all_of_them(work: Path) -> None:
    command = f"bank check scores.npy --state 5 --schedule {UNSEEN}"
    said = ok_here(*command.split(), cwd=work)
    for name in shipped_any():
        assert f"\n{name}-any: " in said
    rows = json.loads(ok_here(*command.split(), "--json", cwd=work))
    assert [row["bank"] for row in rows] == [f"{name}-any" for name in shipped_any()]
    assert all(row["distance"] > 0 and row["ratio"] is None for row in rows)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("fit ref0 --any-schedule --solver authors -o x.json", "no --solver"),
        ("fit ref0 --any-schedule --penalty-alpha 1 -o x.json", "no --penalty-alpha"),
        ("bank make lwf-t -o x.json", "say which one: --schedule 12,5,5,8"),
        ("bank make lwf-t --schedule 5,0 -o x.json", "sizes are at least 1"),
        ("bank make lwf-t --schedule 30,30 --state 2 -o x.json", "go with --like"),
        ("bank make lwf-t --schedule 30,30 --like scores.npy -o x.json", "columns"),
        ("bank make lwff --schedule 5,5 -o x.json", "no shipped bank has method 'lwff'"),
        ("correct scores.npy --bank lwf-t --schedule 30,30 --state 2 -o x.npy", "columns"),
        ("correct scores.npy --bank lwf-t --state 2 -o x.npy", "say which one: --schedule"),
        ("evaluate target --bank lwf-t-any", "parameters do not transfer between methods"),
        ("transfer lwf-any -o x.json", "say which one: --schedule"),
        ("bank compare lwf-any lwf-s10", "say which one"),
        ("bank show lwf-any --schedule 1.5", "schedule: cannot read '1.5'"),
    ],
)
def test_bad_words_get_one_line(work: Path, words: str, says: str) -> None:
    refused(work, *words.split(), says=says)


def test_a_bank_of_a_later_format_is_refused(work: Path) -> None:
    data = json.loads(json.dumps(load_bank("lwf-s10").to_json()))
    (work / "later.json").write_text(json.dumps({**data, "version": 3}))
    refused(
        work, "bank", "show", "later.json", says="bank version 3, but this transil reads 1 to 2"
    )


def test_a_far_schedule_is_told_on_the_command_line(work: Path) -> None:
    done = run_here("bank", "make", "lwf", "--schedule", "120/120", "-o", "far.json", cwd=work)
    assert done.returncode == 0
    assert "120 states (2 to 25 were seen: 4.8 times off)" in done.stderr

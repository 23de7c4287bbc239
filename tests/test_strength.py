"""The strength of a bank: kept, refused where it is none, and asked for by commands."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from support import ok_here, run_here
from transil import Bank, TransilError, evaluate, fit, gains, load_bank, transfer
from transil.testing import biased_scores


@pytest.fixture(scope="module")
def bank() -> Bank:
    return fit([biased_scores("12/3", seed=seed) for seed in (1, 2)])


@pytest.fixture(scope="module")
def scores() -> Any:
    return np.array(biased_scores("12/3", seed=9, images_per_class=20).get("test", 3).scores)


@pytest.mark.parametrize("wrong", [-0.1, 2.01, float("nan"), float("inf"), True, "0.5", 1j, [1.0]])
def test_what_is_no_strength(bank: Bank, scores: Any, wrong: Any) -> None:
    says = r"^strength: a number from 0 \(no correction\) to 2, 1 is as fitted; not "
    for ask in (
        lambda: bank.at_strength(wrong),
        lambda: bank.correct(scores, 3, strength=wrong),
    ):
        with pytest.raises(TransilError, match=says) as raised:
            ask()
        assert "\n" not in str(raised.value)


def test_it_is_absolute_and_kept(bank: Bank, scores: Any) -> None:
    half = bank.at_strength(0.5)
    assert bank.at_strength(0.5) is half  # a model in use asks for each image
    assert bank.at_strength(1) is bank
    assert bank.at_strength(np.float32(0.5)) is half  # type: ignore[arg-type]
    assert half.at_strength(np.float64(1.0)).applied(3) == bank.applied(3)
    np.testing.assert_array_equal(
        half.correct(scores, 3, strength=1.0), bank.correct(scores, 3), strict=True
    )
    assert half.pairs(3) == bank.pairs(3)  # what was fitted is what it was
    for other in (
        transfer(half, "median"),
        half.subset(["generated-1"]),
        half.for_schedule("24/3"),
        half.like(1.5 * scores, 3),
        half.alone("generated-2"),
    ):
        assert other.strength == 0.5
    with pytest.raises(TransilError, match=r"bank 2: its strength is not that of .* \(1.0 and 0.5"):
        transfer([half, fit(biased_scores("12/3", seed=3))])
    assert "strength 0.5" in repr(half)
    assert "strength" not in repr(bank)


def test_doubt_grows_with_it(bank: Bank) -> None:
    whole, half = bank.uncertainty(3), bank.at_strength(0.5).uncertainty(3)
    assert whole is not None
    assert half is not None
    np.testing.assert_allclose(half.vector, 0.5 * whole.vector)


def test_doubt_of_pairs_from_a_function_grows_with_it() -> None:
    scores = biased_scores("12,5,5", seed=9, images_per_class=20).get("test", 3).scores
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # generated scores are like no model's
        whole = load_bank("lwf-t", schedule=[12, 5, 5]).like(scores, 3)
    one, other = whole.uncertainty(3), whole.at_strength(0.5).uncertainty(3)
    assert one is not None
    assert other is not None
    np.testing.assert_allclose(other.vector, 0.5 * one.vector)


def test_rescaling_and_strength_go_together(bank: Bank, scores: Any) -> None:
    full = bank.correct(1.8 * scores, 3, rescale=True)
    found = bank.correct(1.8 * scores, 3, rescale=True, strength=0.5)
    np.testing.assert_allclose(found, 0.5 * (full + 1.8 * scores), rtol=1e-4, atol=1e-4)


def test_the_order_of_columns_stays_what_it_is(bank: Bank, scores: Any) -> None:
    order = np.random.default_rng(0).permutation(12)
    mine = scores[:, np.argsort(order)]
    expected = bank.correct(scores, 3, strength=0.3)
    np.testing.assert_array_equal(
        bank.correct(mine, 3, order=order, strength=0.3)[:, order], expected
    )
    layer = bank.at_strength(0.3).layer(3, order=order)
    np.testing.assert_allclose(
        layer(torch.from_numpy(mine))[:, order], expected, rtol=1e-5, atol=1e-5
    )


def test_a_file_says_it_plainly(bank: Bank, tmp_path: Path) -> None:
    bank.at_strength(0.5).save(tmp_path / "half.json")
    data = json.loads((tmp_path / "half.json").read_text())
    assert (data["version"], data["strength"]) == (2, 0.5)
    assert load_bank(tmp_path / "half.json").strength == 0.5
    assert "strength" not in bank.to_json()  # files as before
    assert Bank.from_json(bank.to_json()).strength == 1.0
    for wrong, says in (
        (3.0, "half.json: strength: a number from 0"),
        ("x", "half.json: bank: strength is 'x', but must be a number"),
        (None, "strength is None, but must be a number"),
        (True, "strength is True, but must be a number"),
    ):
        (tmp_path / "half.json").write_text(json.dumps({**data, "strength": wrong}))
        with pytest.raises(TransilError, match=says):
            load_bank(tmp_path / "half.json")


def test_evaluate_and_gains_take_it(bank: Bank) -> None:
    store = biased_scores("12/3", seed=9)
    half = evaluate(store, bank.at_strength(0.5))
    found = evaluate(store, bank, strength=0.5)
    assert found.to_json() == half.to_json()
    assert found.last_accuracy != evaluate(store, bank).last_accuracy
    assert gains(store, bank, strength=0.5) == gains(store, bank.at_strength(0.5))
    assert gains(store, bank, strength=0.0)[0].gain == 0.0


def test_the_commands(bank: Bank, scores: Any, tmp_path: Path) -> None:
    bank.save(tmp_path / "bank.json")
    np.save(tmp_path / "in.npy", scores)
    np.savetxt(tmp_path / "in.csv", scores, delimiter=",")
    biased_scores("12/3", seed=9).save(tmp_path / "store")
    half = bank.at_strength(0.5)
    with_bank = ("--bank", "bank.json", "--strength", "0.5")
    said = ok_here("correct", "in.npy", *with_bank, "-o", "out.npy", cwd=tmp_path)
    assert "newton, strength 0.5)" in said
    expected = half.correct(scores, 3)
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), expected)
    ok_here("correct", "in.csv", *with_bank, "-o", "out.csv", cwd=tmp_path)
    written = np.loadtxt(tmp_path / "out.csv", delimiter=",")
    np.testing.assert_allclose(written, expected, rtol=1e-5, atol=1e-5)
    shown = json.loads(ok_here("evaluate", "store", *with_bank, "--json", cwd=tmp_path))
    assert shown["bank"]["strength"] == 0.5
    right = evaluate(biased_scores("12/3", seed=9), half).average_incremental_accuracy
    assert shown["corrected"]["average_incremental_accuracy"] == pytest.approx(right)
    ok_here("transfer", "bank.json", "--strength", "0.5", "-o", "half.json", cwd=tmp_path)
    assert load_bank(tmp_path / "half.json").to_json() == half.to_json()
    assert "strength     0.5" in ok_here("bank", "show", "half.json", cwd=tmp_path)
    compared = ok_here("bank", "compare", "bank.json", "half.json", cwd=tmp_path)
    assert "1 (as fitted)" in compared


@pytest.mark.parametrize("wrong", ["3", "-1", "nan"])
def test_a_command_refuses_it_in_one_line(
    bank: Bank, scores: Any, tmp_path: Path, wrong: str
) -> None:
    bank.save(tmp_path / "bank.json")
    np.save(tmp_path / "in.npy", scores)
    biased_scores("12/3", seed=9, images_per_class=3).save(tmp_path / "store")
    asked = ("--bank", "bank.json", "--strength", wrong)
    for words in (
        ("correct", "in.npy", *asked, "-o", "out.npy"),
        ("evaluate", "store", *asked),
        ("bank", "check", "in.npy", "--state", "3", *asked),
        ("transfer", "bank.json", "--strength", wrong, "-o", "out.json"),
    ):
        done = run_here(*words, cwd=tmp_path)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert f"2, 1 is as fitted; not {wrong}" in done.stderr
    done = run_here("evaluate", "store", "--strength", "0.5", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, "error: --strength goes with --bank\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bank.json", "in.npy", "store"]

"""`transil bank check`: what banks would do to scores, without labels."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from support import ok_here, run_here
from transil import Bank, ScoreStore, TransilError, fit, load_bank
from transil.correction import check_bank
from transil.correction.checks import fitting_banks
from transil.interop.dkt import import_bank
from transil.testing import biased_scores


@pytest.fixture(scope="module")
def bank() -> Bank:
    return fit([biased_scores("12/3", seed=seed) for seed in (1, 2)])


def scores(factor: float = 1.0) -> Any:
    return factor * biased_scores("12/3", seed=9, images_per_class=20).get("test", 3).scores


def test_shares_are_those_of_the_predictions(bank: Bank) -> None:
    given = scores()
    before, after = given.argmax(axis=1), bank.correct(given, 3).argmax(axis=1)
    for form in (given, torch.from_numpy(given)):
        found = check_bank(bank, form, 3)
        assert (found.state, found.rows, found.newest_fair) == (3, len(given), 4 / 12)
        assert found.changed == np.mean(before != after) > 0
        assert found.newest_before == np.mean(before >= 8)
        assert found.newest_after == np.mean(after >= 8) < found.newest_before
        assert found.verdict == "size as fitted"
    order = np.random.default_rng(0).permutation(12)
    assert check_bank(bank, given[:, np.argsort(order)], 3, order=order) == found


@pytest.mark.parametrize(
    ("factor", "verdict"),
    [(1.3, "other size, hardly matters"), (2.5, "likely another method or loss"),
     (0.3, "likely another method or loss")],
)  # fmt: skip
def test_the_verdict_follows_the_size(bank: Bank, factor: float, verdict: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the verdict says it
        found = check_bank(bank, scores(factor), 3)
        rescaled = check_bank(bank, scores(factor), 3, rescale=True)
    assert found.size is not None
    assert found.size.ratio == pytest.approx(factor, rel=0.05)
    assert found.verdict.startswith(verdict)
    assert rescaled.newest_after == pytest.approx(
        check_bank(bank, scores(), 3, rescale=True).newest_after
    )


@pytest.mark.parametrize(
    ("factor", "verdict"),
    [
        (1.0, "size as fitted"),
        (1.6, "other size, rescaled"),
        (2.5, "likely another method or loss"),
    ],
)
def test_a_rescaled_bank_is_judged_rescaled(factor: float, verdict: str) -> None:
    """With shifts of many times the spread of a row, size decides which share is left."""
    stores = [biased_scores("12/3", seed=seed, bias=5.0) for seed in (1, 2)]
    bank = fit(stores)
    given = factor * biased_scores("12/3", seed=9, bias=5.0).get("test", 3).scores
    plain, rescaled = (check_bank(bank, given, 3, rescale=r) for r in (False, True))
    raw, better = (
        given.argmax(axis=1),
        bank.correct(given, 3, rescale=True, quiet=True).argmax(axis=1),
    )
    assert rescaled.verdict == verdict
    assert rescaled.newest_after == np.mean(better >= 8)
    assert rescaled.changed == np.mean(raw != better)
    assert rescaled.newest_as_is == plain.newest_after
    assert plain.newest_as_is is None
    if factor > 1.0:
        assert rescaled.newest_after < plain.newest_after - 0.05
    weak = check_bank(bank.at_strength(0.0), given, 3, rescale=True)
    assert (weak.changed, weak.newest_after) == (0.0, weak.newest_before)


def test_released_scores_against_shipped_banks(released: ScoreStore, shared: Path) -> None:
    given = released.get("test", 7).scores
    said = {
        item.method: check_bank(item.load(), given, 7).verdict
        for item in fitting_banks(7, 70)
        if item.default
    }
    far = "likely another method or loss"
    assert said == {
        "ft+": f"{far}; newest group favoured even more",
        "lucir": "other size: rescale",
        "lwf": f"{far}; newest group hardly predicted any more",
        "siw": f"{far}; newest group hardly predicted any more",
    }
    early = check_bank(load_bank("lwf-s10"), released.get("test", 3).scores, 3)
    assert early.verdict.endswith("hardly predicted any more")  # where the size does not tell yet
    bic = check_bank(load_bank("lucir-s10-bic"), given, 7)
    assert bic.verdict == "other size: fit another bank"
    own = load_bank("lucir-s10")
    last = released.get("test", 10).scores
    rescaled = check_bank(own, last, 10, rescale=True)
    assert rescaled.verdict == "other size, rescaled"
    shares = (rescaled.newest_before, rescaled.newest_as_is, rescaled.newest_after)
    assert shares == pytest.approx((0.67, 0.164, 0.035), abs=0.001)  # docs/banks.md
    bic = check_bank(load_bank("lucir-s10-bic"), last, 10, rescale=True)
    assert bic.verdict == (
        "other size: rescaling does not serve it; newest group hardly predicted any more"
    )
    theirs = import_bank(shared / "released-scores" / "bic_models_lucir_s10")
    assert check_bank(theirs, given, 7).verdict == "size of the references not known"


def test_what_cannot_be_checked(bank: Bank) -> None:
    for given, state, says in (
        (scores()[:63], 3, "63 rows tell too little; give at least 64"),
        (scores()[:, :4], 1, "state 1 is not corrected"),
        (scores(), 2, "12 columns, but state 2 has 8"),
        (np.where(scores() > 3, -np.inf, scores()), 3, "score -inf in row"),
    ):
        with pytest.raises(TransilError, match=says):
            check_bank(bank, given, state)
    with pytest.raises(
        TransilError, match=r"no shipped bank has 70 columns in state 6 \(but 60 in"
    ):
        fitting_banks(6, 70)


def test_the_command(tmp_path: Path) -> None:
    given = 2.4 * biased_scores("100/10", seed=9, images_per_class=3).get("test", 7).scores
    np.save(tmp_path / "scores.npy", given)
    words = ("bank", "check", "scores.npy", "--state", "7")
    said = ok_here(*words, cwd=tmp_path)
    for name in ("ft+-s10", "lucir-s10", "lwf-s10", "siw-s10"):
        assert f"\n{name}: " in said
    assert "14.3% of the classes; that is the right share only where classes come equally" in said
    assert len(json.loads(ok_here(*words, "--all", "--json", cwd=tmp_path))) == len(
        fitting_banks(7, 70)
    )
    load_bank("lwf-s10").save(tmp_path / "mine.json")
    more = ("--bank", "mine.json", "--bank", "lwf-s10", "--json")
    one, other = json.loads(ok_here(*words, *more, cwd=tmp_path))
    found = check_bank(load_bank("lwf-s10"), given, 7)
    assert found.size is not None
    assert {**one, "bank": "lwf-s10"} == other
    assert (one["ratio"], one["changed"]) == (found.size.ratio, found.changed)
    one, other = (
        json.loads(ok_here(*words, "--bank", "lwf-s10", "--rescale", *x, "--json", cwd=tmp_path))[0]
        for x in ((), ("--strength", "0.5"))
    )
    bank = load_bank("lwf-s10")
    assert one["newest_after"] == check_bank(bank, given, 7, rescale=True).newest_after
    assert one["newest_as_is"] == found.newest_after
    assert other["newest_after"] == (
        check_bank(bank.at_strength(0.5), given, 7, rescale=True).newest_after
    )
    assert "not rescaled" in ok_here(*words, "--rescale", cwd=tmp_path)
    assert "not rescaled" not in said
    for extra, says in (
        (
            ("--bank", "lwf-s20"),
            "scores.npy, bank 'lwf-s20': scores: 70 columns, but state 7 has 35",
        ),
        (("--bank", "lwf-s10", "--all"), "give --bank or --all, not both"),
    ):
        done = run_here(*words, *extra, cwd=tmp_path)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert says in done.stderr

"""Banks whose numbers are absurd, and banks of very many references."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support import refused, run_here
from transil import Bank, TransilError, fit, transfer
from transil.correction import BiC, Pairs, Reference
from transil.correction.bank_json import open_to_json
from transil.correction.fitting import fit_any_schedule
from transil.schedule import Schedule
from transil.testing import biased_scores


@pytest.fixture(scope="module")
def text() -> str:
    return json.dumps(fit(biased_scores("12/3", seed=1)).to_json())


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (
            '"2": {"parameters"',
            '"' + "9" * 5000 + '": {"parameters"',
            "is not the number of a state",
        ),
        ('"2": {"parameters"', '"٢": {"parameters"', "is not the number of a state"),
        ('"2": {"parameters"', '"02": {"parameters"', "is not the number of a state"),
        (
            '"2": {"parameters"',
            '"99999999": {"parameters"',
            "state 2 does not belong or is missing",
        ),
        ('"alpha": [', '"alpha": [1e299, ', "alpha[0] is 1e+299; it must be -1e+100 to 1e+100"),
        ('"alpha": [', '"alpha": [1e999, ', "bad.json: not a JSON file (1e999 is too large"),
        ('"alpha": [', '"alpha": [' + "9" * 5000 + ", ", "bad.json: not a JSON file"),
        (
            '"penalty": {',
            '"penalty": {"gamma": 1e300, ',
            "settings.penalty.gamma is 1e+300; it must be",
        ),
        ('"settings": {', '"settings": {"x": -1e999, ', "bad.json: not a JSON file (-1e999"),
        ('"sizes": [4', '"sizes": [1000000000', "more than 10,000,000 classes"),
    ],
)
def test_absurd_numbers(text: str, tmp_path: Path, old: str, new: str, says: str) -> None:
    assert old in text
    (tmp_path / "bad.json").write_text(text.replace(old, new, 1))
    refused(tmp_path, "bank", "show", "bad.json", says=says)


def test_pairs_that_are_huge_are_compared_without_overflow(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(text)
    bank: dict[str, Any] = json.loads(text)
    bank["references"][0]["states"]["2"]["parameters"]["alpha"] = [9e99, -9e99]
    (tmp_path / "b.json").write_text(json.dumps(bank))
    for words in (("show", "b.json"), ("compare", "a.json", "b.json", "--json")):
        done = run_here("bank", *words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "encountered" not in done.stderr


@pytest.fixture(scope="module")
def any_banks() -> dict[str, Any]:
    """A bank for any schedule, the one of a schedule that is made of it, and that with facts."""
    store = biased_scores("4,2,2", seed=1, images_per_class=16)
    curve = fit_any_schedule([store, biased_scores("3,3,2", seed=2, images_per_class=16)])
    made = curve.for_schedule(store.schedule)
    measured = made.like(store.get("test", 3).scores, 3)
    written = [open_to_json(curve), made.to_json(), measured.to_json()]
    return dict(zip(("curve", "made", "measured"), written, strict=True))


WEIGHTS = ("correction_settings", "weights")
FACTS = ("facts", "3")
NINE = {"score_scale": 1.0, **{key: [1.0] for key in ("share", "mean", "deviation", "top")}}


@pytest.mark.parametrize(
    ("kind", "way", "value", "says"),
    [
        ("curve", WEIGHTS, "x", "weights must be a number for each of some features"),
        ("curve", WEIGHTS, [1.0], "weights must be a number for each of some features"),
        ("curve", WEIGHTS, {}, "weights must be a number for each of some features"),
        ("curve", (*WEIGHTS, "age"), "1.0", "weight of 'age': expected numbers"),
        ("curve", (*WEIGHTS, "age"), [1.0], "weight of 'age': expected one number"),
        ("curve", (*WEIGHTS, "age"), 10**400, "weights.age is 1"),
        ("curve", (*WEIGHTS, "luck"), 1.0, "no feature 'luck'"),
        ("curve", ("correction_settings", "reach"), "far", "reach: expected numbers"),
        ("curve", ("correction_settings", "reach"), -1.0, "reach must be 0 or more"),
        ("curve", ("correction_settings", "centres"), [["1"] * 10], "centres: expected numbers"),
        ("curve", ("correction_settings", "residuals"), [[1.0]], "two residuals for each centre"),
        ("curve", ("correction_settings", "correction"), "adbic", "adbic-any': wrong settings"),
        ("curve", ("correction",), "adbic", "correction 'adbic': wrong settings"),
        ("curve", ("seen", "states"), [1e-300, 1e-300], "a smallest and a largest number"),
        ("curve", ("seen", "ratio"), [0.5, 1e99], "a smallest and a largest number"),
        ("curve", ("settings",), {"penalty": 5}, "settings.penalty is 5, but must be an object"),
        ("curve", ("provenance",), {"versions": 5}, "provenance.versions is 5, but must be an obj"),
        ("curve", ("references",), [], "it has no references"),
        ("curve", ("references",), [5], "references[0] is 5, but must be a text"),
        ("curve", ("parameters", "of_alpha"), [1.0], "but 'adbic-any' has"),
        ("made", ("schedule", "sizes"), [1] * 20_000, "20000 states; one set of parameters"),
        ("measured", (*FACTS, "score_scale"), 0.0, "score_scale is 0.0; it must be 1e-38"),
        ("measured", (*FACTS, "score_scale"), 1e99, "score_scale is 1e+99; it must be 1e-38"),
        ("measured", (*FACTS, "score_scale"), 1e-37, "is not of the size of scores"),
        ("measured", (*FACTS, "mean"), [1e99, 0.0, 0.0], "the mean of a group's scores is not"),
        ("measured", (*FACTS, "top"), [1.0], "expected 3 numbers for each of its groups"),
        ("measured", ("facts", "9"), NINE, "state 9 does not exist"),
    ],
)
def test_crafted_banks_for_any_schedule(
    any_banks: dict[str, Any], tmp_path: Path, kind: str, way: Any, value: Any, says: str
) -> None:
    """Each command says so at once, and writes no bank that cannot be read."""
    data = json.loads(json.dumps(any_banks[kind]))
    inner = data
    for key in way[:-1]:
        inner = inner[key]
    inner[way[-1]] = value
    (tmp_path / "bad.json").write_text(json.dumps(data))
    np.save(tmp_path / "scores.npy", np.random.default_rng(0).normal(size=(80, 8)))
    refused(tmp_path, "bank", "show", "bad.json", says=says)
    correct = ["correct", "scores.npy", "--bank", "bad.json", "-o", "new.npy"]
    if kind == "curve":
        refused(tmp_path, "bank", "make", "bad.json", "--schedule", "4,2,2", "-o", "new", says=says)
        correct += ["--schedule", "4,2,2"]
    refused(tmp_path, *correct, says=says)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.json", "scores.npy"]


def test_the_bank_of_a_schedule_does_not_take_the_place_of_that_for_any(
    any_banks: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "curve.json").write_text(json.dumps(any_banks["curve"]))
    (tmp_path / "link.json").symlink_to("curve.json")
    before = (tmp_path / "curve.json").read_bytes()
    for output in ("curve.json", "link.json"):
        for words in (("bank", "make"), ("transfer",)):
            line = (*words, "curve.json", "--schedule", "4,2,2", "-o", output)
            refused(tmp_path, *line, says="would be lost; write to another file")
    assert (tmp_path / "curve.json").read_bytes() == before


def test_very_many_references_take_no_time(text: str) -> None:
    """A look at all names for each of them takes 10 seconds at this number."""
    one = Bank.from_json(json.loads(text))
    many = [replace(one.references[0], name=f"reference {i}") for i in range(20_000)]
    began = time.process_time()
    bank = replace(one, references=tuple(many))
    assert bank.applied(3).alpha == pytest.approx(one.applied(3).alpha)
    assert len(bank.subset([reference.name for reference in many[::2]]).references) == 10_000
    assert len(str(bank)) < 1000
    with pytest.raises(TransilError, match="reference 11 and 19,988 more") as told:
        transfer(bank, "single", reference="nobody")
    assert len(str(told.value)) < 1000
    assert time.process_time() - began < 4
    with pytest.raises(TransilError, match="two references are called 'reference 7'"):
        replace(one, references=(*many, many[7]))


def test_many_fits_are_not_all_shown(text: str, tmp_path: Path) -> None:
    one = Bank.from_json(json.loads(text))
    many = tuple(replace(one.references[0], name=f"reference {i}") for i in range(30))
    replace(one, references=many).save(tmp_path / "many.json")
    shown = run_here("bank", "show", "many.json", cwd=tmp_path).stdout
    assert shown.count("fit of reference") == 12
    assert "and 18 more fits: --reference NAME shows one" in shown


def test_very_many_states_take_no_time() -> None:
    """BiC has one pair in each, so such a file is small; a square of 0 and 1 for each is not."""
    schedule = Schedule.from_sizes([1] * 3000)
    pairs = {state: Pairs.identity(1) for state in range(2, 3001)}
    began = time.process_time()
    bank = Bank(BiC(), schedule, (Reference("x", pairs),))
    assert bank.applied(3000) == Pairs.identity(3000)
    assert time.process_time() - began < 4

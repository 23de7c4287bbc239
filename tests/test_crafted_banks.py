"""Banks whose numbers are absurd, and banks of very many references."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support import refused, run_here
from transil import Bank, TransilError, fit, transfer
from transil.correction import BiC, Pairs, Reference
from transil.schedule import Schedule
from transil.synthetic import biased_scores


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
        ('"alpha": [', '"alpha": [1e299, ', "'alpha' must be a list of numbers"),
        ('"alpha": [', '"alpha": [1e999, ', "bad.json: not a JSON file (1e999 is too large"),
        ('"alpha": [', '"alpha": [' + "9" * 5000 + ", ", "bad.json: not a JSON file"),
        ('"penalty": {', '"penalty": {"gamma": 1e300, ', "'gamma' must be a number"),
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


def test_very_many_references_take_no_time(text: str) -> None:
    """A look at all names for each of them takes 10 seconds at this number."""
    one = Bank.from_json(json.loads(text))
    many = [replace(one.references[0], name=f"reference {i}") for i in range(20_000)]
    began = time.perf_counter()
    bank = replace(one, references=tuple(many))
    assert bank.applied(3).alpha == pytest.approx(one.applied(3).alpha)
    assert len(bank.subset([reference.name for reference in many[::2]]).references) == 10_000
    assert len(str(bank)) < 1000
    with pytest.raises(TransilError, match="reference 11 and 19,988 more") as told:
        transfer(bank, "single", reference="nobody")
    assert len(str(told.value)) < 1000
    assert time.perf_counter() - began < 4
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
    began = time.perf_counter()
    bank = Bank(BiC(), schedule, (Reference("x", pairs),))
    assert bank.applied(3000) == Pairs.identity(3000)
    assert time.perf_counter() - began < 4

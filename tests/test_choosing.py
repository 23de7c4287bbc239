"""Which solver and penalty: chosen on references alone."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from report_results import made_up
from transil import Penalty, TransilError, fit
from transil.correction.registry import get_solver
from transil.experiment.choosing import choose, study_choices, transferred
from transil.experiment.fits import Fits, joined, read_candidate
from transil.experiment.results import Choice, Results
from transil.report.choices import candidate_name, choice_table
from transil.report.parts import parts_of
from transil.report.study import Study
from transil.testing import biased_scores

SHARED = {"a": ["b", "c"], "b": ["a"], "c": ["a"], "t": ["a", "b", "c"]}  # b and c share classes


def test_a_candidate_is_a_solver_and_perhaps_a_penalty() -> None:
    assert read_candidate("newton") == get_solver("newton")
    assert read_candidate("newton:0.5").penalty == Penalty(0.5, 0.5)
    assert read_candidate("authors:0.1,0").penalty == Penalty(0.1, 0.0)
    assert candidate_name("newton:0.1,0.2") == "newton, penalty 0.1 and 0.2"
    for text in ("newton:", "newton:a", "newton:1,2,3", "newto", "newton:-1"):
        with pytest.raises(TransilError):
            read_candidate(text)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    stores = {n: biased_scores("12/4", seed=i, images_per_class=20, dataset=n)
              for i, n in enumerate("abc")}  # fmt: skip
    target = biased_scores("12/4", seed=9, images_per_class=20)
    plan: Any = SimpleNamespace(
        experiment=SimpleNamespace(candidate_ways=[("adbic", "newton"), ("adbic", "newton:0.3")]),
        references_of=SHARED.__getitem__,
    )
    fits = Fits(tmp_path_factory.mktemp("fits"))
    to_fit = {name: joined(store, ["val", "test"], name) for name, store in stores.items()}
    args: Any = (plan, fits, stores, to_fit, {"t": target}, "lwf", 4, 0)
    return {"args": args, "choices": list(study_choices(*args)), "stores": stores,
            "to_fit": to_fit, "target": target}  # fmt: skip


def test_a_reference_is_corrected_by_the_others_it_may_use(found: dict[str, Any]) -> None:
    free, shrunk = found["choices"]
    assert (free.candidate, shrunk.candidate) == ("newton", "newton:0.3")
    assert list(free.left_out) == ["a", "b", "c"]
    for choice, penalty in ((free, Penalty(0, 0)), (shrunk, Penalty(0.3, 0.3))):
        for name, others in SHARED.items():
            bank = fit([found["to_fit"][o] for o in others], split="fit", penalty=penalty)
            store = found["target"] if name == "t" else found["stores"][name]
            split = "test" if name == "t" else "val"
            hits = []
            for state in (2, 3, 4):
                data = store.get(split, state)
                right = np.asarray(bank.correct(data.scores, state)).argmax(1) == data.columns
                hits.append(right.mean())
            value = choice.targets[name] if name == "t" else choice.left_out[name]
            assert value == pytest.approx(np.mean(hits), abs=1e-12)
        assert choice.raw["b"] == transferred(found["stores"]["b"], None, "val")
    assert np.mean(list(free.left_out.values())) > np.mean(list(free.raw.values()))


def choice(candidate: str, value: float, **over: Any) -> Choice:
    facts: dict[str, Any] = {"method": "lwf", "states": 5, "seed": 0, "correction": "adbic"}
    facts |= over
    return Choice(**facts, candidate=candidate, left_out={"a": value, "b": value + 0.02},
                  raw={"a": 0.3, "b": 0.3}, targets={"cifar100": 0.9 - value})  # fmt: skip


def test_the_best_on_average_is_chosen() -> None:
    rows = [choice("x", 0.40), choice("y", 0.41), choice("x", 0.50, states=10),
            choice("y", 0.48, states=10), choice("z", 0.99, correction="bic"), choice("w", 0.70),
            choice("x", 0.1, method="siw"), choice("y", 0.1, method="siw")]  # fmt: skip
    # Told twice is not tried twice.
    assert choose([*rows, choice("w", 0.70)]) == {"lwf": "x", "siw": "x"}
    # w was tried in one place only, z is of another correction, and equals go to the first.
    assert choose(rows) == {"lwf": "x", "siw": "x"}
    assert choose([]) == {}


def test_the_table_marks_the_best_of_the_references_alone(tmp_path: Path) -> None:
    results = made_up(methods=("lwf",), states=(5,))
    results.choices.extend([choice("newton", 0.40), choice("authors", 0.35)])
    results.save(tmp_path)
    assert Results.load(tmp_path).choices == results.choices
    table = choice_table(Study([results]))
    assert table is not None
    newton, authors = table.rows
    assert table.columns == (("references, left out", "S = 5"), ("CIFAR-100", "S = 5"))
    assert [e.value for e in newton.entries] == pytest.approx([41.0, 50.0])
    assert newton.entries[0].gain == pytest.approx(11.0)
    raw = next(c for c in results.cells if c.kind == "raw" and c.setting.target == "cifar100")
    assert authors.entries[1].gain == pytest.approx(55.0 - 100 * raw.average)
    # The target prefers the other one, and has no say.
    assert [e.best for e in newton.entries] == [True, False]
    assert not any(e.best for e in authors.entries)
    assert "solvers" in [t.name for t in parts_of(results).tables]
    assert choice_table(Study([made_up()])) is None


def test_results_without_choices_can_be_read(tmp_path: Path) -> None:
    path = made_up().save(tmp_path)
    data = json.loads(path.read_text())
    del data["choices"]
    path.write_text(json.dumps(data))
    assert Results.load(tmp_path).choices == []

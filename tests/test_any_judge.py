"""The tools that judge banks for any schedule: what is left out of a fit, and what a row says."""

from __future__ import annotations

import importlib
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from transil import ScoreStore
from transil._common.files import read_json, write_json
from transil.correction.evidence import Evidence, read_evidence
from transil.correction.scales import FORGOTTEN
from transil.testing import biased_scores

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results/any-schedule"


@pytest.fixture(scope="module")
def tools() -> Any:
    """The tools import each other by name, as they do when they are run."""
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        yield {name: importlib.import_module(name) for name in ("any_judge", "any_banks")}
    finally:
        sys.path.remove(str(ROOT / "tools"))


@pytest.fixture(scope="module")
def evidence() -> dict[str, list[Evidence]]:
    return {name: read_evidence(RESULTS / f"{name}.safetensors") for name in ("lwf", "ft", "siw")}


def test_what_is_related_is_left_out(tools: Any, evidence: dict[str, list[Evidence]]) -> None:
    judge = tools["any_judge"]
    kinds = {one.run.split("--")[1] for one in judge.without(evidence["lwf"], "x", "shrink")}
    assert "grow" in kinds
    assert "shrink" not in kinds
    left = {one.reference for one in judge.without(evidence["lwf"], "tiny-a", "shrink")}
    assert left == {"tiny-b", "mini-imagenet"}
    # The heads of `ft` and `siw` are made of one training.
    others = judge.of_other_methods(evidence, "siw")
    assert {one.run.split("--")[2] for one in others} == {"lwf"}
    assert len(others) == len(evidence["lwf"])


def test_kept_is_one_for_exact_pairs_and_zero_for_none(
    tools: Any, evidence: dict[str, list[Evidence]]
) -> None:
    banks = tools["any_banks"]
    found = banks.kept(evidence["lwf"], banks.Form(centres=30))
    assert set(found) == {one.run for one in evidence["lwf"]}
    assert 0.5 < banks.summary(found)["kept"] < 1.0
    nothing = {run: (raw, raw) for run, (raw, _) in found.items()}
    assert banks.summary(nothing) == {"kept": 0.0, "worst": 0.0}
    assert banks.summary({run: (raw, 0.0) for run, (raw, _) in found.items()})["kept"] == 1.0


def test_a_run_is_judged_once(
    tools: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    judge = tools["any_judge"]
    for name in ("lwf", "siw"):
        shutil.copy(RESULTS / f"{name}.safetensors", tmp_path)
    sizes = [12, 5, 5, 8, 3, 4]
    store = biased_scores("12,5,5,8,3,4", seed=3)
    store.method = "lwf"
    store.save(tmp_path / "runs/generated--rand37--lwf/scores/lwf")
    unfinished = ScoreStore(store.schedule, method="lwf", dataset="x")
    first_state = store.get("test", 1)
    unfinished.put("test", 1, first_state.scores, first_state.labels)
    unfinished.save(tmp_path / "runs/generated--saw--lwf/scores/lwf")
    (tmp_path / "runs/generated--ones--lwf/scores/lwf").mkdir(parents=True)  # not begun
    monkeypatch.setattr(sys, "argv", ["any_judge.py", str(tmp_path / "runs"), str(tmp_path)])
    assert judge.main() == 0
    (row,) = read_json(tmp_path / "judged.json")["rows"]
    assert (row["set"], row["schedule"], row["method"]) == ("generated", "rand37", "lwf")
    assert row["sizes"] == sizes
    for name in judge.BANKS:
        gain, low, high = row[f"gain_{name}"]
        assert low < gain < high
        assert row[name] == pytest.approx(row["raw"] + gain, abs=2e-5)
    assert row["bound"] > row["raw"]
    first = capsys.readouterr().out

    def never(*args: Any) -> Any:
        raise AssertionError("it was judged again")

    monkeypatch.setattr(judge, "judged", never)
    assert judge.main() == 0
    assert capsys.readouterr().out == first
    # The row of a run that is not here stays.
    path = tmp_path / "judged.json"
    other = {**row, "set": "elsewhere", "made_of": "x"}
    write_json(path, {"rows": [other, row]})
    assert judge.main() == 0
    assert read_json(path)["rows"] == [other, row]
    shutil.rmtree(tmp_path / "runs")
    assert judge.main() == 2
    assert "no finished run" in capsys.readouterr().err
    assert read_json(path)["rows"] == [other, row]


def test_the_bank_warns_where_even_exact_pairs_lost() -> None:
    """Of the references that lost more than 0.3 points by their own pairs, it would warn of 10 in 11."""
    lost, told = [], []
    for path in sorted(RESULTS.glob("*.safetensors")):
        tensors = load_file(path)
        runs: dict[str, list[tuple[float, bool]]] = {}
        for one in read_evidence(path):
            at = f"{one.run}/{one.facts.state}"
            hits = (tensors[f"{at}/hits/{name}"].sum() for name in ("adbic-centred", "raw"))
            after, before = (value / tensors[f"{at}/count"].sum() for value in hits)
            forgotten = one.facts.kept is not None and one.facts.kept < FORGOTTEN
            runs.setdefault(one.run, []).append((after - before, forgotten))
        means = {f"{path.stem} {run}": np.mean(states, axis=0) for run, states in runs.items()}
        lost += [name for name, (gain, _) in means.items() if gain < -0.003]
        told += [name for name, (_, share) in means.items() if share >= 0.5]
    assert len(lost) == 11
    assert set(lost) - set(told) == {"lwf tiny-a--rand37"}

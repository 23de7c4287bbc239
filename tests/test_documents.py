"""What the documents show must run, and the README's table must be what the commands give."""

from __future__ import annotations

import re
from dataclasses import astuple
from itertools import chain, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import transil
from support import ok, unequal_store
from transil import Penalty, ScoreStore, evaluate, fit
from transil.correction import shipped
from transil.experiment.results import Cell, Results
from transil.report import names, paper
from transil.testing import biased_scores

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()
SEEDS = (0, 1, 2)


def _blocks(path: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / path).read_text(), re.S | re.M)


def _pairs(store: ScoreStore, split: str) -> list[tuple[Any, Any]]:
    data = [store.get(split, state) for state in store.states(split)]
    return [(d.scores, d.labels) for d in data]


def test_python_of_the_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = unequal_store()
    names: dict[str, Any] = {
        "scores": 5.7 * biased_scores("100/10", images_per_class=2).get("test", 7).scores,
        "val_pairs": _pairs(store, "val"),
        "test_pairs": _pairs(store, "test"),
    }
    blocks = _blocks("README.md", "python")
    assert len(blocks) == 2
    for block in blocks:
        exec(block, names)
    assert names["better"].shape == names["scores"].shape
    assert not np.allclose(names["better"], names["scores"])
    assert names["bank"].method == "lwf"


def test_python_of_the_documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from transil.correction.registry import CORRECTIONS

    monkeypatch.setattr(CORRECTIONS, "_things", dict(CORRECTIONS._things))
    names: dict[str, Any] = {"scores": np.zeros((3, 65))}
    for block in _blocks("docs/corrections.md", "python"):
        exec(block, names)
    monkeypatch.setenv("TRANSIL_CACHE", str(tmp_path))
    for block in _blocks("docs/data.md", "python"):
        exec(block, names)
    assert names["batch"].images.shape == (128, 3, 32, 32)
    bank = fit(unequal_store(), correction="first-and-rest")
    assert bank.pairs(5).counts == {"alpha": 2, "beta": 2}


def test_python_of_the_training_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from transil.engine import resolve, train
    from transil.interop.loggers import LOGGERS
    from transil.methods import METHODS

    for registry in (METHODS, LOGGERS):
        monkeypatch.setattr(registry, "_things", dict(registry._things))
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"transil": transil}
    for block in _blocks("docs/training.md", "python"):
        exec(block, names)
    assert ScoreStore.open("runs/both-1").require("test") == (1, 2, 3)
    over = {"data": names["config"].to_dict()["data"], "train": {"epochs": 1}}
    mimic = resolve(method="mimic", recipe="lwf-tiny", overrides=[over])
    assert ScoreStore.open(train(mimic, "runs/mimic").path).method == "mimic"


def test_commands_and_table_of_the_readme(shared: Path, tmp_path: Path) -> None:
    (tmp_path / "released-scores").symlink_to(shared / "released-scores")
    section = README.split("## Reproduce")[1]
    commands = re.search(r"^```\n(.*?)^```", section, re.S | re.M)
    assert commands is not None
    shown = [
        ok(*line.split()[1:], cwd=tmp_path)
        for line in commands[1].splitlines()
        if line.startswith("transil")
    ]
    assert len(shown) == 5
    assert (tmp_path / "lucir.png").stat().st_size > 20_000
    for text, numbers in ((shown[2], ("33.70", "42.19")), (shown[4], ("33.70", "39.23"))):
        line = next(x for x in text.splitlines() if "average incremental accuracy" in x)
        for number in numbers:
            assert number in line
            assert number in section


def test_tables_of_released_numbers(released: ScoreStore) -> None:
    """Rows of the README and of docs/corrections.md, computed again."""

    def accuracy(**settings: Any) -> str:
        value = evaluate(released, fit(released, **settings)).average_incremental_accuracy
        return f"{100 * value:.2f}"

    rows = dict(re.findall(r"^\| (.*?) \|.*\| ([\d.]+) \|$", README, re.M))
    shrunk = Penalty()
    assert rows["BiC, fitted on validation scores"] == accuracy(correction="bic", solver="authors")
    assert rows["adBiC, exact optimum"] == accuracy(correction="adbic", penalty=shrunk)
    assert rows["adBiC, exact optimum, no penalty"] == accuracy(correction="adbic")
    assert rows["BiC, exact optimum"] == accuracy(correction="bic", penalty=shrunk)
    assert rows["BiC, exact optimum, no penalty"] == accuracy(correction="bic")
    page = (ROOT / "docs/corrections.md").read_text()
    table = re.search(r"^\| `adbic` \|.*?^\| ([\d. |]+) \|$", page, re.S | re.M)
    assert table is not None
    names = ("adbic", "adbic-centred", "bic", "bic-past", "bic-all")
    assert table[1].split(" | ")[:5] == [accuracy(correction=name) for name in names]


def results_of(seed: int) -> Results:
    """The committed results of a seed; all but the first have ten states alone."""
    return Results.load(ROOT / (f"results/real-32-seed{seed}" if seed else "results/real-32"))


@pytest.mark.parametrize("page", ["README.md", "docs/banks.md"])
def test_tables_of_results_are_those_of_the_committed_numbers(page: str) -> None:
    """The paper's adBiC and means over seeds in the README; on the other page the default banks."""
    found = [results_of(seed).cells for seed in (SEEDS if page == "README.md" else (0,))]
    text = (ROOT / page).read_text()
    for (method, name), states in product(names.METHODS.items(), (5, 10, 20)):
        cells = [
            c for c in chain(*found) if astuple(c.setting)[:4] == ("cifar100", method, states, 1.0)
        ]
        if not cells:
            continue
        raw = [c.average for c in cells if c.kind == "raw"]
        shown = ("adbic", "newton") if page == "README.md" else shipped.defaults()[method]
        best = [c for c in cells if (c.kind, c.name, c.solver) == ("transfer", *shown)]
        lows, highs = (
            [100 * x for x in ends if x is not None]
            for ends in ([c.low for c in best], [c.high for c in best])
        )
        assert len(raw) == len(best) == len(lows) == len(highs)
        low, high = (
            names.end(float(x)).replace("\N{MINUS SIGN}", "-")
            for x in (np.mean(lows), np.mean(highs))
        )
        after = 100 * float(np.mean([c.average for c in best]))
        row = f"{100 * np.mean(raw):.1f} | {after:.1f} | {mean_gain(best):+.1f} ({low} to {high})"
        if page != "README.md":
            assert f"| `{method}-s{states}` | {row} |" in text
            continue
        controls: dict[str, list[Cell]] = {}
        for c in cells:
            if c.kind == "control":
                controls.setdefault(c.name, []).append(c)
        control = max(mean_gain(group) for group in controls.values())
        known = [paper.accuracy(method, "cifar100", states, 1.0, x) for x in ("raw", "adbic")]
        assert f"| {name} | {states} | {row} | {control:+.1f} | {known[0]} to {known[1]} |" in text


def mean_gain(cells: list[Cell]) -> float:
    """In points, over seeds."""
    return 100 * float(np.mean([c.gain for c in cells if c.gain is not None]))


def test_the_table_of_solvers_is_that_of_the_committed_numbers() -> None:
    text = (ROOT / "docs/solvers.md").read_text()
    found: dict[tuple[str, str], dict[str, dict[tuple[int, int], float]]] = {}
    for choice in chain(*(results_of(seed).choices for seed in SEEDS)):
        methods = found.setdefault((choice.correction, choice.candidate), {})
        left_out = 100 * float(np.mean(list(choice.left_out.values())))
        methods.setdefault(choice.method, {})[choice.states, choice.seed] = left_out
    for (correction, candidate), methods in found.items():
        solver, _, penalty = candidate.partition(":")
        extra = f", {penalty.replace(',', ' and ')}" if penalty else ""
        extra += ", [centred](corrections.md)" if correction == "adbic-centred" else ""
        values = [float(np.mean(list(places.values()))) for places in methods.values()]
        lucir = methods["lucir"].items()
        values += [
            float(np.mean([x for (s, _), x in lucir if s == states])) for states in (5, 10, 20)
        ]
        row = " | ".join(f"{value:.2f}" for value in values)
        assert correction == "bic" or f"| `{solver}`{extra} | {row} |" in text


def test_every_command_is_in_the_readme() -> None:
    listed = set(re.findall(r"^\| `transil ([a-z-]+)", README, re.M))
    help_text = ok("--help")
    commands = set(re.findall(r"^  ([a-z-]+)  ", help_text.split("Commands:")[1], re.M))
    assert listed == commands


def test_links_of_the_documents() -> None:
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name}: {link}"

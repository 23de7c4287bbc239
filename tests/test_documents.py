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
from support import ok
from transil import Penalty, ScoreStore, evaluate, fit
from transil._common.files import read_json
from transil.correction import shipped
from transil.experiment.results import Cell, Results
from transil.report import names, paper

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()
SEEDS = (0, 1, 2)


def _blocks(path: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / path).read_text(), re.S | re.M)


def test_python_of_the_readme(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (block,), (output,) = _blocks("README.md", "python"), _blocks("README.md", "text")
    exec(block, {})
    assert capsys.readouterr().out == output


def test_python_of_the_documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names: dict[str, Any] = {"scores": np.zeros((3, 65))}
    monkeypatch.setenv("TRANSIL_CACHE", str(tmp_path))
    for page in ("bias", "data"):
        for block in _blocks(f"docs/{page}.md", "python"):
            exec(block, names)
    assert names["better"].shape == (3, 65)
    assert names["some"].class_names == ("radial-3-0007", "radial-3-0002")


def test_python_of_the_training_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"transil": transil}
    for block in _blocks("docs/training.md", "python"):
        exec(block, names)
    assert ScoreStore.open("runs/both-1").require("test") == (1, 2, 3)


def test_commands_that_reproduce_the_paper(shared: Path, tmp_path: Path) -> None:
    (tmp_path / "released-scores").symlink_to(shared / "released-scores")
    page = (ROOT / "docs/reproduce.md").read_text()
    (commands,) = re.findall(r"^```sh\n(transil import-scores.*?)^```", page, re.S | re.M)
    shown = [ok(*line.split()[1:], cwd=tmp_path) for line in commands.splitlines()]
    assert len(shown) == 5
    assert (tmp_path / "lucir.png").stat().st_size > 20_000
    for text, numbers in ((shown[2], ("33.70", "42.19")), (shown[4], ("33.70", "39.23"))):
        line = next(x for x in text.splitlines() if "average incremental accuracy" in x)
        for number in numbers:
            assert number in line
            assert number in page
    assert "| 33.70 | 42.19 |" in README


def test_tables_of_released_numbers(released: ScoreStore) -> None:
    """Rows of two pages, computed again."""

    def accuracy(**settings: Any) -> str:
        value = evaluate(released, fit(released, **settings)).average_incremental_accuracy
        return f"{100 * value:.2f}"

    page = (ROOT / "docs/solvers.md").read_text()
    rows = {
        (name, solver): ours
        for name, solver, ours in re.findall(
            r"^\| (\w+) \| (.*?) \| [\d.]+ \| ([\d.]+) \|$", page, re.M
        )
    }
    shrunk = Penalty()
    exact, shrunken = "`newton`", "`newton`, 0.0025 and 0.0525"
    assert rows["BiC", "`authors`"] == accuracy(correction="bic", solver="authors")
    assert rows["adBiC", shrunken] == accuracy(correction="adbic", penalty=shrunk)
    assert rows["adBiC", exact] == accuracy(correction="adbic")
    assert rows["BiC", shrunken] == accuracy(correction="bic", penalty=shrunk)
    assert rows["BiC", exact] == accuracy(correction="bic")
    page = (ROOT / "docs/bias.md").read_text()
    table = re.search(r"^\| `adbic` \| `adbic-centred`.*?^\| ([\d. |]+) \|$", page, re.S | re.M)
    assert table is not None
    names = ("adbic", "adbic-centred", "bic", "bic-past", "bic-all")
    assert table[1].split(" | ")[:5] == [accuracy(correction=name) for name in names]


def results_of(seed: int) -> Results:
    """The committed results of a seed; all but the first have ten states alone."""
    return Results.load(ROOT / (f"results/real-32-seed{seed}" if seed else "results/real-32"))


@pytest.mark.parametrize("page", ["docs/results.md", "results/notes/banks.md"])
def test_tables_of_results_are_those_of_the_committed_numbers(page: str) -> None:
    """The paper's adBiC and means over seeds among the results; in the notes the default banks."""
    ours = page == "docs/results.md"
    found = [results_of(seed).cells for seed in (SEEDS if ours else (0,))]
    text = (ROOT / page).read_text()
    for (method, name), states in product(names.METHODS.items(), (5, 10, 20)):
        cells = [
            c for c in chain(*found) if astuple(c.setting)[:4] == ("cifar100", method, states, 1.0)
        ]
        if not cells:
            continue
        raw = [c.average for c in cells if c.kind == "raw"]
        shown = ("adbic", "newton") if ours else shipped.defaults()[method]
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
        if not ours:
            assert f"| `{method}-s{states}` | {row} |" in text
            continue
        controls: dict[str, list[Cell]] = {}
        for c in cells:
            if c.kind == "control":
                controls.setdefault(c.name, []).append(c)
        control = max(mean_gain(group) for group in controls.values())
        known = [paper.accuracy(method, "cifar100", states, 1.0, x) for x in ("raw", "adbic")]
        assert f"| {name} | {states} | {row} | {control:+.1f} | {known[0]} to {known[1]} |" in text
        short = rf"\| {re.escape(name)}[^|]* \| {states} \| (.*?) \| (.*?) \| (.*?) \|"
        for before, corrected, paper_row in re.findall(short, README):
            assert (before, corrected) == (f"{100 * np.mean(raw):.1f}", f"{after:.1f}")
            assert paper_row == f"{known[0]} to {known[1]}"


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
        extra += ", [centred](bias.md#the-corrections)" if correction == "adbic-centred" else ""
        values = [float(np.mean(list(places.values()))) for places in methods.values()]
        lucir = methods["lucir"].items()
        values += [
            float(np.mean([x for (s, _), x in lucir if s == states])) for states in (5, 10, 20)
        ]
        row = " | ".join(f"{value:.2f}" for value in values)
        shown = correction != "bic" and candidate in (
            "newton",
            "newton:0.0025,0.0525",
            "authors",
            "paper",
        )
        assert not shown or f"| `{solver}`{extra} | {row} |" in text


def test_links_of_the_documents() -> None:
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
            known = (
                link in ("api.md", "commands.md", "settings.md") or (page.parent / link).exists()
            )
            assert known, f"{page.name}: {link}"


def test_what_the_readme_lets_expect() -> None:
    """Means over the models that were judged: for equal and unequal groups, and for three tails."""
    judged = read_json(ROOT / "results/any-schedule/judged.json")["rows"]
    gains = [
        100 * np.mean([r["any"] - r["raw"] for r in judged if (len(set(r["sizes"])) == 1) == equal])
        for equal in (True, False)
    ]
    trials = read_json(ROOT / "results/adaptation/trials.json")["rows"]
    tails = [
        100 * np.mean([r["columns"]["none+ledger"][0] - r["columns"]["raw"][0]
                       for r in trials if r["traffic"] == f"classes {tail}:1"])
        for tail in (1, 10, 100)
    ]  # fmt: skip
    for words, found in (("on average", gains), ("on average, with a ledger", tails)):
        assert f"| +{min(found):.0f} to +{max(found):.0f} {words} |" in README

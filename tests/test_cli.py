"""End to end through the real command line, on equal and on very unequal groups."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import transil
from support import UNEQUAL, ok, ok_here, run_here, run_transil, unequal_store
from test_interop import write_numpy_folder, write_released_bank, write_released_layout
from transil import ScoreStore, __version__, evaluate, load_bank
from transil.cli import main
from transil.cli.app import run
from transil.cli.output import print_matrix, stdout


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two reference stores and a target, all with groups 50, 10, 5, 1, 34."""
    folder = tmp_path_factory.mktemp("work")
    for seed in (1, 2):
        unequal_store(seed, splits=("val",), dataset=f"ref{seed}").save(folder / f"ref{seed}")
    unequal_store(9, dataset="target").save(folder / "target")
    return folder


def test_the_issue_of_the_user(work: Path) -> None:
    """import, fit on two references, transfer, evaluate, correct: on unequal groups."""
    for r in ("ref1", "ref2"):
        out = ok(
            "fit",
            work / r,
            "--split",
            "val",
            "--correction",
            "adbic",
            "--solver",
            "newton",
            "-o",
            work / f"{r}.json",
        )
        assert "converged" in out
    out = ok(
        "transfer",
        work / "ref1.json",
        work / "ref2.json",
        "--how",
        "mean",
        "-o",
        work / "bank.json",
    )
    assert "mean of 2 reference(s)" in out
    bank = load_bank(work / "bank.json")
    target = ScoreStore.open(work / "target")

    text = ok("evaluate", "target", "--bank", "bank.json", cwd=work)
    raw, corrected = evaluate(target), evaluate(target, bank)
    for metrics in (raw, corrected):
        assert f"{100 * metrics.average_incremental_accuracy:.2f}" in text
        assert f"{100 * metrics.states[3].group_accuracy[2]:.1f}" in text
    assert max(len(line) for line in text.splitlines()) <= 80
    images = target.get("test", 5)
    newest = images.columns >= target.schedule.group_columns(5).start
    forms = (images.scores, bank.correct(images.scores, 5))
    for name, which in (("the newest group", newest), ("the groups before", ~newest)):
        before, after = (
            100 * (form.argmax(axis=1) == images.columns)[which].mean() for form in forms
        )
        row = next(x for x in text.splitlines() if f"accuracy of {name}, last state" in x)
        assert row.split()[-3:] == [f"{before:.2f}", f"{after:.2f}", f"{after - before:+.2f}"]

    data = json.loads(ok("evaluate", work / "target", "--bank", work / "bank.json", "--json"))
    assert data["raw"] == raw.to_json()
    assert data["corrected"] == corrected.to_json()
    assert data["bank"]["references"] == ["ref1", "ref2"]
    assert data["schedule"] == {"sizes": UNEQUAL}

    text = ok("evaluate", work / "target", "--bank", work / "bank.json", "--csv")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["state"] for row in rows] == ["1", "2", "3", "4", "5"] * 2
    assert float(rows[7]["accuracy"]) == corrected.states[2].accuracy
    assert rows[0]["group_2"] == ""

    scores = np.array(target.get("test", 4).scores)
    np.save(work / "scores.npy", scores)
    out = ok(
        "correct",
        work / "scores.npy",
        "--bank",
        work / "bank.json",
        "--state",
        "4",
        "-o",
        work / "corrected.npy",
    )
    assert "state 4, corrected with adbic (mean of 2 references, newton)" in out
    np.testing.assert_array_equal(np.load(work / "corrected.npy"), bank.correct(scores, 4))


@pytest.mark.parametrize("correction", ["adbic", "bic", "bic-past", "bic-all"])
@pytest.mark.parametrize("solver", ["authors", "paper", "newton"])
def test_every_correction_with_every_solver(work: Path, correction: str, solver: str) -> None:
    path = work / f"{correction}-{solver}.json"
    few = [] if solver == "newton" else ["--epochs", "2"]
    out = ok_here(
        "fit",
        work / "ref1",
        work / "ref2",
        "--correction",
        correction,
        "--solver",
        solver,
        "-o",
        path,
        "--json",
        *few,
    )
    records = json.loads(out)
    assert list(records) == ["ref1", "ref2"]
    assert records["ref1"]["5"]["seconds"] >= 0
    assert load_bank(path).solver == solver
    assert "Infinity" not in path.read_text()


def test_fit_on_two_stores_is_fit_and_transfer(work: Path) -> None:
    for r in ("ref1", "ref2"):
        ok_here("fit", work / r, "-o", work / f"only-{r}.json")
    ok_here(
        "transfer", work / "only-ref1.json", work / "only-ref2.json", "-o", work / "joined.json"
    )
    ok_here("fit", work / "ref1", work / "ref2", "-o", work / "together.json")
    joined, together = load_bank(work / "joined.json"), load_bank(work / "together.json")
    assert joined.to_json()["references"] == together.to_json()["references"]
    for how in ("median", "mean"):
        ok_here("transfer", work / "together.json", "--how", how, "-o", work / f"{how}.json")
    ok_here(
        "transfer",
        work / "together.json",
        "--how",
        "single",
        "--reference",
        "ref2",
        "-o",
        work / "single.json",
    )
    assert load_bank(work / "single.json").pairs(3) == together.reference("ref2").pairs[3]


def test_oracle_says_that_it_is_an_upper_bound(work: Path) -> None:
    ok_here("fit", work / "ref1", work / "ref2", "-o", work / "both.json")
    done = run_transil(
        "transfer",
        work / "both.json",
        "--how",
        "oracle",
        "--target",
        work / "target",
        "-o",
        work / "oracle.json",
    )
    assert done.returncode == 0
    assert "upper bound over single references" in done.stderr
    done = run_transil("evaluate", work / "target", "--bank", work / "oracle.json", "--json")
    assert "upper bound over single references" in done.stderr
    bound = json.loads(done.stdout)["corrected"]["average_incremental_accuracy"]
    mean = evaluate(ScoreStore.open(work / "target"), load_bank(work / "both.json"))
    assert bound >= mean.average_incremental_accuracy - 0.01


def test_rescaling(work: Path) -> None:
    ok_here("fit", work / "ref1", "-o", work / "s.json")
    store = ScoreStore.open(work / "target")
    large = ScoreStore(store.schedule, method=store.method, dataset="large")
    for split, state in store:
        data = store.get(split, state)
        large.put(split, state, 30 * data.scores, data.labels)
    large.save(work / "large")
    bank = load_bank(work / "s.json")
    expected = evaluate(store, bank, rescale=True).average_incremental_accuracy
    shown = json.loads(
        ok_here("evaluate", work / "large", "--bank", work / "s.json", "--rescale", "--json")
    )
    found = shown["corrected"]["average_incremental_accuracy"]
    assert found == pytest.approx(expected, abs=1e-6)
    assert shown["bank"]["rescaled"] is True
    done = run_transil("evaluate", work / "large", "--rescale")
    assert (done.returncode, done.stderr) == (2, "error: --rescale goes with --bank\n")
    done = run_transil("evaluate", work / "large", "--bank", work / "s.json", "--rescale")
    cost = bank.newest(30 * store.get("test", 5).scores, 5)
    assert f"s.json: rescaled it predicts {cost}, last state\n" in done.stdout
    scores = 1.8 * store.get("test", 5).scores
    np.save(work / "large.npy", scores)
    torch.save(torch.from_numpy(scores), work / "large.pt")
    for name in ("large.npy", "large.pt"):
        out = work / f"out-{name}"
        done = run_transil(
            "correct", work / name, "--bank", work / "s.json", "--rescale", "-o", out
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert "rescaled" in done.stdout
        cost = bank.newest(scores, 5)
        assert f"\nrescaled the bank predicts {cost}\n" in done.stdout
        found = np.load(out) if name.endswith("npy") else torch.load(out).numpy()
        np.testing.assert_allclose(found, bank.correct(scores, 5, rescale=True), rtol=1e-5)


def test_a_turned_group_is_told(tmp_path: Path) -> None:
    """Scores of the first group with the wrong sign: the fit finds alpha below 0 and says so."""
    made = unequal_store(1, splits=("val",))
    turned = ScoreStore.create(tmp_path / "turned", made.schedule, dataset="turned")
    for split, state in made:
        found = made.get(split, state)
        scores = np.array(found.scores)
        scores[:, :50] *= -1
        turned.put(split, state, scores, found.labels)
    done = run_here("fit", "turned", "-o", "bank.json", cwd=tmp_path)
    assert "turned: alpha is not above 0 (state 2, pair 1 and 3 more)" in done.stderr
    done = run_here("bank", "show", "bank.json", cwd=tmp_path)
    assert "note: alpha is not above 0" in done.stderr


def test_show_and_compare(work: Path) -> None:
    ok_here("fit", work / "ref1", work / "ref2", "-o", work / "a.json")
    ok_here("fit", work / "ref1", "--penalty-beta", "0.1", "-o", work / "b.json")
    text = ok_here("bank", "show", "a.json", cwd=work)
    for words in (
        "generated",
        "100 classes, 5 groups of 50, 10, 5, 1, 34",
        "newton",
        "0.0 beta^2",
        "ref1, ref2",
        "alpha",
        "state 5",
    ):
        assert words in text
    assert max(len(line) for line in text.splitlines()) <= 80
    alpha = load_bank(work / "a.json").applied(5).alpha[0]
    assert f"{alpha:.4f}" in text
    one = load_bank(work / "a.json").reference("ref2").pairs[5].alpha[0]
    assert f"{one:.4f}" in ok_here("bank", "show", work / "a.json", "--reference", "ref2")
    # Columns that say nothing are left out: newton has no epoch that it kept.
    for name, kept in ((work / "a.json", False), ("lwf-s10-authors", True)):
        lines = ok_here("bank", "show", name).splitlines()
        heads = next(line.split() for line in lines if "objective" in line)
        assert ("kept" in heads, "seconds" in heads) == (kept, False)
    shown = json.loads(ok_here("bank", "show", work / "a.json", "--json"))
    assert shown["5"]["alpha"][0] == alpha
    text = ok_here("bank", "compare", work / "a.json", work / "b.json")
    assert "penalty" in text
    data = json.loads(ok_here("bank", "compare", work / "a.json", work / "b.json", "--json"))
    assert data["states"][0]["beta_largest"] > 0
    same = json.loads(ok_here("bank", "compare", work / "a.json", work / "a.json", "--json"))
    assert same["facts"] == {}
    assert all(row["alpha_largest"] == 0 for row in same["states"])


def test_import_from_the_authors_layout(tmp_path: Path) -> None:
    store = unequal_store()
    write_released_layout(store, tmp_path / "logits_lucir_s5")
    write_released_bank(tmp_path / "bic_models_lucir_s5", 5)
    ok_here(
        "import-scores",
        tmp_path / "logits_lucir_s5",
        "--format",
        "dkt",
        "-o",
        tmp_path / "run",
        "--dataset",
        "toy",
    )
    ok_here(
        "import-bank",
        tmp_path / "bic_models_lucir_s5",
        "--format",
        "dkt",
        "--method",
        "lucir",
        "--schedule",
        "50,10,5,1,34",
        "-o",
        tmp_path / "bank.json",
    )
    read = ScoreStore.open(tmp_path / "run")
    assert (read.method, read.dataset) == ("lucir", "toy")
    assert read.fingerprint() == store.fingerprint()
    assert "corrected" in ok_here("evaluate", tmp_path / "run", "--bank", tmp_path / "bank.json")


def test_import_from_numpy(tmp_path: Path) -> None:
    store = unequal_store()
    write_numpy_folder(store, tmp_path / "mine")
    ok_here(
        "import-scores",
        tmp_path / "mine",
        "--format",
        "numpy",
        "--method",
        "lwf",
        "-o",
        tmp_path / "run",
    )
    assert ScoreStore.open(tmp_path / "run").fingerprint() == store.fingerprint()
    ok_here(
        "import-scores",
        tmp_path / "mine",
        "--format",
        "numpy",
        "--dtype",
        "float16",
        "-o",
        tmp_path / "half",
    )
    assert ScoreStore.open(tmp_path / "half").get("val", 1).scores.dtype == np.float16


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_figures(work: Path, ending: str) -> None:
    ok_here("fit", work / "ref1", "-o", work / "f.json")
    for name in ("a", "b"):
        ok_here(
            "evaluate",
            work / "target",
            "--bank",
            work / "f.json",
            "--figure",
            work / f"{name}.{ending}",
        )
    first = (work / f"a.{ending}").read_bytes()
    assert len(first) > 5000
    if ending != "svg":  # SVG ids are random
        assert first == (work / f"b.{ending}").read_bytes()


def test_help_shows_examples(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (
        ["import-scores"],
        ["import-bank"],
        ["evaluate"],
        ["fit"],
        ["transfer"],
        ["correct"],
        ["demo"],
        ["run"],
        ["report"],
        ["train"],
        ["methods"],
        ["recipes"],
        ["bank", "list"],
        ["bank", "show"],
        ["bank", "compare"],
    ):
        assert run([*words, "--help"]) == 0  # in this process: starting fifteen takes its time
        text = capsys.readouterr().out
        assert "Example" in text
        assert f"  transil {' '.join(words)}" in text
    assert ok_here("--version").strip() == f"transil {__version__}"


def test_tables_of_many_states_are_cut_to_the_screen(capsys: pytest.CaptureFixture[str]) -> None:
    stdout.width = 80
    print_matrix("alpha", [[float(k) for k in range(s)] for s in range(2, 21)], ".4f", 8)
    lines = capsys.readouterr().out.splitlines()
    assert max(len(line) for line in lines) <= 80
    assert "alpha, groups 1 to 9" in lines[0]
    assert any(line.startswith("state 20") and "19.0000" in line for line in lines)


def test_several_banks_stand_side_by_side(work: Path) -> None:
    for correction in ("adbic", "bic"):
        ok_here(
            "fit", work / "ref1", "--correction", correction, "-o", work / f"one-{correction}.json"
        )
    banks = ("--bank", "one-adbic.json", "--bank", "one-bic.json")
    text = ok_here("evaluate", "target", *banks, cwd=work)
    data = json.loads(ok_here("evaluate", "target", *banks, "--json", cwd=work))
    rows = list(
        csv.DictReader(io.StringIO(ok_here("evaluate", "target", *banks, "--csv", cwd=work)))
    )
    assert {row["scores"] for row in rows} == {"raw", "one-adbic.json", "one-bic.json"}
    for name in ("one-adbic.json", "one-bic.json"):
        expected = evaluate(work / "target", work / name)
        found = data["banks"][name]
        assert found["correction"] == load_bank(work / name).correction.name
        assert found["corrected"] == expected.to_json()
        assert f"{100 * expected.average_incremental_accuracy:.2f}" in text
    assert "figure: x.svg" in ok_here("evaluate", "target", *banks, "--figure", "x.svg", cwd=work)
    drawn = (work / "x.svg").read_text()
    for name in ("raw", "one-adbic.json", "one-bic.json"):
        assert f"<!-- {name} (mean of states 2..S" in drawn
    done = run_transil("evaluate", "target", *banks, *banks[:2], cwd=work)
    assert (done.returncode, done.stdout) == (2, "")
    assert "one-adbic.json is given twice" in done.stderr


def test_scores_are_not_written_over(work: Path) -> None:
    ok_here("fit", work / "ref1", "-o", work / "w.json")
    np.save(work / "mine.npy", np.zeros((5, 60), np.float32))
    before = (work / "mine.npy").read_bytes()
    done = run_transil("correct", "mine.npy", "--bank", "w.json", "-o", "./mine.npy", cwd=work)
    assert done.returncode == 2
    assert "write to another file" in done.stderr
    assert (work / "mine.npy").read_bytes() == before


def test_what_is_missing_is_told_by_the_names_of_packages(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Never by an extra of ours: pip would fetch whatever an index has under our name."""
    monkeypatch.delitem(sys.modules, "transil.cli.app", raising=False)
    monkeypatch.setitem(sys.modules, "typer", None)
    assert main([]) == 2
    told = "the command line needs typer and rich; run: pip install typer rich"
    assert told in capsys.readouterr().err
    package = Path(transil.__file__).parent
    assert [path for path in package.rglob("*.py") if "transil[" in path.read_text("utf-8")] == []

"""Banks that come with the package: found by name, listed, used, and each of them in order."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import warnings
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support import ok, ship
from transil import Bank, ScoreScaleWarning, TransilError, evaluate, load_bank
from transil._common.files import read_json, write_json
from transil.cli.app import run
from transil.correction import shipped
from transil.correction.facts import Facts
from transil.correction.open_bank import OpenBank
from transil.correction.registry import SOLVERS
from transil.correction.shipped import ShippedBank, find_bank, shipped_any, shipped_banks
from transil.experiment.results import Results
from transil.testing import biased_scores

REAL = Path(str(resources.files("transil.banks")))
NAMES = [
    "ft+-s5-adbic-newton",
    "lwf-s5-adbic-authors",
    "lwf-s5-adbic-newton",
    "lwf-s5-bic-authors",
    "lwf-s5-bic-newton",
    "lwf-s10-adbic-newton",
]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of banks as the package's: 20 classes, LwF in two numbers of states."""
    folder = tmp_path_factory.mktemp("banks")
    for name in NAMES:
        ship(folder, name, classes=20, references=("tiny-a", "tiny-b"))
    write_json(folder / "defaults.json", {"lwf": "adbic-newton"})
    return folder


@pytest.fixture
def banks(made: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The lookup points at those banks; the current folder is empty."""
    monkeypatch.setattr(shipped, "folder", lambda: made)
    monkeypatch.chdir(tmp_path)
    return made


def facts_of(schedule: str, state: int) -> Facts:
    """What biased scores of a state tell without labels."""
    store = biased_scores(schedule, seed=1)
    return Facts.of(store.get("test", state).scores, store.schedule, state)


def same(bank: Bank, folder: Path, name: str) -> bool:
    return bool(bank.to_json() == read_json(folder / f"{name}.json"))


# -- by name, in Python ------------------------------------------------------------------------


def test_a_method_and_a_number_of_states(banks: Path) -> None:
    assert same(load_bank("lwf", states=10), banks, "lwf-s10-adbic-newton")
    assert same(load_bank("lwf", states=5), banks, "lwf-s5-adbic-newton")
    assert same(load_bank("lwf", states=5, correction="bic"), banks, "lwf-s5-bic-newton")
    found = load_bank("lwf", states=5, correction="bic", solver="authors")
    assert same(found, banks, "lwf-s5-bic-authors")


def test_the_only_number_of_states_need_not_be_said(banks: Path) -> None:
    assert same(load_bank("ft+"), banks, "ft+-s5-adbic-newton")
    with pytest.raises(TransilError, match="say how many states, for lwf there are: 5, 10"):
        load_bank("lwf")


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("lwf-s5", "lwf-s5-adbic-newton"),
        ("lwf-s10", "lwf-s10-adbic-newton"),
        ("ft+-s5", "ft+-s5-adbic-newton"),
        ("lwf-s5-bic", "lwf-s5-bic-newton"),
        ("lwf-s5-bic-authors", "lwf-s5-bic-authors"),
        ("lwf-s5-adbic-newton", "lwf-s5-adbic-newton"),
        ("LwF-s10", "lwf-s10-adbic-newton"),
        ("LWF-S5-BiC", "lwf-s5-bic-newton"),
    ],
)
def test_short_and_full_names(banks: Path, name: str, full: str) -> None:
    assert same(load_bank(name), banks, full)


def test_a_name_may_be_completed_but_not_said_twice(banks: Path) -> None:
    assert same(load_bank("lwf-s5", solver="authors"), banks, "lwf-s5-adbic-authors")
    assert same(load_bank("lwf-s5-authors"), banks, "lwf-s5-adbic-authors")
    with pytest.raises(TransilError, match="the name says its states"):
        load_bank("lwf-s5", states=5)
    with pytest.raises(TransilError, match="the name says its correction"):
        load_bank("lwf-s5-bic", correction="bic")


def test_the_table_says_the_default(
    banks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file in banks.glob("lwf-s5-*.json"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    monkeypatch.setattr(shipped, "folder", lambda: tmp_path)
    write_json(tmp_path / "defaults.json", {"lwf": "adbic-authors"})
    assert load_bank("lwf").solver == "authors"
    assert [b.name for b in shipped_banks() if b.default] == ["lwf-s5-adbic-authors"]
    write_json(tmp_path / "defaults.json", {"lwf": "bic-newton"})
    assert load_bank("lwf").correction.name == "bic"
    assert load_bank("lwf", correction="adbic").correction.name == "adbic"
    assert [b.name for b in shipped_banks() if b.default] == ["lwf-s5-bic-newton"]
    (tmp_path / "lwf-s5-bic-authors.json").unlink()
    assert load_bank("lwf", solver="authors").correction.name == "adbic"  # there is no other
    write_json(tmp_path / "defaults.json", {"lucir": "adbic-authors"})  # lwf falls back to newton
    assert load_bank("lwf").solver == "newton"
    assert [b.name for b in shipped_banks() if b.default] == ["lwf-s5-adbic-newton"]


@pytest.mark.parametrize("name", ["lwf-t-s5-bic-past-newton", "lwf-t-s5-bic-past"])
def test_methods_and_corrections_with_hyphens(
    banks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(shipped, "folder", lambda: tmp_path)
    (tmp_path / "defaults.json").write_text("{}")
    (tmp_path / "lwf-t-s5-bic-past-newton.json").write_bytes(
        (banks / "lwf-s5-bic-newton.json").read_bytes()
    )
    assert shipped_banks() == [ShippedBank("lwf-t", 5, "bic-past", "newton")]
    assert shipped.find_shipped(name).method == "lwf-t"


@pytest.mark.parametrize(
    ("name", "choice", "says"),
    [
        ("lwff", {}, "no such file, and no shipped bank has method 'lwff'; there are: ft+, lwf"),
        ("lwf-t", {"states": 5}, "no shipped bank has method 'lwf-t'; there are: ft+, lwf"),
        ("", {}, "no shipped bank has method ''"),
        ("lwf", {"states": 7}, "no shipped bank of lwf has states '7'; there are: 5, 10"),
        ("lwf-s7", {}, "5, 10; for others give the schedule (schedule=[12, 5, 5], --schedule"),
        (
            "lwf-t-s5",
            {},
            "ft+, lwf; 'transil bank list' has those for any schedule, too; 'generic' is for",
        ),
        ("lwf", {"states": "5"}, "states must be a whole number, not '5'"),
        ("lwf", {"states": True}, "states must be a whole number, not True"),
        ("lwf-s5-x", {}, "of lwf-s5 has correction 'x'; there are: adbic, bic"),
        ("lwf-s10-bic", {}, "of lwf-s10 has correction 'bic'; there are: adbic"),
        (
            "lwf-s5",
            {"solver": "paper"},
            "lwf-s5-adbic has solver 'paper'; there are: authors, newt",
        ),
        ("lwf-s10-adbic-authors", {}, "of lwf-s10-adbic has solver 'authors'; there are: newton"),
        ("lwf-s" + "9" * 5000, {}, "no shipped bank has method"),
    ],
)
def test_what_there_is_not(banks: Path, name: str, choice: dict[str, Any], says: str) -> None:
    with pytest.raises(TransilError) as raised:
        load_bank(name, **choice)
    assert says in str(raised.value)
    assert "\n" not in str(raised.value)


def test_without_any_shipped_bank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipped, "folder", lambda: tmp_path)
    (tmp_path / "defaults.json").write_text("{}")
    assert shipped_banks() == []
    with pytest.raises(TransilError, match="no such file, and this transil ships no banks"):
        load_bank("lwf", states=10)


# -- files -------------------------------------------------------------------------------------


def test_files_are_read_as_ever(banks: Path, tmp_path: Path) -> None:
    mine = replace(load_bank("lwf-s5"), method="mine")
    for name in ("mine.json", "lwf-s5", "lwf"):
        mine.save(tmp_path / name)
        assert load_bank(name).method == "mine"  # a file that exists comes before a shipped bank
        assert load_bank(tmp_path / name).method == "mine"
        (tmp_path / name).unlink()
    for missing in ("lwf-s5.json", "./lwf-s5", Path("lwf-s5"), str(tmp_path / "lwf")):
        with pytest.raises(TransilError, match=r"^cannot read .*: No such file"):
            load_bank(missing)
    (tmp_path / "lwf-s5").mkdir()  # such as a folder of runs
    assert load_bank("lwf-s5").method == "lwf"


@pytest.mark.parametrize("choice", [{"states": 5}, {"correction": "adbic"}, {"solver": "newton"}])
def test_a_file_has_its_own_states(banks: Path, choice: dict[str, Any]) -> None:
    for path in (banks / "lwf-s5-adbic-newton.json", "mine.json"):
        with pytest.raises(TransilError, match="this is a file; states, correction and solver"):
            load_bank(path, **choice)


def test_nothing_is_read_at_import() -> None:
    script = "import sys, transil; print('transil.banks' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr


# -- using one ---------------------------------------------------------------------------------


def test_scores_on_another_scale_warn(banks: Path) -> None:
    bank = load_bank("lwf", states=5)
    scores = np.array(biased_scores("20/5", seed=7).get("test", 5).scores)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        better = bank.correct(scores, state=5)
    assert not np.allclose(better, scores)
    with pytest.warns(ScoreScaleWarning, match="state 5: these scores spread 10 times"):
        bank.correct(10 * scores, state=5)


# -- through the command line ------------------------------------------------------------------

SCRIPT = """
import sys
from pathlib import Path
from transil.correction import shipped
folder = Path(sys.argv[1])
shipped.folder = lambda: folder
from transil.cli import main
sys.exit(main(sys.argv[2:]))
"""


def command(folder: Path, words: str) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own, with the banks of `folder`."""
    return subprocess.run(
        [sys.executable, "-c", SCRIPT, str(folder), *words.split()],
        capture_output=True,
        text=True,
        timeout=120,
    )


def good(folder: Path, words: str) -> str:
    done = command(folder, words)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_list(banks: Path) -> None:
    rows = json.loads(good(banks, "bank list --json"))
    assert [row["name"] for row in rows] == NAMES
    row = rows[2]
    bank = load_bank("lwf", states=5)
    assert row["method"] == "lwf"
    assert (row["states"], row["classes"]) == (5, 20)
    assert (row["correction"], row["solver"]) == ("adbic", "newton")
    assert row["references"] == ["tiny-a", "tiny-b"]
    assert row["score_kind"] == "logit"
    assert row["score_scale"] == {str(state): bank.scale(state) for state in range(2, 6)}
    defaults = [row["name"] for row in rows if row["default"]]
    assert defaults == ["ft+-s5-adbic-newton", "lwf-s5-adbic-newton", "lwf-s10-adbic-newton"]
    text = good(banks, "bank list")
    assert "score scale" in text
    line = next(line for line in text.splitlines() if "lwf-s5-adbic-newton" in line)
    scales = [bank.scale(state) or 0.0 for state in range(2, 6)]
    assert f"{min(scales):.3g} to {max(scales):.3g}" in line
    assert line.split()[1] == "yes"
    assert "references: tiny-a, tiny-b" in text.splitlines()
    assert max(len(line) for line in text.splitlines()) <= 80


def test_list_of_some(banks: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bank", "list", "lwf-s5", "--json"]) == 0
    assert [row["name"] for row in json.loads(capsys.readouterr().out)] == NAMES[1:5]
    assert run(["bank", "list", "icarl"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "'icarl'" in said
    assert "ft+, lwf" in said


def test_list_of_none(tmp_path: Path) -> None:
    (tmp_path / "defaults.json").write_text("{}")
    assert good(tmp_path, "bank list") == "this transil ships no banks\n"
    assert json.loads(good(tmp_path, "bank list --json")) == []


def test_the_real_list() -> None:
    """The command finds the package's own folder, as it is installed."""
    rows = json.loads(ok("bank", "list", "--json"))
    of_one = [row for row in rows if row["states"] is not None]
    assert [row["name"] for row in of_one] == [bank.name for bank in shipped_banks()]
    assert [row["name"] for row in rows if row["states"] is None] == [
        f"{name}-any" for name in shipped_any()
    ]
    assert "  transil bank list" in ok("bank", "list", "--help")


def test_every_command_takes_a_name(banks: Path, tmp_path: Path) -> None:
    bank = load_bank("lwf", states=5)
    target = biased_scores("20/5", seed=9)
    target.method = "lwf"
    target.save(tmp_path / "target")
    scores = np.array(target.get("test", 4).scores)
    np.save("scores.npy", scores)

    out = good(banks, "correct scores.npy --bank lwf-s5 --state 4 -o corrected.npy")
    assert "corrected with adbic (mean of 2 references, newton)" in out
    np.testing.assert_array_equal(np.load("corrected.npy"), bank.correct(scores, 4))

    data = json.loads(good(banks, "evaluate target --bank lwf-s5-bic-authors --json"))
    assert data["bank"]["solver"] == "authors"
    assert data["bank"]["correction"] == "bic"
    other = load_bank("lwf-s5-bic-authors")
    assert data["corrected"] == evaluate(target, other).to_json()

    shown = good(banks, "bank show lwf-s5")
    assert shown.startswith("lwf-s5\n")
    assert f"{bank.applied(5).alpha[0]:.4f}" in shown
    text = good(banks, "bank compare lwf-s5 lwf-s5-adbic-authors")
    assert "lwf-s5-adbic-authors" in text

    good(banks, "transfer lwf-s5 --how single --reference tiny-b -o one.json")
    assert load_bank("one.json").pairs(3) == bank.reference("tiny-b").pairs[3]
    good(banks, "transfer lwf-s5 --schedule 60/5 -o larger.json")
    assert load_bank("larger.json").to_json() == bank.for_schedule("60/5").to_json()
    facts = good(banks, "bank show larger.json")
    assert "60 classes, 5 groups of 12 (fitted on other sizes)" in facts

    # A file that is there comes first.
    load_bank("one.json").save("lwf-s5")
    text = good(banks, "correct scores.npy --bank lwf-s5 -o corrected.npy")
    assert "corrected with adbic (single of 2 references, newton)" in text


def test_another_scale_warns_on_the_command_line(banks: Path) -> None:
    scores = np.array(biased_scores("20/5", seed=9).get("test", 5).scores)
    np.save("scores.npy", 20 * scores)
    done = command(banks, "correct scores.npy --bank lwf-s5 -o corrected.npy")
    assert done.returncode == 0
    assert done.stderr.startswith("warning: state 5: these scores spread")
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("bank show lwff", "no shipped bank has method 'lwff'; there are: ft+, lwf"),
        ("bank show lwf", "say how many states, for lwf there are: 5, 10"),
        ("bank compare lwf-s5 lwf-s6", "has states '6'; there are: 5, 10"),
        ("correct s.npy --bank lwf-s5-bik -o c.npy", "has correction 'bik'; there are: adbic, bic"),
        ("transfer lwf-s5-bic-newtom -o x.json", "has solver 'newtom'; there are: authors, newton"),
        ("transfer lwf-s5 --schedule 60/6 -o x.json", "it is for 5 groups, not 6"),
        ("bank show lwf-s5.json", "cannot read lwf-s5.json: No such file"),
    ],
)
def test_bad_names_are_told_in_one_line(banks: Path, words: str, says: str) -> None:
    done = command(banks, words)
    assert done.returncode == 2
    assert done.stdout == ""
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("error: ")
    assert says in lines[0]


# -- what is really shipped --------------------------------------------------------------------


def check_shipped(path: Path) -> None:
    """An assertion fails where a file does not keep what its name and the documents promise."""
    parts = re.fullmatch(shipped._FILE, path.name)
    assert parts, f"{path.name}: not METHOD-sSTATES-CORRECTION-SOLVER.json"
    bank = Bank.load(path)
    said = (bank.method, str(bank.schedule.states), bank.correction.name, bank.solver)
    assert said == parts.groups(), f"{path.name}: it is {said}"
    assert len(set(bank.schedule.sizes)) == 1, f"{path.name}: groups are not equal"
    assert bank.transfer.how == "mean", f"{path.name}: transfer {bank.transfer.how}"
    assert bank.score_kind == "logit", f"{path.name}: scores of kind {bank.score_kind}"
    assert bank.provenance.get("versions", {}).get("transil"), f"{path.name}: made by what?"
    assert bank.provenance.get("config_hash"), f"{path.name}: no config_hash"
    assert "penalty" in bank.settings, f"{path.name}: no settings"
    assert "fitted_sizes" not in bank.provenance, f"{path.name}: not of its own sizes"
    names = [reference.name for reference in bank.references]
    assert all(names), f"{path.name}: a reference without a name"
    assert bank.provenance.get("datasets") == names, f"{path.name}: provenance of other sets"
    for reference in bank.references:
        where = f"{path.name}, {reference.name}"
        assert reference.source, f"{where}: no fingerprint of its scores"
        for state, pairs in reference.pairs.items():
            assert np.isfinite([*pairs.alpha, *pairs.beta]).all(), f"{where}, state {state}"
            assert reference.scale.get(state, 0.0) > 0, f"{where}, state {state}: no scale"
            record = reference.records.get(state)
            assert record is not None, f"{where}, state {state}: no record of the fit"
            assert record.converged is not False, f"{where}, state {state}: not converged"


def check_shipped_any(path: Path) -> None:
    """The same for a bank that holds for any schedule."""
    curve = find_bank(path)
    assert isinstance(curve, OpenBank), path.name
    assert path.name == f"{curve.name}{shipped.ANY}.json", f"{path.name}: it is {curve.name}"
    assert (curve.method is None) == bool(curve.methods), f"{path.name}: of which method?"
    assert curve.score_kind == "logit", f"{path.name}: scores of kind {curve.score_kind}"
    assert curve.expected, f"{path.name}: what it gains is not told"
    assert curve.provenance.get("versions", {}).get("transil"), f"{path.name}: made by what?"
    assert curve.seen.states == (2.0, 25.0), f"{path.name}: {curve.seen}"
    assert curve.correction.uncertainty(facts_of("20/4", 3)) is not None, f"{path.name}: unsure?"


def test_every_shipped_bank_is_in_order() -> None:
    assert REAL.is_dir()
    table = read_json(REAL / "defaults.json")
    assert isinstance(table, dict)
    assert {solver for _, solver in shipped.defaults().values()} <= set(SOLVERS.names())
    for path in sorted(REAL.glob("*.json")):
        if path.name == "defaults.json":
            continue
        if path.name.endswith(f"{shipped.ANY}.json"):
            check_shipped_any(path)
        else:
            check_shipped(path)
    # Without a solver's name, one is found of every method, number of states and correction.
    for bank in shipped_banks():
        load_bank(f"{bank.method}-s{bank.states}-{bank.correction}")
    unused = set(table) - {bank.method for bank in shipped_banks()}
    assert not unused, f"defaults.json: nothing is shipped for {unused}"


def test_what_is_shipped_is_what_the_committed_results_say() -> None:
    """The same pairs, and as default the one that won among references alone."""
    root = Path(__file__).parents[1]
    spec = importlib.util.spec_from_file_location("ship_banks", root / "tools/ship_banks.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    folder = root / "results/real-32"
    results = Results.load(folder)
    assert tool.defaults(results) == read_json(REAL / "defaults.json")
    assert load_bank("lucir", states=10).correction.name == "adbic-centred"
    assert load_bank("lwf", states=10).correction.name == "adbic"
    whole = tool.fitted_banks(folder, results, 0)
    assert {bank.name for bank in shipped_banks()} == set(whole)
    for name in whole:
        fitted = folder / f"banks/{name}-seed0.json"
        assert (REAL / f"{name}.json").read_bytes() == fitted.read_bytes()
    with pytest.raises(TransilError, match="no bank of seed 7"):
        tool.fitted_banks(folder, results, 7)


def test_generated_banks_pass_the_same_check(made: Path) -> None:
    for name in NAMES:
        check_shipped(made / f"{name}.json")


def _nothing(data: Any) -> None:
    """Only the name is wrong."""


def _drop_scale(data: Any) -> None:
    del data["references"][1]["states"]["3"]["score_scale"]


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        ("lwf-adbic-newton", _nothing, "not METHOD"),
        ("siw-s5-adbic-newton", _nothing, "it is"),
        ("lwf-s10-adbic-newton", _nothing, "it is"),
        ("lwf-s5-bic-newton", _nothing, "it is"),
        ("lwf-s5-adbic-authors", _nothing, "it is"),
        ("lwf-s5-adbic-newton", _drop_scale, "tiny-b, state 3: no scale"),
        ("lwf-s5-adbic-newton", lambda d: d.update(provenance={}), "made by what"),
        ("lwf-s5-adbic-newton", lambda d: d["references"][0].update(name=""), "without a name"),
        ("lwf-s5-adbic-newton", lambda d: d["references"][0].update(source=None), "fingerprint"),
        ("lwf-s5-adbic-newton", lambda d: d["provenance"].update(datasets=["x"]), "other sets"),
    ],
)
def test_the_check_finds_faults(
    made: Path, tmp_path: Path, name: str, change: Any, says: str
) -> None:
    data = read_json(made / "lwf-s5-adbic-newton.json")
    change(data)
    path = tmp_path / f"{name}.json"
    path.write_text(json.dumps(data))
    with pytest.raises(AssertionError, match=says):
        check_shipped(path)

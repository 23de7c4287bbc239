"""Experiments through the command line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import outside_method
from report_results import made_up
from test_experiment import SMALL, plan_of, recipe
from transil.cli.app import run
from transil.cli.experiments import MANY, _show_results
from transil.data import Images, ImageSplit
from transil.errors import DataWarning, TransilError
from transil.experiment.overlap import same_names, shared_classes
from transil.experiment.plan import make_plan
from transil.experiment.recipe import load_experiment
from transil.experiment.results import Results


def test_the_demo_prints_its_gain_and_where_the_report_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command itself, on smaller images than it has."""
    demo = load_experiment("demo")
    small = {k: {"path": f"formula:{k}?classes=5&train=10&test=5&size=16"} for k in demo.sets}
    monkeypatch.setattr(
        "transil.experiment.schedules.load_any",
        lambda *_: replace(demo, sets=small, train={"epochs": 1}),
    )
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0})
    assert run(["demo", "-o", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    assert said.count("best control") == 4  # two methods, two corrections
    assert f"report: {tmp_path / 'out' / 'report.html'}" in said
    cells = Results.load(tmp_path / "out").cells
    assert {(c.setting.method, c.kind) for c in cells if c.name == "adbic"} == {
        (m, k) for m in ("lwf", "lucir") for k in ("transfer", "bound")
    }


def test_of_many_numbers_the_main_ones_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    results = made_up(solvers=("newton", "authors"))
    assert len(results.cells) > MANY
    _show_results(results, [], None, as_json=False)
    said = capsys.readouterr().out
    assert said.startswith("adBiC (newton, mean), average incremental accuracy")
    rows = [line for line in said.splitlines() if ", seed 0" in line]
    assert len(rows) == 8  # two targets, two methods, two numbers of states
    main = [
        c for c in results.cells if (c.name, c.solver, c.kind) == ("adbic", "newton", "transfer")
    ]
    for row, cell in zip(rows, main, strict=True):
        assert cell.setting.target in row
        assert f" {100 * cell.average:.2f} " in row
    assert f"{len(results.cells)} numbers in all" in said


def test_sets_of_other_sizes_are_refused_before_any_training(tmp_path: Path) -> None:
    sets = {name: f"{{path: 'formula:{kind}?classes={n}&train=10&test=5&size=16'}}"
            for name, kind, n in (("a", "radial", 4), ("b", "noise", 6), ("c", "strokes", 4),
                                  ("d", "fractal", 4))}  # fmt: skip
    text = ", ".join(f"{k}: {v}" for k, v in sets.items())
    path = tmp_path / "r.yaml"
    path.write_text(SMALL.split("sets:")[0] + f"sets: {{{text}}}\n")
    with pytest.raises(TransilError, match="reference 'b' has 6 classes and target 'c' 4; pairs"):
        make_plan(load_experiment(str(path)), tmp_path / "results")


def test_settings_under_a_misspelt_name_are_told(tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    path.write_text(SMALL.split("sets:")[0] + "sets: {leafs: {order: label}, other: {}}\n")
    changes = {"references": ["leaves", "a"], "targets": ["c"]}
    with (
        pytest.warns(DataWarning, match="settings of 'leafs'.*none of 'leaves'; is it misspelt"),
        pytest.raises(TransilError, match="leaves: no such folder"),
    ):
        make_plan(load_experiment(str(path), changes), tmp_path / "results")


def test_settings_go_over_the_recipe_and_without_training_nothing_is_trained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transil.report.parts._pictures", lambda _: ([], ""))  # they take seconds
    words = ["run", recipe(tmp_path), "-o", str(tmp_path / "results"), "states=[2]", "seeds=[4]",
             "references=[a]", "targets=[c]", "methods=[lwf,siw]"]  # fmt: skip
    assert run([*words, "--plan", "--json"]) == 0
    names = [row["run"] for row in json.loads(capsys.readouterr().out)["runs"]]
    assert names
    assert all("-s2-seed4-" in name for name in names)
    assert run([*words, "--no-train"]) == 2
    assert "no run of small is finished here yet" in capsys.readouterr().err
    assert not (tmp_path / "results" / "results.json").exists()
    assert not (tmp_path / "results" / "runs").exists()
    assert run([*words, "methods=[lwf]", "--processes", "1"]) == 0
    before = (tmp_path / "results" / "results.json").read_bytes()
    capsys.readouterr()
    assert run([*words, "--no-train"]) == 0  # what is missing is told, and no failure
    told = capsys.readouterr().err
    assert "2 of 4 runs are not finished" in told
    assert "failed" not in told
    assert {c.setting.method for c in Results.load(tmp_path / "results").cells} == {"lwf"}
    assert run([*words, "methods=[lwf]", "--no-train"]) == 0
    assert (tmp_path / "results" / "results.json").read_bytes() == before
    assert run([*words[:-1], "statess=[2]"]) == 2
    assert "statess" in capsys.readouterr().err


def test_a_plan_runs_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", recipe(tmp_path), "-o", str(tmp_path / "results"), "--plan"]
    assert run(words) == 0
    said = capsys.readouterr().out
    assert "24 runs, 0 done already, about" in said
    assert "references of c: a, b" in said
    assert not (tmp_path / "results").exists()
    assert run([*words, "--json"]) == 0
    assert {r["status"] for r in json.loads(capsys.readouterr().out)["runs"]} == {"new"}


def test_named_sets_and_methods_from_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--data-dir` is where names are looked for, and `recipes` trains a method without its own."""
    monkeypatch.setenv("TRANSIL_DATA", "elsewhere")  # put back afterwards
    words = [
        "run",
        "paper-table1",
        "-o",
        str(tmp_path / "x"),
        "--plan",
        "--data-dir",
        str(tmp_path),
    ]
    assert run(words) == 2
    assert f"not found in {tmp_path}" in capsys.readouterr().err
    with outside_method.installed(tmp_path / "site"):
        with pytest.raises(
            TransilError, match="'anchored' has no recipe 'anchored-tiny'; name one"
        ):
            load_experiment(recipe(tmp_path, methods="[anchored]"))
        plan = plan_of(tmp_path, methods="[anchored]", recipes="{anchored: ft-tiny}")
        assert {task.config.method for task in plan.tasks} == {"anchored"}


@pytest.mark.parametrize(
    "named", ["{siw: ft-tiny, ft+: ft-tiny}", "{ft+: ft-tiny}", "{ft: ft-tiny}"]
)
def test_a_recipe_counts_for_whichever_method_of_a_family_it_is_named(
    tmp_path: Path, named: str
) -> None:
    plan = plan_of(tmp_path, methods="[siw, ft+]", kind="32", recipes=named)
    assert {(task.method, task.config.net.body) for task in plan.tasks} == {("ft", "convnet")}


def test_classes_of_one_name_in_sets_collected_apart_are_told() -> None:
    def images(*names: str) -> Images:
        pixels = np.zeros((len(names), 2, 2, 3), dtype=np.uint8)
        split = ImageSplit(pixels, np.arange(len(names)))
        return Images("x", names, {"train": split, "test": split}, "x")

    ids = images("n02206856 bee", "n02129165 lion, king of beasts", "n07747607 orange", "n00000001")
    plain = images("Bee", "lion", "aquarium_fish")
    assert shared_classes(ids, plain) == []
    assert same_names(ids, plain) == ["bee", "lion"]
    bare = images("n02206856", "n02129165", "n00000001")  # ids alone: named by a third set
    assert same_names(plain, bare) == []
    assert same_names(plain, bare, [plain, ids, bare]) == ["bee", "lion"]
    # What has the same id is told elsewhere.
    assert same_names(ids, images("n02206856 bee", "n1 wasp")) == []


def test_names_of_runs_stay(tmp_path: Path) -> None:
    """A new release must find the runs of an older one: a setting added later changes no name."""
    names = {task.name for task in make_plan(load_experiment("demo"), tmp_path).tasks}
    assert {"radial-lucir-s5-seed0-889d4642", "strokes-lwf-s5-seed0-7e402d08"} <= names
    changed = load_experiment("demo", {"train": {"warmup": 1}})
    assert not names & {task.name for task in make_plan(changed, tmp_path).tasks}


def test_no_run_of_a_set_given_by_its_path_looks_like_an_option(tmp_path: Path) -> None:
    """Tools would take '-data-photos-...' for one."""
    path = tmp_path / "photos.npz"
    pixels = np.random.default_rng(0).integers(0, 255, (8, 8, 8, 3), dtype=np.uint8)
    np.savez(path, x_train=pixels, y_train=[0, 0, 1, 1, 2, 2, 3, 3],
             x_test=255 - pixels[::2], y_test=[0, 1, 2, 3])  # fmt: skip
    changes = {"targets": f"[{path}]", "methods": "[lwf]", "states": "[2]"}
    names = [task.name for task in plan_of(tmp_path, **changes).tasks]
    assert not [name for name in names if name.startswith("-")]
    assert any("photos" in name for name in names)

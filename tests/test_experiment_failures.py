"""What one part of an experiment does wrong, the others do not pay for. And classes from a file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from image_files import images_in_memory
from support import run_transil
from test_experiment import SMALL, plan_of, recipe
from transil import ScoreStore, load_bank, plugins
from transil._common.files import digest
from transil.cli.app import run
from transil.correction.registry import CORRECTIONS
from transil.errors import TransilError
from transil.experiment.plan import make_plan, run_place
from transil.experiment.recipe import load_experiment
from transil.experiment.results import Results
from transil.methods import METHODS

OWN = '''
from dataclasses import dataclass

import numpy as np

from transil.correction import Correction, register_correction
from transil.methods import METHODS, register_method


@register_correction
class Crooked(Correction):
    """Its design has a row too many."""

    name = "crooked"
    summary = "wrong"

    def design(self, facts):
        return np.eye(facts.state + 1)


@register_method
@dataclass(frozen=True)
class Cousin(METHODS.find("ft")):
    """Says that it shares a training which does not know of it."""

    name = "cousin"
    family = ("ft", "cousin")


@register_method
@dataclass(frozen=True)
class Soft(METHODS.find("lwf")):
    """Gives probabilities as its scores."""

    name = "soft"

    def scores(self, outputs, context):
        return outputs.scores.softmax(1)
'''


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file of own classes; what it registers is forgotten afterwards."""
    path = tmp_path / "my_classes.py"
    path.write_text(OWN)
    monkeypatch.setenv(plugins.ENVIRONMENT, "")
    monkeypatch.setattr(plugins, "_done", set())
    for registry in (CORRECTIONS, METHODS):
        monkeypatch.setattr(registry, "_things", dict(registry._things))
    yield path
    sys.modules.pop("my_classes", None)


def test_a_failing_part_is_noted_and_the_others_are_reported(
    own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transil.report.parts._pictures", lambda _: ([], ""))  # they take seconds
    small = {
        "states": "[2]", "targets": "[c]", "ablation": "false", "candidates": "[]",
        "methods": "[ft+, cousin, soft]", "corrections": "[crooked, adbic]",
        "recipes": "{cousin: ft-tiny, soft: lwf-tiny}", "train": "{epochs: 1, pad: 1}",
    }  # fmt: skip
    words = ["run", "-o", str(tmp_path / "results"), "--processes", "1"]
    monkeypatch.chdir(tmp_path)
    assert run([*words, recipe(tmp_path, **small)]) == 2
    assert "'cousin' is unknown" in capsys.readouterr().err
    # The trainings run in processes of their own, and know the file's classes, too.
    assert run(["--import", own.name, *words, recipe(tmp_path, **small)]) == 1
    told = capsys.readouterr().err
    assert "ft+, 2 states, seed 0: crooked by newton: crooked: the design of state 2" in told
    assert "method 'soft': its scores are probabilities (state 2, split 'train')" in told
    found = Results.load(tmp_path / "results")
    shown = {(cell.setting.method, cell.name) for cell in found.cells if cell.kind == "transfer"}
    assert shown == {("ft+", "adbic"), ("cousin", "adbic")}
    assert (tmp_path / "results" / "report.html").exists()


def test_what_cannot_be_imported_is_told(own: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("import no_such_thing\n")
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "json.py").write_text("")
    (tmp_path / "leaves.py").write_text("import sys\nsys.exit(0)\n")
    for name, says in (
        ("absent.py", "absent.py: there is no such file to import"),
        ("bad.py", "bad.py: it cannot be imported (ModuleNotFoundError: No module named"),
        ("own/json.py", "json.py: there is a module 'json' already; rename the file"),
        ("no.such.module", "no.such.module: it cannot be imported (ModuleNotFoundError"),
        ("leaves.py", "leaves.py: it cannot be imported (SystemExit: 0)"),
        ("own", "own: a folder; name a file of it, or an installed module"),
    ):
        done = run_transil("--import", name, "methods", cwd=tmp_path)
        assert done.returncode == 2
        assert says in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_a_file_may_be_named_twice_and_have_another_beside_it(own: Path, tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("VALUE = 1\n")
    own.write_text("from beside import VALUE\n" + own.read_text())
    again = f"{tmp_path.name}/../{tmp_path.name}/{own.name}"
    done = run_transil(
        "--import", f"{tmp_path.name}/{own.name}", "--import", again, "methods", cwd=tmp_path.parent
    )
    assert done.returncode == 0, done.stderr
    assert "cousin" in done.stdout


def test_targets_without_test_images_are_refused_before_any_training(tmp_path: Path) -> None:
    text = SMALL.replace("strokes?classes=4&train=10&test=5", "strokes?classes=4&train=10&test=0")
    (tmp_path / "r.yaml").write_text(text)
    with pytest.raises(TransilError, match="'c' has no test images, on which a target is judged"):
        make_plan(load_experiment(str(tmp_path / "r.yaml")), tmp_path / "results")


def test_a_correction_may_have_candidates_of_its_own(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, solvers_of="{bic: [newton, 'newton:0.01']}")
    assert ("bic", "newton:0.01") in plan.experiment.candidate_ways


def test_a_large_first_group(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transil.report.parts._pictures", lambda _: ([], ""))  # they take seconds
    small = {"states": "[3]", "targets": "[c]", "methods": "[lwf]", "candidates": "[]"}
    plain, large = tmp_path / "plain", tmp_path / "large"
    words = ["run", recipe(tmp_path, **small), "--processes", "1", "train.epochs=1"]
    assert run([*words, "-o", str(large), "first_classes=3"]) == 2
    assert "after 3 of 4 classes, 1 are left for 2 equal groups" in capsys.readouterr().err
    assert run([*words, "-o", str(large), "first_classes=2"]) == 0
    stores = [ScoreStore.open(path) for path in large.glob("runs/*/scores/lwf")]
    assert len(stores) == 3
    assert {store.schedule.sizes for store in stores} == {(2, 1, 1)}
    assert load_bank(large / "banks" / "lwf-s3-adbic-newton-seed0.json").schedule.sizes == (2, 1, 1)
    assert "first group has 2 classes" in (large / "report.html").read_text()
    assert run([*words, "-o", str(plain), "states=[2]"]) == 0
    capsys.readouterr()
    assert run(["report", str(plain), str(large), "-o", str(tmp_path / "both")]) == 2
    assert (
        "first groups of other sizes (first_classes); report them apart" in capsys.readouterr().err
    )


def test_a_set_has_the_schedule_of_the_experiment(tmp_path: Path) -> None:
    text = SMALL.replace('test=5&size=16"}', 'test=5&size=16", sizes: [3, 1]}', 1)
    (tmp_path / "r.yaml").write_text(text)
    with pytest.raises(
        TransilError, match=r"sets\.a\.sizes: all sets have the experiment's schedule"
    ):
        make_plan(load_experiment(str(tmp_path / "r.yaml")), tmp_path / "results")


def test_a_damaged_run_costs_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transil.report.parts._pictures", lambda _: ([], ""))  # they take seconds
    small = {"states": "[2]", "methods": "[lwf]", "candidates": "[]", "joint": "true"}
    words = ["run", recipe(tmp_path, **small), "--processes", "1", "train.epochs=1"]
    words += ["-o", str(tmp_path / "results")]
    assert run(words) == 0
    for name, split in (("c-lwf", "test"), ("d-joint", "test"), ("b-lwf", "val")):
        (run_folder,) = (tmp_path / "results" / "runs").glob(f"{name}-*")
        altered = next(run_folder.glob(f"scores/*/{split}-*.safetensors"))
        altered.write_bytes(bytes(altered.stat().st_size))
    capsys.readouterr()
    assert run(words) == 1
    told = capsys.readouterr().err
    assert told.count("failed: ") == 3
    assert str(tmp_path) not in (tmp_path / "results" / "results.json").read_text()
    found = Results.load(tmp_path / "results")
    kinds = {(c.setting.target, c.kind, *c.references) for c in found.cells if c.name != "shift"}
    assert ("d", "transfer", "a") in kinds
    assert {target for target, *_ in kinds} == {"d"}
    assert [joint.target for joint in found.joints] == ["c"]


def test_runs_on_image_files_keep_their_names(tmp_path: Path) -> None:
    images = images_in_memory()
    key: dict[str, Any] = {"seed": 0, "data": {"path": "", "root": "here"}}
    elsewhere = {"seed": 0, "data": {"path": "", "root": "there"}}
    place = run_place(tmp_path, "-a-", key, images)
    assert place == run_place(tmp_path, "a-", elsewhere, images)
    assert place != run_place(tmp_path, "a-", key, replace(images, fingerprint="others"))
    key["data"]["root"] = None
    assert place.name == f"a-{digest([key, images.fingerprint])[:8]}"  # as it always was


def test_names_of_runs_outlive_new_settings(tmp_path: Path) -> None:
    """A setting that comes later, at its default, must not make finished runs new ones."""
    plan = plan_of(tmp_path, engine="{device: cpu}", methods="[siw]", states="[2]")
    codes = {"a": "a60f4242", "b": "bc8ee635"}
    for dataset, code in codes.items():
        assert plan.task(dataset, "siw", 2, 1.0, 0).name == f"{dataset}-ft-s2-seed0-{code}"

"""Experiments of many schedules: from images to banks for any schedule."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from transil import load_bank
from transil.cli.app import run
from transil.errors import TransilError
from transil.experiment.plan import device_count
from transil.experiment.schedules import Schedules, load_any, plan_references
from transil.testing import biased_scores

RECIPE = """\
references: [a, b]
methods: [lwf-t, siw]
schedules:
  even: [2, 2, 2]
  grow: [1, 1, 2]
  first: [5, 2, 1]
kind: tiny
data: {val_per_class: 2}
sets:
  a: {path: "formula:radial?classes=8&train=8&test=3&size=16"}
  b: {path: "formula:noise?classes=8&train=8&test=3&size=16"}
train: {epochs: 1, batch_size: 8}
"""


def recipe(folder: Path, old: str = "", new: str = "") -> str:
    assert old in RECIPE
    path = folder / "mine.yaml"
    path.write_text(RECIPE.replace(old, new, 1) if old else RECIPE)
    return str(path)


@pytest.mark.skipif(device_count() > 0, reason="the runs of a GPU are tested elsewhere")
def test_from_images_to_banks_that_correct_another_schedule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["run", recipe(tmp_path), "-o", "out"]
    assert run([*words, "--plan"]) == 0
    assert "12 runs, 0 done already, about" in capsys.readouterr().out
    assert not Path("out").exists()
    assert run([*words, "--no-train"]) == 2
    assert "no run of mine is finished here yet" in capsys.readouterr().err

    monkeypatch.setattr("transil.cli.experiments._executor", in_this_process)
    assert run(words) == 0
    said = capsys.readouterr().out
    assert "bank: out/banks/lwf-t-any.json" in said
    assert "--bank out/banks/siw-any.json --schedule" in said
    bank = load_bank("out/banks/siw-any.json", schedule=[2, 3, 1])
    assert bank.method == "siw"
    scores = biased_scores("2,3,1", seed=1).get("test", 3).scores
    np.save("scores.npy", scores)
    assert run(said.splitlines()[-1].replace("12,5,5", "2,3,1").split()[1:]) == 0
    assert np.load("out.npy").shape == scores.shape
    capsys.readouterr()

    # Each schedule by both sets; again nothing is trained, and what was lost comes back as it was.
    names = sorted(path.name for path in Path("out/runs").iterdir())
    kinds = ("even", "first", "grow")
    assert names == [f"{s}--{k}--{m}" for s in "ab" for k in kinds for m in ("ft", "lwf-t")]
    banks = {path.name: path.read_bytes() for path in Path("out/banks").iterdir()}
    shutil.rmtree("out/banks")
    shutil.rmtree("out/runs/a--grow--ft")
    assert run([*words, "--plan", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["runs"]
    assert [row["run"] for row in told if row["status"] != "done"] == ["a--grow--ft"]
    assert run([*words, "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)["banks"]) == {"lwf-t", "siw"}
    assert {path.name: path.read_bytes() for path in Path("out/banks").iterdir()} == banks

    assert run([*words, "train.epochs=2"]) == 2  # not the banks of other settings
    told_of = capsys.readouterr()
    assert "this run was begun with train.epochs=1, now it is 2" in told_of.err
    assert not told_of.out

    # A method with too few runs has no bank; the others have theirs.
    for path in Path("out/runs").glob("*--lwf-t"):
        if "even" not in path.name:
            shutil.rmtree(path)
    assert run([*words, "--no-train"]) == 1
    told_of = capsys.readouterr()
    assert "failed: lwf-t: fewer than two schedules are finished" in told_of.err
    assert "siw-any.json" in told_of.out


def in_this_process(*_: object) -> object:
    from transil.experiment.running import local_executor

    return local_executor(0)


def test_the_recipe_of_the_package_gives_each_schedule_to_two_sets(tmp_path: Path) -> None:
    assert load_any("any-schedule").to_dict()["data"] == {"val_per_class": 50}
    path = "formula:radial?classes=100&train=2&test=1&size=16"
    names = ("tiny-a", "tiny-b", "mini-imagenet")
    small = {"data": {"val_per_class": 1}, "sets": {name: {"path": path} for name in names}}
    made = load_any("any-schedule", small)
    assert isinstance(made, Schedules)
    tasks = plan_references(made, tmp_path / "runs").tasks
    assert len(tasks) == 2 * 14 * 5  # ft, ft+ and siw are one training
    sets: dict[str, set[str]] = {}
    for task in tasks:
        assert task.name == f"{task.dataset}--{task.name.split('--')[1]}--{task.method}"
        sets.setdefault(task.name.split("--")[1], set()).add(task.dataset)
    assert {len(of) for of in sets.values()} == {2}
    # As the committed references were made.
    alone = load_any("any-schedule", {**small, "methods": ["siw"], "references": ["tiny-b"]})
    assert isinstance(alone, Schedules)
    assert [t.method for t in plan_references(alone, tmp_path / "runs").tasks] == ["ft"] * 14
    config = next(t.config for t in tasks if t.name == "tiny-b--shrink--lwf")
    assert config.data.order == "seed:1"
    assert (config.train.epochs, config.train.lr, config.train.warmup) == (20, 1.0, 0)
    config = next(t.config for t in tasks if t.name == "tiny-a--first50--ft")
    assert (config.train.first_epochs, config.train.later_lr) == (24, "by-state")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("methods:", "metods:", "line 2: unknown key 'metods'; did you mean 'methods'?"),
        ("kind: tiny", "targets: [a]", "unknown key 'targets'"),
        ("[lwf-t, siw]", "[lwf-t, siv]", "line 2: methods: 'siv' is unknown; did you mean 'siw'"),
        ("  grow: [1, 1, 2]\n  first: [5, 2, 1]\n", "", "line 3: schedules: 1 of them; a bank for"),
        ("[5, 2, 1]", "[5, 3, 1]", "schedules.first has 9 classes and reference 'a' 8; take fewer"),
        ("[5, 2, 1]", "[5, 0, 1]", "line 6: schedules.first: group 2 has size 0"),
        ("[5, 2, 1]", "[5, 2.5]", "line 6: schedules.first is 2.5, but must be a whole number"),
        ("[5, 2, 1]", "[8]", "line 6: schedules.first: 1 groups; 2 to 300 can be corrected"),
        ("[5, 2, 1]", "5", "line 6: schedules.first is 5, but must be a list"),
        ("first:", "fir--st:", "schedules.fir--st: a name is of letters"),
        ("[a, b]", "[a, a]", "line 1: references: something stands twice"),
        ("val_per_class", "val_per_clas", "line 8: unknown key 'data.val_per_clas'; did you mean"),
        ("{val_per_class: 2}", "{sizes: [4, 4]}", "line 8: data: 'sizes' is not one for all"),
        ("radial?", "radiol?", "image family 'radiol' is unknown; did you mean 'radial'?"),
        (
            "kind: tiny",
            "per_method: {lvf: {}}",
            "line 7: per_method: 'lvf' is unknown; there are",
        ),
        ("{epochs: 1", "{epoch: 1", "unknown key 'train.epoch'; did you mean 'train.epochs'?"),
    ],
)
def test_a_recipe_with_a_mistake_is_told_in_a_line(
    tmp_path: Path, old: str, new: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["run", recipe(tmp_path, old, new), "-o", str(tmp_path / "out")]
    assert run([*words, "--plan"]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert len(said.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_two_sets_of_one_folder_name_are_told(tmp_path: Path) -> None:
    path = recipe(tmp_path, "[a, b]", "['x/y', 'x-y']")
    with pytest.raises(TransilError, match="references: two would have the same folders"):
        load_any(path)

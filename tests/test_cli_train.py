"""`transil train`, `methods` and `recipes` as a user runs them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from support import ok, run_transil
from transil import ScoreStore, evaluate
from transil.cli.app import run
from transil.cli.train import StateLines
from transil.engine import RunFolder, load_recipe, recipe_names

DATA = "formula:strokes?classes=6&train=20&test=6&size=16"


def words(recipe: str, output: Path, *more: str) -> list[str]:
    return ["train", "--data", DATA, "--recipe", recipe, "--states", "3", "-o", str(output),
            "train.epochs=2", *more]  # fmt: skip


def test_a_run_from_images_to_a_bank(tmp_path: Path) -> None:
    """The way through the house: train a reference, evaluate, fit, evaluate with the bank."""
    folder = tmp_path / "run"
    done = run_transil(*words("ft-tiny", folder, "--role", "reference"))
    assert done.returncode == 0, done.stderr
    assert "state 3/3, epoch 2/2" in done.stderr
    for state in evaluate(folder).states[:2]:  # told as soon as they are finished
        assert f"state {state.state}/3: accuracy {100 * state.accuracy:.2f} %" in done.stderr
    for name in ("ft", "ft+", "siw"):
        assert f"{name}, test images" in done.stdout
        assert ScoreStore.open(folder / "scores" / name).require("val") == (1, 2, 3)
    record = json.loads((folder / "run.json").read_text())
    assert record["config"]["seeds"] == {"init": 0, "batches": 0}
    assert record["config"]["data"]["val_fraction"] == 0.1
    assert {"transil", "python", "numpy", "torch"} <= set(record["versions"])
    ok("fit", folder / "scores" / "siw", "--solver", "newton", "-o", tmp_path / "bank.json")
    shown = ok("evaluate", folder / "scores" / "siw", "--bank", tmp_path / "bank.json")
    assert "average incremental accuracy" in shown
    # The folder itself stands for the scores of its method; doing it again changes nothing.
    before = (folder / "log.jsonl").read_bytes()
    again = json.loads(ok(*words("ft-tiny", folder, "--role", "reference", "--json")))
    assert set(again["metrics"]) == {"ft", "ft+", "siw"}
    assert (folder / "log.jsonl").read_bytes() == before
    assert ScoreStore.open(folder).method == "ft"


def test_lost_scores_do_not_keep_a_run_from_going_on(tmp_path: Path) -> None:
    """What is told of the state before is not needed for the next."""
    run = RunFolder(tmp_path)
    run.checkpoints.mkdir()
    run.state_path(1).touch()
    shown: list[str] = []
    StateLines(lambda _, text: shown.append(text), run)(0.3, "state 2/3, epoch 0/1")
    assert shown == ["state 2/3, epoch 0/1"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["train.epoch=3"], "did you mean 'train.epochs'?"),
        (["--method", "lucir"], "is for method 'lwf', not for 'lucir'"),
        (["--recipe", "lwf-33"], "did you mean 'lwf-32'"),
        (["--states", "4"], "6 classes cannot be cut into 4 equal groups"),
        (["--schedule", "2,4"], "give --states or --schedule, one of the two"),
        (["train.eval_resize=8"], "CentreCrop: 16 px of 8 px makes no sense"),
        (["net.body=resnet18-224"], "needs images of at least 32 px, not 16"),
        (["--data", "nowhere"], "nowhere: no such folder or file"),
        (["--role", "boss"], "data.role is 'boss'"),
        (["--device", "tpu9"], "engine.device is 'tpu9'"),
        (["net.body=resnet99"], "body 'resnet99' is unknown"),
        (["train.size=224"], "train.size is 224, but images have 16 px"),
        (["data.val_per_class=25"], "too few to set 25 aside"),
        (["train.epochs"], "settings are written as train.epochs=5"),
    ],
)
def test_bad_words_get_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], message: str
) -> None:
    assert run(words("lwf-tiny", tmp_path / "run", *more)) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error
    assert len([line for line in error.splitlines() if line.startswith("error:")]) == 1
    assert not (tmp_path / "run" / "run.json").exists()


def test_methods_and_recipes_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["methods", "--json"]) == 0
    methods = {m["name"]: m for m in json.loads(capsys.readouterr().out)}
    assert methods["lucir"]["settings"] == {"less_forget": 5.0}
    assert methods["siw"]["trained_with"] == ["ft", "ft+", "siw"]
    assert methods["siw"]["recipes"] == ["ft-224", "ft-32", "ft-finetune", "ft-tiny"]
    assert run(["methods"]) == 0
    assert "Hou et al., CVPR 2019" in capsys.readouterr().out
    assert run(["recipes"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in recipe_names())
    assert "real-32" in listed
    assert run(["recipes", "demo"]) == 0
    assert "references: [radial, noise]" in capsys.readouterr().out
    assert run(["recipes", "lucir-32"]) == 0
    assert "less_forget" in capsys.readouterr().out
    assert load_recipe("lucir-32")["method"] == "lucir"


def image_folder(root: Path, size: int, test: bool) -> Path:
    random = np.random.default_rng(0)
    for split, count in (("train", 6), ("test", 2 if test else 0)):
        for name in "abcd":
            (root / split / name).mkdir(parents=True, exist_ok=True)
            for number in range(count):
                pixels = random.integers(0, 256, (size, size, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(root / split / name / f"{number}.png")
    if not test:
        shutil.rmtree(root / "test")
    return root


def test_a_set_without_test_images(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = image_folder(tmp_path / "set", 16, test=False)
    base = ["train", "--data", str(folder), "--recipe", "ft-tiny", "--states", "2",
            "train.epochs=1"]  # fmt: skip
    assert run([*base, "-o", str(tmp_path / "a")]) == 0
    said = capsys.readouterr()
    assert "ft, validation images" in said.out
    # Those of a target are of the newest group only: an accuracy on them is no average.
    assert "split 'val' has no images of group 1 in state 2; averages over states" in said.err
    accuracy = next(line for line in said.out.splitlines() if "accuracy " in line)
    assert accuracy.split()[-1] == "-"
    assert run([*base, "-o", str(tmp_path / "a"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["metrics"]["ft"]
    assert found["average_incremental_accuracy"] is None
    assert run(["evaluate", str(tmp_path / "a")]) == 2
    assert "no split 'test'; judge on one that is there: --split val" in capsys.readouterr().err
    assert run([*base, "-o", str(tmp_path / "b"), "data.val_per_class=0"]) == 0
    assert "nothing to evaluate" in capsys.readouterr().out


@pytest.mark.filterwarnings("default::transil.errors.DataWarning")
def test_a_reference_without_validation_images_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", "--data", "formula:noise?classes=4&train=3&test=3&size=16", "--recipe",
             "ft-tiny", "--states", "2", "-o", str(tmp_path / "run"), "train.epochs=1",
             "--role", "reference"]  # fmt: skip
    assert run(words) == 0
    said = capsys.readouterr().err
    assert "no validation images are set aside, and a reference's pairs are fitted on" in said


def test_training_goes_on_when_nobody_reads(tmp_path: Path) -> None:
    """As in `transil train ... 2>&1 | head -1`."""
    words = ["train", "--data", "formula:noise?classes=4&train=12&test=3&size=16", "--recipe",
             "ft-tiny", "--states", "2", "-o", str(tmp_path / "run"), "train.epochs=1"]  # fmt: skip
    read, write = os.pipe()
    child = subprocess.Popen([sys.executable, "-m", "transil", *words], stdout=write, stderr=write)
    os.close(write)
    os.close(read)
    assert child.wait(timeout=60) == 0
    assert RunFolder(tmp_path / "run").finished() == 2


def test_images_are_those_that_the_record_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a recipe the images choose it, and it may want them in another size."""
    folder = image_folder(tmp_path / "set", 80, test=True)
    words = ["train", "--data", str(folder), "--method", "ft", "--states", "2", "-o",
             str(tmp_path / "run"), "train.epochs=1", "train.first_epochs=1", "train.size=48",
             "train.eval_resize=56", "net.body=convnet", "train.batch_size=8"]  # fmt: skip
    assert run([*words, "data.size=72"]) == 0
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["config"]["data"]["size"] == record["data"]["pixels"] == 72
    capsys.readouterr()
    assert run(words) == 2  # 256 px by the recipe: other images
    assert "data.size=72, now it is 256" in capsys.readouterr().err


def test_what_averages_and_groups_leave_out_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = "formula:strokes?classes=6&train=10&test=4&size=16"
    given = ["train", "--data", data, "--recipe", "lwf-tiny", "--schedule", "3,2", "train.epochs=1"]
    assert run([*given, "-o", str(tmp_path / "run")]) == 0
    said = capsys.readouterr()
    assert "note: 1 of the 6 classes are in no group and left out" in said.err
    assert "has no images" not in said.err
    # A target's validation images are of the newest group only.
    assert run(["evaluate", str(tmp_path / "run"), "--split", "val"]) == 0
    said = capsys.readouterr()
    assert "note: split 'val' has no images of group 1 in state 2; averages over" in said.err
    for name in ("average incremental accuracy (states 2..2)", "last accuracy", "forgetting"):
        line = next(x for x in said.out.splitlines() if x.strip().startswith(name))
        assert line.split()[-1] == "-"
    store = ScoreStore.open(tmp_path / "run" / "scores" / "lwf")
    assert evaluate(store, split="val").absent == [(2, 1)]
    assert evaluate(store).absent == []

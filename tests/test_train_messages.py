"""What a run says where its words or files are of another run."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from test_train_faults import in_child, no_rights, refused
from transil.cli import main
from transil.cli.train import _report
from transil.engine import RunFolder, train
from transil.engine.checkpoint import Checkpoint
from transil.engine.setup import open_run_images

DATA = "formula:strokes?classes=4&train=6&test=2&size=16"


def words_of(folder: Path, *settings: str, method: str = "ft", states: bool = True) -> list[str]:
    words = ["train", "--data", DATA, "--method", method, "--device", "cpu", "-o", str(folder)]
    words += ["--states", "2"] if states else []
    return [*words, "net.body=convnet", "train.epochs=1", "train.first_epochs=1",
            "train.schedule=constant", *settings]  # fmt: skip


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained") / "run"
    assert main(words_of(folder)) == 0
    return folder


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


def test_a_method_of_the_same_training(run: Path) -> None:
    said = refused(*words_of(run, method="siw"))
    assert f"the scores of siw as well: they are in {run / 'scores' / 'siw'}; " in said
    assert said.endswith("give --method ft")
    assert 'begun with method="ft", now it is "lwf"' in refused(*words_of(run, method="lwf"))


def test_a_checkpoint_of_another_network(run: Path) -> None:
    folder = RunFolder(run)
    folder.state_path(2).unlink()
    path = folder.state_path(1)
    whole = Checkpoint.load(path)
    changes = {"is missing": whole.tensors["net.head.bias"][:0], "does not fit": torch.zeros(3)}
    for says, value in changes.items():
        tensors = {**whole.tensors, "net.head.bias": value}
        if not len(value):
            del tensors["net.head.bias"]
        replace(whole, tensors=tensors).save(path)
        said = refused(*words_of(run))
        assert f"{path}: not the network of this run ('net.head.bias' {says})" in said


def test_a_schedule_with_an_unknown_class(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(json.dumps([[0, 1], [2, 3, 700]]))
    words = words_of(tmp_path / "run", states=False)
    said = refused(*words, "--schedule", str(tmp_path / "s.json"))
    assert "data.schedule: there is no class 700; formula-strokes-4-seed0 has" in said
    assert said.endswith("has 4 classes, 0 to 3")


def test_a_finished_run_that_cannot_be_written_is_shown(run: Path) -> None:
    config = RunFolder(run).config()
    images = open_run_images(config)
    before = sorted(run.rglob("*"))

    def shown() -> int:
        _report(train(config, run, images=images), as_json=True)
        return 0

    code, said = in_child(lambda: no_rights(run), shown)
    assert code == 0, said
    assert sorted(run.rglob("*")) == before
    for path in (run.parent, run, run / ".run.lock"):
        path.chmod(0o755)

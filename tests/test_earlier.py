"""Files that an earlier version has made open, and give what they gave (see earlier/README.md)."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from transil import ScoreStore, load_bank, plugins, transfer
from transil.cli.app import run
from transil.data import open_images
from transil.engine import RunFolder, load_model, train
from transil.errors import DataWarning, TransilError
from transil.experiment.plan import Plan, make_plan
from transil.experiment.recipe import load_experiment
from transil.experiment.results import Results
from transil.experiment.running import nothing_trained, run_experiment

HERE = Path(__file__).parent / "earlier"


@pytest.fixture(autouse=True, scope="module")
def network() -> Iterator[None]:
    """The network of all runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(plugins.ENVIRONMENT, str(HERE / "dot.py"))
        yield


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    """A copy of the files, to be written in."""
    return Path(shutil.copytree(HERE, tmp_path / "earlier"))


def plan(folder: Path) -> Plan:
    return make_plan(load_experiment(str(HERE / "recipe.yaml")), folder / "results")


def test_runs_are_found_by_their_names_and_are_done(earlier: Path) -> None:
    tasks = plan(earlier).tasks
    assert [task.status for task in tasks] == ["done"] * 3
    assert {task.folder for task in tasks} == set((earlier / "results/runs").iterdir())
    for task in tasks:
        before = sorted((task.folder / "checkpoints").iterdir())
        assert train(task.config, task.folder).finished() == 2
        assert sorted((task.folder / "checkpoints").iterdir()) == before


def test_studies_of_earlier_scores_give_the_same_results(earlier: Path) -> None:
    before = Results.load(earlier / "results")
    bank = (earlier / "results/banks/lwf-s2-adbic-newton-seed0.json").read_bytes()
    after = run_experiment(plan(earlier), execute=nothing_trained)
    assert len(after.cells) == len(before.cells) == 4
    for new, old in zip(after.cells, before.cells, strict=True):
        for name, value in asdict(old).items():
            number = name in ("accuracy", "average", "gain", "low", "high")
            expected = pytest.approx(value) if number and value is not None else value
            assert asdict(new)[name] == expected, name
    assert after.pairs[0].alpha == [pytest.approx(a) for a in before.pairs[0].alpha]
    assert after.failures == before.failures == []
    assert (earlier / "results/banks/lwf-s2-adbic-newton-seed0.json").read_bytes() == bank


def test_an_earlier_bank_corrects_earlier_scores() -> None:
    bank = load_bank(HERE / "results/banks/lwf-s2-adbic-newton-seed0.json")
    (run_folder,) = (HERE / "results/runs").glob("c-*")
    data = ScoreStore.open(run_folder).get("test", 2)
    corrected = transfer(bank, "mean").correct(data.scores, state=2)
    right = float((np.asarray(corrected).argmax(axis=1) == data.columns).mean())
    (cell,) = [c for c in Results.load(HERE / "results").cells if c.kind == "transfer"]
    assert right == pytest.approx(cell.accuracy[1])


def test_an_earlier_model_gives_the_scores_that_were_written() -> None:
    (run_folder,) = (HERE / "results/runs").glob("c-*")
    model = load_model(run_folder)
    images = open_images(str(RunFolder(run_folder).config().data.path)).splits["test"]
    store = ScoreStore.open(run_folder).get("test", 2)
    scores = model(np.array(images.pixels)).numpy()
    assert np.sort(scores, axis=0) == pytest.approx(np.sort(store.scores, axis=0), abs=1e-5)


def test_an_interrupted_run_goes_on(earlier: Path, tmp_path: Path) -> None:
    with pytest.warns(DataWarning, match=r"ft-tiny: engine\.fuse=true: those kernels are gone"):
        config = made_by().interrupted()
    with pytest.warns(DataWarning, match=r"run\.json: engine\.fuse=true"):
        resumed = train(config, earlier / "interrupted")
    whole = train(config, tmp_path / "whole")
    for method in ("ft", "ft+", "siw"):
        stores = [ScoreStore.open(run.scores_path(method)) for run in (resumed, whole)]
        first, second = (store.get("test", 2).scores for store in stores)
        assert first == pytest.approx(second, abs=1e-4)


def test_settings_with_kernels_that_are_gone_are_read(tmp_path: Path) -> None:
    text = (HERE / "recipe.yaml").read_text()
    for part in ("engine: {fuse: %s}", "per_method: {lwf: {engine: {fuse: %s}}}"):
        path = tmp_path / "mine.yaml"
        path.write_text(f"{text}{part % 'false'}\n")
        assert load_experiment(str(path)).methods == ("lwf",)
        path.write_text(f"{text}{part % 'true'}\n")
        with pytest.warns(DataWarning, match=r"mine\.yaml: engine\.fuse=true") as told:
            load_experiment(str(path))
        assert len(told) == 1
        path.write_text(f"{text}{part % 'maybe'}\n")
        with pytest.raises(TransilError, match="no setting|unknown"):
            load_experiment(str(path))


def test_converted_images_open() -> None:
    images = open_images(HERE / "converted")
    drawn = open_images("formula:noise?classes=2&train=1&test=1&size=16")
    assert np.array_equal(images.splits["test"].pixels, drawn.splits["test"].pixels)
    assert images.fingerprint == drawn.fingerprint


def test_commands_read_them(earlier: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run_folder,) = (earlier / "results/runs").glob("c-*")
    assert run(["evaluate", str(run_folder)]) == 0
    assert run(["report", str(earlier / "results"), "-o", str(earlier / "report")]) == 0
    assert "lwf" in capsys.readouterr().out


def made_by() -> Any:
    """The script that has made the files."""
    spec = importlib.util.spec_from_file_location("make_earlier", HERE / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["make_earlier"] = module
    spec.loader.exec_module(module)
    return module

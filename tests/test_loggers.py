"""Where the numbers of each epoch go: files, and other people's systems with their real packages."""

from __future__ import annotations

import csv
import itertools
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from support import ok, ok_here, run_here
from transil import TransilError
from transil.engine import RunFolder, resolve, train, training
from transil.interop import loggers
from transil.interop.loggers import COLUMNS, LOGGERS, Begun, Logger

DATA = "formula:strokes?classes=4&train=12&test=4&size=16"


def config_of(*log: str, **engine: Any) -> Any:
    over = {"data": {"path": DATA, "states": 2}, "train": {"epochs": 2}}
    return resolve(recipe="lwf-tiny", overrides=[over, {"engine": {"log": list(log), **engine}}])


def words(output: Path, *more: str) -> list[str]:
    return ["train", "--data", DATA, "--recipe", "lwf-tiny", "--states", "2", "-o", str(output),
            "train.epochs=2", *more]  # fmt: skip


def interrupted(run: Path, *log: str) -> None:
    """A run that was given up in its second state, and goes on."""
    begun = training(config_of(*log, checkpoint_minutes=0), run)
    list(itertools.islice(begun, 6))
    begun.close()
    train(config_of(*log, checkpoint_minutes=0), run)


def losses(run: Path) -> list[float]:
    return [line["loss"] for line in RunFolder(run).lines()]


def test_a_table_is_the_default(tmp_path: Path) -> None:
    ok_here(*words(tmp_path / "run"), cwd=tmp_path)
    with open(tmp_path / "run" / "log.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [{k: float(v) for k, v in row.items()} for row in rows] == [
        {k: float(line[k]) for k in COLUMNS} for line in RunFolder(tmp_path / "run").lines()
    ]
    whole = (tmp_path / "run" / "log.csv").read_bytes()
    interrupted(tmp_path / "parts", "csv")
    assert (tmp_path / "parts" / "log.csv").read_bytes() == whole
    train(config_of(), tmp_path / "none")
    assert not (tmp_path / "none" / "log.csv").exists()


def test_one_of_your_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LOGGERS, "_things", dict(LOGGERS._things))
    seen: list[tuple[Any, ...]] = []

    @LOGGERS.register
    class Mine(Logger):
        name = "mine"

        def __init__(self, run: Begun) -> None:
            seen.append((run.folder.name, run.settings["train.epochs"], len(run.lines)))

        def log(self, line: Mapping[str, float], step: int) -> None:
            seen.append((step, line["state"], line["epoch"]))
            if len(seen) == 9:
                raise OSError("no room\nat all")

        def close(self, failed: bool) -> None:
            seen.append((failed,))

    train(config_of("mine"), tmp_path / "run")
    assert seen == [("run", 2, 0), (1, 1, 1), (2, 1, 2), (3, 2, 1), (4, 2, 2), (False,)]
    with pytest.raises(
        TransilError, match="--log mine: OSError: no room; the same command goes on"
    ):
        train(config_of("mine"), tmp_path / "other")
    assert seen[-1] == (True,)
    train(config_of(), tmp_path / "other")
    assert losses(tmp_path / "other") == losses(tmp_path / "run")


@pytest.mark.parametrize(
    ("log", "says"),
    [
        ("wandd", "logger 'wandd' is unknown; did you mean 'wandb'?"),
        ("wandb", "--log wandb needs wandb; run: pip install wandb"),
        ("mlflow", "--log mlflow needs mlflow; run: pip install mlflow"),
        ("tensorboard", "--log tensorboard needs tensorboard; run: pip install tensorboard"),
    ],
)
def test_what_is_missing_is_told(
    log: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loggers, "find_spec", lambda _: None)
    done = run_here(*words(tmp_path / "run", "--log", log), cwd=tmp_path)
    assert done.returncode == 2
    assert says in done.stderr.splitlines()[-1]
    assert not (tmp_path / "run").exists()


def test_nothing_is_imported_that_is_not_asked_for(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom transil.cli.app import run\n"
        f"assert run({words(tmp_path / 'run')!r}) == 0\n"
        "assert not {'wandb', 'mlflow', 'tensorboard', 'timm', 'pandas'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=120)


def test_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    interrupted(tmp_path / "run", "tensorboard")
    board = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    board.Reload()
    found = {event.step: event.value for event in board.Scalars("loss")}
    assert list(found.values()) == pytest.approx(losses(tmp_path / "run"))
    assert list(found) == [1, 2, 3, 4]
    early = config_of("csv", tensorboard=True)  # as the setting was called
    assert early.engine.logs == ("csv", "tensorboard")


def test_mlflow_in_local_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    interrupted(tmp_path / "run", "mlflow")
    client = mlflow.MlflowClient()
    place = client.get_experiment_by_name("transil").experiment_id
    (run,) = client.search_runs([place])  # one, though it was begun twice
    assert run.info.status == "FINISHED"
    assert run.info.run_name == "run"
    assert run.data.params["train.epochs"] == "2"
    history = {m.step: m.value for m in client.get_metric_history(run.info.run_id, "loss")}
    assert [history[step] for step in (1, 2, 3, 4)] == pytest.approx(losses(tmp_path / "run"))


def test_wandb_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    # In a process of its own: the package writes the last of it when that ends.
    ok(*words(tmp_path / "run", "--log", "wandb"))
    (written,) = (tmp_path / "run" / "wandb").glob("offline-run-*")
    name = (tmp_path / "run" / "wandb.id").read_text()
    assert written.name.endswith(name)
    data = (written / f"run-{name}.wandb").read_bytes()
    assert all(word in data for word in (b"train.epochs", b"accuracy", b"loss"))

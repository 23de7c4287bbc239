"""Where the numbers of each epoch go besides a run's own log: one protocol, four small callbacks.

Packages are imported when a logger is made, and only those that are asked for.
"""

from __future__ import annotations

import csv
import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

from transil._common.registry import Registry
from transil.errors import TransilError, missing, reason

T = TypeVar("T")
# What a line of the log has; the others are logged against the number of the epoch.
COLUMNS = ("state", "epoch", "lr", "loss", "accuracy")


@dataclass(frozen=True)
class Begun:
    """The run that a logger is made for: its folder, flat settings, and epochs logged before."""

    folder: Path
    settings: Mapping[str, Any]
    lines: Sequence[Mapping[str, Any]] = field(default=())

    def kept_id(self, name: str, make: Callable[[], str]) -> str:
        """What another system calls this run, so that a continued one goes on there."""
        path = self.folder / f"{name}.id"
        if not path.exists():
            path.write_text(make())
        return path.read_text()


class Logger(Protocol):
    """Gets each epoch as a line of COLUMNS; `step` counts epochs over all states, from 1.

    An epoch may come twice, where a run was interrupted after it.
    """

    name: ClassVar[str]
    package: ClassVar[str | None] = None  # what to install for it

    def __init__(self, run: Begun) -> None: ...

    def log(self, line: Mapping[str, float], step: int) -> None:
        """Take the numbers of an epoch."""

    def close(self, failed: bool) -> None:
        """No more will come; `failed`: the run has not finished."""


class CsvLogger(Logger):
    """RUN/log.csv, one line per epoch."""

    name = "csv"

    def __init__(self, run: Begun) -> None:
        # Written again from the run's log: an interruption leaves no trace.
        self._file = open(run.folder / "log.csv", "w", newline="", buffering=1)  # noqa: SIM115
        self._writer = csv.DictWriter(
            self._file, COLUMNS, extrasaction="ignore", lineterminator="\n"
        )
        self._writer.writeheader()
        self._writer.writerows(run.lines)

    def log(self, line: Mapping[str, float], step: int) -> None:
        self._writer.writerow(line)

    def close(self, failed: bool) -> None:
        self._file.close()


class TensorBoardLogger(Logger):
    """RUN/tensorboard."""

    name = "tensorboard"
    package = "tensorboard"

    def __init__(self, run: Begun) -> None:
        from torch.utils.tensorboard import SummaryWriter

        # Epochs that an interrupted run had got to, and that are done again, count once.
        done = len(run.lines)
        self._writer: Any = SummaryWriter(str(run.folder / "tensorboard"), purge_step=done + 1)

    def log(self, line: Mapping[str, float], step: int) -> None:
        for name in COLUMNS[2:]:
            self._writer.add_scalar(name, line[name], step)

    def close(self, failed: bool) -> None:
        self._writer.close()


class WandbLogger(Logger):
    """Weights & Biases: project 'transil', or what its own WANDB_ variables say."""

    name = "wandb"
    package = "wandb"

    def __init__(self, run: Begun) -> None:
        import wandb

        self._run: Any = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "transil"),
            name=run.folder.name,
            id=run.kept_id(self.name, lambda: uuid.uuid4().hex[:8]),
            resume="allow",
            dir=str(run.folder),
            config=dict(run.settings),
            reinit="create_new",  # several runs may be trained in one process
        )

    def log(self, line: Mapping[str, float], step: int) -> None:
        self._run.log(dict(line), step=step)

    def close(self, failed: bool) -> None:
        self._run.finish(exit_code=int(failed))


class MlflowLogger(Logger):
    """MLflow: where MLFLOW_TRACKING_URI says, experiment 'transil' or MLFLOW_EXPERIMENT_NAME."""

    name = "mlflow"
    package = "mlflow"

    def __init__(self, run: Begun) -> None:
        from mlflow import MlflowClient

        self._client: Any = MlflowClient()
        self._id = run.kept_id(self.name, lambda: self._begin(run))
        self._client.update_run(self._id, status="RUNNING")

    def _begin(self, run: Begun) -> str:
        wanted = os.environ.get("MLFLOW_EXPERIMENT_NAME", "transil")
        there = self._client.get_experiment_by_name(wanted)
        place = there.experiment_id if there else self._client.create_experiment(wanted)
        made: str = self._client.create_run(place, run_name=run.folder.name).info.run_id
        for key, value in run.settings.items():
            self._client.log_param(made, key, value)
        return made

    def log(self, line: Mapping[str, float], step: int) -> None:
        for name, value in line.items():
            self._client.log_metric(self._id, name, value, step=step)

    def close(self, failed: bool) -> None:
        self._client.set_terminated(self._id, "FAILED" if failed else "FINISHED")


LOGGERS: Registry[type[Logger]] = Registry(
    "logger", "transil.loggers", [CsvLogger, TensorBoardLogger, WandbLogger, MlflowLogger]
)


def check_loggers(names: Sequence[str]) -> None:
    """An error where one is unknown, or its package is not installed."""
    for name in names:
        package = LOGGERS.find(name).package
        if package is not None and find_spec(package) is None:
            raise missing(f"--log {name} needs", package)


class Loggers:
    """Those of a run; what goes wrong in one of them ends the run with a line that names it."""

    def __init__(self, names: Sequence[str], run: Begun) -> None:
        self._made = [_asked(name, LOGGERS.find(name), run) for name in names]

    def log(self, line: Mapping[str, float], step: int) -> None:
        """Give the numbers of an epoch to all of them."""
        for logger in self._made:
            _asked(logger.name, logger.log, line, step)

    def __enter__(self) -> Loggers:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for logger in self._made:
            _asked(logger.name, logger.close, kind is not None)


def _asked(name: str, call: Callable[..., T], *given: Any) -> T:
    try:
        return call(*given)
    except TransilError:
        raise
    except Exception as error:
        text = f"--log {name}: {type(error).__name__}: {reason(error)}"
    raise TransilError(f"{text}; the same command goes on with another --log")

"""The folder of a run: config, checkpoints, log and scores.

    run.json              the resolved config, the data set's fingerprint, versions
    label-map.json        which class is which column
    checkpoints/          state-01.safetensors, ...; current.safetensors in the middle of a state
    log.jsonl             one line per epoch: the same bytes however often a run was interrupted
    times.jsonl           one line per session and state: seconds, images per second, memory
    scores/METHOD/        a ScoreStore for each method that the training gives

A state is finished when its checkpoint is there, or a later one's; its scores are written before.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import torch

from transil._common.files import (
    TEMPORARY,
    atomic_file,
    locked,
    read_bytes,
    remove_left,
    told,
    write_json,
)
from transil._common.provenance import versions
from transil._common.settings import flatten, plain
from transil._common.typed import Between, read_file
from transil.data.statistics import Statistics
from transil.engine.checkpoint import Checkpoint
from transil.engine.config import MOST_PIXELS, RunConfig
from transil.errors import TransilError
from transil.schedule import MOST_CLASSES, Schedule
from transil.scores.store import ScoreStore

RECORD, LABEL_MAP = "run.json", "label-map.json"
LOG, TIMES, LOCK = "log.jsonl", "times.jsonl", ".run.lock"
# What desktops and network disks put into any folder.
FOREIGN = re.compile(r"\.DS_Store|\._.*|Thumbs\.db|desktop\.ini|\.directory|\.nfs.*|lost\+found")
STATE = re.compile(r"state-([0-9]{2,6})\.safetensors")
FORMAT, VERSION = "transil-run", 1
FINGERPRINT = "the data set's fingerprint"
# What may differ where images are the same; and what, if it is the same, should give the same images.
CALLED = ("data.path", "data.root", "the data set's name", FINGERPRINT)
OPENED = {"data.path", "data.root", "data.rule", "data.size"}


@dataclass(frozen=True)
class Learned:
    """What a run has learned: groups of classes, their names by score column, and its colours."""

    sizes: tuple[Annotated[int, Between(1, MOST_CLASSES)], ...]
    class_names: tuple[str, ...]
    colours: Statistics


@dataclass(frozen=True)
class RunData:
    """What run.json says of the data set, and of the run that this one goes on from."""

    name: str | None = None
    fingerprint: str | None = None
    pixels: Annotated[int, Between(1, MOST_PIXELS)] | None = None
    past: Learned | None = None


@dataclass(frozen=True)
class Record:
    """What run.json holds; `RunFolder.config` reads the settings."""

    config: Mapping[str, Any]
    data: RunData
    versions: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Label:
    """A class in label-map.json, at the place of its score column."""

    class_: str


@dataclass(frozen=True)
class LabelMap:
    """What label-map.json holds: classes by score column, groups, counts of images by split.

    Those of early versions do not say how colours were normalised.
    """

    schedule: Schedule
    labels: tuple[Label, ...]
    images: Mapping[str, list[int]]
    colours: Statistics | None = None

    def __post_init__(self) -> None:
        if len(self.labels) != self.schedule.seen[-1]:
            raise TransilError(f"{len(self.labels)} labels, but {self.schedule.seen[-1]} classes")

    @property
    def class_names(self) -> tuple[str, ...]:
        """The class of each score column."""
        return tuple(label.class_ for label in self.labels)


class RunFolder:
    """Files of one run. Only the process that `opened` it writes."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.checkpoints = self.path / "checkpoints"

    @contextmanager
    def opened(self, config: RunConfig, data: Mapping[str, Any]) -> Iterator[None]:
        """Hold the folder for a run of `config` on that data, begun now or continued."""
        if self.is_archived():
            self.check(config, data)
            yield
            return
        with told(f"cannot write {self.path}"):
            if self.path.exists() and not (self.path / RECORD).exists():
                self._check_empty()
            self.path.mkdir(parents=True, exist_ok=True)
        busy = f"{self.path}: another process is working on this run; wait for it, or stop it"
        with locked(self.path / LOCK, busy):
            for folder in (self.path, self.checkpoints, *self.path.glob("scores/*")):
                remove_left(folder)
            if (self.path / RECORD).exists():
                self.check(config, data)
            else:
                write_json(
                    self.path / RECORD,
                    {
                        "format": FORMAT,
                        "version": VERSION,
                        "config": config.to_dict(),
                        "data": dict(data),
                        "versions": {**versions(), "torch": torch.__version__},
                    },
                )
            yield

    def is_archived(self) -> bool:
        """Whether this is a finished run where nothing can be written: it can be read all the same."""
        if not (self.path / RECORD).exists() or os.access(self.path, os.W_OK):
            return False
        return self.finished() >= self.label_map().schedule.states

    def _check_empty(self) -> None:
        """An error where a new run would be mixed with other files."""
        if not self.path.is_dir():
            raise TransilError(f"cannot write {self.path}: it is not a folder")
        for found in self.path.iterdir():
            ours = found.name == LOCK or found.name.startswith(TEMPORARY)
            if not ours and not FOREIGN.fullmatch(found.name):
                raise TransilError(
                    f"{self.path}: the folder holds other things, but no {RECORD}; "
                    "give a new folder, or that of the run to continue"
                )

    def record(self) -> Record:
        """What run.json holds."""
        remedy = "bring the file back, or give another folder"
        return read_file(self.path / RECORD, Record, FORMAT, VERSION, "record", remedy)

    def config(self) -> RunConfig:
        """The settings that the run was begun with."""
        # A setting that an earlier transil did not have counts as its default.
        return RunConfig.from_dict(self.record().config, str(self.path / RECORD))

    def label_map(self) -> LabelMap:
        """What label-map.json holds."""
        remedy = "the training writes it again"
        return read_file(
            self.path / LABEL_MAP, LabelMap, "transil-label-map", 1, "label map", remedy
        )

    def check(self, config: RunConfig, data: Mapping[str, Any]) -> None:
        """A run goes on as it began: what says what is learned may not change."""
        kept, begun = plain(asdict(self.record().data)), self.config()
        kept = {key: value for key, value in kept.items() if value is not None}
        # How the work is done may change: another device, other intervals.
        old, new = (
            flatten({k: v for k, v in c.to_dict().items() if k != "engine"})
            for c in (begun, config)
        )
        old |= {f"the data set's {k}": v for k, v in kept.items()}
        new |= {f"the data set's {k}": v for k, v in data.items()}
        if kept.get("fingerprint") == data.get("fingerprint"):
            new |= {key: old.get(key) for key in CALLED}  # the same images, moved or copied
        if data.get("past") is not None and kept.get("past") == data.get("past"):
            new["after"] = old.get("after")  # the same run, called otherwise or moved
        if old["net.weights_digest"] == new["net.weights_digest"]:
            new["net.weights"] = old["net.weights"]  # the same weights, moved or copied
        changed = [key for key in sorted({*old, *new}) if old.get(key) != new.get(key)]
        if FINGERPRINT in changed and not OPENED & set(changed):
            raise TransilError(
                f"{self.path}: the images of {new.get('data.path')} have changed since this run was "
                "begun; bring back the old ones, or give another folder for a new run (one that adds "
                "classes: with --after)"
            )
        if "method" in changed and self.scores_path(config.method).is_dir():
            raise TransilError(
                f"{self.path}: a training of {begun.method}, which gives the scores of "
                f"{config.method} as well: they are in {self.scores_path(config.method)}; to go on "
                f"with it, give --method {begun.method}"
            )
        for key in changed:
            raise TransilError(
                f"{self.path}: this run was begun with {key}={_shown(old.get(key))}, now it is "
                f"{_shown(new.get(key))}; go on with the old value, or give another folder"
            )

    # -- checkpoints --------------------------------------------------------------------------

    def state_path(self, state: int) -> Path:
        """The checkpoint of a finished state."""
        return self.checkpoints / f"state-{state:02d}.safetensors"

    @property
    def current_path(self) -> Path:
        """The checkpoint in the middle of a state."""
        return self.checkpoints / "current.safetensors"

    def saved_states(self) -> list[int]:
        """The finished states whose checkpoints are there: old ones may be deleted to save disk."""
        names = (STATE.fullmatch(path.name) for path in self.checkpoints.glob("state-*"))
        return sorted(int(name[1]) for name in names if name)

    def finished(self) -> int:
        """How many states are finished: the last one with a checkpoint, and all before it."""
        return max(self.saved_states(), default=0)

    def has_checkpoint(self) -> bool:
        """Whether there is anything to go on from."""
        return self.finished() > 0 or self.current_path.exists()

    def restore(self) -> tuple[Checkpoint | None, Checkpoint | None]:
        """The last finished state, and where the next one was interrupted."""
        finished, current = self.finished(), None
        if self.current_path.exists():
            found = Checkpoint.load(self.current_path)
            current = found if found.state == finished + 1 else None
            if current is None:  # the state was finished, and the process killed right after
                self.current_path.unlink()
        return (Checkpoint.load(self.state_path(finished)) if finished else None), current

    def save(self, checkpoint: Checkpoint) -> None:
        """Save in the middle of a state."""
        self._sync_log()
        checkpoint.save(self.current_path)

    def commit(self, checkpoint: Checkpoint) -> None:
        """A state is finished."""
        self._sync_log()
        checkpoint.save(self.state_path(checkpoint.state))
        self.current_path.unlink(missing_ok=True)

    # -- logs ---------------------------------------------------------------------------------

    def log(self, line: Mapping[str, Any], name: str = LOG) -> None:
        """Add one line of JSON."""
        with told(f"cannot write {self.path / name}"), open(self.path / name, "a") as file:
            file.write(json.dumps(line) + "\n")

    def _sync_log(self) -> None:
        """A checkpoint must not outlive the lines that belong to it."""
        with told(f"cannot write {self.path / LOG}"), open(self.path / LOG, "a") as file:
            os.fsync(file.fileno())

    def cut_log(self, state: int, epoch: int) -> None:
        """Leave out what was logged after that epoch: it is done again."""
        path = self.path / LOG
        if not path.exists():
            return
        kept = [line for line in self.lines() if (line["state"], line["epoch"]) <= (state, epoch)]
        with atomic_file(path) as file:
            file.write("".join(json.dumps(line) + "\n" for line in kept).encode())

    def lines(self, name: str = LOG) -> list[dict[str, Any]]:
        """The lines of a log; one that was cut off by an interruption, or altered, is left out."""
        path = self.path / name
        lines = []
        raw = read_bytes(path) if path.exists() else b""
        for line in raw.decode(errors="replace").splitlines():
            with contextlib.suppress(ValueError, RecursionError):
                lines.append(json.loads(line))
        return [line for line in lines if isinstance(line, dict) and _has(line, name)]

    # -- scores -------------------------------------------------------------------------------

    def scores_path(self, method: str) -> Path:
        """The folder of one method's scores."""
        return self.path / "scores" / method

    def store(self, method: str, schedule: Schedule, dataset: str) -> ScoreStore:
        """The store of one method's scores, made where it is not there yet."""
        path = self.scores_path(method)
        if (path / "store.json").exists():
            return ScoreStore.open(path)
        return ScoreStore.create(path, schedule, method=method, dataset=dataset)


def _has(line: Mapping[str, Any], name: str) -> bool:
    """Whether a line has what every line of that log has."""
    if name == TIMES:
        return bool(measured([line], "seconds"))
    return type(line.get("state")) is int and type(line.get("epoch")) is int


def measured(lines: Iterable[Mapping[str, Any]], key: str) -> list[float]:
    """The values of a key in lines of a log that are numbers, finite and not below 0."""
    values = [line[key] for line in lines if type(line.get(key)) in (int, float)]
    return [float(value) for value in values if 0 <= value <= sys.float_info.max]


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."

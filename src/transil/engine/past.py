"""Going on from another run: new classes for its model, without the images it has learned from."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from transil._common.settings import merge, plain
from transil.data.images import Images, ImageSplit
from transil.data.orders import class_order
from transil.data.stream import ClassStream
from transil.engine.checkpoint import Checkpoint
from transil.engine.config import DataConfig, RunConfig
from transil.engine.learner import Learner
from transil.engine.run_folder import LABEL_MAP, RECORD, Learned, RunFolder
from transil.engine.setup import splitting
from transil.errors import TransilError
from transil.methods.registry import METHODS, family_of
from transil.schedule import Schedule
from transil.scores.store import ScoreStore

# What a run must share with the one that it goes on from.
SHARED = ("method", "net.body", "net.last_relu")


@dataclass(frozen=True)
class Past(Learned):
    """What another run has learned, and how one goes on from it."""

    @property
    def states(self) -> int:
        """How many states it has finished."""
        return len(self.sizes)

    def to_json(self) -> dict[str, Any]:
        """As the record of a run that goes on from it keeps it."""
        made: dict[str, Any] = plain(asdict(self))
        return made

    def known(self, images: Images) -> Images:
        """The same images, labelled so that past classes come first, by their names.

        Past classes need no images. Those of them that are among `images` serve for tests alone.
        """
        new = [name for name in images.class_names if name not in set(self.class_names)]
        if not new:
            raise TransilError(f"{images.name}: all its classes have been learned before")
        names = (*self.class_names, *new)
        place = {name: number for number, name in enumerate(names)}
        labels = np.array([place[name] for name in images.class_names])
        splits = {s: ImageSplit(d.pixels, labels[d.labels]) for s, d in images.splits.items()}
        return replace(images, class_names=names, splits=splits)

    def stream(self, data: DataConfig, images: Images) -> ClassStream:
        """The stream that begins after the past; `images` are those that are `known`."""
        before = len(self.class_names)
        new = images.classes - before
        sizes = data.sizes or Schedule.equal(new, data.states or 1).sizes
        order = class_order(str(data.order), new)[: sum(sizes)] + before
        rest = np.setdiff1d(np.arange(images.classes), [*range(before), *order])
        return ClassStream(
            images,
            schedule=(*self.sizes, *sizes),
            order=[*range(before), *order.tolist(), *rest.tolist()],
            **splitting(data),
            past=self.states,
            colours=self.colours,
        )


def find_past(config: RunConfig, folder: RunFolder) -> Past | None:
    """What the run of a config goes on from: as its own record says, or the other run's files."""
    if config.after is None:
        return None
    if (folder.path / RECORD).exists():  # it has taken what it needs; the other one may be gone
        kept = folder.record().data.past
        if kept is not None:
            return Past(**vars(kept))
    other, begun = _read(config.after)
    old, new = begun.to_dict(), config.to_dict()
    for key in SHARED:
        part, _, name = key.partition(".")
        values = [(data[part][name] if name else data[part]) for data in (old, new)]
        if values[1] is not None and values[0] != values[1]:
            raise TransilError(
                f"{config.after} was trained with {key}={values[0]}, not {values[1]}; a run goes on "
                "with what it began with"
            )
    if METHODS.find(config.method).one_state:
        raise TransilError(f"method '{config.method}' learns all classes at once; it cannot go on")
    if config.data.role == "reference":
        raise TransilError("a reference has all its images: train it in one run, without --after")
    if config.data.schedule is not None or isinstance(config.data.order, tuple):
        raise TransilError("after another run, give --states or sizes of groups, not labels")
    known = other.label_map()
    finished = other.finished()
    schedule = known.schedule
    if known.colours is None:
        raise TransilError(
            f"{config.after}: its {LABEL_MAP} does not say how colours were normalised; "
            "start that training again, which adds it"
        )
    finished = schedule.check_state(finished)
    Checkpoint.load(other.state_path(finished))  # a damaged one is told before anything is begun
    names = known.class_names[: schedule.seen[finished - 1]]
    return Past(schedule.sizes[:finished], names, known.colours)


def after(
    run: str | os.PathLike[str],
    overrides: Iterable[Mapping[str, Any]] = (),
    folder: str | os.PathLike[str] | None = None,
) -> RunConfig:
    """The settings of a run that goes on from another: the other's, and `overrides` over them.

    Without other words, all classes that are new come in one state. Where the new run has begun in
    `folder` already, its own settings are the first: the other one may be gone.
    """
    own = RunFolder(folder) if folder is not None else None
    if own is not None and (own.path / RECORD).exists():
        data: dict[str, Any] = own.config().to_dict()
    else:
        groups = {"states": None, "sizes": None, "schedule": None, "order": None}
        # The body is the other one's, whatever weights that one began with.
        fresh = {"data": groups, "net": {"weights": None, "weights_digest": None}}
        data = merge(_read(os.fspath(run))[1].to_dict(), fresh)
    data = merge(data, {"after": os.fspath(run)})
    for over in overrides:
        data = merge(data, over)
    if data["data"]["sizes"] is None and data["data"]["states"] is None:
        data["data"]["states"] = 1
    return RunConfig.from_dict(data, os.fspath(run))


def take_over(learner: Learner, run: RunFolder) -> Checkpoint:
    """Take the model of another run into a learner, and its scores (numbers, no images) into `run`."""
    other, workers = RunFolder(learner.config.after or ""), learner.workers
    left = workers.first(lambda: Checkpoint.load(other.state_path(other.finished())))
    learner.adopt(left.tensors)
    if workers.main:
        for method in family_of(learner.method):
            path = other.scores_path(method.name)
            if (path / "store.json").exists():
                store = run.store(method.name, learner.stream.schedule, learner.stream.name)
                _copy_scores(ScoreStore.open(path), store, left.state)
    return Checkpoint(left.state, 0, learner.tensors())


def _copy_scores(old: ScoreStore, new: ScoreStore, states: int) -> None:
    for split, state in old:
        if state <= states and old.has(split, state):
            data = old.get(split, state)
            new.put(split, state, data.scores, data.labels)


def _read(path: str) -> tuple[RunFolder, RunConfig]:
    """The folder and the settings of a run that has finished a state at least."""
    run = RunFolder(path)
    if not (run.path / RECORD).exists():
        raise TransilError(f"{path}: not the folder of a training (there is no {RECORD} in it)")
    if not run.finished():
        raise TransilError(f"{path}: no state is finished there; there is nothing to go on from")
    return run, run.config()

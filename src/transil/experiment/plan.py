"""The plan: every training that an experiment needs, each once, in the folder named by its config."""

from __future__ import annotations

import difflib
import os
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from transil._common.files import digest, plain_name
from transil._common.progress import Progress, no_progress
from transil._common.settings import merge
from transil.data.images import Images
from transil.data.opening import open_images, split_spec
from transil.data.sources.paper import data_dir
from transil.engine.config import RunConfig
from transil.engine.recipes import resolve
from transil.engine.run_folder import RECORD, TIMES, RunFolder, measured
from transil.engine.scored import states_to_score
from transil.engine.setup import completed, find_device, make_stream
from transil.errors import DataWarning, TransilError
from transil.experiment.overlap import allowed_references, same_names, shared_classes
from transil.experiment.recipe import Experiment, training_recipe
from transil.methods.registry import METHODS, get_method

# Training images per second to reckon with before any run has been timed (docs/performance.md).
GUESSES = {
    ("cuda", "resnet18-32"): 33_000,
    ("cuda", "resnet18-224"): 11_500,
    ("cpu", "convnet"): 1_500,
    ("cpu", "resnet18-32"): 40,
}
# Settings that came after the first runs were named.
ADDED = (
    ("after",),
    ("train", "warmup"),
    ("train", "body_lr"),
    *(("net", name) for name in ("weights", "weights_digest", "frozen", "colours")),
)


@dataclass(frozen=True)
class Task:
    """One training run. `dataset` is the set's name in the recipe."""

    dataset: str
    method: str  # the one that is trained: FT for its whole family
    states: int
    fraction: float
    seed: int
    config: RunConfig
    folder: Path
    images: int  # training images seen in all epochs of all states

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.folder.name

    @property
    def trained(self) -> bool:
        """Whether all its states are finished."""
        states = 1 if METHODS.find(self.method).one_state else self.states
        return RunFolder(self.folder).finished() >= states

    @property
    def status(self) -> str:
        """'done', 'unscored' (trained, but scores are lost), 'begun' or 'new'."""
        if not self.trained:
            return "begun" if (self.folder / RECORD).exists() else "new"
        try:
            method = get_method(self.config.method, self.config.settings)
            return "unscored" if states_to_score(RunFolder(self.folder), method) else "done"
        except TransilError:  # a damaged file: the training mends it, or tells what is wrong
            return "unscored"


@dataclass(frozen=True, eq=False)
class Plan:
    """All tasks of an experiment, and what is known of its data sets."""

    experiment: Experiment
    folder: Path
    images: Mapping[str, Images]
    tasks: tuple[Task, ...]

    def task(self, dataset: str, method: str, states: int, fraction: float, seed: int) -> Task:
        """The training that gives the scores of a method."""
        wanted = (dataset, trainer(method), states, fraction, seed)
        for task in self.tasks:
            if (task.dataset, task.method, task.states, task.fraction, task.seed) == wanted:
                return task
        raise KeyError(wanted)

    def references_of(self, target: str) -> list[str]:
        """The references a target may use: those that share no class with it."""
        return references_of(self.experiment, target, self.images)

    def overlaps(self) -> dict[str, list[str]]:
        """The classes that pairs of sets have in common, 'target / reference'."""
        found = {}
        for target in self.experiment.targets:
            for reference in self.experiment.references:
                shared = shared_classes(self.images[target], self.images[reference])
                if reference != target and shared:
                    found[f"{target} / {reference}"] = shared
        return found

    def same_names(self) -> dict[str, list[str]]:
        """Classes of one name in sets that were collected apart, 'target / reference'."""
        found = {
            f"{target} / {reference}": same_names(
                self.images[target], self.images[reference], self.images.values()
            )
            for target in self.experiment.targets
            for reference in self.references_of(target)
        }
        return {pair: names for pair, names in found.items() if names}

    def seconds_left(self) -> float | None:
        """An estimate from runs that are finished, or from what such networks usually do."""
        speeds = [
            speed
            for task in self.tasks
            for speed in measured(RunFolder(task.folder).lines(TIMES), "images_per_second")
            if speed
        ]
        left = sum(task.images for task in self.tasks if not task.trained)
        if not speeds and self.tasks:
            config = self.tasks[0].config
            kind = find_device(config.engine.device).type
            speeds = [s for s in [GUESSES.get((kind, config.net.body))] if s]
        return left / (sum(speeds) / len(speeds)) if speeds else None


def make_plan(
    experiment: Experiment,
    folder: str | os.PathLike[str],
    *,
    progress: Progress = no_progress,
) -> Plan:
    """Open the data sets and list the trainings; nothing is trained.

    Sets are looked for by their path, then in $TRANSIL_DATA (default: ./data).
    """
    folder = Path(folder).absolute()  # workers may live in another one
    # A recipe may know more sets than are used; a misspelt name would leave its set without settings.
    bare = [name for name in experiment.datasets if name not in experiment.sets]
    for name in sorted(set(experiment.sets) - set(experiment.datasets)):
        if meant := difflib.get_close_matches(name, bare, 1):
            warnings.warn(
                f"{experiment.name}: 'sets' has settings of '{name}', which is neither a reference "
                f"nor a target, and none of '{meant[0]}'; is it misspelt?",
                DataWarning,
                stacklevel=2,
            )
    sets, images = open_sets(experiment, progress)
    _check_test_images(experiment, images)
    for target in experiment.targets:
        if not references_of(experiment, target, images):
            raise TransilError(
                f"{experiment.name}: target '{target}' has no reference; each one is the target "
                "itself or shares classes with it"
            )
        _check_classes(experiment, target, images)
    tasks = {
        task.folder: task
        for wanted in wanted_runs(experiment)
        for task in [make_task(experiment, *wanted, sets=sets, images=images, folder=folder)]
    }
    # In the recipe's order of seeds and states; among those the long ones first, so that runs side
    # by side end at about the same time.
    order = {s: i for i, s in enumerate(dict.fromkeys((t.seed, t.states) for t in tasks.values()))}
    return Plan(
        experiment,
        folder,
        images,
        tuple(sorted(tasks.values(), key=lambda t: (order[t.seed, t.states], -t.images))),
    )


def open_sets(
    experiment: Experiment, progress: Progress = no_progress
) -> tuple[dict[str, dict[str, Any]], dict[str, Images]]:
    """The settings of every set, and its images."""
    sets = {name: set_config(experiment, name) for name in experiment.datasets}
    images = {}
    for number, (name, settings) in enumerate(sets.items()):
        progress(number / len(sets), f"opening {name}")
        given = {k: settings[k] for k in ("size", "rule", "root") if k in settings}
        if experiment.kind == "224":
            given.setdefault("size", 256)
        images[name] = open_images(settings["path"], **given)
    return sets, images


def references_of(experiment: Experiment, target: str, images: Mapping[str, Images]) -> list[str]:
    """The references a target may use."""
    if experiment.allow_overlap:
        return [name for name in experiment.references if name != target]
    return allowed_references(target, experiment.references, images)


def _check_test_images(experiment: Experiment, images: Mapping[str, Images]) -> None:
    """Targets are judged on them, and references fitted where the recipe says so."""
    uses = dict.fromkeys(experiment.targets, "a target is judged")
    if "test" in experiment.fit_on:
        uses = {**dict.fromkeys(experiment.references, "pairs are fitted (fit_on)"), **uses}
    for name, use in uses.items():
        split = images[name].splits.get("test")
        if split is None or not len(split):
            raise TransilError(f"{experiment.name}: '{name}' has no test images, on which {use}")


def _check_classes(experiment: Experiment, target: str, images: Mapping[str, Images]) -> None:
    """Pairs belong to groups of one size: a target and its references have as many classes."""
    classes = images[target].classes
    for name in references_of(experiment, target, images):
        if images[name].classes != classes:
            raise TransilError(
                f"{experiment.name}: reference '{name}' has {images[name].classes} classes and "
                f"target '{target}' {classes}; pairs only transfer between groups of one size: take "
                "sets with as many classes"
            )


def wanted_runs(experiment: Experiment) -> Iterable[tuple[str, str, int, float, int]]:
    """(data set, method, states, fraction, seed) of every training, some of them twice."""
    methods = list(dict.fromkeys(trainer(method) for method in experiment.methods))
    for seed in experiment.seeds:
        if experiment.joint:
            for name in experiment.targets:
                yield name, "joint", 1, 1.0, seed
        for states in experiment.states:
            for method in methods:
                for name in experiment.references:
                    yield name, method, states, 1.0, seed
                for name in experiment.targets:
                    for fraction in experiment.train_fraction:
                        yield name, method, states, fraction, seed


def make_task(
    experiment: Experiment,
    dataset: str,
    method: str,
    states: int,
    fraction: float,
    seed: int,
    *,
    sets: Mapping[str, Mapping[str, Any]],
    images: Mapping[str, Images],
    folder: Path,
) -> Task:
    """The task of one training, with its config complete."""
    # A set that is also a reference is trained once; which images it may see does not depend
    # on its role, only which validation scores are written.
    reference = dataset in experiment.references or experiment.own_bound
    data = {
        "order": experiment.order,
        **sets[dataset],
        **groups(experiment, images[dataset].classes, states),
        "role": "reference" if reference and fraction == 1.0 else "target",
        "train_fraction": fraction,
    }
    if experiment.own_bound:
        data["role"] = "reference"
    config, seen = configured(
        experiment, dataset, method, {"data": data, "seed": seed}, images[dataset]
    )
    key = merge(config.to_dict(), {"engine": {}, "data": {"path": ""}, "net": {"weights": None}})
    del key["engine"]
    for *parts, name in ADDED:  # at its default it leaves the names of runs as they were
        given, usual = key, RunConfig().to_dict()
        for part in parts:
            given, usual = given[part], usual[part]
        if given[name] == usual[name]:
            del given[name]
    part = "" if fraction == 1.0 else f"-{fraction:g}"
    lead = f"{plain_name(dataset)}-{method}-s{states}{part}-seed{seed}-"
    place = run_place(folder / "runs", lead, key, images[dataset])
    return Task(dataset, method, states, fraction, seed, config, place, seen)


def configured(
    experiment: Experiment, dataset: str, method: str, run: Mapping[str, Any], images: Images
) -> tuple[RunConfig, int]:
    """The complete config of a training with the settings `run`; training images in all epochs."""
    general = {"train": experiment.train, "net": experiment.net, "engine": experiment.engine}
    own = experiment.per_method.get(method, {})
    try:
        config = resolve(
            method=method,
            recipe=training_recipe(experiment, method),
            overrides=[general, own, run],
        )
        made = get_method(config.method, config.settings)
        config = completed(config, made, images, find_device(config.engine.device))
        counts = make_stream(config, images).counts()["train"]
    except TransilError as error:
        raise TransilError(f"{experiment.name}, data set '{dataset}': {error}") from None
    epochs = config.train.epochs_of
    return config, sum(n * epochs(s) for s, n in enumerate(counts, start=1))


def run_place(runs: Path, lead: str, key: Mapping[str, Any], images: Images) -> Path:
    """The folder of a run: `lead`, and a code for what is learned and from which images.

    No name begins with '-', as an option does.
    """
    placeless = merge(key, {"data": {"root": None}})
    return runs / f"{lead}{digest([placeless, images.fingerprint])[:8]}".lstrip("-")


def groups(experiment: Experiment, classes: int, states: int) -> dict[str, Any]:
    """The schedule of a training with so many classes, as its `data` settings say it."""
    first = experiment.first_classes
    if first is None or states == 1:
        return {"states": states}
    each, over = divmod(classes - first, states - 1)
    if each < 1 or over:
        raise TransilError(
            f"{experiment.name}: first_classes: after {first} of {classes} classes, {classes - first} "
            f"are left for {states - 1} equal groups; choose another number, or other `states`"
        )
    return {"sizes": [first, *[each] * (states - 1)]}


def set_config(experiment: Experiment, name: str) -> dict[str, Any]:
    """The data settings of a set: its path, and what the recipe says of it."""
    given = experiment.sets.get(name, {})
    if not isinstance(given, Mapping):
        raise TransilError(f"{experiment.name}: sets.{name} must be a group of settings")
    for key in ("states", "sizes", "schedule"):
        if given.get(key) is not None:
            raise TransilError(
                f"{experiment.name}: sets.{name}.{key}: all sets have the experiment's schedule "
                "(states, first_classes)"
            )
    settings = dict(given)
    path = str(settings.get("path", name))
    place, query = split_spec(path, data_dir())
    if ":" not in place and (data_dir() / place).exists():
        path = str((data_dir() / place).absolute()) + (f"?{query}" if query else "")
    return {**settings, "path": path}


def trainer(method: str) -> str:
    """The method whose training gives the scores of `method`."""
    return METHODS.find(method).trained_as()


def with_engine(task: Task, **engine: Any) -> Task:
    """The same task with other settings of how the work is done."""
    config = replace(task.config, engine=replace(task.config.engine, **engine))
    return replace(task, config=config)


def device_count() -> int:
    """How many GPUs there are."""
    return torch.cuda.device_count() if torch.cuda.is_available() else 0

"""References of many schedules: the kind of experiment whose result is a bank for any schedule.

It has `schedules` where the paper's has `targets` and `states`, and no report. Each schedule is
learned by two of the sets, in turn; then one bank per method is fitted on all that was trained.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from transil._common.files import plain_name
from transil._common.progress import Progress, no_progress
from transil._common.settings import plain
from transil._common.typed import build
from transil.correction.fitting import fit_any_schedule
from transil.correction.open_bank import MOST_STATES
from transil.correction.shipped import ANY
from transil.engine.config import DataConfig
from transil.engine.run_folder import RECORD, RunFolder
from transil.errors import TransilError
from transil.experiment.plan import Plan, Task, configured, open_sets, trainer
from transil.experiment.recipe import Experiment, check, experiment_of, read_experiment
from transil.experiment.results import Failure
from transil.experiment.running import Execute, alone_in
from transil.methods.registry import METHODS
from transil.schedule import Schedule

TURNS = 2  # by so many sets each schedule is learned: forms and errors are told on images left out
# What the schedules say, or the sets.
NOT_OF_ALL = ("path", "states", "sizes", "schedule", "role")


@dataclass(frozen=True)
class Schedules:
    """The recipe: `schedules` are sizes of groups by a name; the others are as in `Experiment`.

    `data`: settings of all sets, under those that `sets` has for one. Without an `order` there, the
    classes of each schedule have one of their own.
    """

    name: str
    references: tuple[str, ...]
    methods: tuple[str, ...]
    schedules: Mapping[str, tuple[int, ...]]
    kind: Literal["32", "224", "tiny"] = "32"
    recipes: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    sets: Mapping[str, Any] = field(default_factory=dict)
    train: Mapping[str, Any] = field(default_factory=dict)
    net: Mapping[str, Any] = field(default_factory=dict)
    engine: Mapping[str, Any] = field(default_factory=dict)
    per_method: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as JSON has them."""
        made: dict[str, Any] = plain(asdict(self))
        return made

    def trainings(self) -> Experiment:
        """What it has in common with other experiments: how models are trained, and on what."""
        names = {f.name for f in fields(self)} - {"schedules", "data", "sets", "per_method"}
        sets = {name: {**self.data, **self.sets.get(name, {})} for name in self.references}
        own = {name: getattr(self, name) for name in names}
        # Fewer methods may be asked for than a recipe has settings for.
        unused = set(METHODS.names()) - {trainer(m) for m in self.methods if m in METHODS.names()}
        per_method = {name: of for name, of in self.per_method.items() if name not in unused}
        return Experiment(**own, sets=sets, per_method=per_method, targets=(), states=())


def load_any(name: str, overrides: Mapping[str, Any] | None = None) -> Experiment | Schedules:
    """Read and check a recipe of either kind; `overrides` go over its settings."""
    data, lines = read_experiment(name, overrides)
    if "schedules" not in data:
        return experiment_of(data, name, lines)
    made = build(Schedules, data, name, lines)

    def fail(key: str, message: str) -> None:
        raise TransilError(f"{name}, line {lines[key]}: {key}: {message}" if key in lines
                           else f"{name}: {key}: {message}")  # fmt: skip

    build(DataConfig, made.data, name, lines, "data")
    for key in NOT_OF_ALL:
        if key in made.data:
            fail("data", f"'{key}' is not one for all; see references, sets and schedules")
    for given in made.sets:
        build(DataConfig, made.sets[given], name, lines, f"sets.{given}")
    if len(made.schedules) < 2:
        fail("schedules", f"{len(made.schedules)} of them; a bank for any needs two at least")
    for kind, sizes in made.schedules.items():
        try:
            states = Schedule.from_sizes(sizes).states
        except TransilError as error:
            fail(f"schedules.{kind}", str(error).removeprefix("schedule: "))
        if not 2 <= states <= MOST_STATES:
            fail(f"schedules.{kind}", f"{states} groups; 2 to {MOST_STATES} can be corrected")
        if kind != plain_name(kind) or "--" in kind:
            fail(f"schedules.{kind}", "a name is of letters, digits, '_' and '-', one at a time")
    check(replace(made.trainings(), targets=made.references, states=(2,)), name, lines)
    if len({_folder_name(given) for given in made.references}) < len(made.references):
        fail("references", "two would have the same folders; give names under 'sets'")
    return made


def plan_references(experiment: Schedules, runs: Path, progress: Progress = no_progress) -> Plan:
    """Every training, in folders SET--SCHEDULE--METHOD of `runs`: the first turn of all comes first."""
    runs, shared = runs.absolute(), experiment.trainings()
    sets, images = open_sets(shared, progress)
    methods = list(dict.fromkeys(map(trainer, experiment.methods)))
    names, tasks = experiment.references, []
    for turn in range(min(TURNS, len(names))):
        for number, (kind, sizes) in enumerate(experiment.schedules.items()):
            name = names[(number + turn) % len(names)]
            if sum(sizes) > images[name].classes:
                raise TransilError(
                    f"{experiment.name}: schedules.{kind} has {sum(sizes)} classes and reference "
                    f"'{name}' {images[name].classes}; take fewer, or another set"
                )
            data = {
                "order": f"seed:{number}", **sets[name], "sizes": list(sizes), "role": "reference"
            }  # fmt: skip
            for method in methods:
                config, seen = configured(shared, name, method, {"data": data}, images[name])
                folder = runs / f"{_folder_name(name)}--{kind}--{method}"
                if (folder / RECORD).exists():  # its name does not say how it was trained
                    RunFolder(folder).check(config, images[name].facts)
                tasks.append(Task(name, method, len(sizes), 1.0, 0, config, folder, seen))
    return Plan(shared, runs.parent, images, tuple(tasks))


def make_banks(
    plan: Plan, execute: Execute, progress: Progress = no_progress
) -> tuple[dict[str, Path], list[Failure]]:
    """Train what is missing, and fit a bank of each method on what is there; what failed."""
    with alone_in(plan.folder):
        failures = execute(plan, progress)
        banks = {}
        for method in plan.experiment.methods:
            there = [t for t in plan.tasks if t.method == trainer(method) and t.status == "done"]
            if len({t.config.data.sizes for t in there}) < 2:
                why = "fewer than two schedules are finished; there is no bank of it yet"
                failures.append(Failure(method, why))
                continue
            progress(1.0, f"fitting {method} on {len(there)} models")
            banks[method] = plan.folder / "banks" / f"{method}{ANY}.json"
            bank = fit_any_schedule(
                [task.folder / "scores" / method for task in there],
                names=[task.dataset for task in there],
            )
            bank.save(banks[method])
        return banks, failures


def _folder_name(dataset: str) -> str:
    return plain_name(dataset).lstrip("-")

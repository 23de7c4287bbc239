"""The recipe of an experiment: which sets, methods, schedules, corrections and seeds. Strict YAML."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from transil._common.registry import nearest
from transil._common.settings import merge, plain
from transil._common.typed import build, short
from transil._common.yaml_files import names_in, read_named, read_yaml
from transil.adaptation.traffic import Traffic
from transil.adaptation.trial import Assumed
from transil.correction.registry import CORRECTIONS, SOLVERS
from transil.engine.config import DataConfig, EngineConfig, NetConfig, TrainConfig, without_fuse
from transil.engine.recipes import recipe_names
from transil.errors import TransilError
from transil.experiment.fits import read_candidate
from transil.experiment.results import check_size
from transil.experiment.ways import ways
from transil.methods.registry import METHODS

PACKAGE = "transil.experiment.recipes"
TRAFFIC = ("traffic", "traffic_seeds", "priors")
TRAINING = {"train": TrainConfig, "net": NetConfig, "engine": EngineConfig}


@dataclass(frozen=True)
class Experiment:
    """The paper's protocol with everything that can be chosen.

    - `references`, `targets`: data sets by name or path; `sets` gives settings of one by its name
      (`path`, `order`, `size`, ...: the keys of `data` in a training recipe);
    - `kind`: the training recipes, '32', '224' or 'tiny'; `recipes` names another for a method (a
      recipe of the package or a .yaml file); `train`, `net`, `engine` go over them, and
      `per_method` over those of one method;
    - `solvers_of`: for a correction by its name, the solvers that alone it is fitted with;
    - `first_classes`: how many classes the first group has; the others share the rest equally;
    - `train_fraction`: shares of the targets' training images; references always have all;
    - `fit_on`: the reference's splits that pairs are fitted on;
    - `own_bound`: also fit on the target's own validation images, an upper bound;
    - `ablation`: R = 1..R_max references, `draws` random choices of each;
    - `candidates`: solvers, with a penalty where it is not their own ('newton:0.001' for alpha and
      beta, 'newton:0.0025,0.0525' for one each), compared on the references alone, two or more;
    - `traffic`: tails of simulated traffic, as ratios of the commonest class to the rarest, and
      `traffic_seeds`, a draw for each; `priors`: what the bank is adapted under there (see
      `transil.adaptation.trial`);
    - `allow_overlap`: a target may use references with which it shares classes (the paper does).
    """

    name: str
    references: tuple[str, ...]
    targets: tuple[str, ...]
    methods: tuple[str, ...]
    states: tuple[int, ...]
    first_classes: int | None = None
    corrections: tuple[str, ...] = ("bic", "adbic")
    solvers: tuple[str, ...] = ("newton",)
    solvers_of: Mapping[str, Any] = field(default_factory=dict)
    transfer: tuple[Literal["mean", "median", "oracle"], ...] = ("mean",)
    candidates: tuple[str, ...] = ()
    train_fraction: tuple[float, ...] = (1.0,)
    seeds: tuple[int, ...] = (0,)
    kind: Literal["32", "224", "tiny"] = "32"
    recipes: Mapping[str, Any] = field(default_factory=dict)
    order: str = "seed:0"
    sets: Mapping[str, Any] = field(default_factory=dict)
    train: Mapping[str, Any] = field(default_factory=dict)
    net: Mapping[str, Any] = field(default_factory=dict)
    engine: Mapping[str, Any] = field(default_factory=dict)
    per_method: Mapping[str, Any] = field(default_factory=dict)
    fit_on: tuple[Literal["val", "test"], ...] = ("val",)
    joint: bool = False
    own_bound: bool = False
    ablation: bool = False
    traffic: tuple[float, ...] = ()
    traffic_seeds: tuple[int, ...] = (0, 1, 2)
    priors: tuple[str, ...] = ("none", "none+ledger", "uniform", "remembered", "known")
    allow_overlap: bool = False
    draws: int = 10
    resamples: int = 1000
    limits: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as JSON has them."""
        made: dict[str, Any] = plain(asdict(self))
        if self.first_classes is None:  # came later: results without it stay as they are
            del made["first_classes"]
        for key in TRAFFIC if not self.traffic else ():
            del made[key]
        return made

    @property
    def ways(self) -> list[tuple[str, str]]:
        """Each correction with each of its solvers."""
        return ways(self.corrections, self.solvers, self.solvers_of)

    @property
    def candidate_ways(self) -> list[tuple[str, str]]:
        """Each correction with each of its candidates."""
        return ways(self.corrections, self.candidates, self.solvers_of)

    @property
    def datasets(self) -> list[str]:
        """All sets, each once."""
        return list(dict.fromkeys([*self.references, *self.targets]))


def experiment_names() -> list[str]:
    """The experiments of the package."""
    return names_in(PACKAGE)


def experiment_text(name: str) -> str:
    """An experiment's recipe as written: one of the package, or a file that ends in .yaml."""
    return read_named(name, PACKAGE, "experiment")


def load_experiment(name: str, overrides: Mapping[str, Any] | None = None) -> Experiment:
    """Read and check the recipe of an experiment; `overrides` go over its settings."""
    data, lines = read_experiment(name, overrides)
    return experiment_of(data, name, lines)


def read_experiment(
    name: str, overrides: Mapping[str, Any] | None = None
) -> tuple[dict[str, Any], dict[str, int]]:
    """The settings of a recipe with `overrides` over them, unchecked, and their lines."""
    data, lines = read_yaml(experiment_text(name), name)
    if not isinstance(data, dict):
        raise TransilError(f"{name}: not a recipe, it holds no settings")
    data = merge(data, overrides or {})
    data.setdefault("name", Path(name).stem)
    own = data.get("per_method")
    for part in (data, *(own.values() if isinstance(own, dict) else ())):
        if isinstance(part, dict) and "engine" in part:
            part["engine"] = without_fuse(part["engine"], name)
    if "kind" in data:
        data["kind"] = str(data["kind"])  # 32 and '32' are the same to people
    # What was given beside the file has no line in it.
    return data, {k: n for k, n in lines.items() if k.split(".")[0] not in (overrides or {})}


def experiment_of(data: Mapping[str, Any], where: str, lines: Mapping[str, int]) -> Experiment:
    """The experiment that settings ask for, checked."""
    experiment = build(Experiment, data, where, lines)
    check(experiment, where, lines)
    return experiment


def check(experiment: Experiment, where: str, lines: Mapping[str, int]) -> None:
    """Errors that need no images: unknown names, empty lists, values that make no sense."""

    def fail(key: str, message: str) -> None:
        place = f"{where}, line {lines[key]}" if key in lines else where
        raise TransilError(f"{place}: {key}: {message}")

    # What goes into the settings of trainings is told here, where it has a line.
    for key, cls in TRAINING.items():
        build(cls, getattr(experiment, key), where, lines, key)
    for name, given in experiment.sets.items():
        build(DataConfig, given, where, lines, f"sets.{name}")
    for name, given in experiment.per_method.items():
        for key, value in given.items() if isinstance(given, Mapping) else ():
            if key in TRAINING:
                build(TRAINING[key], value, where, lines, f"per_method.{name}.{key}")
    for key in ("references", "targets", "methods", "states", "corrections", "solvers", "transfer",
                "train_fraction", "seeds", "fit_on"):  # fmt: skip
        values = getattr(experiment, key)
        if not values:
            fail(key, "the list is empty")
        if len(set(values)) < len(values):
            fail(key, "something stands twice")
    _check_traffic(experiment, fail)
    for key, most in (("draws", 10**6), ("resamples", 10**6)):
        if getattr(experiment, key) > most:
            fail(key, f"{short(getattr(experiment, key))} is too many; at most {most:,}")
    try:
        check_size(experiment.targets, experiment.methods, experiment.states,
                   experiment.train_fraction, experiment.seeds)  # fmt: skip
    except TransilError as error:
        fail("targets", str(error))
    if len(set(experiment.candidates)) < len(experiment.candidates):
        fail("candidates", "something stands twice")
    for name in experiment.per_method:
        if name in METHODS.names() and METHODS.find(name).trained_as() != name:
            shared = METHODS.find(name).trained_as()
            fail(
                "per_method", f"'{name}' is not trained by itself; name '{shared}', which it shares"
            )
    there = [name for name in experiment.methods if name in METHODS.names()]
    trained = list(dict.fromkeys(METHODS.find(name).trained_as() for name in there))
    known = {
        "methods": METHODS.names(),
        "corrections": CORRECTIONS.names(),
        "solvers": SOLVERS.names(),
        "per_method": [*trained, "joint"],
        "recipes": [*dict.fromkeys([*experiment.methods, *trained]), "joint"],
    }
    for key, names in known.items():
        for name in getattr(experiment, key):
            if name not in names:
                fail(key, f"'{name}' is unknown; {nearest(name, names)}")
    for name, own in experiment.solvers_of.items():
        if name not in CORRECTIONS.names():
            fail("solvers_of", f"'{name}' is unknown; {nearest(name, CORRECTIONS.names())}")
        if not isinstance(own, list | tuple) or not own:
            fail("solvers_of", f"{name}: give a list of solvers")
        every = [*SOLVERS.names(), *experiment.candidates]
        for solver in own:
            if solver not in every:
                fail("solvers_of", f"'{solver}' is unknown; {nearest(str(solver), every)}")
    for name in experiment.corrections:
        if not any(correction == name for correction, _ in experiment.ways):
            fail("solvers_of", f"{name}: none of its solvers is among the experiment's")
    for text in experiment.candidates:
        try:
            read_candidate(text)
        except TransilError as error:
            fail("candidates", str(error))
    if "joint" in experiment.methods:
        fail("methods", "'joint' has one state and nothing to correct; write joint: true")
    for value in experiment.states:
        if value < 2:
            fail("states", f"{value} states leave nothing to correct; at least 2")
    if experiment.first_classes is not None and experiment.first_classes < 1:
        fail("first_classes", f"{experiment.first_classes} is too few; at least 1")
    for share in experiment.train_fraction:
        if not 0 < share <= 1:
            fail("train_fraction", f"{share} is not in (0, 1]")
    for seed in experiment.seeds:
        if seed < 0:
            fail("seeds", f"{seed} is below 0")
    for key, least in (("draws", 1), ("resamples", 100)):
        if getattr(experiment, key) < least:
            fail(key, f"{getattr(experiment, key)} is too few; at least {least}")
    for method in experiment.methods:
        try:
            training_recipe(experiment, method)
        except TransilError as error:
            fail("recipes", str(error))


def _check_traffic(experiment: Experiment, fail: Callable[[str, str], None]) -> None:
    """What is asked of simulated traffic."""
    for key in TRAFFIC:
        values = getattr(experiment, key)
        if not values and key != "traffic":
            fail(key, "the list is empty")
        if len(set(values)) < len(values):
            fail(key, "something stands twice")
    makes: dict[str, Callable[[Any], Any]] = {
        "traffic": Traffic, "traffic_seeds": lambda seed: Traffic(seed=seed), "priors": Assumed.of
    }  # fmt: skip
    for key, make in makes.items():
        for value in getattr(experiment, key):
            try:
                make(value)
            except TransilError as error:
                fail(key, str(error).removeprefix("traffic: "))


def training_recipe(experiment: Experiment, method: str) -> str:
    """The recipe that trains a method: the experiment's own choice, or that of the method.

    Methods that share their training share its recipe, whichever of them it is named for.
    """
    trained_as = METHODS.find(method).trained_as()
    family = [m for m in experiment.methods if METHODS.find(m).trained_as() == trained_as]
    members = dict.fromkeys([method, *family, trained_as])
    named = {m: str(experiment.recipes[m]) for m in members if m in experiment.recipes}
    if len(set(named.values())) > 1:
        raise TransilError(
            f"{' and '.join(map(repr, named))} share one training and name different recipes "
            f"({', '.join(dict.fromkeys(named.values()))}); name one, for '{trained_as}'"
        )
    if named:
        return next(iter(named.values()))
    recipe = f"{trained_as}-{experiment.kind}"
    if recipe not in recipe_names():
        raise TransilError(
            f"method '{method}' has no recipe '{recipe}'; name one: recipes: {{{method}: lwf-32}}"
        )
    return recipe

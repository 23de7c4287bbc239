"""What an experiment has found: plain numbers that a report is made from, in one JSON file.

Every number says which run folder it came from. Accuracies and gains are shares between 0 and 1.
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from transil._common.files import write_json
from transil._common.typed import ALWAYS, Between, read_file, read_record
from transil.errors import TransilError
from transil.schedule import MOST_CLASSES

FILE, FORMAT, VERSION = "results.json", "transil-results", 1
# The reason of a failure that is none: nobody has trained the run yet.
UNFINISHED = "the run is not finished"
# What a recipe may ask for at most, so that an altered one does not count for ever.
MOST_MODELS = 100_000

Share = Annotated[float, Between(0, 1)]
Points = Annotated[float, Between(-1, 1)]  # a difference of shares
Number = Annotated[float, Between(-1e38, 1e38)]
States = Annotated[int, Between(1, MOST_CLASSES)]
Seed = Annotated[int, Between(0, 2**63 - 1)]
Count = Annotated[int, Between(1, 10**9)]


@dataclass(frozen=True)
class Setting:
    """What a model was trained on: `fraction` of the training images, one of several seeds."""

    target: str
    method: str
    states: States
    fraction: Share = 1.0
    seed: Seed = 0


@dataclass(frozen=True)
class Cell:
    """One corrected (or raw) model on the target's test images.

    `kind`: 'raw'; 'control' (needs no reference: 'align', 'shift'); 'transfer' (fitted on
    references: 'bic', 'adbic', ...); 'bound' (looks at what the target may not have: transfer
    'oracle' at its test labels, 'own' at validation images of its past classes).
    """

    setting: Setting
    kind: str
    name: str
    solver: str | None
    transfer: str | None
    references: list[str]
    accuracy: list[Share]  # of each state, from 1
    average: Share  # over states 2..S, the paper's number
    gain: Points | None  # of the average over raw
    low: Points | None  # of the 95 % interval of the gain, paired bootstrap over test images
    high: Points | None
    run: str  # the folder of the target's run
    bank: str | None  # the file of the pairs


@dataclass(frozen=True)
class Detail:
    """What figures show of one cell: the last state's scores, and the accuracy matrix."""

    setting: Setting
    name: str  # as in the cell
    solver: str | None
    transfer: str | None
    mean_score: list[Number]  # of each group, in the last state
    score_deviation: list[Annotated[float, Between(0, 1e38)]]
    group_accuracy: list[list[Share | None]]  # row s: accuracy of groups 1..s; None: no images

    def __post_init__(self) -> None:
        _as_long(
            self.setting.states,
            "states",
            mean_score=self.mean_score,
            score_deviation=self.score_deviation,
            group_accuracy=self.group_accuracy,
        )
        for s, row in enumerate(self.group_accuracy):
            _as_long(s + 1, "groups", **{f"group_accuracy[{s}]": row})


@dataclass(frozen=True)
class Pairs:
    """alpha and beta of each group in the last state, for every reference."""

    method: str
    states: States
    seed: Seed
    correction: str
    solver: str
    references: list[str]
    alpha: list[list[Number]]  # (references, groups)
    beta: list[list[Number]]

    def __post_init__(self) -> None:
        _as_long(len(self.references), "references", alpha=self.alpha, beta=self.beta)
        for alpha, beta in zip(self.alpha, self.beta, strict=True):
            _as_long(self.states, "states", alpha=alpha, beta=beta)


@dataclass(frozen=True)
class Ablation:
    """Average accuracy with R references, over random draws of them (the paper's Table 3)."""

    setting: Setting
    correction: str
    solver: str
    counts: list[Count]
    mean: list[Share]
    std: list[Share]
    draws: list[Count]  # how many draws each count had; all subsets where there are fewer

    def __post_init__(self) -> None:
        _as_long(len(self.counts), "counts", mean=self.mean, std=self.std, draws=self.draws)


@dataclass(frozen=True)
class Single:
    """One reference alone on one target: an entry of the transfer matrix."""

    setting: Setting
    correction: str
    solver: str
    reference: str
    average: Share
    gain: Points


@dataclass(frozen=True)
class Choice:
    """How well a solver with a penalty transfers between references (average accuracies).

    `left_out`: of each reference's validation images with the pairs of the others, `raw` without
    any. `targets`: of the targets' test images, which the choice does not look at.
    """

    method: str
    states: States
    seed: Seed
    correction: str
    candidate: str
    left_out: dict[str, Share]
    raw: dict[str, Share]
    targets: dict[str, Share]

    def __post_init__(self) -> None:
        if set(self.left_out) != set(self.raw):
            raise TransilError("left_out and raw are of other references")


@dataclass(frozen=True)
class Adapted:
    """One way to correct, judged on simulated traffic, by images that nothing was adapted to.

    `tail`: how many times as often the commonest class comes as the rarest; `draw`: the seed of the
    traffic. `kind`: 'raw', 'control', 'bank' (at the scale of these scores), 'prior' (the bank
    adapted under it) or 'bound'. Intervals are of 95 %, over judged images.
    """

    setting: Setting
    tail: Annotated[float, Between(1, 1e38)]
    draw: Seed
    correction: str
    solver: str
    kind: str
    name: str
    adapted: list[Annotated[int, Between(0, 10**9)]]  # how many images were there, states 2..S
    short: list[States]  # states in which they were too few, so nothing was done
    accuracy: list[Share]  # of states 2..S, each image with the weight of its class
    average: Share
    low: Share
    high: Share
    over_raw: list[Points]  # gain, low, high; on the same images
    over_bank: list[Points]
    abstained: list[States]  # states in which nothing is left of old classes

    def __post_init__(self) -> None:
        states = self.setting.states - 1
        _as_long(states, "states after the first", adapted=self.adapted, accuracy=self.accuracy)
        _as_long(3, "numbers", over_raw=self.over_raw, over_bank=self.over_bank)


@dataclass(frozen=True)
class Joint:
    """The accuracy of a model that learned all classes at once."""

    target: str
    seed: Seed
    accuracy: Share
    run: str


@dataclass(frozen=True)
class Failure:
    """A part that could not be done."""

    what: str
    reason: str
    log: str = ""


@dataclass(frozen=True)
class Results:
    """All of it. `facts` says how it was made: recipe, versions, data sets and what they share."""

    name: str
    cells: list[Cell] = field(default_factory=list, metadata=ALWAYS)
    details: list[Detail] = field(default_factory=list, metadata=ALWAYS)
    pairs: list[Pairs] = field(default_factory=list, metadata=ALWAYS)
    ablations: list[Ablation] = field(default_factory=list, metadata=ALWAYS)
    singles: list[Single] = field(default_factory=list, metadata=ALWAYS)
    joints: list[Joint] = field(default_factory=list, metadata=ALWAYS)
    choices: list[Choice] = field(default_factory=list)
    traffic: list[Adapted] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list, metadata=ALWAYS)
    facts: dict[str, Any] = field(default_factory=dict, metadata=ALWAYS)

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write results.json to a folder; the same results give the same bytes."""
        path = Path(folder) / FILE
        write_json(path, {"format": FORMAT, "version": VERSION, **asdict(self)})
        return path

    def seen_from(self, home: str | os.PathLike[str], folder: str | os.PathLike[str]) -> Results:
        """The results of the folder `home` with the paths they name as `folder` sees them."""

        def path(name: str | None) -> Any:
            return name and Path(os.path.relpath(Path(home) / name, folder)).as_posix()

        return replace(
            self,
            cells=[replace(c, run=path(c.run), bank=path(c.bank)) for c in self.cells],
            joints=[replace(j, run=path(j.run)) for j in self.joints],
        )

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Results:
        """Read what `save` wrote."""
        path = Path(folder) / FILE
        if not path.is_file():
            raise TransilError(f"{folder}: no results here ({FILE} is missing); run 'transil run'")
        results = read_file(path, cls, FORMAT, VERSION, "results file", "run 'transil run' again")
        Asked.of(results.facts, f"{path}: damaged results file")
        return results


@dataclass(frozen=True)
class Asked:
    """What the recipe of an experiment has asked for: that much of it which a report must know."""

    targets: list[str] = field(default_factory=list)
    methods: list[str] = field(default_factory=list)
    states: list[States] = field(default_factory=list)
    references: list[str] = field(default_factory=list)
    first_classes: int | None = None
    corrections: list[str] = field(default_factory=list)
    solvers: list[str] = field(default_factory=list)
    solvers_of: dict[str, list[str]] = field(default_factory=dict)
    transfer: list[str] = field(default_factory=list)
    train_fraction: list[Share] = field(default_factory=lambda: [1.0])
    seeds: list[Seed] = field(default_factory=lambda: [0])
    joint: bool = False
    own_bound: bool = False
    ablation: bool = False

    def __post_init__(self) -> None:
        check_size(self.targets, self.methods, self.states, self.train_fraction, self.seeds)

    @classmethod
    def of(cls, facts: dict[str, Any], where: str = "results") -> Asked:
        """From the facts of results; where they do not tell a recipe, it asks for nothing."""
        recipe = facts.get("recipe")
        return (
            read_record(recipe, cls, where, "facts.recipe") if isinstance(recipe, dict) else cls()
        )


def check_size(*lists: Collection[Any]) -> None:
    """An error where a recipe asks for more models, one of each list, than can be counted."""
    models = math.prod(map(len, lists))
    if models > MOST_MODELS:
        raise TransilError(f"it asks for {models:,} models; at most {MOST_MODELS:,}")


def _as_long(count: int, what: str, **lists: Collection[Any]) -> None:
    """An error where a list has not one entry for each of `what`."""
    for name, values in lists.items():
        if len(values) != count:
            raise TransilError(f"{name} has {len(values)} entries, for {count} {what}")

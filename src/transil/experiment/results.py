"""What an experiment has found: plain numbers that a report is made from, in one JSON file.

Every number says which run folder it came from. Accuracies and gains are shares between 0 and 1.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from transil.errors import TransilError
from transil.files import read_json, write_json

FILE, FORMAT, VERSION = "results.json", "transil-results", 1
# The reason of a failure that is none: nobody has trained the run yet.
UNFINISHED = "the run is not finished"
T = TypeVar("T")


@dataclass(frozen=True)
class Setting:
    """What a model was trained on: `fraction` of the training images, one of several seeds."""

    target: str
    method: str
    states: int
    fraction: float = 1.0
    seed: int = 0


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
    accuracy: list[float]  # of each state, from 1
    average: float  # over states 2..S, the paper's number
    gain: float | None  # of the average over raw
    low: float | None  # of the 95 % interval of the gain, paired bootstrap over test images
    high: float | None
    run: str  # the folder of the target's run
    bank: str | None  # the file of the pairs


@dataclass(frozen=True)
class Detail:
    """What figures show of one cell: the last state's scores, and the accuracy matrix."""

    setting: Setting
    name: str  # as in the cell
    solver: str | None
    transfer: str | None
    mean_score: list[float]  # of each group, in the last state
    score_deviation: list[float]
    group_accuracy: list[list[float | None]]  # row s: accuracy of groups 1..s; None: no images


@dataclass(frozen=True)
class Pairs:
    """alpha and beta of each group in the last state, for every reference."""

    method: str
    states: int
    seed: int
    correction: str
    solver: str
    references: list[str]
    alpha: list[list[float]]  # (references, groups)
    beta: list[list[float]]


@dataclass(frozen=True)
class Ablation:
    """Average accuracy with R references, over random draws of them (the paper's Table 3)."""

    setting: Setting
    correction: str
    solver: str
    counts: list[int]
    mean: list[float]
    std: list[float]
    draws: list[int]  # how many draws each count had; all subsets where there are fewer


@dataclass(frozen=True)
class Single:
    """One reference alone on one target: an entry of the transfer matrix."""

    setting: Setting
    correction: str
    solver: str
    reference: str
    average: float
    gain: float


@dataclass(frozen=True)
class Choice:
    """How well a solver with a penalty transfers between references (average accuracies).

    `left_out`: of each reference's validation images with the pairs of the others, `raw` without
    any. `targets`: of the targets' test images, which the choice does not look at.
    """

    method: str
    states: int
    seed: int
    correction: str
    candidate: str
    left_out: dict[str, float]
    raw: dict[str, float]
    targets: dict[str, float]


@dataclass(frozen=True)
class Joint:
    """The accuracy of a model that learned all classes at once."""

    target: str
    seed: int
    accuracy: float
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
    cells: list[Cell] = field(default_factory=list)
    details: list[Detail] = field(default_factory=list)
    pairs: list[Pairs] = field(default_factory=list)
    ablations: list[Ablation] = field(default_factory=list)
    singles: list[Single] = field(default_factory=list)
    joints: list[Joint] = field(default_factory=list)
    choices: list[Choice] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

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
        data = read_json(path)
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise TransilError(f"{path}: not the results of an experiment")
        if data.get("version") != VERSION:
            raise TransilError(f"{path}: format version {data.get('version')}, not {VERSION}")
        data.setdefault("choices", [])  # results of older versions have none
        kinds = {"cells": Cell, "details": Detail, "pairs": Pairs, "ablations": Ablation,
                 "singles": Single, "joints": Joint, "choices": Choice,
                 "failures": Failure}  # fmt: skip
        try:
            lists: dict[str, Any] = {
                key: [_read(kind, item) for item in data[key]] for key, kind in kinds.items()
            }
            return cls(name=str(data["name"]), facts=dict(data["facts"]), **lists)
        except (KeyError, TypeError, ValueError) as error:
            raise TransilError(f"{path}: damaged ({type(error).__name__}: {error})") from None


def _read(cls: type[T], data: Any) -> T:
    values = dict(data)
    if "setting" in {f.name for f in fields(cls)}:  # type: ignore[arg-type]
        values["setting"] = Setting(**values["setting"])
    return cls(**values)

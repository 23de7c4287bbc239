"""What the recipes asked for, so that a report can show what is not there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from math import prod
from typing import Any

from transil.errors import TransilError
from transil.experiment.ways import ways
from transil.report.names import Line

# What a recipe asks for is each of these with each of the others.
LISTS = ("train_fraction", "targets", "methods", "states", "seeds",
         "corrections", "solvers", "transfer")  # fmt: skip
DEFAULTS: dict[str, Any] = {"train_fraction": [1.0], "seeds": [0], "corrections": [], "solvers": [],
                            "transfer": [], "solvers_of": {}, "ablation": False, "joint": False,
                            "own_bound": False}  # fmt: skip
MOST = 1_000_000
Place = tuple[str, str, int, float]  # target, method, states, fraction: a setting without its seed


@dataclass(frozen=True)
class Wanted:
    """Everything that is to be there, each once, in the order of the recipes."""

    seeds: Mapping[Place, tuple[int, ...]] = field(default_factory=dict)
    lines: Mapping[Place, tuple[Line, ...]] = field(default_factory=dict)
    joints: tuple[tuple[str, int], ...] = ()  # target, seed
    ablations: frozenset[Place] = frozenset()
    references: tuple[str, ...] = ()

    @property
    def targets(self) -> list[str]:
        return list(dict.fromkeys([p[0] for p in self.seeds] + [t for t, _ in self.joints]))

    @property
    def methods(self) -> list[str]:
        return list(dict.fromkeys(p[1] for p in self.seeds))

    @property
    def fractions(self) -> list[float]:
        return sorted({p[3] for p in self.seeds}, reverse=True)

    @cached_property
    def _rows(self) -> dict[tuple[float, str], dict[Line, None]]:
        found: dict[tuple[float, str], dict[Line, None]] = {}
        for place, lines in self.lines.items():
            found.setdefault((place[3], place[1]), {}).update(dict.fromkeys(lines))
        return found

    def lines_of(self, fraction: float, method: str) -> list[Line]:
        """The rows that a method should have in the table of a fraction."""
        return list(self._rows.get((fraction, method), ()))


def wanted_by(facts: Iterable[Mapping[str, Any]]) -> Wanted:
    """What several results should hold; a recipe that is not told in full asks for nothing."""
    seeds: dict[Place, tuple[int, ...]] = {}
    lines: dict[Place, tuple[Line, ...]] = {}
    joints: dict[tuple[str, int], None] = {}
    ablations: set[Place] = set()
    references: dict[str, None] = {}
    for one in facts:
        asked = _asked(one.get("recipe"))
        if asked is None:
            continue
        for place in asked.places:
            seeds[place] = tuple(dict.fromkeys([*seeds.get(place, ()), *asked.seeds]))
            rows = asked.whole if place[3] == 1.0 else asked.parts
            lines[place] = tuple(dict.fromkeys([*lines.get(place, ()), *rows]))
        ablations |= {p for p in asked.places if asked.ablation and p[3] == 1.0}
        references |= dict.fromkeys(asked.references)
        joints |= dict.fromkeys(asked.joints)
    return Wanted(seeds, lines, tuple(joints), frozenset(ablations), tuple(references))


@dataclass(frozen=True)
class _Asked:
    """What one recipe asks for."""

    places: list[Place]
    seeds: tuple[int, ...]
    whole: list[Line]  # the rows with all training images, and with a part of them
    parts: list[Line]
    joints: list[tuple[str, int]]
    ablation: bool
    references: list[str]


def _asked(recipe: Any) -> _Asked | None:
    """What a recipe asks for; None where it is of another version, or edited by hand."""
    if not isinstance(recipe, Mapping):
        return None
    told = {**DEFAULTS, **recipe}
    try:
        lists: list[list[Any]] = [_list(told[key]) for key in LISTS]
        models = prod(max(1, len(values)) for values in lists)
        if models > MOST:
            raise TransilError(f"the recipe in these results asks for {models:,} numbers; no "
                               "report can show so many")  # fmt: skip
        fractions, targets, methods, sizes, seeds, *_ = lists
        own = tuple(int(seed) for seed in seeds)
        # As the recipes' files have it: methods stand in order whatever the order of states.
        places = [
            (str(target), str(method), int(states), float(fraction))
            for fraction, target, method, states in product(
                fractions, targets, methods, sorted(sizes)
            )
        ]
        return _Asked(
            places,
            own,
            list(_lines(told, whole=True)),
            list(_lines(told, whole=False)),
            [(str(t), seed) for t in targets for seed in own if told["joint"]],
            bool(told["ablation"]) and "adbic" in told["corrections"],
            [str(name) for name in _list(told["references"])],
        )
    except TransilError:
        raise
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
        return None


def _list(value: Any) -> list[Any]:
    if not isinstance(value, (list, tuple)):
        raise TypeError("not a list")
    return list(value)


def _lines(recipe: Mapping[str, Any], whole: bool) -> Iterator[Line]:
    """The rows of Table 1; controls are not among them, not every method has them."""
    yield Line("raw", "raw")
    for name, solver in ways(recipe["corrections"], recipe["solvers"], recipe["solvers_of"]):
        for how in recipe["transfer"]:
            yield Line("bound" if how == "oracle" else "transfer", name, solver, str(how))
        if recipe["own_bound"] and whole:
            yield Line("bound", name, solver, "own")

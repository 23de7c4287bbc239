"""What the recipes asked for, so that a report can show what is not there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from transil.experiment.ways import ways
from transil.report.names import Line

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

    def lines_of(self, fraction: float, method: str) -> list[Line]:
        """The rows that a method should have in the table of a fraction."""
        return list(
            dict.fromkeys(
                line
                for place, lines in self.lines.items()
                if (place[1], place[3]) == (method, fraction)
                for line in lines
            )
        )


def wanted_by(facts: Iterable[Mapping[str, Any]]) -> Wanted:
    """What several results should hold; a recipe that is not told in full asks for nothing."""
    seeds: dict[Place, tuple[int, ...]] = {}
    lines: dict[Place, tuple[Line, ...]] = {}
    joints: dict[tuple[str, int], None] = {}
    ablations: set[Place] = set()
    references: dict[str, None] = {}
    for one in facts:
        recipe = one.get("recipe")
        if not isinstance(recipe, Mapping):
            continue
        try:
            # As the recipes' files have it: methods stand in order whatever the order of states.
            places = [
                (str(target), str(method), int(states), float(fraction))
                for fraction, target, method, states in product(
                    recipe.get("train_fraction", [1.0]),
                    recipe["targets"],
                    recipe["methods"],
                    sorted(recipe["states"]),
                )
            ]
            own = tuple(int(seed) for seed in recipe.get("seeds", [0]))
            for place in places:
                seeds[place] = tuple(dict.fromkeys([*seeds.get(place, ()), *own]))
                known = lines.get(place, ())
                lines[place] = tuple(dict.fromkeys([*known, *_lines(recipe, place[3])]))
                if recipe.get("ablation") and "adbic" in recipe["corrections"] and place[3] == 1.0:
                    ablations.add(place)
            references |= dict.fromkeys(str(name) for name in recipe["references"])
            if recipe.get("joint"):
                joints |= dict.fromkeys((str(t), s) for t in recipe["targets"] for s in own)
        except (KeyError, TypeError, ValueError):  # of another version, or edited by hand
            continue
    return Wanted(seeds, lines, tuple(joints), frozenset(ablations), tuple(references))


def _lines(recipe: Mapping[str, Any], fraction: float) -> Iterator[Line]:
    """The rows of Table 1; controls are not among them, not every method has them."""
    yield Line("raw", "raw")
    asked = recipe.get("corrections", []), recipe.get("solvers", []), recipe.get("solvers_of", {})
    for name, solver in ways(*asked):
        for how in recipe.get("transfer", []):
            yield Line("bound" if how == "oracle" else "transfer", name, solver, str(how))
        if recipe.get("own_bound") and fraction == 1.0:
            yield Line("bound", name, solver, "own")

"""What the recipes asked for, so that a report can show what is not there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from math import prod
from typing import Any

from transil.errors import TransilError
from transil.experiment.results import Asked
from transil.experiment.ways import ways
from transil.report.names import Line

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


def wanted_by(facts: Iterable[dict[str, Any]]) -> Wanted:
    """What several results should hold."""
    seeds: dict[Place, tuple[int, ...]] = {}
    lines: dict[Place, tuple[Line, ...]] = {}
    joints: dict[tuple[str, int], None] = {}
    ablations: set[Place] = set()
    references: dict[str, None] = {}
    for one in facts:
        asked = Asked.of(one)
        _check_size(asked)
        rows = {whole: tuple(_lines(asked, whole)) for whole in (True, False)}
        # As the recipes' files have it: methods stand in order whatever the order of states.
        for fraction, target, method, states in product(
            asked.train_fraction, asked.targets, asked.methods, sorted(asked.states)
        ):
            place = (target, method, states, fraction)
            seeds[place] = tuple(dict.fromkeys([*seeds.get(place, ()), *asked.seeds]))
            known = lines.get(place, ())
            lines[place] = tuple(dict.fromkeys([*known, *rows[fraction == 1.0]]))
            if asked.ablation and "adbic" in asked.corrections and fraction == 1.0:
                ablations.add(place)
        references |= dict.fromkeys(asked.references)
        if asked.joint:
            joints |= dict.fromkeys(product(asked.targets, asked.seeds))
    return Wanted(seeds, lines, tuple(joints), frozenset(ablations), tuple(references))


def _check_size(asked: Asked) -> None:
    """An error where there would be no end of counting; an empty list may be asked for, too."""
    lists = (asked.train_fraction, asked.targets, asked.methods, asked.states, asked.seeds,
             asked.corrections, asked.solvers, asked.transfer)  # fmt: skip
    numbers = prod(max(1, len(values)) for values in lists)
    if numbers > MOST:
        raise TransilError(f"the recipe in these results asks for {numbers:,} numbers; no "
                           "report can show so many")  # fmt: skip


def _lines(asked: Asked, whole: bool) -> Iterator[Line]:
    """The rows of Table 1; controls are not among them, not every method has them."""
    yield Line("raw", "raw")
    for name, solver in ways(asked.corrections, asked.solvers, asked.solvers_of):
        for how in asked.transfer:
            yield Line("bound" if how == "oracle" else "transfer", name, solver, how)
        if asked.own_bound and whole:
            yield Line("bound", name, solver, "own")

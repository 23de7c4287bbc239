"""The results of one or several experiments, merged and put in order for tables and figures."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from transil.errors import TransilError
from transil.experiment.results import Asked
from transil.report.names import KINDS, RANKS, Line
from transil.report.texts import cleaned
from transil.report.wanted import Place, wanted_by

if TYPE_CHECKING:
    from transil.experiment.results import (
        Ablation,
        Adapted,
        Cell,
        Choice,
        Detail,
        Failure,
        Joint,
        Pairs,
        Results,
        Single,
    )

K = TypeVar("K")
T = TypeVar("T")
# A table of more numbers than this helps nobody, and makes a page of 100 MB.
MOST, MOST_TABLES = 100_000, 50


@dataclass(frozen=True)
class Summary:
    """The cells of one line at one place, over the seeds; shares between 0 and 1.

    The interval is the mean of the seeds' intervals, as it would be if test images moved them all
    alike, which they nearly do, being the same. It knows nothing of seeds: those are in `std`, and
    what is `surely` so must be so with each of them.
    """

    cells: tuple[Cell, ...]

    @property
    def average(self) -> float:
        return statistics.fmean(c.average for c in self.cells)

    @property
    def std(self) -> float | None:
        """Over seeds; None where there is only one."""
        return deviation([c.average for c in self.cells])

    @property
    def gain(self) -> float | None:
        return mean_or_none([c.gain for c in self.cells])

    @property
    def low(self) -> float | None:
        return mean_or_none([c.low for c in self.cells])

    @property
    def high(self) -> float | None:
        return mean_or_none([c.high for c in self.cells])

    @property
    def surely_better(self) -> bool:
        """Whether the interval of every seed is above zero."""
        return all(c.low is not None and c.low > 0 for c in self.cells)

    @property
    def surely_worse(self) -> bool:
        """Whether the interval of every seed is below zero."""
        return all(c.high is not None and c.high < 0 for c in self.cells)

    @property
    def accuracy(self) -> list[float]:
        """Of each state, mean over seeds."""
        return [statistics.fmean(v) for v in zip(*(c.accuracy for c in self.cells), strict=False)]


@dataclass(frozen=True)
class Missing:
    """Settings that were asked for and are not there."""

    target: str
    method: str
    fraction: float
    seeds: tuple[int, ...]
    lines: tuple[Line, ...]  # those that are missing; none: all of them are
    states: list[int]


class Study:
    """One view of everything; where two results hold the same cell, the later one's is taken."""

    def __init__(self, results: Sequence[Results]) -> None:
        self.results = tuple(cleaned(r) for r in results)
        if not any(_content(r) for r in self.results):
            named = ", ".join(r.name for r in self.results)
            raise TransilError(f"no results to report{f' in {named}' if named else ''}; "
                               "run the experiment first")  # fmt: skip
        firsts = {Asked.of(r.facts).first_classes for r in self.results}
        if len(firsts) > 1:
            raise TransilError(
                "these results have first groups of other sizes (first_classes); report them apart"
            )
        # The paper has equal groups: its numbers stand beside such alone.
        self.first_classes: int | None = firsts.pop()

        def merged(part: str, key: Callable[[Any], Any]) -> list[Any]:
            return list({key(x): x for r in self.results for x in getattr(r, part)}.values())

        self.details: list[Detail] = merged("details", _key_of_detail)
        self.cells: list[Cell] = merged("cells", lambda c: (c.setting, line_of(c)))
        self.pairs: list[Pairs] = merged(
            "pairs", lambda p: (p.method, p.states, p.seed, p.correction, p.solver)
        )
        self.ablations: list[Ablation] = merged(
            "ablations", lambda a: (a.setting, a.correction, a.solver)
        )
        self.singles: list[Single] = merged(
            "singles", lambda s: (s.setting, s.correction, s.solver, s.reference)
        )
        self.joints: list[Joint] = merged("joints", lambda j: (j.target, j.seed))
        self.choices: list[Choice] = merged(
            "choices", lambda c: (c.method, c.states, c.seed, c.correction, c.candidate)
        )
        self.traffic: list[Adapted] = merged(
            "traffic", lambda a: (a.setting, a.tail, a.draw, a.kind, a.name)
        )
        self.failures: list[Failure] = merged("failures", lambda f: (f.what, f.reason))
        self._index()

    def _index(self) -> None:
        settings = [c.setting for c in self.cells]
        others = [x.setting for group in (self.ablations, self.singles, self.traffic)
                  for x in group]  # fmt: skip
        everything = settings + others
        self.wanted = wanted_by(r.facts for r in self.results)
        targets = unique([s.target for s in everything] + [j.target for j in self.joints])
        # The recipe's order, whatever was finished first.
        self.targets = in_order_of(self.wanted.targets, targets)
        methods = unique(s.method for s in everything)
        self.methods = in_order_of(self.wanted.methods, methods)
        self.states = sorted({s.states for s in everything})
        self.fractions = sorted({s.fraction for s in everything}, reverse=True)
        self.seeds = sorted({s.seed for s in everything})
        used = unique(c.solver for c in self.cells if c.solver)
        told = [s for r in self.results for s in as_list(r.facts.get("solvers"))]
        self.solvers = unique([s for s in told if s in used] + used)  # the recipe's order
        self.references = unique(
            [name for c in self.cells if c.transfer != "own" for name in c.references]
            + [s.reference for s in self.singles]
        )
        found: dict[tuple[Place, Line], list[Cell]] = {}
        for c in self.cells:
            found.setdefault((place_of(c.setting), line_of(c)), []).append(c)
        self._summaries = {
            key: Summary(tuple(sorted(group, key=lambda c: c.setting.seed)))
            for key, group in found.items()
        }
        self._details = {_key_of_detail(d): d for d in self.details}
        self._lines = grouped((place, line) for place, line in self._summaries)
        self._rows = grouped(((p[3], p[1]), line) for p, line in self._summaries)
        self.ablations_of = grouped((a.setting.method, a) for a in self.ablations)
        self._check_size()

    def _check_size(self) -> None:
        """An error where no table could show it all."""
        if len(self.table_fractions) > MOST_TABLES:
            raise TransilError(f"results with {len(self.table_fractions):,} different shares of "
                               "training images; report parts of them")  # fmt: skip
        for fraction in self.table_fractions:
            methods, columns = len(self.table_methods), len(self.table_columns(fraction))
            check_size(methods, columns, "methods", "pairs of a target and a number of states")

    def lines(self, fraction: float | None = None) -> list[Line]:
        """All lines in the order of the paper's rows."""
        return self.in_order(
            unique(line for place, line in self._summaries if fraction in (None, place[3]))
        )

    def in_order(self, lines: Iterable[Line]) -> list[Line]:
        """Lines in the order of the paper's rows."""
        order = {name: i for i, name in enumerate(self.table_solvers)}
        return sorted(
            lines,
            key=lambda x: (
                KINDS.index(x.kind) if x.kind in KINDS else len(KINDS),
                x.transfer != "oracle" if x.kind == "bound" else 0,
                RANKS.get(x.name, 1),
                order.get(x.solver or "", -1),
            ),
        )

    def get(self, place: Place, line: Line) -> Summary | None:
        """What is known of a line at a place."""
        return self._summaries.get((place, line))

    def raw(self, place: Place, seeds: Iterable[int] | None = None) -> Summary | None:
        """The uncorrected model; of some seeds only, to compare with what only those have."""
        found = next((self.get(place, x) for x in self.lines_at(place) if x.kind == "raw"), None)
        if found is None or seeds is None:
            return found
        wanted = set(seeds)
        cells = tuple(c for c in found.cells if c.setting.seed in wanted)
        return Summary(cells) if cells else None

    def lines_at(self, place: Place) -> list[Line]:
        """The lines that a place has."""
        return self._lines.get(place, [])

    def newest_and_earlier(self, cell: Cell) -> tuple[float, float] | None:
        """Accuracy of a state's newest group and of those before, means over states 2..S."""
        d = self._details.get(_key_of_detail(cell))
        rows = [r for r in (d.group_accuracy[1:] if d else []) if len(r) > 1]
        newest = mean_or_none(row[-1] for row in rows)
        earlier = mean_or_none(mean_or_none(row[:-1]) for row in rows)
        return None if newest is None or earlier is None else (newest, earlier)

    @cached_property
    def main(self) -> Line | None:
        """The line that headlines and figures are about: adBiC, mean, the first solver."""
        lines = [x for x in self.lines() if x.kind == "transfer"]
        solver = self.solvers[0] if self.solvers else None
        tests = (("name", "adbic"), ("transfer", "mean"), ("solver", solver))
        for attribute, wanted in tests:
            lines = [x for x in lines if getattr(x, attribute) == wanted] or lines
        return lines[0] if lines else None

    def columns(self, fraction: float) -> list[tuple[str, int]]:
        """Targets and numbers of states that have a cell at this fraction."""
        there = {(c.setting.target, c.setting.states) for c in self.cells
                 if c.setting.fraction == fraction}  # fmt: skip
        return self.ordered(there, self.targets)

    def ordered(
        self, there: Iterable[tuple[str, int]], targets: Sequence[str]
    ) -> list[tuple[str, int]]:
        """Pairs of a target and a number of states, in the order of targets."""
        order = {target: i for i, target in enumerate(targets)}
        return sorted(there, key=lambda pair: (order[pair[0]], pair[1]))

    # What a table shows: all that was found, and all that the recipes asked for.

    @cached_property
    def table_fractions(self) -> list[float]:
        return sorted({*self.fractions, *self.wanted.fractions}, reverse=True)

    @cached_property
    def table_methods(self) -> list[str]:
        return unique(self.wanted.methods + self.methods)

    def table_columns(self, fraction: float) -> list[tuple[str, int]]:
        """Targets and numbers of states."""
        there = set(self.columns(fraction))
        there |= {(t, s) for t, _, s, f in self.wanted.seeds if f == fraction}
        return self.ordered(there, unique(self.wanted.targets + self.targets))

    def table_lines(self, fraction: float, method: str) -> list[Line]:
        """The rows of one method."""
        found = self._rows.get((fraction, method), [])
        return self.in_order(unique(found + self.wanted.lines_of(fraction, method)))

    @cached_property
    def table_solvers(self) -> list[str]:
        wanted = [x.solver for lines in self.wanted.lines.values() for x in lines if x.solver]
        return unique(self.solvers + wanted)

    def missing(self) -> list[Missing]:
        """What the recipes asked for and is not there; numbers of states stand together."""
        there = {(place_of(c.setting), c.setting.seed, line_of(c)) for c in self.cells}
        found: dict[tuple[str, str, float, tuple[int, ...], tuple[Line, ...]], list[int]] = {}
        for place, seeds in self.wanted.seeds.items():
            target, method, states, fraction = place
            lines = self.wanted.lines[place]
            lost: dict[tuple[Line, ...], list[int]] = {}
            for seed in seeds:
                gone = tuple(x for x in lines if (place, seed, x) not in there)
                if gone:
                    lost.setdefault(gone if len(gone) < len(lines) else (), []).append(seed)
            for gone, of in lost.items():
                found.setdefault((target, method, fraction, tuple(of), gone), []).append(states)
        return [Missing(t, m, f, seeds, gone, states)
                for (t, m, f, seeds, gone), states in found.items()]  # fmt: skip

    def missing_joints(self) -> list[tuple[str, int]]:
        """Targets and seeds without the model that learned all classes at once."""
        there = {(j.target, j.seed) for j in self.joints}
        return [x for x in self.wanted.joints if x not in there]

    def labels(self) -> list[str]:
        """What tells the results apart: their names, and the seeds of those of one name."""
        found = []
        for r in self.results:
            seeds = ", ".join(str(seed) for seed in sorted({c.setting.seed for c in r.cells}))
            alone = sum(other.name == r.name for other in self.results) == 1
            found.append(r.name if alone or not seeds else f"{r.name}, seed {seeds}")
        return found

    def limits(self) -> list[str]:
        """What the experiments say about their own limits."""
        return unique(str(x) for r in self.results for x in as_list(r.facts.get("limits")))


def _key_of_detail(x: Cell | Detail) -> tuple[Any, ...]:
    """What a cell and its detail have in common."""
    return (x.setting, x.name, x.solver, x.transfer)


def line_of(cell: Cell) -> Line:
    """The row that a cell belongs to."""
    return Line(cell.kind, cell.name, cell.solver, cell.transfer)


def place_of(setting: Any) -> Place:
    """A setting without its seed."""
    return (setting.target, setting.method, setting.states, setting.fraction)


def unique(items: Iterable[T]) -> list[T]:
    """Each item once, in the order of its first appearance."""
    return list(dict.fromkeys(items))


def check_size(rows: int, columns: int, row: str = "rows", column: str = "columns") -> None:
    """An error where a table would be too large; for asking before it is made."""
    if rows * columns > MOST:
        raise TransilError(
            f"{rows:,} {row} and {columns:,} {column} do not fit into a table; "
            "report parts of the results"
        )


def in_order_of(first: Iterable[T], items: Sequence[T]) -> list[T]:
    """Items, those that stand in `first` at the beginning and in its order."""
    there = set(items)
    return unique([x for x in first if x in there] + list(items))


def grouped(pairs: Iterable[tuple[K, T]]) -> dict[K, list[T]]:
    """The values of each key, in the order of their first appearance."""
    found: dict[K, list[T]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def as_list(value: Any) -> list[Any]:
    """Facts may hold one thing, several or none."""
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]


def mean_or_none(values: Iterable[float | None]) -> float | None:
    """The mean of those that are known."""
    known = [v for v in values if v is not None]
    return statistics.fmean(known) if known else None


def deviation(values: Sequence[float]) -> float | None:
    """The sample's standard deviation; None of a single value."""
    return statistics.stdev(values) if len(values) > 1 else None


def _content(results: Results) -> bool:
    return bool(
        results.cells or results.pairs or results.ablations or results.singles
        or results.traffic or results.joints or results.failures
    )  # fmt: skip

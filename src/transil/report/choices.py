"""Which solver and penalty transfer best, judged by references that were left out."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING

from transil.report import names
from transil.report.rendering import notes
from transil.report.study import Study, check_size, grouped, unique
from transil.report.tables import MISSING, Entry, Row, Table

if TYPE_CHECKING:
    from transil.experiment.results import Choice


def choice_table(study: Study) -> Table | None:
    """One row per method and candidate, for the main correction; the main solver for others."""
    if study.main is None:
        return None
    name, solver = study.main.name, study.main.solver
    choices = [
        c for c in study.choices if c.left_out and (c.correction == name or c.candidate == solver)
    ]
    if not any(c.correction == name for c in choices):
        return None
    states = sorted({c.states for c in choices})
    targets = unique(t for c in choices for t in c.targets)
    check_size(len(unique((c.method, c.correction, c.candidate) for c in choices)),
               (1 + len(targets)) * len(states))  # fmt: skip
    columns = [("left out", s) for s in states] + [(t, s) for t in targets for s in states]
    rows: list[Row] = []
    of = grouped((c.method, c) for c in choices)
    for method in study.table_methods:
        block = []
        ways = grouped(((c.correction, c.candidate), c) for c in of.get(method, ()))
        for way, found in sorted(ways.items(), key=lambda item: item[0][0] != name):
            entries = [_entry(study, [c for c in found if c.states == s], t) for t, s in columns]
            label = candidate_name(way[1])
            if way[0] != name:
                label = f"{names.correction(way[0])} ({label})"
            block.append(Row(names.method(method), label, tuple(entries)))
        own = sum(way[0] == name for way in ways)
        rows += [*_marked(block[:own], len(states)), *block[own:]]
    heads = [("references, left out" if t == "left out" else names.target(t), f"S = {s}")
             for t, s in columns]  # fmt: skip
    title = f"Solver and penalty of {names.correction(name)}, and other corrections: which transfer best"
    return Table(
        "solvers", title, "method, solver", tuple(heads), tuple(rows), notes("choice_notes")
    )


def candidate_name(text: str) -> str:
    """A candidate of a recipe for people: 'newton:0.001' is 'newton, penalty 0.001'."""
    solver, _, penalty = text.partition(":")
    return f"{solver}, penalty {penalty.replace(',', ' and ')}" if penalty else solver


def _entry(study: Study, found: list[Choice], target: str) -> Entry:
    if target == "left out":
        values = [fmean(c.left_out.values()) for c in found]
        raws = [fmean(c.raw.values()) for c in found]
    else:
        found = [c for c in found if target in c.targets]
        values = [c.targets[target] for c in found]
        cells = [study.raw((target, c.method, c.states, 1.0), [c.seed]) for c in found]
        raws = [cell.average for cell in cells if cell is not None]
    if not values:
        return MISSING
    gain = 100 * (fmean(values) - fmean(raws)) if len(raws) == len(values) else None
    return Entry(100 * fmean(values), gain=gain)


def _marked(block: list[Row], judged: int) -> list[Row]:
    """The best of each of the first `judged` columns in bold; targets have no say."""
    best = [max((row.entries[i].value or 0.0 for row in block), default=0.0) for i in range(judged)]
    return [
        replace(
            row,
            entries=tuple(
                replace(e, best=i < judged and e.value == best[i])
                for i, e in enumerate(row.entries)
            ),
        )
        for row in block
    ]

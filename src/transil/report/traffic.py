"""Simulated traffic: accuracy of each prior where some classes come more often."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING

from transil.report import names
from transil.report.rendering import notes
from transil.report.study import Study, check_size, deviation, grouped, place_of, unique
from transil.report.tables import MISSING, Entry, Row, Source, Table
from transil.report.wanted import Place

if TYPE_CHECKING:
    from transil.experiment.results import Adapted

HEADS = {
    "raw": "",
    "control": "controls",
    "bank": "",
    "prior": "bank and prior",
    "bound": "bound",
}
KINDS = tuple(HEADS)


def traffic_table(study: Study) -> Table | None:
    """One row per model and tail, one column per way to correct."""
    rows_of = grouped(((place_of(a.setting), a.tail), a) for a in study.traffic)
    columns = traffic_columns(study.traffic)
    if not columns:
        return None
    check_size(len(rows_of), len(columns))
    order = {target: i for i, target in enumerate(study.targets)}
    rows = []
    for method in study.table_methods:
        keys = [key for key in rows_of if key[0][1] == method]
        for place, tail in sorted(keys, key=lambda k: (k[0][2], order[k[0][0]], -k[0][3], k[1])):
            found = grouped(((a.kind, a.name), a) for a in rows_of[place, tail])
            entries = _marked([_entry(study, place, found.get(c, [])) for c in columns], columns)
            rows.append(Row(names.method(method), _label(place, tail), entries))
    first = study.traffic[0]
    short = sorted({a.setting.states for a in study.traffic if a.short})
    return Table(
        "traffic",
        "Traffic: what a prior adds where some classes come more often",
        "method, target",
        tuple((HEADS[kind], way_label(kind, name)) for kind, name in columns),
        tuple(rows),
        notes(
            "traffic_notes",
            correction=names.correction(first.correction),
            solver=first.solver,
            draws=names.count(len({a.draw for a in study.traffic}), "draw"),
            short=names.listed([str(s) for s in short]) if short else "",
        ),
    )


def traffic_columns(rows: Iterable[Adapted]) -> list[tuple[str, str]]:
    """Kind and name of each way: raw, controls, the bank, priors, the oracle."""
    found = unique((a.kind, a.name) for a in rows if a.kind in HEADS)
    return sorted(found, key=lambda way: KINDS.index(way[0]))


def way_label(kind: str, name: str) -> str:
    """A way as a heading says it."""
    if kind != "prior":
        return name
    words = {"ledger": "ledger", "newest": "newest's share known"}
    prior, *more = name.split("+")
    return ", ".join([prior, *(words.get(word, word) for word in more)])


def tail_label(tail: float) -> str:
    """A tail for people."""
    return f"{tail:g}:1"


def _label(place: Place, tail: float) -> str:
    target, _, states, fraction = place
    share = f", {fraction:.0%} of the images" if fraction != 1.0 else ""
    return f"{names.target(target)}, S = {states}{share}, {tail_label(tail)}"


def _entry(study: Study, place: Place, found: Sequence[Adapted]) -> Entry:
    """The mean over draws and seeds; the deviation is over seeds."""
    if not found:
        return MISSING
    by_seed = grouped((a.setting.seed, 100 * a.average) for a in found)
    means = [fmean(values) for values in by_seed.values()]
    raw = study.raw(place, by_seed)
    made = Entry(
        fmean(means),
        deviation(means),
        sources=tuple(Source(c.setting.seed, c.run) for c in raw.cells) if raw else (),
    )
    if found[0].kind == "raw":
        return made
    gain, low, high = (100 * fmean(a.over_raw[i] for a in found) for i in range(3))
    return replace(made, gain=gain, low=low, high=high)


def _marked(entries: Sequence[Entry], columns: Sequence[tuple[str, str]]) -> tuple[Entry, ...]:
    """The best of a row in bold; who knows the frequencies, or labels, may not win."""
    values = [
        round(e.value, 1)
        if e.value is not None and kind != "bound" and "known" not in name
        else None
        for e, (kind, name) in zip(entries, columns, strict=True)
    ]
    best = max((v for v in values if v is not None), default=None)
    return tuple(
        replace(e, best=v is not None and v == best) for e, v in zip(entries, values, strict=True)
    )

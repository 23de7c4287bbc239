"""The other tables: the number of references, and the transfer matrix."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING

from transil.report import names, paper
from transil.report.rendering import notes
from transil.report.study import Study, check_size, grouped, place_of, unique
from transil.report.tables import MISSING, Entry, Row, Source, Table, differences, summary_entry
from transil.report.wanted import Place

if TYPE_CHECKING:
    from transil.experiment.results import Ablation, Single


def ablation_table(study: Study) -> Table | None:
    """The paper's Table 3: average accuracy with R references."""
    if not study.ablations:
        return None
    counts = sorted({n for a in study.ablations for n in a.counts})
    check_size(len(study.ablations), len(counts))
    missing = _missing_ablations(study)
    rows = []
    several = len(unique((a.correction, a.solver) for a in study.ablations)) > 1
    for method in study.table_methods:
        mine: list[tuple[Place, Row]] = []
        for group in ablation_groups(study, method):
            first = group[0]
            target, _, states, fraction = place = place_of(first.setting)
            label = f"{names.target(target)}, S = {states}"
            label += f", {fraction:.0%} of the images" if fraction != 1.0 else ""
            label += f", {names.correction(first.correction)} ({first.solver})" if several else ""
            raw = study.raw(place, [a.setting.seed for a in group])
            sources = tuple(Source(c.setting.seed, c.run) for c in raw.cells) if raw else ()
            entries = [summary_entry(raw) if raw else MISSING]
            for n in counts:
                means = [100 * a.mean[a.counts.index(n)] for a in group if n in a.counts]
                stds = [100 * a.std[a.counts.index(n)] for a in group if n in a.counts]
                draws = [a.draws[a.counts.index(n)] for a in group if n in a.counts]
                known = None
                if first.correction == "adbic" and (fraction, study.first_classes) == (1.0, None):
                    known = paper.with_references(method, target, states, n)
                entries.append(
                    MISSING
                    if not means
                    else Entry(
                        fmean(means),
                        fmean(stds) if max(draws) > 1 else None,
                        gain=fmean(means) - 100 * raw.average if raw else None,
                        paper=known[0] if known else None,
                        paper_std=known[1] if known else None,
                        sources=sources,
                    )
                )
            mine.append((place, Row(names.method(method), label, tuple(entries), "ablation")))
        for place in missing.get(method, ()):
            label = f"{names.target(place[0])}, S = {place[2]}"
            gone = (MISSING,) * (1 + len(counts))
            mine.append((place, Row(names.method(method), label, gone, "ablation")))
        targets = unique([*study.targets, *(place[0] for place, _ in mine)])
        order = {target: i for i, target in enumerate(targets)}
        mine.sort(key=lambda item: (order[item[0][0]], item[0][2]))
        rows += [row for _, row in mine]
    draws = sorted({n for a in study.ablations for n in a.draws})
    most = f"up to {draws[-1]}" if len(draws) > 1 else str(draws[0]) if draws else "0"
    entries = [e for row in rows for e in row.entries]
    paper_notes = differences(study) if any(e.paper is not None for e in entries) else ""
    return Table(
        "table-3",
        "Table 3: how many references are needed",
        "method, target",
        (("", "raw"), *(("references", f"R = {n}") for n in counts)),
        tuple(rows),
        notes("ablation_notes", draws=most, missing=MISSING in entries, paper=paper_notes),
    )


def _missing_ablations(study: Study) -> dict[str, list[Place]]:
    """Where the recipes asked for it and there is none, for each method."""
    gone = study.wanted.ablations - {place_of(a.setting) for a in study.ablations}
    return grouped((place[1], place) for place in study.wanted.seeds if place in gone)


def ablation_groups(study: Study, method: str) -> list[list[Ablation]]:
    """The ablations of one method: one group per target, S, fraction and fit, over seeds."""
    groups = grouped(((place_of(a.setting), a.correction, a.solver), a)
                     for a in study.ablations_of.get(method, ()))  # fmt: skip
    targets = {target: i for i, target in enumerate(study.targets)}
    order = sorted(groups, key=lambda k: (targets[k[0][0]], k[0][2], -k[0][3]))
    return [sorted(groups[k], key=lambda a: a.setting.seed) for k in order]


def matrix_table(study: Study) -> Table | None:
    """One reference alone on one target: the accuracy and what it gains."""
    singles = main_singles(study)
    if not singles:
        return None
    wanted = study.wanted
    there = {(k[1], k[3]) for k in singles} | {(t, s) for t, _, s, f in wanted.seeds if f == 1.0}
    columns = study.ordered(there, unique(wanted.targets + study.targets))
    shown = {*wanted.references, *(k[0] for k in singles)}
    references = [x for x in unique([*wanted.references, *study.references]) if x in shown]
    check_size(len(study.table_methods) * len(references), len(columns))
    rows = []
    for method in study.table_methods:
        for reference in references:
            found = [singles.get((reference, t, method, s), MISSING) for t, s in columns]
            asked = method in wanted.methods and reference in wanted.references
            if asked or any(e.value is not None for e in found):
                rows.append(Row(names.method(method), names.target(reference), tuple(found)))
    main = study.main
    return Table(
        "transfer-matrix",
        "Transfer matrix: one reference alone",
        "method, reference",
        tuple((names.target(t), f"S = {s}") for t, s in columns),
        tuple(rows),
        notes("matrix_notes", what=names.correction(main.name) if main else "the correction"),
    )


def main_singles(study: Study) -> dict[tuple[str, str, str, int], Entry]:
    """(reference, target, method, S) to numbers: the main correction, all training images."""
    pairs = unique((s.correction, s.solver) for s in study.singles)
    if not pairs:
        return {}
    main = study.main
    wanted = (main.name, main.solver) if main else pairs[0]
    pair = wanted if wanted in pairs else pairs[0]
    fraction = max(s.setting.fraction for s in study.singles)
    found: dict[tuple[str, str, str, int], list[Single]] = {}
    for s in study.singles:
        if (s.correction, s.solver) == pair and s.setting.fraction == fraction:
            key = (s.reference, s.setting.target, s.setting.method, s.setting.states)
            found.setdefault(key, []).append(s)
    entries = {}
    for key, group in found.items():
        raw = study.raw(place_of(group[0].setting), [s.setting.seed for s in group])
        entries[key] = Entry(
            100 * fmean(s.average for s in group),
            gain=100 * fmean(s.gain for s in group),
            sources=tuple(Source(c.setting.seed, c.run) for c in raw.cells) if raw else (),
        )
    return entries

"""Tables as plain data: what stands where, whatever it is written as."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from statistics import fmean
from typing import Any

from transil.report import names, paper
from transil.report.names import Line
from transil.report.rendering import notes
from transil.report.study import Study, Summary, as_list, check_size, deviation
from transil.report.wanted import Place


@dataclass(frozen=True)
class Source:
    """Where a number came from."""

    seed: int
    run: str
    bank: str | None = None


@dataclass(frozen=True)
class Entry:
    """One number (all in %, gains in points) with what belongs to it; or a text."""

    value: float | None = None
    std: float | None = None
    gain: float | None = None
    low: float | None = None
    high: float | None = None
    paper: float | None = None
    paper_std: float | None = None
    best: bool = False  # of its block in its column
    top: bool = False  # of the whole column
    text: str | None = None
    sources: tuple[Source, ...] = ()

    @property
    def sure(self) -> bool:
        """Whether the interval of the gain leaves out zero (or none is known)."""
        if self.low is None or self.high is None:
            return True
        return self.low > 0 or self.high < 0


MISSING = Entry()
# A table with more rows than this is shown in two parts.
LONG = 24
# One with more columns is cut, where it cannot scroll.
WIDE = 4


@dataclass(frozen=True)
class Row:
    """Entries of one line; rows of one block stand together."""

    block: str
    label: str
    entries: tuple[Entry, ...]
    kind: str = ""
    further: bool = False  # not what one looks at first
    best: bool = False  # of its block, on average over the columns that all of it has

    @property
    def name(self) -> str:
        """Its full name, with that of the block."""
        between = " " if self.label.startswith("+") or not self.label else ", "
        return f"{self.block}{between}{self.label}".strip()


@dataclass(frozen=True)
class Table:
    """A table with two levels of column headings; `stub` heads the rows."""

    name: str
    title: str
    stub: str
    columns: tuple[tuple[str, str], ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    def groups(self) -> Iterator[tuple[str, int]]:
        """The upper headings and how many columns each spans."""
        for name, columns in groupby(self.columns, lambda column: column[0]):
            yield name, len(list(columns))

    def blocks(self) -> Iterator[tuple[str, list[Row]]]:
        """Rows that stand together."""
        for name, rows in groupby(self.rows, lambda row: row.block):
            yield name, list(rows)

    def pieces(self) -> Iterator[tuple[str, str, Table]]:
        """A wide table cut between its upper headings: what stands above, what is told, a piece."""
        groups = list(self.groups())
        alone = groups[0][0] if len(groups) == 1 else ""
        if len(self.columns) <= WIDE or len(groups) == 1 or not all(name for name, _ in groups):
            yield "", alone, self
            return
        start = 0
        for name, count in groups:
            part = slice(start, start + count)
            rows = tuple(replace(row, entries=row.entries[part]) for row in self.rows)
            yield name, name, replace(self, columns=self.columns[part], rows=rows)
            start += count

    def parts(self) -> tuple[Table, Table | None]:
        """What one looks at first, and further rows where the table is long."""
        first = tuple(row for row in self.rows if not row.further)
        if len(self.rows) <= LONG or len(first) in (0, len(self.rows)):
            return self, None
        rest = tuple(row for row in self.rows if row.further)
        notes = (*self.notes, "Bold and star compare with the further rows, too.")
        return replace(self, rows=first, notes=notes), replace(self, rows=rest, notes=())


def accuracy_table(study: Study, fraction: float) -> Table:
    """The paper's Table 1 (all training images) or 2 (a share of them)."""
    columns = study.table_columns(fraction)
    several = len(study.table_solvers) > 1
    rows: list[Row] = []
    found = {method: study.table_lines(fraction, method) for method in study.table_methods}
    check_size(sum(map(len, found.values())), len(columns))
    for method, lines in found.items():
        block = [
            Row(
                names.method(method),
                "" if line.kind == "raw" else f"+ {line.label(several)}",
                tuple(_entry(study, (t, method, s, fraction), line) for t, s in columns),
                line.kind,
                line.kind == "bound" or line.solver not in (None, *study.table_solvers[:1]),
            )
            for line in lines
        ]
        rows += crowned(mark(block, "best"))
    rows = mark(rows, "top")
    joint = _joint_row(study, columns) if fraction == 1.0 else None
    rows += [joint] if joint else []
    share = "all training images" if fraction == 1.0 else f"{fraction:.0%} of the training images"
    told = f"{fraction:g}" if float(f"{fraction:g}") == fraction else repr(fraction)
    number = {1.0: "1", 0.5: "2"}.get(fraction, f"2, {told}")
    return Table(
        name=f"table-{number.replace(', ', '-').replace('.', '_')}",
        title=f"Table {number}: average accuracy with {share}",
        stub="method",
        columns=tuple((names.target(t), f"S = {s}") for t, s in columns),
        rows=tuple(rows),
        notes=(*_notes(study, rows, fraction), *_few_seeds(study, fraction)),
    )


def _entry(study: Study, place: Place, line: Line) -> Entry:
    target, method, states, fraction = place
    known = None
    if line.paper_name and study.first_classes is None:
        known = paper.accuracy(method, target, states, fraction, line.paper_name)
    summary = study.get(place, line)
    if summary is None:
        return MISSING  # the paper's number alone would look like one of ours
    return replace(summary_entry(summary), paper=known)


def summary_entry(summary: Summary) -> Entry:
    """Our numbers of one line at one place."""
    return Entry(
        value=100 * summary.average,
        std=percent(summary.std),
        gain=percent(summary.gain),
        low=percent(summary.low),
        high=percent(summary.high),
        sources=tuple(Source(c.setting.seed, c.run, c.bank) for c in summary.cells),
    )


def _joint_row(study: Study, columns: list[tuple[str, int]]) -> Row | None:
    if not study.joints and not study.wanted.joints:
        return None
    entries = []
    for i, (target, _) in enumerate(columns):
        joints = sorted((j for j in study.joints if j.target == target), key=lambda j: j.seed)
        # One model for all S: its number stands once, under the target's first S.
        if not joints or (i and columns[i - 1][0] == target):
            entries.append(MISSING if not joints else Entry(text=""))
            continue
        values = [100 * j.accuracy for j in joints]
        sources = tuple(Source(j.seed, j.run) for j in joints)
        entries.append(
            Entry(fmean(values), deviation(values), paper=paper.joint(target), sources=sources)
        )
    once = len({target for target, _ in columns}) == len(columns)
    return Row("Joint" if once else "Joint (for any S)", "", tuple(entries), "joint")


def mark(rows: list[Row], how: str) -> list[Row]:
    """Set 'best' or 'top' on the highest number of each column; bounds may not win."""
    changed = [list(row.entries) for row in rows]
    for i in range(len(rows[0].entries) if rows else 0):
        # Equal as printed is equal.
        values = {j: round(value, 1) for j, row in enumerate(rows)
                  if row.kind != "bound" and (value := row.entries[i].value) is not None}  # fmt: skip
        for j, value in values.items():
            if len(values) > 1 and value == max(values.values()):
                old = changed[j][i]
                changed[j][i] = replace(old, best=True) if how == "best" else replace(old, top=True)
    return [replace(row, entries=tuple(e)) for row, e in zip(rows, changed, strict=True)]


def crowned(block: list[Row]) -> list[Row]:
    """A block with its best row marked, whichever it is; bounds look at more and may not win."""
    open_to = [
        row
        for row in block
        if row.kind != "bound" and any(e.value is not None for e in row.entries)
    ]
    shared = [i for i in range(len(block[0].entries) if block else 0)
              if all(row.entries[i].value is not None for row in open_to)]  # fmt: skip
    if len(open_to) < 2 or not shared:
        return block
    best = max(
        open_to, key=lambda row: round(fmean(row.entries[i].value or 0.0 for i in shared), 1)
    )
    return [replace(row, best=row is best) for row in block]


def text_table(
    name: str, title: str, heads: Sequence[str], rows: Iterable[Sequence[str]],
    notes: tuple[str, ...] = (),
) -> Table:  # fmt: skip
    """A table of texts; the first column names the rows."""
    made = tuple(Row(first, "", tuple(Entry(text=t) for t in rest)) for first, *rest in rows)
    return Table(name, title, heads[0], tuple(("", head) for head in heads[1:]), made, notes)


def _notes(study: Study, rows: list[Row], fraction: float) -> tuple[str, ...]:
    entries = [e for row in rows for e in row.entries]
    return notes(
        "accuracy_notes", whole=fraction == 1.0, first_classes=study.first_classes,
        own="own validation" in {row.label.split(" (")[0].split(", ")[-1] for row in rows},
        used={names.target(c.setting.target): ", ".join(c.references) for c in study.cells
              if c.kind == "transfer" and c.references and c.setting.fraction == fraction},
        seeds=any(e.std is not None for e in entries),
        paper=differences(study) if any(e.paper is not None for e in entries) else "",
    )  # fmt: skip


def _few_seeds(study: Study, fraction: float) -> Iterator[str]:
    """Means that are not over all seeds of the recipe, in one sentence."""
    told = []
    for (target, method, states, share), seeds in study.wanted.seeds.items():
        summary = study.raw((target, method, states, share))
        there = {c.setting.seed for c in summary.cells} if summary else set()
        if share == fraction and 0 < len(there) < len(seeds):
            told.append(f"{names.method(method)} on {names.target(target)}, S = {states} "
                        f"({len(there)} of {len(seeds)})")  # fmt: skip
    if told:
        yield f"Not all seeds are finished: {'; '.join(told)}."


def differences(study: Study) -> str:
    """One sentence: what the paper did otherwise."""
    told = [str(r.facts["differs"]) for r in study.results if r.facts.get("differs")]
    if told:
        return " ".join(dict.fromkeys(told))
    here = []
    pixels = _facts(study, "pixels")
    if pixels:
        here.append(f"{pixels} pixels")
    counts = sorted({len(c.references) for c in study.cells if c.kind == "transfer"})
    if counts:
        low, high = counts[0], counts[-1]
        here.append(f"{low} to {high} references" if low < high
                    else names.count(low, "reference"))  # fmt: skip
    epochs = _facts(study, "epochs")
    if epochs:
        here.append(f"epochs in a state: {epochs}")
    text = ("The paper's numbers, in small print, are of ResNet-18 at 224 pixels with ten "
            "references of 100 ImageNet classes each and its full training times")  # fmt: skip
    return f"{text}; here: {', '.join(here)}." if here else f"{text}; ours may differ in each."


def _facts(study: Study, key: str) -> str:
    found: list[Any] = []
    for r in study.results:
        value = r.facts.get(key)
        if isinstance(value, dict):
            found += [f"{names.method(str(k))} {v}" for k, v in value.items()]
        else:
            found += as_list(value)
    return ", ".join(dict.fromkeys(str(x) for x in found))


def percent(share: float | None) -> float | None:
    """A share as a percentage."""
    return None if share is None else 100 * share

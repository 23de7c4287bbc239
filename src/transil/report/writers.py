"""A table as Markdown, CSV and LaTeX. CSV has one line per entry, with every number there is."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator

from transil.report.rendering import render
from transil.report.tables import Row, Table

CSV_FIELDS = ("block", "row", "kind", "group", "column", "value", "std", "gain", "low", "high",
              "paper", "paper_std", "best", "text", "runs", "banks")  # fmt: skip
# What a spreadsheet would take for a formula: another beginning is text, and so are words, numbers
# and our own '+ adBiC (newton)'.
FORMULA = re.compile(r"[=@\t\r\n]|[+-](?![\w .,()+-]*$)")
# What fits on a page of LaTeX, below its caption.
PAGE_LINES = 34


def to_csv(table: Table) -> str:
    """One line per entry; several runs or banks are put apart by '; '."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(CSV_FIELDS)
    for row in table.rows:
        for (group, column), e in zip(table.columns, row.entries, strict=True):
            numbers = (e.value, e.std, e.gain, e.low, e.high, e.paper, e.paper_std)
            writer.writerow(
                [_cell(x) for x in (row.block, row.label, row.kind, group, column)]
                + ["" if x is None else f"{x:.4f}" for x in numbers]
                + [int(e.best), _cell(e.text or "")]
                + [_cell("; ".join(s.run for s in e.sources))]
                + [_cell("; ".join(s.bank for s in e.sources if s.bank))]
            )
    return file.getvalue()


def _cell(text: str) -> str:
    """A text that no spreadsheet runs: names come from files, which may come from anybody."""
    return f"'{text}" if FORMULA.match(text) else text


def to_markdown(table: Table) -> str:
    """A table for reading, as wide as it has to be."""
    return render("table-file.md", table=table)


def to_tex(table: Table) -> str:
    r"""A table to \input; LaTeX numbers tables itself."""
    spans, start = [], 2
    for name, n in table.groups():
        spans.append((name, start, start + n - 1))
        start += n
    label = re.sub(r"[^a-z0-9-]", "-", table.name.lower())
    return render("table.tex", table=table, title=table.title.split(": ", 1)[-1], label=label,
                  spans=spans, pages=list(_pages(table)))  # fmt: skip


def _pages(table: Table) -> Iterator[list[list[Row]]]:
    """The blocks of each page of LaTeX."""
    page: list[list[Row]] = []
    height = 0
    for _, rows in table.blocks():
        # A row with the paper's numbers has a second line for them.
        lines = len(rows) + sum(any(e.paper is not None for e in row.entries) for row in rows)
        if page and height + lines > PAGE_LINES:
            yield page
            page, height = [], 0
        page.append(rows)
        height += lines
    yield page

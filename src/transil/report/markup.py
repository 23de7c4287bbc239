"""Pieces of HTML: tables, links to runs, facts. Everything that comes from outside is escaped."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape
from typing import Any
from urllib.parse import quote

from transil.report.names import interval, number, signed
from transil.report.tables import Entry, Row, Source, Table
from transil.report.writers import STAR


class Links:
    """Links from numbers to where they came from.

    One source is linked itself; of several a list is kept, which the page shows at its end.
    """

    def __init__(self) -> None:
        self.lists: dict[tuple[Source, ...], tuple[str, str]] = {}

    def path(self, path: str) -> str:
        """A path as a link to a file; a colon in it is no scheme, what begins with // no host."""
        return quote(re.sub("^/+", "/", path), safe="/", errors="replace")

    def number(self, sources: tuple[Source, ...], what: str) -> str | None:
        """Where a number leads: its run, or the list of its runs."""
        if not sources:
            return None
        if len(sources) == 1:
            return self.path(sources[0].run)
        name, _ = self.lists.setdefault(sources, (f"from-{len(self.lists) + 1}", what))
        return f"#{name}"

    def bank(self, sources: tuple[Source, ...]) -> str | None:
        """Where a gain leads: the bank; a list of several is the number's."""
        bank = sources[0].bank if len(sources) == 1 else None
        return self.path(bank) if bank else None

    def render(self) -> str:
        """The lists."""
        items = []
        for sources, (name, what) in self.lists.items():
            runs = "; ".join(
                f'seed {s.seed}: <a href="{self.path(s.run)}">run</a>'
                + (f' <a href="{self.path(s.bank)}">bank</a>' if s.bank else "")
                for s in sources
            )
            items.append(f'<li id="{name}">{escape(what)}: {runs}</li>')
        return f'<ul class="sources">{"".join(items)}</ul>' if items else ""


def table_html(table: Table, links: Links) -> str:
    """A table in a box that scrolls by itself, with its notes."""
    groups = list(table.groups())
    grouped = any(name for name, _ in groups)
    wrap = "" if grouped else ' class="wrap"'
    span = ' rowspan="2"' if grouped else ""
    head = f'<tr><th scope="col" class="stub"{span}>{escape(table.stub)}</th>'
    if grouped:
        cells = "".join(
            f'<th scope="colgroup" colspan="{n}" class="group">{escape(name)}</th>'
            for name, n in groups
        )
        head += f"{cells}</tr><tr>"
    starts = _starts(table) if grouped else set()
    head += "".join(f'<th scope="col"{wrap}>{escape(c)}</th>' for _, c in table.columns) + "</tr>"
    body = []
    for _, rows in table.blocks():
        single = len(rows) == 1 and rows[0].kind != "joint"
        lines = "".join(_row_html(table, row, rows, starts, links) for row in rows)
        body.append(f"<tbody{' class=single' if single else ''}>{lines}</tbody>")
    label = escape(table.title, quote=True)
    notes = "".join(f"<p>{escape(n)}</p>" for n in table.notes)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{label}"><table>'
        f"<thead>{head}</thead>{''.join(body)}</table></div>"
        f'<div class="notes">{notes}</div>'
    )


def _starts(table: Table) -> set[int]:
    """The columns that begin a group."""
    starts, at = set(), 0
    for _, n in table.groups():
        starts.add(at)
        at += n
    return starts


def _row_html(table: Table, row: Row, block: list[Row], starts: set[int], links: Links) -> str:
    """A row; in a block only the first row without a label is named by the block."""
    lead = row is block[0] and bool(row.label) and len(block) > 1
    out = ""
    if lead:  # a block whose rows all have labels gets a heading row of its own
        span = len(row.entries)
        out = (f'<tr><th scope="rowgroup" class="method">{escape(row.block)}</th>'
               f'<td colspan="{span}"></td></tr>')  # fmt: skip
    if len(block) == 1:
        name, kind = row.name, "method"
    else:
        name, kind = (row.label, "under") if row.label else (row.block, "method")
    cells = []
    for i, (column, entry) in enumerate(zip(table.columns, row.entries, strict=True)):
        short = table.title.split(":")[0]  # rows of two tables may have one name
        what = ", ".join(x for x in (short, row.name, *column) if x)
        cells.append(_entry_html(entry, i in starts, links, what))
    style = ' class="bound"' if row.kind == "bound" else ""
    return (f'{out}<tr{style}><th scope="row" class="{kind}">{escape(name)}</th>'
            f"{''.join(cells)}</tr>")  # fmt: skip


def _entry_html(e: Entry, first: bool, links: Links, what: str) -> str:
    kinds = ["first"] if first else []
    if e.text is not None:
        return f"<td{_class([*kinds, 'text'])}>{escape(e.text)}</td>"
    if e.value is None:
        return f"<td{_class([*kinds, 'none'])}>{number(None)}</td>"
    text = _link(links.number(e.sources, what), number(e.value))
    if e.best:
        text = f'<span class="best">{text}</span>'
    if e.top:
        text = f'<span title="best of the column">{STAR}</span> {text}'
    if e.std is not None:
        text += f'<span class="sd"> ±{number(e.std)}</span>'
    if e.gain is not None:
        title = ""
        if e.low is not None and e.high is not None:
            title = f' title="95 % interval {interval(e.low, e.high)}"'
        colour = "" if not e.sure else " up" if e.gain > 0 else " down" if e.gain < 0 else ""
        gain = _link(links.bank(e.sources), signed(e.gain))
        text += f'<span class="g{colour}"{title}>{gain}</span>'
    if e.paper is not None:
        spread = f" ±{number(e.paper_std)}" if e.paper_std is not None else ""
        text += f'<span class="p">paper {number(e.paper)}{spread}</span>'
    return f"<td{_class(kinds)}>{text}</td>"


def _class(kinds: list[str]) -> str:
    return f' class="{" ".join(kinds)}"' if kinds else ""


def _link(href: str | None, text: str) -> str:
    return f'<a href="{escape(href, quote=True)}">{text}</a>' if href else text


def facts_html(value: Any, top: bool = False) -> str:
    """Whatever an experiment says of itself: definition lists, lists, blocks of text."""
    if isinstance(value, Mapping):
        rows = "".join(
            # Below the top, keys may be names of data sets, which stay as they are.
            f"<dt>{escape(_words(k) if top else str(k))}</dt><dd>{facts_html(v)}</dd>"
            for k, v in value.items()
        )
        return f"<dl>{rows}</dl>" if rows else "none"
    if isinstance(value, (list, tuple)):
        if not value:
            return "none"
        if all(isinstance(v, (str, int, float)) and len(str(v)) < 40 for v in value):
            return escape(", ".join(_scalar(v) for v in value))
        if all(isinstance(v, Mapping) for v in value) and len({tuple(v) for v in value}) == 1:
            return _records(list(value))
        return f"<ul>{''.join(f'<li>{facts_html(v)}</li>' for v in value)}</ul>"
    text = _scalar(value)
    return f"<pre>{escape(text.strip(chr(10)))}</pre>" if "\n" in text.strip() else escape(text)


def _records(rows: list[Mapping[str, Any]]) -> str:
    head = "".join(f'<th scope="col">{escape(_words(k))}</th>' for k in rows[0])
    lines = "".join(
        "<tr>" + "".join(f"<td>{facts_html(v)}</td>" for v in row.values()) + "</tr>"
        for row in rows
    )
    return (f'<div class="scroll" tabindex="0"><table><thead><tr>{head}</tr></thead>'
            f"<tbody>{lines}</tbody></table></div>")  # fmt: skip


def _words(key: object) -> str:
    return str(key).replace("_", " ")


def _scalar(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,.6g}" if isinstance(value, float) else str(value)

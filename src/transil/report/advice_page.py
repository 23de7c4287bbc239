"""Advice as one page that stands alone: words, tables and pictures; it asks the network nothing."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from transil.adaptation.advice import Advice
from transil.errors import TransilError
from transil.files import atomic_file
from transil.report.advice_words import Grid, Section, in_short, sections, title
from transil.report.drawing import Picture, inline_svg
from transil.report.figures_advice import advice_pictures
from transil.report.markup import Links, table_html
from transil.report.style import CSS, document
from transil.report.tables import Entry, Row, Table

# Which pictures stand below which section.
BESIDE = {"seen": ("shares", "scores"), "assumptions": ("risk",)}
OWN_CSS = """
.answer{font-size:1.15rem;border-left:4px solid var(--link);padding:.2em 0 .2em .8em;margin:1em 0}
.answer.none{border-color:var(--note-line)}
.pictures{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,400px),1fr));
gap:0 2em;align-items:start}
.pictures figure{margin:1em 0;max-width:540px}
pre{white-space:pre-wrap;overflow-wrap:anywhere;padding-left:2.2em;text-indent:-1.3em}
@media (max-width:640px){table{font-size:.8125rem}th,td{padding:.3em .3em}
thead th.wrap{min-width:0}tbody th,thead th.stub{min-width:2.5em}}
"""


def write_page(advice: Advice, commands: Sequence[str], path: Path, source: str) -> None:
    """Write the page, atomically."""
    text = page(advice, commands, source)
    with atomic_file(path) as file:
        file.write(text.encode("utf-8", "replace"))


def page(advice: Advice, commands: Sequence[str], source: str) -> str:
    """The page; `source` names the file of scores."""
    try:
        pictures, undrawn = {p.name: p for p in advice_pictures(advice)}, ""
    except TransilError as error:  # matplotlib is not there
        pictures, undrawn = {}, f"<p>No pictures: {escape(str(error))}</p>"
    body = ""
    for section in sections(advice, commands):
        shown = [pictures[name] for name in BESIDE.get(section.name, ()) if name in pictures]
        body += _section(section, shown, commands if section.name == "next" else ())
    abstains = " none" if advice.abstained is not None else ""
    heading = f"Advice on {source}"
    content = (
        f"<header><h1>{escape(heading)}</h1><p>{escape(title(advice))}</p>"
        f'<p class="answer{abstains}">{escape(in_short(advice))}</p></header>\n'
        f"<main>\n{body}{undrawn}</main>\n"
        "<footer>Made by transil, from unlabelled scores alone unless it says otherwise.</footer>\n"
    )
    return document(heading, content, css=CSS + OWN_CSS)


def _section(section: Section, pictures: Sequence[Picture], commands: Sequence[str]) -> str:
    lines = "".join(f"<p>{escape(line)}</p>" for line in section.lines)
    grid = "" if section.grid is None else _grid(section.heading, section.grid)
    figures = "".join(map(_figure, pictures))
    if figures:
        figures = f'<div class="pictures">{figures}</div>'
    next_ones = "".join(f'<pre tabindex="0">{escape(command)}</pre>' for command in commands)
    return (
        f'<section aria-labelledby="{section.name}"><h2 id="{section.name}">'
        f"{escape(section.heading)}</h2>{lines}{next_ones}{grid}{figures}</section>\n"
    )


def _grid(heading: str, grid: Grid) -> str:
    rows = tuple(
        Row(first, "", tuple(Entry(text=cell) for cell in cells)) for first, *cells in grid.rows
    )
    columns = tuple(("", head) for head in grid.heads[1:])
    return table_html(Table("", heading, grid.heads[0], columns, rows), Links())


def _figure(picture: Picture) -> str:
    return (
        f'<figure id="fig-{picture.name}"><div class="picture">{inline_svg(picture)}</div>'
        f"<figcaption><strong>{escape(picture.title)}.</strong> {escape(picture.caption)}"
        "</figcaption></figure>\n"
    )

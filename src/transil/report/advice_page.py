"""Advice as one page that stands alone: words, tables and pictures; it asks the network nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from transil._common.files import atomic_file
from transil.adaptation.advice import Advice
from transil.errors import TransilError
from transil.report.advice_words import Section, in_short, sections, title
from transil.report.drawing import inline_groups
from transil.report.figures_advice import advice_pictures
from transil.report.rendering import render
from transil.report.tables import Table, text_table

# Which pictures stand below which section.
BESIDE = {"seen": ("shares", "scores"), "assumptions": ("risk",)}


def write_page(advice: Advice, commands: Sequence[str], path: Path, source: str) -> None:
    """Write the page, atomically."""
    text = page(advice, commands, source)
    with atomic_file(path) as file:
        file.write(text.encode("utf-8", "replace"))


def page(advice: Advice, commands: Sequence[str], source: str) -> str:
    """The page; `source` names the file of scores."""
    undrawn = ""
    try:
        pictures = advice_pictures(advice)
    except TransilError as error:  # matplotlib is not there
        pictures, undrawn = [], str(error)
    return render(
        "advice.html", source=source, title=title(advice), in_short=in_short(advice),
        acts=advice.abstained is None, sections=sections(advice, commands), commands=commands,
        pictures=pictures, undrawn=undrawn, beside=BESIDE, groups=inline_groups, table=_table,
    )  # fmt: skip


def _table(section: Section) -> Table:
    assert section.grid is not None
    return text_table("", section.heading, section.grid.heads, section.grid.rows)

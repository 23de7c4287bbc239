"""`reading.md`: what somebody makes of the results, by hand, in Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from transil._common.files import read_bytes
from transil.errors import missing
from transil.report.texts import printable

FILE = "reading.md"
# Bytes: hundreds of pages, some seconds to read.
MOST = 1 << 20
# What may stand in a link: pages of the web, and places beside or in the page.
LINK = re.compile(r"https?://\S+|(?!//)[\w./#][^:\s]*")


def read_reading(folder: str | Path) -> str:
    """The reading in a results folder; empty where there is none."""
    path = Path(folder) / FILE
    if not path.exists():
        return ""
    return printable(read_bytes(path, MOST).decode("utf-8", "replace")).strip()


def joined(readings: Sequence[str], titles: Sequence[str]) -> str:
    """All readings in one text, each under its experiment's name where there are several."""
    there = [(text, title) for text, title in zip(readings, titles, strict=False) if text]
    if len(set(titles)) < 2:
        return "\n\n".join(text for text, _ in there)
    return "\n\n".join(f"### {title}\n\n{text}" for text, title in there)


def to_html(text: str) -> str:
    """Markdown as HTML: tags stay text, links lead to pages, headings stand below the page's own."""
    if not text:
        return ""
    try:
        from markdown_it import MarkdownIt
    except ModuleNotFoundError:
        raise missing("a reading in a report needs", "markdown-it-py") from None
    reader = MarkdownIt("commonmark", {"html": False}).disable("image")
    reader.validateLink = lambda url: LINK.fullmatch(url) is not None  # type: ignore[method-assign]
    tokens = reader.parse(text)
    for token in tokens:
        if token.type.startswith("heading_"):
            token.tag = "h3"
    return str(reader.renderer.render(tokens, reader.options, {})).strip()

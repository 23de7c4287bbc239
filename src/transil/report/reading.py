"""`reading.md`: what somebody makes of the results, by hand, in a little Markdown."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from transil.files import read_bytes
from transil.report.texts import printable

FILE = "reading.md"
# Bytes: hundreds of pages.
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
    """Paragraphs, lists, headings, fenced code, bold, emphasis, code and links; the rest as it is.

    Everything is escaped before anything is marked up, so that no tag of the text survives.
    """
    out = []
    for code, part in _fenced(text):
        if code:
            out.append(f"<pre>{escape(part.rstrip())}</pre>")
            continue
        # A heading or the first point of a list ends a paragraph, with or without an empty line.
        part = re.sub(r"^(#{1,6} .*)$", r"\n\1\n", part, flags=re.M)
        part = re.sub(r"^(?![-*] )(\S.*)\n(?=[-*] )", r"\1\n\n", part, flags=re.M)
        out += [_block(b.strip()) for b in re.split(r"\n\s*\n", part) if b.strip()]
    return "\n".join(out)


def _fenced(text: str) -> Iterator[tuple[bool, str]]:
    """Pieces of a text, those between lines of ``` marked; a fence that is never closed is text."""
    lines = text.split("\n")
    ends = [i for i, line in enumerate(lines) if re.fullmatch(r"```[ \t]*", line)]
    start = at = 0
    while at < len(lines):
        close = bisect_right(ends, at)
        if not lines[at].startswith("```") or close == len(ends):
            at += 1
            continue
        yield False, "\n".join(lines[start:at])
        yield True, "\n".join(lines[at + 1 : ends[close]])
        start = at = ends[close] + 1
    yield False, "\n".join(lines[start:])


def _block(text: str) -> str:
    if heading := re.fullmatch(r"#{1,6} (.*)", text):
        return f"<h3>{_inline(heading[1])}</h3>"
    if text.startswith(("- ", "* ")):
        items = re.split(r"^[-*] ", text, flags=re.M)[1:]
        return f"<ul>{''.join(f'<li>{_inline(x)}</li>' for x in items)}</ul>"
    return f"<p>{_inline(text)}</p>"


def _inline(text: str) -> str:
    pieces = re.split(r"`([^`]+)`", escape(" ".join(text.split())))
    return "".join(f"<code>{p}</code>" if i % 2 else _marks(p) for i, p in enumerate(pieces))


def _marks(text: str) -> str:
    text = re.sub(r"\[([^\[\]]+)\]\(([^()\s]+)\)", _link, text)
    text = re.sub(r"\*\*(\S|\S.{0,500}?\S)\*\*", r"<strong>\1</strong>", text)
    return re.sub(r"(?<![\w*])\*([^\s*]|[^\s*][^*]*?\S)\*(?![\w*])", r"<em>\1</em>", text)


def _link(match: re.Match[str]) -> str:
    """A link where it leads to a page; one that would run something stays text."""
    ok = LINK.fullmatch(match[2])
    return f'<a href="{match[2]}">{match[1]}</a>' if ok else match[0]

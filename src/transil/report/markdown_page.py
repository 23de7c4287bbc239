"""The report as one page of Markdown, for a documentation or a repository, with figures beside it.

It is plain enough for GitHub and for mkdocs alike: pipe tables, images, entities where the two
escape differently. It links to nothing but its own figures, which are all that surely lies beside it.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from transil.errors import TransilError
from transil.files import check_output
from transil.report import names, reading
from transil.report.drawing import Picture, svg_file
from transil.report.headline import NOTE, headlines
from transil.report.parts import (
    BESIDE,
    FURTHER,
    NOTHING,
    Parts,
    headline_lead,
    missing_texts,
    parts_of,
    runs_table,
    what,
)
from transil.report.study import Study, as_list
from transil.report.tables import Entry, Row, Table
from transil.report.writers import STAR, md
from transil.report.written import FILE, PICTURE, Output, write_outputs

if TYPE_CHECKING:
    from transil.experiment.results import Results

# A table with more columns than this is cut where its upper headings change.
WIDE = 4
BREAK, SPACE = "<br>", "\N{NO-BREAK SPACE}"


def write_markdown(
    results: Results | Sequence[Results] | Parts,
    path: str | Path,
    *,
    folders: Sequence[str | Path] = (),
    output: str | Path | None = None,
    readings: Sequence[str] = (),
    force: bool = False,
) -> Path:
    """Write the page to `path`, and its figures as SVG to the folder of the same name without '.md'.

    `folders` are the results folders and `output` is the report's own where it is none of them, for
    the command that writes the page again. `readings` and `force` are as in `write_report`. The same
    results give the same bytes.
    """
    made = markdown_files(results, path, folders=folders, output=output, readings=readings)
    write_outputs([made], force)
    return made.place


def markdown_files(
    results: Results | Sequence[Results] | Parts,
    path: str | Path,
    *,
    folders: Sequence[str | Path] = (),
    output: str | Path | None = None,
    readings: Sequence[str] = (),
) -> Output:
    """What `write_markdown` writes."""
    path = check_page(path)
    parts = parts_of(results)
    figures = path.stem
    files = {f"{figures}/{p.name}.svg": svg_file(p) for p in parts.pictures}
    origin = _origin(path, folders, output, any(readings))
    files[path.name] = "\n\n".join(_page(parts, path, origin, readings)) + "\n"
    names = re.compile(rf"{re.escape(path.name)}|{re.escape(figures)}/{PICTURE}\.svg")
    data = {name: content.encode("utf-8", "replace") for name, content in files.items()}
    return Output(path.parent, path.name, names, data, f"{figures}/{FILE}")


def check_page(path: str | Path) -> Path:
    """An error where no page can be written at `path`; for asking before long work."""
    path = Path(path)
    if path.suffix != ".md":
        raise TransilError(f"cannot write {path}: the name of a Markdown page ends in .md")
    check_output(path)
    figures = path.with_suffix("")
    if figures.exists() and not figures.is_dir():
        raise TransilError(f"cannot write {path}: {figures}, for its figures, is not a folder")
    return path


def _page(
    parts: Parts, path: Path, origin: Iterator[str], readings: Sequence[str]
) -> Iterator[str]:
    """The paragraphs of the page."""
    study = parts.study
    figures = {p.name: p for p in parts.pictures}
    yield f"# Results: {text(parts.title)}"
    yield text(what(study))
    yield from origin
    read = reading.joined(readings, [text(r.name) for r in study.results])
    if read:
        yield "## Reading"
        yield read
    yield "## In short"
    yield from _headline(study)
    if study.limits():
        yield "## Limits of this experiment"
        yield _list(study.limits())
    for table in parts.tables:
        if table.name == "headline":
            continue
        yield f"## {text(table.title)}"
        first, rest = table.parts()
        yield from _pieces(first)
        for name in BESIDE.get(table.name, ()):
            if name in figures:
                yield from _figure(figures.pop(name), path)
        if rest is not None:
            yield from _pieces(rest, f", {FURTHER}")
    if figures or parts.undrawn:
        yield "## Figures of the paper"
        for picture in figures.values():
            yield from _figure(picture, path)
        if parts.undrawn:
            yield text(parts.undrawn)
    yield "## What failed or is missing"
    yield from _missing(study)
    yield "## How it was made"
    for label, r in zip(study.labels(), study.results, strict=True):
        if len(study.results) > 1:
            yield f"### {text(label)}"
        yield from _made(r)


def _origin(
    path: Path, folders: Sequence[str | Path], output: str | Path | None, read: bool
) -> Iterator[str]:
    """What the page is made from, and how it is made again."""
    if not folders:
        yield "`transil report` has written this page from the files of the experiment alone."
        return
    shown = [_shown(folder) for folder in folders]
    sources = names.listed([f"`{folder}/results.json`" for folder in shown])
    own = ", and the `reading.md` beside it," if read else ""
    yield f"This page is written from {sources}{own} alone, by the command"
    elsewhere = [] if output is None else ["-o", _shown(output)]
    words = ["transil", "report", *shown, *elsewhere, "--markdown", _shown(path)]
    yield f"```text\n{shlex.join(words)}\n```"
    yield (
        "and not edited by hand. Beside it that command writes each table as Markdown, CSV and LaTeX "
        f"to `{_shown(output or folders[0])}/tables/`; CSV names the runs and banks behind an accuracy."
    )


def _shown(path: str | Path) -> str:
    """A path as a reader would give it: from here, where it lies below."""
    full, here = Path(os.path.abspath(path)), Path.cwd()
    return (full.relative_to(here) if full.is_relative_to(here) else Path(path)).as_posix()


def _headline(study: Study) -> Iterator[str]:
    lead = headline_lead(study)
    if lead is None:
        yield NOTHING
        return
    yield text(lead)
    items = [f"- **{text(names.method(h.method))}**: {text(h.sentence)}" for h in headlines(study)]
    yield "\n".join(items)
    yield text(NOTE)


def _pieces(table: Table, heading: str = "") -> Iterator[str]:
    """A table; a wide one in pieces, one for each upper heading."""
    groups = list(table.groups())
    if len(table.columns) <= WIDE or len(groups) == 1 or not all(name for name, _ in groups):
        if heading:
            yield f"### {text(groups[0][0] if len(groups) == 1 else table.stub)}{heading}"
        yield _pipes(table, groups[0][0] if len(groups) == 1 else "")
    else:
        start = 0
        for name, count in groups:
            yield f"### {text(name)}{heading}"
            rows = [replace(row, entries=row.entries[start : start + count]) for row in table.rows]
            columns = table.columns[start : start + count]
            yield _pipes(replace(table, columns=columns, rows=tuple(rows)), name)
            start += count
    yield from (text(note) for note in table.notes)


def _pipes(table: Table, told: str = "") -> str:
    """The table itself; `told` is the upper heading that need not be said in every column."""
    heads = [f"{g}, {c}" if g and g != told else c for g, c in table.columns]
    lines = [_line([text(table.stub), *map(text, heads)]), "|---|" + "---:|" * len(heads)]
    for row in table.rows:
        lines.append(_line([_row_name(row), *map(_entry, row.entries)]))
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _row_name(row: Row) -> str:
    name = text(row.name)
    return f"*{name}*" if row.kind == "bound" else name


def _entry(e: Entry) -> str:
    """Ours, the gain with its interval, and the paper's number, each on a line of its own."""
    if e.text is not None:
        return text(e.text)
    if e.value is None:
        return names.MISSING
    ours = names.number(e.value)
    ours = f"**{ours}**" if e.best else ours
    ours = f"{STAR} {ours}" if e.top else ours
    lines = [ours + (f" ± {names.number(e.std)}" if e.std is not None else "")]
    if e.gain is not None:
        known = e.low is not None and e.high is not None
        interval = f" ({names.end(e.low or 0.0)} to {names.end(e.high or 0.0)})"
        lines.append((names.signed(e.gain) + (interval if known else "")).replace(" ", SPACE))
    if e.paper is not None:
        spread = f" ± {names.number(e.paper_std)}" if e.paper_std is not None else ""
        lines.append(f"paper: {names.number(e.paper)}{spread}")
    return BREAK.join(lines)


def _figure(picture: Picture, path: Path) -> Iterator[str]:
    place = quote(f"{path.stem}/{picture.name}.svg")
    yield f"![{text(picture.title)}]({place})"
    yield f"*{text(picture.title)}.* {text(picture.caption)}"


def _missing(study: Study) -> Iterator[str]:
    """Failures with their reasons, and what else the recipe asks for; logs are in results.json."""
    missing = missing_texts(study)
    if study.failures:
        yield f"{names.count(len(study.failures), 'part')} could not be done:"
        reasons: dict[str, list[str]] = {}
        for f in study.failures:
            reasons.setdefault(f.reason, []).append(text(f.what))
        yield "\n".join(f"- {text(why)}: {', '.join(whats)}" for why, whats in reasons.items())
    if missing:
        yield "The recipe asks for it, and it is not there:"
        yield _list(missing)
    if not missing and not study.failures:
        asked = "everything that the recipe asks for is there" if study.wanted.seeds else ""
        yield f"Nothing failed{f'; {asked}' if asked else ''}."


def _made(results: Results) -> Iterator[str]:
    facts = results.facts
    table = runs_table(results)
    if table is not None:
        yield _pipes(table)
        yield from (text(note) for note in table.notes)
    versions = facts.get("versions")
    if isinstance(versions, Mapping) and versions:
        listed = ", ".join(f"{k} {v}" for k, v in versions.items())
        yield f"Fitted, transferred and evaluated with {text(listed)}."
    sets = facts.get("data_sets")
    if isinstance(sets, Mapping) and sets and all(isinstance(v, Mapping) for v in sets.values()):
        yield _sets(sets, facts)
    shared = facts.get("classes_in_common")
    if isinstance(shared, Mapping) and shared:
        yield "Classes that two sets have in common:"
        yield _list(f"{k}: {', '.join(map(str, as_list(v)))}" for k, v in shared.items())
    named = facts.get("same_names")
    if isinstance(named, Mapping) and named:
        yield "Classes of the same name in sets that were collected apart, and are used together:"
        yield _list(f"{k}: {', '.join(map(str, as_list(v)))}" for k, v in named.items())
    recipe = facts.get("recipe")
    if isinstance(recipe, Mapping) and recipe:
        # JSON is YAML: these lines can be used as a recipe again.
        lines = [f"{k}: {json.dumps(v, ensure_ascii=False)}" for k, v in recipe.items()]
        yield "The recipe in full:"
        yield "```yaml\n" + "\n".join(lines).replace("```", "` ` `") + "\n```"


def _sets(sets: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    """The data sets, and which references a target used."""
    used = facts.get("references_of")
    used = used if isinstance(used, Mapping) else {}
    heads = ["data set", "classes", "pixels", "images", "its references", "fingerprint"]
    lines = [_line(heads), "|---" * len(heads) + "|"]
    for name, known in sets.items():
        classes = known.get("classes", names.MISSING)
        images = known.get("images")
        counts = ", ".join(f"{k} {v}" for k, v in images.items()) if isinstance(
            images, Mapping) else names.MISSING  # fmt: skip
        mine = [names.target(str(r)) for r in as_list(used.get(name))]
        lines.append(
            _line(
                [
                    text(names.target(str(name))),
                    str(len(classes)) if isinstance(classes, list) else text(str(classes)),
                    text(str(known.get("size", names.MISSING))),
                    text(counts),
                    text(", ".join(mine) or names.MISSING),
                    text(str(known.get("fingerprint", names.MISSING))),
                ]
            )
        )
    return "\n".join(lines)


def _list(items: Any) -> str:
    return "\n".join(f"- {text(item)}" for item in items)


def text(raw: str) -> str:
    """A text that both GitHub and mkdocs show as it is; they differ in what may be escaped."""
    made = md(raw)
    for character in "|$~":
        made = made.replace(f"\\{character}", f"&#{ord(character)};")
    return made

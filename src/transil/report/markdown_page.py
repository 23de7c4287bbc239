"""The report as one page of Markdown, for a documentation or a repository, with figures beside it.

It is plain enough for GitHub and for mkdocs alike: pipe tables, images, entities where the two
escape differently. It links to nothing but its own figures, which are all that surely lies beside it.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from transil._common.files import check_output
from transil.errors import TransilError
from transil.report import reading
from transil.report.drawing import svg_file
from transil.report.parts import Parts, parts_of
from transil.report.rendering import md, render
from transil.report.written import FILE, PICTURE, Output, write_outputs

if TYPE_CHECKING:
    from transil.experiment.results import Results

READING = "\0"  # no text of results has this character
SHARED = {
    "classes_in_common": "Classes that two sets have in common:",
    "same_names": "Classes of the same name in sets that were collected apart, and are used together:",
}


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

    In the report's own folder it shows the report's own figures.

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
    own = output or (*folders, None)[0]
    # In the report's own folder the page shows the report's own figures.
    beside = own is not None and os.path.abspath(own) == os.path.abspath(path.parent)
    figures = "figures" if beside else path.stem
    files = {} if beside else {f"{figures}/{p.name}.svg": svg_file(p) for p in parts.pictures}
    sources = [_shown(folder) for folder in folders]
    elsewhere = [] if output is None else ["-o", _shown(output)]
    words = ["transil", "report", *sources, *elsewhere, "--markdown", _shown(path)]
    read = reading.joined(readings, [md(r.name) for r in parts.study.results])
    page = render(
        "report.md", **parts.context(), figures=figures, shared=SHARED, sources=sources, read=bool(read),
        command=shlex.join(words) if sources else "", output=_shown(output or (*folders, "")[0]),
    )  # fmt: skip
    # The reading comes in last, so that it stays as it is.
    page = re.sub(r"\n{3,}", "\n\n", page).rstrip() + "\n"
    files[path.name] = page.replace(READING, read)
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


def _shown(path: str | Path) -> str:
    """A path as a reader would give it: from here, where it lies below."""
    full, here = Path(os.path.abspath(path)), Path.cwd()
    return (full.relative_to(here) if full.is_relative_to(here) else Path(path)).as_posix()

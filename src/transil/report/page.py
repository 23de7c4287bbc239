"""A report of an experiment: one page that stands alone, and its tables and figures as files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from transil.report import names, reading
from transil.report.drawing import inline_groups, svg_file
from transil.report.parts import Parts, parts_of, subject
from transil.report.rendering import md, render
from transil.report.study import Study, unique
from transil.report.tables import Source
from transil.report.traffic import traffic_columns, way_label
from transil.report.writers import to_csv, to_markdown, to_tex
from transil.report.written import PICTURE, Output, check_outputs, write_outputs

if TYPE_CHECKING:
    from transil.experiment.results import Results

PAGE, CAPTIONS = "report.html", "figures/captions.md"
# The paths that files of a report can have.
NAMES = re.compile(
    rf"{re.escape(PAGE)}|{CAPTIONS}|figures/{PICTURE}\.(svg|png)"
    r"|tables/(headline|summary|table-\d(-[\d_e-]+)?|transfer-matrix|solvers|traffic)\.(md|csv|tex)"
)


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
        if len(sources) < 2:
            return self.path(sources[0].run) if sources else None
        name, _ = self.lists.setdefault(sources, (f"from-{len(self.lists) + 1}", what))
        return f"#{name}"

    def bank(self, sources: tuple[Source, ...]) -> str | None:
        """Where a gain leads: the bank; a list of several is the number's."""
        bank = sources[0].bank if len(sources) == 1 else None
        return self.path(bank) if bank else None


def write_report(
    results: Results | Sequence[Results] | Parts,
    folder: str | Path,
    readings: Sequence[str] = (),
    *,
    force: bool = False,
) -> Path:
    """Write report.html, tables/ and figures/ to `folder`; returns the path of the page.

    Several results make one report; where two hold the same cell, the later one's is taken. Links
    lead to the runs as the results name them (see `Results.seen_from` for a report that lies
    elsewhere). `readings` are texts in Markdown, one for each of the results, empty where there
    is none. The same results give the same bytes.

    Files of an earlier report are overwritten, or taken away; a file that somebody else has written
    or changed is an error, before anything is written, unless `force`.
    """
    output = report_files(results, folder, readings)
    write_outputs([output], force)
    return output.place


def report_files(
    results: Results | Sequence[Results] | Parts, folder: str | Path, readings: Sequence[str] = ()
) -> Output:
    """What `write_report` writes."""
    parts = parts_of(results)
    files: dict[str, str | bytes] = {}
    for table in parts.tables:
        for suffix, form in (("md", to_markdown), ("csv", to_csv), ("tex", to_tex)):
            files[f"tables/{table.name}.{suffix}"] = form(table)
    for picture in parts.pictures:
        files[f"figures/{picture.name}.svg"] = svg_file(picture)
        files[f"figures/{picture.name}.png"] = picture.png
    if parts.pictures:
        captions = [f"**{p.name}** {md(p.title)}. {md(p.caption)}" for p in parts.pictures]
        files[CAPTIONS] = "# Captions\n\n" + "\n\n".join(captions) + "\n"
    study = parts.study
    files[PAGE] = render(
        "report.html", **parts.context(), subject=subject(study) or parts.title, links=Links(),
        groups=inline_groups, choices=list(_choices(study)),
        reading=reading.to_html(reading.joined(readings, [r.name for r in study.results])),
    )  # fmt: skip
    data = {
        k: v if isinstance(v, bytes) else v.encode("utf-8", "replace") for k, v in files.items()
    }
    return Output(Path(folder), PAGE, NAMES, data)


def check_folder(folder: str | Path, *, force: bool = False) -> None:
    """An error where a report could not be written to `folder`; for asking before long work."""
    folder = Path(folder)
    there = [path.relative_to(folder).as_posix()
             for place in (folder, folder / "tables", folder / "figures")
             if place.is_dir() for path in place.iterdir()]  # fmt: skip
    files = {name: b"" for name in sorted(there) if NAMES.fullmatch(name)}
    check_outputs([Output(folder, PAGE, NAMES, files)], force)


def _choices(study: Study) -> list[tuple[str, list[str]]]:
    """What a reader may leave out, as tables and figures name it; where there is a choice."""
    priors = [way_label(*way) for way in traffic_columns(study.traffic) if way[0] == "prior"]
    found = {
        "Method": [names.method(m) for m in study.methods],
        "Number of states": [f"S = {s}" for s in study.states],
        "Target": [names.target(t) for t in study.targets],
        "Prior": priors,
    }
    return [(label, unique(values)) for label, values in found.items() if len(set(values)) > 1]

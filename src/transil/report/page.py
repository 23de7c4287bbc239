"""A report of an experiment: one page that stands alone, and its tables and figures as files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from transil.report import names, reading
from transil.report.drawing import Picture, inline_svg, svg_file
from transil.report.headline import NOTE, headlines
from transil.report.markup import Links, facts_html, table_html
from transil.report.parts import (
    BESIDE,
    FURTHER,
    NOTHING,
    PLACED,
    Parts,
    headline_lead,
    missing_texts,
    parts_of,
    runs_table,
    what,
)
from transil.report.study import Study
from transil.report.style import SCRIPT, document
from transil.report.writers import md, to_csv, to_markdown, to_tex
from transil.report.written import PICTURE, Output, check_outputs, write_outputs

if TYPE_CHECKING:
    from transil.experiment.results import Results

LOG_LINES = 20
PAGE, CAPTIONS = "report.html", "figures/captions.md"
# The paths that files of a report can have.
NAMES = re.compile(
    rf"{re.escape(PAGE)}|{CAPTIONS}|figures/{PICTURE}\.(svg|png)"
    r"|tables/(headline|table-\d(-[\d_e-]+)?|transfer-matrix|solvers|traffic)\.(md|csv|tex)"
)
LINKED = "A number leads to its run, its gain to the bank that was used. "
SEVERAL = "With several seeds it leads to the list of them. "
LINKED_TARGET = "A number leads to the run of its target. "


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
    files[PAGE] = _page(parts, readings, Links())
    return Output(Path(folder), PAGE, NAMES, {name: _bytes(x) for name, x in files.items()})


def check_folder(folder: str | Path, *, force: bool = False) -> None:
    """An error where a report could not be written to `folder`; for asking before long work."""
    folder = Path(folder)
    there = [path.relative_to(folder).as_posix()
             for place in (folder, folder / "tables", folder / "figures")
             if place.is_dir() for path in place.iterdir()]  # fmt: skip
    files = {name: b"" for name in sorted(there) if NAMES.fullmatch(name)}
    check_outputs([Output(folder, PAGE, NAMES, files)], force)


def _page(parts: Parts, readings: Sequence[str], links: Links) -> str:
    study, title = parts.study, parts.title
    figures = {p.name: p for p in parts.pictures}
    sections: list[tuple[str, str, str]] = []  # id, heading, content
    by_name = {t.name: t for t in parts.tables if t.name != "headline"}
    read = reading.joined(readings, [r.name for r in study.results])
    if read:
        sections.append(("reading", "Reading", reading.to_html(read)))
    sections.append(("headline", "In short", _headline(study)))
    for name, table in by_name.items():
        beside = BESIDE.get(name, ())
        content = "".join(_figure(figures.pop(x)) for x in beside if x in figures)
        seeds = SEVERAL if len(study.seeds) > 1 else ""
        how = LINKED if name.startswith(("table-1", "table-2")) else LINKED_TARGET
        how = "" if name == "solvers" else how
        files = _files(f"tables/{name}", "md csv tex", how + seeds)
        first, rest = table.parts()
        content = table_html(first, links) + files + content
        if rest is not None:
            content += (f"<details><summary>{FURTHER.capitalize()}</summary>"
                        f"{table_html(rest, links)}</details>")  # fmt: skip
        sections.append((name, table.title, content))
    if figures or parts.undrawn:
        content = _figures(list(figures.values()))
        if parts.undrawn:
            content += f"<p>{escape(parts.undrawn)}</p>"
        sections.append(("figures", "Figures of the paper", content))
    missing = missing_texts(study)
    if study.failures or missing:
        content = _failures(study) + _missing(missing)
        sections.append(("failures", "What failed or is missing", content))
    sections.append(("made", "How it was made", _facts(study, links)))
    if links.lists:
        sections.append(("sources", "Where the numbers come from", _sources(links)))
    nav = "".join(f'<li><a href="#{i}">{escape(_brief(h))}</a></li>' for i, h, _ in sections)
    body = "".join(
        f'<section aria-labelledby="{i}"><h2 id="{i}">{escape(h)}</h2>{c}</section>\n'
        for i, h, c in sections
    )
    content = (
        f"<header><h1>{escape(title)}</h1><p>{escape(what(study))}</p>"
        f'<nav aria-label="Sections"><ul>{nav}</ul></nav></header>\n'
        f"<main>\n{_limits(study)}{body}</main>\n"
        "<footer>Made by transil. Accuracies are top-1, on test images.</footer>\n"
    )
    return document(f"{title}: report", content, script=SCRIPT)


def _brief(heading: str) -> str:
    return heading.split(":")[0]


def _headline(study: Study) -> str:
    lead = headline_lead(study)
    if lead is None:
        return f"<p>{NOTHING}</p>"
    items = "".join(
        f"<li><strong>{escape(names.method(h.method))}</strong>: {escape(h.sentence)}</li>"
        for h in headlines(study)
    )
    files = _files("tables/headline", "md csv tex")
    return f'<p>{escape(lead)}</p><ul>{items}</ul><div class="notes"><p>{NOTE}</p></div>{files}'


def _limits(study: Study) -> str:
    limits = "".join(f"<li>{escape(x)}</li>" for x in study.limits())
    if not limits:
        return ""
    return (f'<section class="limits" aria-labelledby="limits"><h2 id="limits">Limits of this '
            f"experiment</h2><ul>{limits}</ul></section>\n")  # fmt: skip


def _figures(pictures: list[Picture]) -> str:
    """One after the other; of Figure 4 only the first target is open."""
    later = [p for p in pictures if p.name.startswith("figure-4-")]
    out = ""
    for p in pictures:
        if p in later:
            continue
        out += _figure(p)
        if p.name == "figure-4" and later:
            more = "".join(_figure(x) for x in later)
            out += f"<details><summary>Figure 4 for the other targets</summary>{more}</details>"
    return out


def _figure(p: Picture) -> str:
    return (
        f'<figure id="fig-{p.name}"><div class="picture">{inline_svg(p)}</div>'
        f"<figcaption><strong>{escape(p.title)}.</strong> "
        f"{escape(p.caption)} {_hrefs(f'figures/{p.name}', 'svg png')}</figcaption></figure>\n"
    )


def _files(stem: str, suffixes: str, more: str = "") -> str:
    return f'<p class="files">{more}The same as a file: {_hrefs(stem, suffixes)}</p>'


def _hrefs(stem: str, suffixes: str) -> str:
    return " ".join(f'<a href="{stem}.{x}">{x.upper()}</a>' for x in suffixes.split())


def _missing(texts: list[str]) -> str:
    if not texts:
        return ""
    items = "".join(f"<li>{escape(x)}</li>" for x in texts)
    return f"<p>The recipe asks for it, and it is not there:</p><ul>{items}</ul>"


def _failures(study: Study) -> str:
    if not study.failures:
        return ""
    items = []
    for f in study.failures:
        lines = f.log.rstrip().splitlines()
        tail = "\n".join(lines[-LOG_LINES:])
        cut = f"(the last {LOG_LINES} of {len(lines)} lines)\n" if len(lines) > LOG_LINES else ""
        log = f'<pre tabindex="0">{escape(cut + tail)}</pre>' if tail else ""
        items.append(f"<li><strong>{escape(f.what)}</strong>: {escape(f.reason)}{log}</li>")
    return f"<p>{names.count(len(items), 'part')} could not be done.</p><ul>{''.join(items)}</ul>"


def _facts(study: Study, links: Links) -> str:
    out = ""
    for label, r in zip(study.labels(), study.results, strict=True):
        facts = {k: v for k, v in r.facts.items() if k not in PLACED}
        if len(study.results) > 1:
            out += f"<h3>{escape(label)}</h3>"
        out += facts_html(facts, top=True) if facts else "<p>Nothing was noted.</p>"
        table = runs_table(r)
        out += f"<h3>{table.title}</h3>{table_html(table, links)}" if table else ""
    return out


def _sources(links: Links) -> str:
    return (
        "<p>A number that is a mean over seeds leads here, to its runs and banks.</p>"
        f"<details><summary>{names.count(len(links.lists), 'number')} over several seeds</summary>"
        f"{links.render()}</details>"
    )


def _bytes(content: str | bytes) -> bytes:
    return content.encode("utf-8", "replace") if isinstance(content, str) else content

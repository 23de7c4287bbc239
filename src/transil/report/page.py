"""A report of an experiment: one page that stands alone, and its tables and figures as files."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from transil.errors import TransilError
from transil.files import atomic_file
from transil.report import names
from transil.report.drawing import Picture, drawing, inline_svg, svg_file
from transil.report.headline import NOTE, headline_table, headlines
from transil.report.markup import Links, facts_html, table_html
from transil.report.more_tables import ablation_table, matrix_table
from transil.report.study import Study
from transil.report.style import CSS, SCRIPT
from transil.report.tables import Table, accuracy_table
from transil.report.writers import md, to_csv, to_markdown, to_tex

if TYPE_CHECKING:
    from transil.experiment.results import Results

LOG_LINES = 20
# These facts have a place of their own on the page.
PLACED = ("limits", "differs")
LINKED = "A number leads to its run, its gain to the bank that was used. "
SEVERAL = "With several seeds it leads to the list of them. "
LINKED_TARGET = "A number leads to the run of its target. "


def write_report(results: Results | Sequence[Results], folder: str | Path) -> Path:
    """Write report.html, tables/ and figures/ to `folder`; returns the path of the page.

    Several results make one report; where two hold the same cell, the later one's is taken. Links
    lead to the runs as the results name them (see `Results.seen_from` for a report that lies
    elsewhere). The same results give the same bytes.
    """
    study = Study(results if isinstance(results, Sequence) else [results])
    folder = Path(folder)
    tables = _tables(study)
    pictures, missing = _pictures(study)
    for table in tables:
        for suffix, text in (("md", to_markdown(table)), ("csv", to_csv(table)),
                             ("tex", to_tex(table))):  # fmt: skip
            _write(folder / "tables" / f"{table.name}.{suffix}", text)
    for picture in pictures:
        _write(folder / "figures" / f"{picture.name}.svg", svg_file(picture))
        _write(folder / "figures" / f"{picture.name}.png", picture.png)
    if pictures:
        captions = [f"**{p.name}** {md(p.title)}. {md(p.caption)}" for p in pictures]
        _write(folder / "figures" / "captions.md", "# Captions\n\n" + "\n\n".join(captions) + "\n")
    page = folder / "report.html"
    _write(page, _page(study, tables, pictures, missing, Links()))
    return page


def _tables(study: Study) -> list[Table]:
    found = [
        headline_table(study),
        *(accuracy_table(study, f) for f in study.fractions if study.columns(f)),
        ablation_table(study),
        matrix_table(study),
    ]
    return [t for t in found if t is not None]


def _pictures(study: Study) -> tuple[list[Picture], str]:
    """All figures there are data for; without matplotlib none, and the reason."""
    try:
        from transil.report import figures_accuracy, figures_gains, figures_scores

        with drawing():
            found = [
                figures_gains.gains_figure(study),
                figures_scores.scores_figure(study),
                figures_scores.pairs_figure(study),
                *figures_accuracy.matrix_figures(study),
                figures_accuracy.states_figure(study),
                figures_gains.ablation_figure(study),
                figures_gains.transfer_figure(study),
            ]
    except TransilError as error:
        return [], str(error)
    return [p for p in found if p is not None], ""


def _page(
    study: Study, tables: list[Table], pictures: list[Picture], missing: str, links: Links
) -> str:
    title = " and ".join(r.name for r in study.results) or "Report"
    figures = {p.name: p for p in pictures}
    sections: list[tuple[str, str, str]] = []  # id, heading, content
    by_name = {t.name: t for t in tables}
    headline = by_name.pop("headline", None)
    sections.append(("headline", "In short", _headline(study, headline)))
    for name, table in by_name.items():
        beside = {"table-1": ["gains"], "table-3": ["table-3-references"],
                  "transfer-matrix": ["transfer-matrix"]}.get(name, [])  # fmt: skip
        content = "".join(_figure(figures.pop(x)) for x in beside if x in figures)
        seeds = SEVERAL if len(study.seeds) > 1 else ""
        how = LINKED if name.startswith(("table-1", "table-2")) else LINKED_TARGET
        files = _files(f"tables/{name}", "md csv tex", how + seeds)
        content = table_html(table, links) + files + content
        sections.append((name, table.title, content))
    if figures or missing:
        content = _figures(list(figures.values()))
        if missing:
            content += f"<p>No figures: {escape(missing)}</p>"
        sections.append(("figures", "Figures of the paper", content))
    if study.failures:
        sections.append(("failures", "What failed", _failures(study)))
    sections.append(("made", "How it was made", _facts(study)))
    if links.lists:
        sections.append(("sources", "Where the numbers come from", _sources(links)))
    nav = "".join(f'<li><a href="#{i}">{escape(_brief(h))}</a></li>' for i, h, _ in sections)
    body = "".join(
        f'<section aria-labelledby="{i}"><h2 id="{i}">{escape(h)}</h2>{c}</section>\n'
        for i, h, c in sections
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(title)}: report</title>\n<style>{CSS}</style>\n</head>\n<body>\n"
        f'<header><h1>{escape(title)}</h1>{_what(study)}<nav aria-label="Sections"><ul>{nav}</ul>'
        f"</nav></header>\n<main>\n{_limits(study)}{body}</main>\n"
        "<footer>Made by transil. Accuracies are top-1, on test images.</footer>\n"
        f"<script>{SCRIPT}</script>\n</body>\n</html>\n"
    )


def _brief(heading: str) -> str:
    return heading.split(":")[0]


def _what(study: Study) -> str:
    """What was run, in a sentence."""
    if not study.methods:
        return "<p>No model was evaluated.</p>"
    runs = len({c.run for c in study.cells})
    text = (
        f"{names.listed([names.method(m) for m in study.methods])} on "
        f"{names.listed([names.target(t) for t in study.targets])}, in "
        f"{names.listed([str(s) for s in study.states])} states; "
        f"{names.count(len(study.seeds), 'seed')}, {names.count(runs, 'trained target model')}"
    )
    if study.references:
        text += f", {names.count(len(study.references), 'reference data set')}"
    if study.solvers:
        text += f"; fitted by {names.listed(study.solvers)}"
    return f"<p>{escape(text)}.</p>"


def _headline(study: Study, table: Table | None) -> str:
    main = study.main
    if table is None or main is None:
        return "<p>There is no corrected model to compare with an uncorrected one.</p>"
    how = f", fitted by {main.solver}" if main.solver else ""
    moved = f" and transferred by {main.transfer}" if main.transfer else ""
    share = study.fractions[0]
    images = "all training images" if share == 1.0 else f"{share:.0%} of the training images"
    lead = f"{main.label()}{how}{moved}, on models trained on {images}:"
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


def _failures(study: Study) -> str:
    items = []
    for f in study.failures:
        lines = f.log.rstrip().splitlines()
        tail = "\n".join(lines[-LOG_LINES:])
        cut = f"(the last {LOG_LINES} of {len(lines)} lines)\n" if len(lines) > LOG_LINES else ""
        log = f'<pre tabindex="0">{escape(cut + tail)}</pre>' if tail else ""
        items.append(f"<li><strong>{escape(f.what)}</strong>: {escape(f.reason)}{log}</li>")
    return f"<p>{names.count(len(items), 'part')} could not be done.</p><ul>{''.join(items)}</ul>"


def _facts(study: Study) -> str:
    out = ""
    for r in study.results:
        facts = {k: v for k, v in r.facts.items() if k not in PLACED}
        if len(study.results) > 1:
            out += f"<h3>{escape(r.name)}</h3>"
        out += facts_html(facts, top=True) if facts else "<p>Nothing was noted.</p>"
    return out


def _sources(links: Links) -> str:
    return (
        "<p>A number that is a mean over seeds leads here, to its runs and banks.</p>"
        f"<details><summary>{names.count(len(links.lists), 'number')} over several seeds</summary>"
        f"{links.render()}</details>"
    )


def _write(path: Path, content: str | bytes) -> None:
    data = content.encode("utf-8", "replace") if isinstance(content, str) else content
    with atomic_file(path, durable=False) as file:
        file.write(data)

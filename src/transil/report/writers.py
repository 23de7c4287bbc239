"""A table as Markdown, CSV and LaTeX. CSV has one line per entry, with every number there is."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator

from transil.report.names import number, signed
from transil.report.tables import Entry, Row, Table

CSV_FIELDS = ("block", "row", "kind", "group", "column", "value", "std", "gain", "low", "high",
              "paper", "paper_std", "best", "text", "runs", "banks")  # fmt: skip
STAR = "\N{BLACK STAR}"

_TEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#",
    "%": r"\%", "_": r"\_", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "\N{MINUS SIGN}": "$-$", "±": r"$\pm$",
    "≈": r"$\approx$", STAR: r"$\star$", "[": "{[}", "]": "{]}", "*": "{*}",
    "\N{GREEK SMALL LETTER ALPHA}": r"$\alpha$", "β": r"$\beta$",
}  # fmt: skip

# What a spreadsheet would take for a formula: another beginning is text, and so are words, numbers
# and our own '+ adBiC (newton)'.
FORMULA = re.compile(r"[=@\t\r\n]|[+-](?![\w .,()+-]*$)")

# What fits on a page of LaTeX, below its caption.
PAGE_LINES = 34


def to_csv(table: Table) -> str:
    """One line per entry; several runs or banks are put apart by '; '."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(CSV_FIELDS)
    for row in table.rows:
        for (group, column), e in zip(table.columns, row.entries, strict=True):
            numbers = (e.value, e.std, e.gain, e.low, e.high, e.paper, e.paper_std)
            writer.writerow(
                [_cell(x) for x in (row.block, row.label, row.kind, group, column)]
                + ["" if x is None else f"{x:.4f}" for x in numbers]
                + [int(e.best), _cell(e.text or "")]
                + [_cell("; ".join(s.run for s in e.sources))]
                + [_cell("; ".join(s.bank for s in e.sources if s.bank))]
            )
    return file.getvalue()


def _cell(text: str) -> str:
    """A text that no spreadsheet runs: names come from files, which may come from anybody."""
    return f"'{text}" if FORMULA.match(text) else text


def to_markdown(table: Table) -> str:
    """A table for reading, as wide as it has to be."""
    heads = [f"{g}, {c}" if g else c for g, c in table.columns]
    lines = [
        f"# {md(table.title)}",
        "",
        _md_line([md(table.stub), *map(md, heads)]),
        "|---|" + "---:|" * len(heads),
    ]
    for row in table.rows:
        name = f"*{md(row.name)}*" if row.kind == "bound" else md(row.name)
        lines.append(_md_line([name, *map(_md_entry, row.entries)]))
    for note in table.notes:
        lines += ["", md(note)]
    return "\n".join(lines) + "\n"


def md(text: str) -> str:
    """A text that Markdown shows as it is."""
    text = " ".join(text.split())
    text = re.sub(r"([\\`*_{}\[\]|$~#])", r"\\\1", text)
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _md_line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _md_entry(e: Entry) -> str:
    if e.text is not None:
        return md(e.text)
    text = number(e.value)
    if e.value is None:
        return text
    text = f"**{text}**" if e.best else text
    text = f"{STAR} {text}" if e.top else text
    text += f" ± {number(e.std)}" if e.std is not None else ""
    text += f" ({signed(e.gain)})" if e.gain is not None else ""
    return text + (f" (paper: {_paper(e)})" if e.paper is not None else "")


def _paper(e: Entry) -> str:
    spread = f" ± {number(e.paper_std)}" if e.paper_std is not None else ""
    return number(e.paper) + spread


def to_tex(table: Table) -> str:
    r"""A table to \input, in the paper's layout."""
    groups = list(table.groups())
    head = []
    if any(name for name, _ in groups):
        spans = [rf"\multicolumn{{{n}}}{{c}}{{{tex(name)}}}" for name, n in groups]
        rules, start = [], 2
        for name, n in groups:
            if name:
                rules.append(rf"\cmidrule(lr){{{start}-{start + n - 1}}}")
            start += n
        head = [" & ".join(["", *spans]) + r" \\", " ".join(rules)]
    head.append(" & ".join([tex(table.stub), *(tex(c) for _, c in table.columns)]) + r" \\")
    # LaTeX numbers tables itself.
    title = table.title.split(": ", 1)[-1]
    first = [
        rf"\caption{{{tex(' '.join([f'{title}.', *table.notes]))}}}",
        rf"\label{{tab:{re.sub(r'[^a-z0-9-]', '-', table.name.lower())}}}",
    ]
    made = [
        "% needs: booktabs, graphicx, xcolor",
        r"\providecolor{gain}{HTML}{00694F}",
        r"\providecolor{loss}{HTML}{A83A00}",
        r"\providecolor{unsure}{HTML}{5C6370}",
    ]
    for page, body in enumerate(_tex_pages(table)):
        made += [
            r"\begin{table*}",
            r"\centering",
            *(first if not page else [rf"\caption{{{tex(title)}, continued.}}"]),
            r"\setlength{\tabcolsep}{3pt}",
            # As wide as the page at most; never larger than it is.
            r"\resizebox{\ifdim\width>\textwidth\textwidth\else\width\fi}{!}{%",
            rf"\begin{{tabular}}{{l{'r' * len(table.columns)}}}",
            r"\toprule",
            *head,
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}}",
            r"\end{table*}",
        ]
    return "\n".join([*made, ""])


def _tex_pages(table: Table) -> Iterator[list[str]]:
    """The rows of a table, cut between blocks where they would not fit on one page."""
    page: list[str] = []
    height = 0
    for _, rows in table.blocks():
        block = [_tex_row(row) for row in rows]
        # A row with the paper's numbers has a second line for them.
        lines = sum(row.count(r"\\") for row in block)
        if page and height + lines > PAGE_LINES:
            yield page
            page, height = [], 0
        if page and (len(rows) > 1 or rows[0].kind == "joint"):
            page.append(r"\midrule")
        page += block
        height += lines
    yield page


def tex(text: str) -> str:
    """A text that LaTeX shows as it is."""
    return "".join(_TEX.get(c, c) for c in " ".join(text.split()))


def _tex_row(row: Row) -> str:
    name = tex(row.name)
    if row.kind == "bound":
        name = rf"\textit{{{name}}}"
    lines = " & ".join([name, *map(_tex_entry, row.entries)]) + r" \\"
    if any(e.paper is not None for e in row.entries):  # beside ours they would be too wide
        known = [_tex_small(tex(_paper(e))) if e.paper is not None else "" for e in row.entries]
        lines += "\n" + " & ".join([r"\quad " + _tex_small("the paper"), *known]) + r" \\"
    return lines


def _tex_small(text: str) -> str:
    return rf"{{\scriptsize\textcolor{{unsure}}{{{text}}}}}"


def _tex_entry(e: Entry) -> str:
    if e.text is not None:
        return tex(e.text)
    text = number(e.value)
    if e.value is None:
        return text
    text = rf"\textbf{{{text}}}" if e.best else text
    text = rf"$\star$\,{text}" if e.top else text
    small = []
    if e.std is not None:
        small.append(rf"$\pm${number(e.std)}")
    if e.gain is not None:
        colour = "unsure" if not e.sure else "gain" if e.gain > 0 else "loss"
        small.append(rf"\textcolor{{{colour}}}{{({tex(signed(e.gain))})}}")
    return text + (rf" {{\scriptsize {' '.join(small)}}}" if small else "")

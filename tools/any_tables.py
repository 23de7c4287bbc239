"""Write the tables about banks for any schedule from the numbers that are committed.

    python tools/any_tables.py results/any-schedule docs/any-schedule.md results/any-schedule/tables.md

Each table stands under a heading of a page; the JSON files of the folder hold its numbers.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from transil._common.files import atomic_file, read_json
from transil.errors import TransilError

Rows = Sequence[Mapping[str, Any]]
METHODS = ("lwf", "lwf-t", "lwf-all", "lucir", "ft+", "siw", "ft")
LOSS = 0.003  # of accuracy


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def forms(data: Mapping[str, Mapping[str, Any]]) -> str:
    """Which form of the function keeps how much: of all runs together, and of the worst one."""
    columns = (*METHODS, "generic")
    rows = [
        [
            name,
            *(f"{of[m]['kept']:.2f} ({of[m]['worst']:.2f})" if m in of else "-" for m in columns),
        ]
        for name, of in data.items()
    ]
    return table(["form", *(f"`{m}`" for m in columns)], rows)


def summary(judged: Mapping[str, Any]) -> str:
    """By method and kind of schedule: means over models, the share of the bound's gain, and losses."""
    lines = []
    for method in (*METHODS, None):
        for equal in (True, False):
            rows = [
                row
                for row in judged["rows"]
                if method in (None, row["method"]) and is_equal(row) == equal
            ]
            if not rows:
                continue
            name = "all" if method is None else f"`{method}`"
            raw, *others = (mean(rows, key) for key in ("raw", "any", "bound", "generic"))
            known = [row for row in rows if "same" in row]
            others.insert(1, mean(known, "same") if len(known) == len(rows) else float("nan"))
            least = min(row["any"] - row["raw"] for row in rows)
            lines.append(
                [name, "equal" if equal else "unequal", str(len(rows)), percent(raw)]
                + [percent(value) for value in others]
                + [kept(rows), f"{100 * least:+.1f}", losses(rows, "any"), losses(rows, "generic")]
            )  # fmt: skip
    head = ["method", "groups", "models", "raw", "any schedule", "same schedule", "bound", "generic",
            "share of the bound's gain", "worst gain", "losses, unwarned",
            "losses, unwarned: generic"]  # fmt: skip
    return table(head, lines)


def in_short(judged: Mapping[str, Any]) -> str:
    """All methods together, for equal and unequal groups."""
    lines = []
    for equal in (True, False):
        rows = [row for row in judged["rows"] if is_equal(row) == equal]
        shown = [percent(mean(rows, key)) for key in ("raw", "any", "same", "bound", "generic")]
        lines.append(["equal" if equal else "unequal", str(len(rows)), *shown, kept(rows)])
    head = ["groups", "models", "raw", "any schedule", "same schedule", "bound", "generic",
            "share of the bound's gain"]  # fmt: skip
    return table(head, lines)


def losses(rows: Rows, name: str) -> str:
    """How many models lost by a bank, and how many of these it does not warn of."""
    lost = [row for row in rows if row[name] < row["raw"] - LOSS]
    return f"{len(lost)}, {sum(not warns(row, name) for row in lost)}"


def kept(rows: Rows) -> str:
    """The share of the bound's gain that the bank for any schedule has, over all models together."""
    mine, best = (
        sum(row[name] - row["raw"] for row in rows) for name in ("any", "bound")
    )  # points of all models: a ratio of each would hang on the smallest gains
    return f"{mine / best:.0%}" if best > 0.001 * len(rows) else "nothing to gain"


def models(judged: Mapping[str, Any]) -> str:
    """Every model that was judged."""

    def place(row: Mapping[str, Any]) -> tuple[int, str, str]:
        return METHODS.index(row["method"]), row["set"], row["schedule"]

    lines = [
        [f"`{row['method']}`", row["set"], sizes(row["sizes"]), percent(row["raw"])]
        + [interval(row, name) for name in ("any", "same", "bound", "generic")]
        + [f"{row['warns_any']}, {row['warns_generic']} of {len(row['sizes']) - 1}"]
        for row in sorted(judged["rows"], key=place)
    ]
    head = ["method", "set", "groups", "raw", "any schedule", "same schedule", "bound", "generic",
            "warned states"]  # fmt: skip
    return table(head, lines)


def mixes(judged: Mapping[str, Any]) -> str:
    """Means over the models that keep something, by what the scores were measured on."""
    rows = [row for row in judged["rows"] if not warns(row, "any")]
    lines = [["not corrected", percent(mean(rows, "raw"))]]
    lines += [
        [name, percent(float(np.mean([row["measured_on"][name] for row in rows])))]
        for name in rows[0]["measured_on"]
    ]
    return table(["measured on", "accuracy"], lines)


def networks(data: Mapping[str, Any]) -> str:
    """What references of a small network keep on the larger one, and those of the same network."""
    lines = [
        [f"`{m}`", str(len(data[m]["schedules"]))]
        + [f"{data[m][k]['kept']:.2f} ({data[m][k]['worst']:.2f})" for k in ("large", "small")]
        for m in METHODS
        if m in data
    ]
    if found := data.get("released"):
        name = f"the authors' LUCIR model, accuracy in % (raw {percent(found['raw'])})"
        seen = str(len(data["lucir"]["schedules"]))
        lines.append([name, seen, *(percent(found[k]) for k in ("large", "small"))])
    return table(["method", "schedules of `convnet`", "ResNet-18", "`convnet`"], lines)


def kinds(data: Mapping[str, Any]) -> str:
    """By schedule: accuracy of references, and the share of the loss that left-out banks remove."""

    def cell(rows: Rows) -> str:
        marks = ("*" * (row["exact"] - row["raw"] < LOSS) + "!" * warns(row, None) for row in rows)
        shown = (f"{row['kept']:.2f}{mark}" for row, mark in zip(rows, marks, strict=True))
        return ", ".join(shown) or "-"

    found = {tuple(row["sizes"]) for row in data["rows"]}
    lines = []
    for groups in sorted(found, key=lambda g: (len(set(g)) > 1, len(g), g)):
        rows = [row for row in data["rows"] if tuple(row["sizes"]) == groups]
        cells = [cell([row for row in rows if row["method"] == method]) for method in METHODS]
        lines.append(
            [sizes(groups), *(percent(mean(rows, key)) for key in ("raw", "exact")), *cells]
        )
    return table(["groups", "raw", "exact pairs", *(f"`{m}`" for m in METHODS)], lines)


def warns(row: Mapping[str, Any], name: str | None) -> bool:
    """Whether a bank warns of a model: in half of the states at least."""
    return 2 * int(row[f"warns_{name}" if name else "warns"]) >= len(row["sizes"]) - 1


def interval(row: Mapping[str, Any], name: str) -> str:
    """An accuracy with the interval of its gain."""
    if name not in row:
        return "-"
    _, low, high = row[f"gain_{name}"]
    return f"{percent(row[name])} ({100 * low:+.1f} to {100 * high:+.1f})"


def sizes(groups: Sequence[int]) -> str:
    """20 x 5, or each."""
    if len(set(groups)) == 1:
        return f"{len(groups)} x {groups[0]}"
    if len(set(groups[1:])) == 1 and len(groups) > 3:
        return f"{groups[0]}, {len(groups) - 1} x {groups[1]}"
    return ", ".join(map(str, groups))


def is_equal(row: Mapping[str, Any]) -> bool:
    """Whether all groups have one size."""
    return len(set(row["sizes"])) == 1


def mean(rows: Rows, key: str) -> float:
    """Of one number over models."""
    return float(np.mean([row[key] for row in rows]))


def percent(share: float) -> str:
    """Without the sign; a line where there is none."""
    return "-" if np.isnan(share) else f"{100 * share:.1f}"


# By heading of the page: the file, and what makes the table of it.
TABLES: dict[str, tuple[str, Callable[[Any], str]]] = {
    "How well it holds": ("judged.json", in_short),
    "By method": ("judged.json", summary),
    "By kind of schedule": ("kinds.json", kinds),
    "What the scores are measured on": ("judged.json", mixes),
    "Do references of a small network do?": ("networks.json", networks),
    "Forms that were tried": ("forms.json", forms),
    "Every model": ("judged.json", models),
}


def written(page: str, folder: Path) -> str:
    """The page with the first table under each of the headings that it has as the numbers say."""
    there = [heading for heading in TABLES if f"\n## {heading}\n" in page]
    if not there:
        raise TransilError(f"no heading of a table: {', '.join(TABLES)}")
    for heading in there:
        name, made_of = TABLES[heading]
        found = re.search(rf"^## {re.escape(heading)}\n[^#]*?((?:^\|[^\n]*\n)+)", page, re.M | re.S)
        if found is None:
            continue  # words alone
        made = made_of(read_json(folder / name)) + "\n"
        page = page[: found.start(1)] + made + page[found.end(1) :]
    return page


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="forms.json and judged.json are there")
    parser.add_argument("pages", type=Path, nargs="+", metavar="page")
    options = parser.parse_args()
    try:
        texts = {page: written(page.read_text(), options.folder) for page in options.pages}
    except TransilError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for page, text in texts.items():
        with atomic_file(page) as file:
            file.write(text.encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Tables that fit a terminal, JSON and CSV for machines, and progress bars on stderr."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from transil._common.files import read_json
from transil._common.progress import Progress as Bar
from transil.errors import TransilError
from transil.schedule import Schedule

# Names from files are text: neither markup nor emoji codes.
PLAIN: dict[str, Any] = {"highlight": False, "markup": False, "emoji": False}

stdout = Console(**PLAIN)
stderr = Console(stderr=True, **PLAIN)

LONGEST = 2000  # characters of a message
_warnings: list[str] = []  # not told yet
# All that is not plainly printable without a look at it.
_SPECIAL = re.compile(r"[^ -~]")


def printable(text: str) -> str:
    """Text in one line without control characters, whatever names and files hold.

    Such characters could write to a terminal's clipboard or title, or turn the direction of reading.
    """
    return _SPECIAL.sub(lambda found: found[0] if found[0].isprintable() else " ", text)


def print_json(data: Any) -> None:
    """One JSON document on stdout."""
    print(json_text(data), end="")


def json_text(data: Any) -> str:
    """One JSON document; characters that are not printable are written as their numbers."""
    text = json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False)
    return _SPECIAL.sub(lambda found: _in_json(found[0]), text) + "\n"


def _in_json(character: str) -> str:
    # A line break is never inside a text here.
    plain = character.isprintable() or character == "\n"
    return character if plain else json.dumps(character)[1:-1]


def print_csv(rows: Sequence[Mapping[str, Any]]) -> None:
    """Rows of one shape as CSV on stdout."""
    print(csv_text(rows), end="")


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows of one shape as CSV; None and NaN are empty cells."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([printable(name) for name in rows[0]])
    for row in rows:
        cells = ("" if _missing(row[name]) else row[name] for name in rows[0])
        writer.writerow([printable(c) if isinstance(c, str) else c for c in cells])
    return text.getvalue()


def print_table(title: str | None, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table; the first column is flush left, numbers flush right."""
    if title:
        _print_title(title)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 0, 0, 1))
    for position, heading in enumerate(headings):
        table.add_column(
            printable(heading), justify="left" if position == 0 else "right", no_wrap=True
        )
    for row in rows:
        table.add_row(*(printable(cell) for cell in row))
    # Never narrower than its numbers: a narrow terminal wraps lines, but loses nothing.
    needed = Measurement.get(stdout, stdout.options.update(max_width=10_000), table).maximum
    Console(**PLAIN, width=max(needed, stdout.width)).print(table)


def print_facts(title: str, facts: Mapping[str, str]) -> None:
    """Names and values, one pair a line."""
    _print_title(title)
    width = max(len(name) for name in facts)
    for name, value in facts.items():
        say(f"  {name:<{width}}  {value}")
    stdout.print()


def print_matrix(
    title: str, rows: Sequence[Sequence[float]], form: str, cell: int, *, square: bool = False
) -> None:
    """One row per state, one column per group; as many groups side by side as the screen holds.

    `form` formats a value, `cell` is the width of a column. The row of state s has s values; `square`:
    rows are those of the groups, and all have as many.
    """
    room = max(1, (stdout.width - 8) // cell)
    groups = max(len(row) for row in rows)
    for start in range(0, groups, room):
        stop = min(start + room, groups)
        part = f", groups {start + 1} to {stop}" if groups > room else ""
        lines = ["".join(f"{k:>{cell}}" for k in range(start + 1, stop + 1))]
        labels = ["group"]
        for number, row in enumerate(rows, start=1):
            if len(row) > start:
                labels.append(f"group {number}" if square else f"state {len(row)}")
                values = ("" if _missing(v) else format(v, form) for v in row[start:stop])
                lines.append("".join(f"{text:>{cell}}" for text in values))
        _print_title(f"{title}{part}")
        for label, line in zip(labels, lines, strict=True):
            say(f"{label:<8}{line}")
        stdout.print()


def _print_title(title: str) -> None:
    stdout.print(Text(printable(title), "bold"), soft_wrap=True)


def say(text: str) -> None:
    """One line of plain text on stdout, never wrapped."""
    stdout.print(printable(text), soft_wrap=True)


def note(text: str) -> None:
    """One line on stderr, for what is not a result."""
    tell_warnings()
    stderr.print(printable(text), soft_wrap=True)


def complain(kind: str, style: str, text: str) -> None:
    """One line on stderr that begins with what kind of line it is: 'error', 'warning'."""
    line = " ".join(printable(text).split())
    line = line if len(line) <= LONGEST else f"{line[:LONGEST]} ..."
    stderr.print(Text.assemble((f"{kind}:", style), f" {line}"), soft_wrap=True)


def warn(text: str) -> None:
    """Keep a warning until the next line on stderr, or the end: of what is refused, one line says it."""
    _warnings.append(text)


def tell_warnings() -> None:
    """Tell those that were kept."""
    while _warnings:
        complain("warning", "yellow", _warnings.pop(0))


def drop_warnings() -> None:
    """Forget them: the command that they are of is refused."""
    _warnings.clear()


def percent(value: float, sign: bool = False) -> str:
    """0.3370 as 33.70; with `sign`, +8.49."""
    return "-" if _missing(value) else f"{100 * value:{'+' if sign else ''}.2f}"


@contextmanager
def warnings_last() -> Iterator[None]:
    """What is warned of inside is told at the end, and only where nothing goes wrong."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for one in caught:
        warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)


@contextmanager
def progress_bar() -> Iterator[Bar]:
    """A bar on stderr with elapsed and remaining time; silent where stderr is no terminal."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.percentage:3.0f}%"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(
        *columns, console=stderr, transient=True, disable=not stderr.is_terminal
    ) as progress:
        task = progress.add_task("", total=1.0)
        yield lambda share, text: progress.update(
            task, completed=share, description=printable(text)
        )


def read_schedule(text: str | None) -> Schedule | None:
    """A schedule from a command-line option: sizes, or the name of a JSON file of class lists."""
    if text is None:
        return None
    if not text.endswith(".json"):
        return Schedule.of(text)
    data = read_json(text)
    try:
        return Schedule.of(data) if isinstance(data, list) else Schedule.from_json(data)
    except TransilError as error:
        raise TransilError(f"{text}: {error}") from None


def check_apart(output: Path, source: str | Path, what: str) -> None:
    """An error where the output would take the place of what it is made from."""
    if output.exists() and os.path.exists(source) and output.samefile(source):
        raise TransilError(f"{output}: {what}; write to another file")


def _missing(value: Any) -> bool:
    return value is None or (isinstance(value, float | np.floating) and math.isnan(value))

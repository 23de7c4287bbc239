"""What all figures of a report share: panels in a grid, colours, and SVG that a page lays out.

Margins are in inches and worked out from the labels: that is many times faster than a layout
engine, and the same on every machine. Each panel has all its labels, and is narrow enough for a
phone: its smallest letters are 8 points, on at most 3.6 inches.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeVar

from transil.errors import TransilError
from transil.report.names import shorten
from transil.report.palette import GREY
from transil.report.plotting import figure_class, settings

R = TypeVar("R")
C = TypeVar("C")
# What matplotlib writes: groups below the figure, and shapes that others refer to.
PART = re.compile(r'^  <g id="(panel-\d+|legend)">\n(.*?)^  </g>$', re.M | re.S)
SHAPE = re.compile(r'<(clipPath|pattern|path)\s+id="([^"]+)"(?:[^>]*/>|.*?</\1>)', re.S)
# Black follows the page's text colour; ink on coloured cells must not, so it is not quite black.
TEXT, INK, PAPER = "#000000", "#010101", "#fefefe"
GROUP = "group of classes (the newest is last)"
FONTS = "'DejaVu Sans', Verdana, sans-serif"
BASE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "transil",
    "text.parse_math": False,  # a dollar in a name is a dollar
    "font.family": "DejaVu Sans",
    "font.size": 9.0,
    "axes.titlesize": 9.0,
    "axes.labelsize": 9.0,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "legend.fontsize": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.facecolor": "none",
    "figure.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "axes.axisbelow": True,
    "grid.color": GREY,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.6,
    "hatch.linewidth": 0.6,
    "legend.frameon": False,
}


# Square inches, the longest side, and lines over all panels: a few seconds and 100 MB.
LARGEST, LONGEST, MOST_SERIES = 2000.0, 300.0, 4000
HANDLE = 33.0  # points that a legend's handle takes, left of its label


class TooLargeError(TransilError):
    """A figure that nobody could look at, and that would take minutes to draw."""


@dataclass(frozen=True)
class Piece:
    """A part of a figure that can stand alone: its group in the SVG, what it is of, its place."""

    group: str
    keys: tuple[str, ...]
    box: tuple[float, ...]  # left, top, width, height in points


@dataclass(frozen=True)
class Picture:
    """A finished figure: bytes of both kinds, what is seen, and the pieces a page lays out itself."""

    name: str
    title: str
    caption: str
    svg: str
    png: bytes
    panels: tuple[Piece, ...] = ()
    legend: tuple[Piece, ...] = ()
    columns: int = 1


@contextmanager
def drawing() -> Iterator[None]:
    """The settings of all figures, whatever the user's own are."""
    with settings(BASE), warnings.catch_warnings():
        # A letter that the font has not is left to the reader's browser.
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        yield


class Grid:
    """Panels in rows and columns, each complete by itself, and one legend below; sizes in inches."""

    def __init__(
        self,
        rows: Sequence[str],
        columns: Sequence[str],
        panel: tuple[float, float],
        *,
        x: str = "",
        y: str = "",
        left: float = 0.5,
        below: float = 0.5,
        legend: Sequence[str] = (),
    ) -> None:
        titled = any(rows) or any(columns)
        cell = (left + panel[0] + 0.15, below + panel[1] + (0.32 if titled else 0.12))
        width = max(len(columns) * cell[0], 2.5)
        # Entries of a legend stand in as many columns as fit.
        entry = max((0.085 * len(label) for label in legend), default=0.0) + 0.75
        self.legend_columns = max(1, min(len(legend), int(width / entry)))
        under = 0.2 * -(-len(legend) // self.legend_columns) + (0.15 if legend else 0.0)
        height = under + len(rows) * cell[1]
        series = len(rows) * len(columns) * max(1, len(legend))
        if width * height > LARGEST or max(width, height) > LONGEST or series > MOST_SERIES:
            raise TooLargeError(f"a figure of {len(rows):,} x {len(columns):,} panels is too large")
        self.figure: Any = figure_class()(figsize=(width, height), dpi=72)  # a pixel is a point
        self.keys = list(product(rows, columns))
        self.columns = len(columns)
        self.panels: list[Any] = []
        for i, keys in enumerate(self.keys):
            r, c = divmod(i, len(columns))
            at = (c * cell[0] + left, under + (len(rows) - 1 - r) * cell[1] + below)
            box = (at[0] / width, at[1] / height, panel[0] / width, panel[1] / height)
            axes = self.figure.add_axes(box, gid=f"panel-{i + 1}")
            axes.set(xlabel=x, ylabel=y, title=", ".join(short(key, 22) for key in keys if key))
            self.panels.append(axes)

    def over(self, rows: Iterable[R], columns: Iterable[C]) -> Iterator[tuple[R, C, Any]]:
        """What rows and columns stand for, with each panel."""
        for (row, column), axes in zip(product(rows, columns), self.panels, strict=True):
            yield row, column, axes

    def legend(self, handles: Sequence[Any]) -> None:
        """One legend below all panels, never over data."""
        made = self.figure.legend(
            handles=list(handles), loc="lower center", ncols=self.legend_columns, borderaxespad=0.2,
            handlelength=2.6, columnspacing=1.6,
        )  # fmt: skip
        made.set_gid("legend")

    def pieces(self) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
        """Panels and entries of the legend, with what they take of the figure."""
        boxes = [(axes.get_gid(), keys, axes.get_tightbbox(), 2.0)
                 for axes, keys in zip(self.panels, self.keys, strict=True)]  # fmt: skip
        entries = [("legend", (text.get_text(),), text.get_window_extent(), HANDLE)
                   for legend in self.figure.legends for text in legend.get_texts()]  # fmt: skip
        height = 72 * self.figure.get_figheight()

        def placed(group: str, keys: tuple[str, ...], box: Any, left: float) -> Piece:
            sides = (box.x0 - left, height - box.y1 - 2, box.width + left + 2, box.height + 4)
            return Piece(group, keys, tuple(round(x, 1) for x in sides))

        return tuple(placed(*b) for b in boxes), tuple(placed(*e) for e in entries)


def short(text: str, most: int = 18) -> str:
    """A name that fits; the tables have the whole one."""
    return shorten(text, most)


def room(texts: Sequence[str], size: float = 8.0, most: int = 18) -> float:
    """Inches that the longest of some labels needs."""
    return max((len(short(t, most)) for t in texts), default=0) * size * 0.62 / 72 + 0.1


def whole_ticks(axis: Any, last: int) -> None:
    """Ticks at 1..last, thinned where there are many."""
    step = 1 if last <= 10 else 2 if last <= 20 else 5 * -(-last // 50)
    axis.set_ticks([1, *range(step if step > 1 else 2, last + 1, step)])


def not_run(axes: Any) -> None:
    """A panel without data."""
    axes.set(xticks=(), yticks=(), xlabel="", ylabel="")
    axes.text(0.5, 0.5, "not run", ha="center", va="center", transform=axes.transAxes)


def finish(grid: Grid, name: str, title: str, caption: str) -> Picture:
    """Render a figure; the same one always gives the same bytes."""
    png, data = io.BytesIO(), io.BytesIO()
    grid.figure.savefig(png, format="png", dpi=110, metadata={"Software": None})
    meta = {"Date": None, "Creator": None, "Format": None, "Type": None}
    grid.figure.savefig(data, format="svg", metadata=meta)  # last: pieces are placed as it has them
    svg = re.sub(r"'DejaVu Sans'(, '[^']+')*(, sans-serif)?", FONTS, data.getvalue().decode())
    return Picture(name, title, caption, svg, png.getvalue(), *grid.pieces(), grid.columns)


def svg_file(picture: Picture) -> str:
    """The figure as a file: on white, for whatever opens it."""
    return picture.svg.replace(PAPER, "#ffffff")


def inline_groups(picture: Picture) -> dict[str, str]:
    """The groups of a figure for a page: no background, text in the page's colour, ids of their own.

    Each has what it refers to, so that it shows when others are hidden.
    """
    shapes = {m[2]: m[0] for m in SHAPE.finditer(picture.svg)}
    groups = {}
    for name, body in PART.findall(picture.svg):
        there = set(re.findall(r'\bid="([^"]+)"', body))
        used = dict.fromkeys(re.findall(r'(?:url\(|href=")#([^)"]+)', body))
        lost = "".join(shapes[x] for x in used if x not in there and x in shapes)
        body = f"<defs>{lost}</defs>{body}" if lost else body
        own = f"{picture.name}-{name}"
        body = re.sub(r'\bid="([^"]+)"', lambda m: f'id="{own}-{m[1]}"', body)  # noqa: B023
        body = re.sub(r'(url\(|href=")#', rf"\1#{own}-", body)
        body = body.replace(f"fill: {PAPER}", "fill: none").replace(TEXT, "currentColor")
        body = re.sub(r"<text (?![^>]*fill:)", '<text fill="currentColor" ', body)
        groups[name] = re.sub(r"\n\s+", "\n", body.replace(f"font-family: {FONTS}; ", ""))
    return groups

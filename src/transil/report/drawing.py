"""What all figures of a report share: panels in a grid, colours, and SVG that fits into a page.

Margins are in inches and worked out from the labels: that is many times faster than a layout
engine, and the same on every machine.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from typing import Any

from transil.errors import TransilError
from transil.report.names import shorten
from transil.report.palette import GREY
from transil.report.plotting import figure_class, settings

# Black follows the page's text colour; ink on coloured cells must not, so it is not quite black.
TEXT, INK, PAPER = "#000000", "#010101", "#fefefe"
FONTS = "'DejaVu Sans', Verdana, sans-serif"
BASE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "transil",
    "text.parse_math": False,  # a dollar in a name is a dollar
    "font.family": "DejaVu Sans",
    "font.size": 9.0,
    "axes.titlesize": 9.5,
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


class TooLargeError(TransilError):
    """A figure that nobody could look at, and that would take minutes to draw."""


@dataclass(frozen=True)
class Picture:
    """A finished figure: bytes of both kinds, and what is seen."""

    name: str
    title: str
    caption: str
    svg: str
    png: bytes


@contextmanager
def drawing() -> Iterator[None]:
    """The settings of all figures, whatever the user's own are."""
    with settings(BASE), warnings.catch_warnings():
        # A letter that the font has not is left to the reader's browser.
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        yield


class Grid:
    """Panels in rows and columns, sizes in inches, with room for labels and one legend below."""

    def __init__(
        self,
        rows: int,
        columns: int,
        panel: tuple[float, float],
        *,
        left: float = 0.75,
        right: float = 0.25,
        top: float = 0.4,
        gap: tuple[float, float] = (0.3, 0.45),
        bottom: float = 0.55,
        legend: Sequence[str] = (),
        least: float = 7.0,
    ) -> None:
        # A single small panel is drawn wider: a page would blow it up otherwise.
        spare = least - (left + right + columns * panel[0] + (columns - 1) * gap[0])
        wide = panel[0] + max(0.0, spare) / columns
        self.width = left + right + columns * wide + (columns - 1) * gap[0]
        # Entries of a legend stand in as many columns as fit.
        entry = max((0.085 * len(label) for label in legend), default=0.0) + 0.75
        self.legend_columns = max(1, min(len(legend), int(self.width / entry)))
        legend_rows = -(-len(legend) // self.legend_columns)
        self.below = 0.2 * legend_rows + (0.18 if legend else 0.0)
        self.panel = panel
        under = bottom + self.below
        height = top + under + rows * panel[1] + (rows - 1) * gap[1]
        series = rows * columns * max(1, len(legend))
        if (
            self.width * height > LARGEST
            or max(self.width, height) > LONGEST
            or series > MOST_SERIES
        ):
            raise TooLargeError(f"a figure of {rows:,} x {columns:,} panels is too large")
        self.figure: Any = figure_class()(figsize=(self.width, height))
        self.panels: list[list[Any]] = []
        for r in range(rows):
            y = under + (rows - 1 - r) * (panel[1] + gap[1])
            self.panels.append([])
            for c in range(columns):
                x = left + c * (wide + gap[0])
                box = (x / self.width, y / height, wide / self.width, panel[1] / height)
                self.panels[-1].append(self.figure.add_axes(box))
        self.height, self.rows, self.columns = height, rows, columns

    def row_name(self, r: int, text: str) -> None:
        """A row's name at the left edge, read upwards, no longer than the row."""
        most = max(4, int((self.panel[1] + 0.1) / 0.09))
        box = self.panels[r][0].get_position()
        self.figure.text(0.08 / self.width, (box.y0 + box.y1) / 2, short(text, most), rotation=90,
                         va="center", ha="left", fontweight="bold")  # fmt: skip

    def x_label(self, text: str) -> None:
        """One label for the whole bottom row."""
        boxes = [a.get_position() for a in self.panels[-1]]
        middle = (boxes[0].x0 + boxes[-1].x1) / 2
        self.figure.text(middle, (self.below + 0.08) / self.height, text, ha="center", va="bottom")

    def legend(self, handles: Sequence[Any]) -> None:
        """One legend below all panels, never over data."""
        self.figure.legend(handles=list(handles), loc="lower center", ncols=self.legend_columns,
                           borderaxespad=0.2, handlelength=2.6, columnspacing=1.6)  # fmt: skip


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


def finish(grid: Grid, name: str, title: str, caption: str) -> Picture:
    """Render a figure; the same one always gives the same bytes."""
    data = io.BytesIO()
    meta = {"Date": None, "Creator": None, "Format": None, "Type": None}
    grid.figure.savefig(data, format="svg", metadata=meta)
    png = io.BytesIO()
    grid.figure.savefig(png, format="png", dpi=110, metadata={"Software": None})
    return Picture(name, title, caption, data.getvalue().decode(), png.getvalue())


def svg_file(picture: Picture) -> str:
    """The figure as a file: on white, for whatever opens it."""
    return _fonts(picture.svg).replace(PAPER, "#ffffff")


def inline_svg(picture: Picture) -> str:
    """The figure inside a page: no background, text in the page's colour, ids of its own."""
    svg = _fonts(picture.svg[picture.svg.index("<svg") :])
    head, body = svg.split(">", 1)
    box = re.search(r'viewBox="[^"]*"', head)
    body = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", body, flags=re.DOTALL)
    own = picture.name
    body = re.sub(r'\bid="([^"]+)"', rf'id="{own}-\1"', body)
    body = re.sub(r"url\(#([^)]+)\)", rf"url(#{own}-\1)", body)
    body = re.sub(r'href="#([^"]+)"', rf'href="#{own}-\1"', body)
    body = body.replace(f"fill: {PAPER}", "fill: none").replace(TEXT, "currentColor")
    body = re.sub(r"<text (?![^>]*fill:)", '<text fill="currentColor" ', body)
    body = re.sub(r"\n\s+", "\n", body.replace(f"font-family: {FONTS}; ", ""))
    label = escape(f"{picture.title}. {picture.caption}", quote=True)
    # Larger than life it would shout beside the text; on a phone it scrolls before it is too small.
    wide = re.search(r'width="([\d.]+)pt"', head)
    size = float(wide[1]) * 96 / 72 if wide else 700.0
    style = f"max-width:{1.2 * size:.0f}px;min-width:{min(0.6 * size, 700):.0f}px"
    return f'<svg {box[0] if box else ""} style="{style}" role="img" aria-label="{label}">{body.strip()}'


def _fonts(svg: str) -> str:
    """Fonts of about the same width where ours is missing, instead of matplotlib's long list."""
    return re.sub(r"'DejaVu Sans'(, '[^']+')*(, sans-serif)?", FONTS, svg)

"""How things are called and how numbers are written in a report."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from transil.report import paper

METHODS = {"lwf": "LwF", "lwf-t": "LwF-T", "lwf-all": "LwF-all", "lucir": "LUCIR", "siw": "SIW",
           "ft": "FT", "ft+": "FT+", "joint": "Joint"}  # fmt: skip
CORRECTIONS = {
    "adbic": "adBiC",
    "bic": "BiC",
    "bic-past": "BiC-past",
    "bic-all": "BiC-all",
    "adbic-centred": "adBiC, centred",
}
KINDS = ("raw", "control", "transfer", "bound")
# The paper's order; other corrections stand between BiC and adBiC's successors as they come.
RANKS = {"bic": 0, "adbic": 2, "adbic-centred": 3}
BOUNDS = {"oracle": "oracle", "own": "own validation"}
MISSING, STAR = "-", "\N{BLACK STAR}"


@dataclass(frozen=True)
class Line:
    """What is done to a model's scores: one kind of row of Table 1."""

    kind: str
    name: str
    solver: str | None = None
    transfer: str | None = None

    @property
    def paper_name(self) -> str | None:
        """Its name in the paper's table, where that has it."""
        if self.kind == "raw":
            return "raw"
        if self.kind == "transfer" and self.transfer == "mean" and self.name in ("bic", "adbic"):
            return self.name
        if self.kind == "bound" and self.transfer == "oracle" and self.name == "adbic":
            return "oracle"
        return None

    def label(self, solver: bool = False) -> str:
        """A short name; with `solver` where there are several."""
        if self.kind == "raw":
            return "raw"
        if self.kind == "control":
            return f"{self.name} (control)"
        extra = BOUNDS.get(self.transfer or "", self.transfer) if self.transfer != "mean" else None
        text = correction(self.name) + (f", {extra}" if extra else "")
        return f"{text} ({self.solver})" if solver and self.solver else text


def method(name: str) -> str:
    """A method as the paper writes it."""
    return METHODS.get(name, name)


def methods(items: Iterable[str]) -> list[str]:
    """Methods as a legend names them: not too long."""
    return [shorten(method(name), 20) for name in items]


def correction(name: str) -> str:
    """A correction as the paper writes it."""
    return CORRECTIONS.get(name, name)


def target(name: str) -> str:
    """A data set as the paper writes it, where it is one of the paper's."""
    return paper.TARGETS.get(name, name)


def shorten(text: str, most: int) -> str:
    """A name that fits; the tables have the whole one."""
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[: most - 1]}…"


def number(value: float | None, digits: int = 1) -> str:
    """A percentage, or the mark of a missing one."""
    if value is None:
        return MISSING
    text = f"{value:.{digits}f}"
    return text[1:] if float(text) == 0 and text.startswith("-") else text


def signed(value: float, digits: int = 1, minus: str = "\N{MINUS SIGN}") -> str:
    """A difference, always with its sign; what rounds to nothing has none of its own."""
    text = f"{abs(value):.{digits}f}"
    if float(text) == 0:
        return f"±{text}"
    return ("+" if value > 0 else minus) + text


def end(value: float) -> str:
    """An end of an interval: with a second digit where one would hide on which side of 0 it is."""
    return signed(value, 2) if abs(value) < 0.05 else signed(value)


def interval(low: float, high: float) -> str:
    """An interval of a difference in points."""
    return f"[{end(low)}, {end(high)}]"


def count(n: int, one: str, many: str | None = None) -> str:
    """A number of things: '1 target', '3 targets'."""
    return f"{n} {one if n == 1 else many or one + 's'}"


def listed(items: list[str]) -> str:
    """Words in a row: 'a, b and c'."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"

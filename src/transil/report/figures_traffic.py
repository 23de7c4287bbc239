"""Accuracy against the skew of class frequencies, one line for each prior."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING, Any, TypeAlias

from transil.report import names
from transil.report.drawing import Grid, Picture, finish, short
from transil.report.palette import BLUE, GREY, prior_styles
from transil.report.rendering import words
from transil.report.study import Study, grouped, unique
from transil.report.traffic import tail_label, traffic_columns, way_label

if TYPE_CHECKING:
    from transil.experiment.results import Adapted

# Colour, marker, line and its width; the bank's shows where a prior changes nothing.
Look: TypeAlias = tuple[str, str, str, float]
OTHERS: dict[str, Look] = {
    "raw": (GREY, "o", "--", 1.3),
    "bank": (BLUE, "o", "-", 3.2),
    "bound": (GREY, "x", ":", 1.3),
}


def traffic_figure(study: Study) -> Picture | None:
    """One panel per method and S: the mean over targets at each tail. Controls are in the table."""
    fraction = max((a.setting.fraction for a in study.traffic), default=1.0)
    rows = [a for a in study.traffic if a.setting.fraction == fraction and a.kind != "control"]
    ways = traffic_columns(rows)
    if not ways:
        return None
    methods = [m for m in study.methods if any(a.setting.method == m for a in rows)]
    all_states = sorted({a.setting.states for a in rows})
    tails = sorted({a.tail for a in rows})
    labels = [_label(*way) for way in ways]
    grid = Grid(
        names.methods(methods), [f"S = {s}" for s in all_states], (2.8, 2.1),
        x="commonest to rarest class", y="accuracy (%)", legend=labels,
    )  # fmt: skip
    styles = _styles(ways)
    of = grouped(((a.setting.method, a.setting.states, a.kind, a.name), a) for a in rows)
    handles: list[Any] = []
    for method, states, axes in grid.over(methods, all_states):
        handles = [
            _draw(axes, tails, of.get((method, states, *way), []), styles[way], label)
            for way, label in zip(ways, labels, strict=True)
        ]
        axes.set_xlim(-0.3, len(tails) - 0.7)
        axes.set_xticks(range(len(tails)), [tail_label(t) for t in tails])
        axes.grid()
    for r in range(0, len(grid.panels), len(all_states)):
        _one_scale(grid.panels[r : r + len(all_states)])
    grid.legend(handles)
    targets = unique(names.target(a.setting.target) for a in rows)
    return finish(grid, "traffic", *words("traffic", targets=names.listed(targets)))


def _styles(ways: list[tuple[str, str]]) -> dict[tuple[str, str], Look]:
    priors = prior_styles([name for kind, name in ways if kind == "prior"])
    return {
        way: OTHERS[way[0]] if way[0] in OTHERS else (*priors[way[1]], "-", 1.3) for way in ways
    }


def _label(kind: str, name: str) -> str:
    return short(f"{'prior ' * (kind == 'prior')}{way_label(kind, name)}", 36)


def _draw(axes: Any, tails: list[float], rows: list[Adapted], style: Look, label: str) -> Any:
    """One line; the mean over targets, seeds and draws."""
    at = grouped((a.tail, 100 * a.average) for a in rows)
    there = [i for i, tail in enumerate(tails) if tail in at]
    colour, marker, line, width = style
    (drawn,) = axes.plot(
        there, [fmean(at[tails[i]]) for i in there], line, color=colour, marker=marker,
        markersize=4, linewidth=width, label=label,
    )  # fmt: skip
    return drawn


def _one_scale(panels: list[Any]) -> None:
    """One scale per row, so that numbers of states can be compared."""
    ends = [axes.get_ylim() for axes in panels]
    for axes in panels:
        axes.set_ylim(min(low for low, _ in ends), max(high for _, high in ends))

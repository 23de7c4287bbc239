"""Table 1 as a picture, and the number of references."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from transil.report import names
from transil.report.drawing import (
    TEXT,
    Grid,
    Picture,
    finish,
    not_run,
    room,
    short,
    whole_ticks,
)
from transil.report.more_tables import ablation_groups
from transil.report.names import Line
from transil.report.palette import GREY, Style, control_styles, correction_styles, method_style
from transil.report.rendering import words
from transil.report.study import Study, place_of, unique

# A control may stretch the scale by so much of the range of the transfers, on either side.
FAR = 0.8


def gains_figure(study: Study) -> Picture | None:
    """The gain of every correction and control, one panel per method and S."""
    fraction = study.fractions[0] if study.fractions else 1.0
    main = study.main
    solver = main.solver if main else None
    lines = [x for x in study.lines(fraction) if x.kind == "control"
             or (x.kind == "transfer" and x.solver == solver)]  # fmt: skip
    columns = study.columns(fraction)
    methods = [m for m in study.methods
               if any(study.get((t, m, s, fraction), x) for t, s in columns for x in lines)]  # fmt: skip
    if not methods:
        return None
    targets, all_states = unique(t for t, _ in columns), sorted({s for _, s in columns})
    styles = _styles(lines)
    height = max(0.9, len(targets) * (0.1 * len(lines) + 0.14))
    labels = [short(names.target(t), 14) for t in targets]
    grid = Grid(
        names.methods(methods), [f"S = {s}" for s in all_states], (2.3, height),
        x="gain (points)", left=room(labels), legend=[short(x.label(), 22) for x in lines],
    )  # fmt: skip
    points = {
        method: {
            (line, states): _points(study, targets, (method, states, fraction), line, shift)
            for states in all_states
            for line, shift in zip(lines, _shifts(len(lines)), strict=True)
        }
        for method in methods
    }
    handles: list[Any] = []
    for method, states, axes in grid.over(methods, all_states):
        low, high = _limits(points[method])  # one scale per method, so that the S can be compared
        handles = [_draw(axes, points[method][line, states], styles[line], line, (low, high))
                   for line in lines]  # fmt: skip
        axes.axvline(0, color=TEXT, linewidth=0.7)
        axes.grid(axis="x")
        for y in range(1, len(targets)):
            axes.axhline(y - 0.5, color=GREY, linewidth=0.4, alpha=0.4)
        axes.set(xlim=(low, high), ylim=(len(targets) - 0.5, -0.5))
        axes.set_yticks(range(len(targets)), labels)
        axes.tick_params(axis="y", length=0)
    grid.legend(handles)
    return finish(grid, "gains", *words("gains"))


class _Point(NamedTuple):
    """A gain with its interval, in points, and where it stands."""

    height: float
    gain: float
    low: float
    high: float


def _shifts(count: int) -> list[float]:
    """Where lines stand around the height of their target."""
    return [(i - (count - 1) / 2) * 0.72 / count for i in range(count)]


def _points(
    study: Study, targets: list[str], place: tuple[str, int, float], line: Line, shift: float
) -> list[_Point]:
    found = []
    for y, target in enumerate(targets):
        s = study.get((target, *place), line)
        if s is not None and s.gain is not None:
            gain = 100 * s.gain
            found.append(_Point(y + shift, gain, _bound(s.low, gain), _bound(s.high, gain)))
    return found


def _limits(points: Mapping[tuple[Line, int], list[_Point]]) -> tuple[float, float]:
    """The scale of a row: zero, all transfers, and controls that are not far outside."""

    def ends(kind: str) -> list[float]:
        found = [p for (line, _), those in points.items() if line.kind == kind for p in those]
        return [x for p in found for x in (p.low, p.high)]

    inner, controls = [0.0, *ends("transfer")], ends("control")
    low, high = min(inner), max(inner)
    stretch = FAR * (high - low) if len(inner) > 1 else float("inf")
    near = [x for x in controls if low - stretch <= x <= high + stretch]
    left_out = [x < low for x in controls if x not in near]
    low, high = min([low, *near]), max([high, *near])
    size = high - low or 1.0
    # An arrow needs room for its number.
    return (
        low - size * (0.16 if True in left_out else 0.05),
        high + size * (0.16 if False in left_out else 0.05),
    )


def _draw(
    axes: Any,
    points: list[_Point],
    style: Style,
    line: Line,
    limits: tuple[float, float],
) -> Any:
    """One line in one panel; what the limits leave out becomes an arrow at their edge."""
    colour, marker = style
    there = [p for p in points if limits[0] <= p.gain <= limits[1]]
    for p in points:
        if p in there:
            continue
        left = p.gain < limits[0]
        inside = 0.02 * (limits[1] - limits[0])
        edge = limits[0] + inside if left else limits[1] - inside
        axes.plot(edge, p.height, "<" if left else ">", color=colour, markersize=4)
        axes.annotate(
            names.signed(p.gain), (edge, p.height), (5 if left else -5, 0),
            textcoords="offset points", ha="left" if left else "right", va="center",
            fontsize=7.5, color=TEXT,
        )  # fmt: skip
    return axes.errorbar(
        [p.gain for p in there], [p.height for p in there],
        xerr=np.clip([[p.gain - p.low for p in there], [p.high - p.gain for p in there]], 0, None),
        fmt=marker, color=colour, markersize=4, elinewidth=1.1, capsize=1.5, markeredgewidth=1.2,
        label=short(line.label(), 22),
    )  # fmt: skip


def _styles(lines: list[Line]) -> dict[Line, Style]:
    """A correction has one colour; another transfer than the mean has another marker."""
    controls = control_styles([x.name for x in lines if x.kind == "control"])
    corrections = correction_styles([x.name for x in lines if x.kind == "transfer"])
    styles = {}
    for line in lines:
        colour, marker = (controls if line.kind == "control" else corrections)[line.name]
        styles[line] = (colour, marker if line.transfer in (None, "mean") else "<")
    return styles


def _bound(share: float | None, otherwise: float) -> float:
    return otherwise if share is None else 100 * share


def ablation_figure(study: Study) -> Picture | None:
    """Gain with R references, one panel per target and S."""
    from matplotlib.lines import Line2D

    main = study.main
    known = unique((a.correction, a.solver) for a in study.ablations)
    series: dict[tuple[str, int], dict[str, tuple[list[int], list[float], list[float]]]] = {}
    for method in study.methods:
        for group in ablation_groups(study, method):
            place = place_of(group[0].setting)
            raw = study.raw(place, [a.setting.seed for a in group])
            fit = (group[0].correction, group[0].solver)
            wanted = (main.name, main.solver) if main else fit
            if raw is None or place[3] != study.fractions[0] or (wanted in known and fit != wanted):
                continue
            counts = sorted({n for a in group for n in a.counts})
            if not counts:
                continue
            at = [[(a.mean[a.counts.index(n)], a.std[a.counts.index(n)]) for a in group
                   if n in a.counts] for n in counts]  # fmt: skip
            series.setdefault((place[0], place[2]), {})[method] = (
                counts,
                [100 * (fmean(m for m, _ in values) - raw.average) for values in at],
                [100 * fmean(s for _, s in values) for values in at],
            )
    if not series:
        return None
    targets = [t for t in study.targets if any(k[0] == t for k in series)]
    all_states = sorted({k[1] for k in series})
    methods = [m for m in study.methods if any(m in v for v in series.values())]
    labels = names.methods(methods)
    grid = Grid([names.target(t) for t in targets], [f"S = {s}" for s in all_states], (2.8, 1.9),
                x="number of references, R", y="gain (points)", legend=labels)  # fmt: skip
    most = max(n for panel in series.values() for counts, _, _ in panel.values() for n in counts)
    for target, states, axes in grid.over(targets, all_states):
        found = series.get((target, states), {})
        if not found:
            not_run(axes)
            continue
        for i, (method, (counts, gains, stds)) in enumerate(found.items()):
            colour, marker = method_style(study.methods, method)
            shift = 0.07 * (i - (len(found) - 1) / 2)
            axes.errorbar(
                [n + shift for n in counts], gains, yerr=stds, color=colour, marker=marker,
                markersize=3.6, linewidth=1.1, capsize=1.8, elinewidth=0.9,
            )  # fmt: skip
        axes.axhline(0, color=TEXT, linewidth=0.7)
        axes.grid()
        whole_ticks(axes.xaxis, most)
        axes.set_xlim(0.6, most + 0.4)
    styles = (method_style(study.methods, method) for method in methods)
    handles = [Line2D([], [], color=colour, marker=marker, markersize=3.6, label=label)
               for (colour, marker), label in zip(styles, labels, strict=True)]  # fmt: skip
    grid.legend(handles)
    return finish(grid, "table-3-references", *words("table-3-references"))

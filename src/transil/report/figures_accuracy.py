"""The paper's Figures 4 and 5: accuracy of each group, and of each state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from transil.report import names
from transil.report.drawing import INK, Grid, Picture, finish, short, whole_ticks
from transil.report.figures_scores import pick_states, seed_note, shown_details
from transil.report.palette import GREY, method_style
from transil.report.study import Study, unique

if TYPE_CHECKING:
    from transil.experiment.results import Detail


def matrix_figures(study: Study) -> list[Picture]:
    """Figure 4, one per target: accuracy of each group in each state, before and after."""
    found = shown_details(study)
    if not found:
        return []
    states = pick_states(unique(k[2] for k in found))
    pictures = []
    targets = unique(k[0] for k in found if k[2] == states)
    for number, target in enumerate(targets, 1):
        chosen = {k[1]: v for k, v in found.items() if k[0] == target and k[2] == states}
        name = "figure-4" + (f"-{number}" if number > 1 else "")
        pictures.append(_matrices(study, target, states, chosen, name))
    return pictures


def _matrices(
    study: Study, target: str, states: int, chosen: dict[str, tuple[Detail, Detail]], name: str
) -> Picture:
    main = study.main
    label = main.label() if main else ""
    grid = Grid(len(chosen), 3, (2.3, 2.3), left=0.95, right=1.1, gap=(0.45, 0.35), least=0)
    heads = ("uncorrected (%)", f"{short(label, 22)} (%)", "change (points)")
    images: list[Any] = [None, None]
    changes = [_array(d[1]) - _array(d[0]) for d in chosen.values()]
    most = max([5.0, *(float(np.nanmax(np.abs(c))) for c in changes if not np.isnan(c).all())])
    for r, (method, (raw, better)) in enumerate(chosen.items()):
        grid.row_name(r, names.method(method))
        panels = ((_array(raw), 0), (_array(better), 0), (changes[r], 1))
        for c, (matrix, is_change) in enumerate(panels):
            axes = grid.panels[r][c]
            size = len(matrix)
            scale: dict[str, Any] = {"vmin": 0, "vmax": 100, "cmap": "viridis"}
            if is_change:
                scale = {"vmin": -most, "vmax": most, "cmap": "RdBu"}
            images[is_change] = axes.imshow(
                matrix, extent=(0.5, size + 0.5, size + 0.5, 0.5), interpolation="nearest", **scale
            )
            if size <= 10:
                _numbers(axes, matrix, most if is_change else None)
            for side in axes.spines.values():
                side.set_visible(False)
            # Ticks take much of the drawing time; inner panels need none.
            for axis, outer in ((axes.xaxis, r == len(chosen) - 1), (axes.yaxis, c == 0)):
                if outer:
                    whole_ticks(axis, size)
                else:
                    axis.set_ticks([])
            axes.tick_params(length=2)
            if r == 0:
                axes.set_title(heads[c])
            if c == 0:
                axes.set_ylabel("state")
    grid.x_label("group of classes")
    _bars(grid, images)
    return finish(
        grid, name, f"Figure 4: accuracy of each group on {names.target(target)}",
        f"Accuracy (%) on {names.target(target)} of each group of classes (column) in each state "
        f"(row), S = {states}: uncorrected, with {label}, and the change in points. The "
        "diagonal is the newest group: where it is much brighter than the rest of its row, new "
        f"classes are favoured. Blue is gained, red is lost.{seed_note(study)}",
    )  # fmt: skip


def _bars(grid: Grid, images: list[Any]) -> None:
    """Two colour bars at the right: accuracy, and change."""
    top, last = grid.panels[0][2].get_position(), grid.panels[-1][2].get_position()
    x, half = top.x1 + 0.3 / grid.width, (top.y1 - last.y0) / 2
    gap = 0.18 / grid.height
    for image, y, label in ((images[0], last.y0 + half + gap, "accuracy (%)"),
                            (images[1], last.y0, "change (points)")):  # fmt: skip
        axes = grid.figure.add_axes((x, y, 0.14 / grid.width, half - gap))
        bar = grid.figure.colorbar(image, cax=axes, label=label)
        bar.outline.set_visible(False)


def _numbers(axes: Any, matrix: Any, most: float | None) -> None:
    for s, k in zip(*np.nonzero(~np.isnan(matrix)), strict=True):
        value = matrix[s, k]
        dark = value < 55 if most is None else abs(value) > 0.6 * most
        text = names.number(value, 0) if most is None else _whole(value)
        axes.text(k + 1, s + 1, text, ha="center", va="center", fontsize=6,
                  color="#ffffff" if dark else INK)  # fmt: skip


def _whole(value: float) -> str:
    return names.signed(value, 0).replace("±", "")


def _array(d: Detail) -> Any:
    """Row s, column k; NaN where a group is not yet there or has no images."""
    size = len(d.group_accuracy)
    matrix = np.full((size, size), np.nan)
    for s, row in enumerate(d.group_accuracy):
        for k, value in enumerate(row[:size]):
            if value is not None:
                matrix[s, k] = 100 * value
    return matrix


def states_figure(study: Study) -> Picture | None:
    """Figure 5: accuracy per state, one panel per target and S."""
    from matplotlib.lines import Line2D

    main = study.main
    if not study.cells:
        return None
    fraction = study.fractions[0]
    columns = study.columns(fraction)
    targets, all_states = unique(t for t, _ in columns), sorted({s for _, s in columns})
    methods = study.methods
    labels = names.methods(methods)
    if main:
        labels += ["uncorrected", short(main.label(), 22)]
    grid = Grid(
        len(targets), len(all_states), (2.9, 1.75), left=1.0, gap=(0.3, 0.35),
        legend=labels,
    )  # fmt: skip
    for r, target in enumerate(targets):
        grid.row_name(r, names.target(target))
        for c, states in enumerate(all_states):
            axes = grid.panels[r][c]
            for method in methods:
                place = (target, method, states, fraction)
                colour, marker = method_style(methods, method)
                for summary, style in (
                    (study.raw(place), "--"),
                    (study.get(place, main) if main else None, "-"),
                ):
                    if summary is None:
                        continue
                    values = [100 * v for v in summary.accuracy]
                    axes.plot(
                        range(1, len(values) + 1), values, style, color=colour, linewidth=1.3,
                        marker=marker, markersize=2.6 if style == "-" else 0,
                    )  # fmt: skip
            axes.set_ylim(0, 100)
            axes.set_xlim(0.5, states + 0.5)
            whole_ticks(axes.xaxis, states)
            axes.grid()
            axes.tick_params(labelleft=c == 0, labelbottom=r == len(targets) - 1)
            if r == 0:
                axes.set_title(f"S = {states}")
            if c == 0:
                axes.set_ylabel("accuracy (%)")
    handles = []
    for method, label in zip(methods, labels, strict=False):
        colour, marker = method_style(methods, method)
        handles.append(Line2D([], [], color=colour, marker=marker, markersize=3.5, label=label))
    if main:
        handles.append(Line2D([], [], color=GREY, linestyle="--", label=labels[-2]))
        handles.append(Line2D([], [], color=GREY, linestyle="-", label=labels[-1]))
    grid.x_label("state")
    grid.legend(handles)
    seeds = ", mean over seeds" if len(study.seeds) > 1 else ""
    what = f" before (dashed) and after {main.label()} (solid)" if main else ""
    return finish(
        grid, "figure-5", "Figure 5: accuracy per state",
        f"Accuracy on the classes seen so far, state by state{seeds},{what}. One row per target, "
        "one column per number of states; the wider the gap between the two lines of a colour, "
        "the more the correction gains.",
    )  # fmt: skip

"""The paper's Figures 4 and 5: accuracy of each group, and of each state; and the transfer matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from transil.report import names
from transil.report.drawing import INK, Grid, Picture, finish, room, short, whole_ticks
from transil.report.figures_scores import pick_states, shown_details
from transil.report.more_tables import main_singles
from transil.report.palette import GREY, method_style
from transil.report.rendering import words
from transil.report.study import Study, unique

if TYPE_CHECKING:
    from transil.experiment.results import Detail

NUMBERED = 10  # the longest side of a matrix that has its numbers in it; others have a colour bar


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
    label = study.main.label() if study.main else ""
    changes = {m: group_matrix(d[1]) - group_matrix(d[0]) for m, d in chosen.items()}
    most = max(
        [5.0, *(float(np.nanmax(np.abs(c))) for c in changes.values() if not np.isnan(c).all())]
    )
    kinds = ("uncorrected (%)", f"{short(label, 18)} (%)", "change")
    grid = Grid(names.methods(chosen), kinds, (2.3, 2.3), x="group of classes", y="state",
                left=0.45, below=0.45)  # fmt: skip
    for method, kind, axes in grid.over(chosen, (0, 1, 2)):
        matrix = changes[method] if kind == 2 else group_matrix(chosen[method][kind])
        heat(axes, matrix, most if kind == 2 else None)
        for axis in (axes.xaxis, axes.yaxis):
            whole_ticks(axis, len(matrix))
    return finish(
        grid,
        name,
        *words(
            "figure-4", target=names.target(target), label=label, states=states, seeds=study.seeds
        ),
    )


def heat(
    axes: Any, matrix: Any, most: float | None = None,
    said: Callable[[float], str] = lambda value: names.signed(value, 0).replace("±", ""),
) -> None:  # fmt: skip
    """A matrix in colours: percentages, or changes of at most `most` points on either side."""
    rows, columns = matrix.shape
    scale = {"vmin": 0, "vmax": 100, "cmap": "viridis"} if most is None else {
        "vmin": -most, "vmax": most, "cmap": "RdBu"}  # fmt: skip
    image = axes.imshow(matrix, extent=(0.5, columns + 0.5, rows + 0.5, 0.5), aspect="auto",
                        interpolation="nearest", **scale)  # fmt: skip
    axes.tick_params(length=2)
    for side in axes.spines.values():
        side.set_visible(False)
    if (max(rows, columns) > NUMBERED and most is None) or max(rows, columns) > 2 * NUMBERED:
        bar = axes.figure.colorbar(image, cax=axes.inset_axes((1.03, 0, 0.04, 1)))
        bar.outline.set_visible(False)
        return
    for r, c in zip(*np.nonzero(~np.isnan(matrix)), strict=True):
        value = matrix[r, c]
        dark = value < 55 if most is None else abs(value) > 0.6 * most
        axes.text(c + 1, r + 1, names.number(value, 0) if most is None else said(value), ha="center",
                  va="center", fontsize=7, color="#ffffff" if dark else INK)  # fmt: skip


def group_matrix(d: Detail) -> Any:
    """Accuracy (%) in row s, column k; NaN where a group is not yet there or has no images."""
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
    styles = {m: method_style(study.methods, m) for m in study.methods}
    labels = names.methods(styles)
    handles = [Line2D([], [], color=colour, marker=marker, markersize=3.5, label=label)
               for (colour, marker), label in zip(styles.values(), labels, strict=True)]  # fmt: skip
    ways: list[tuple[Any, str]] = [
        ("--", "uncorrected"),
        *([("-", short(main.label(), 22))] if main else []),
    ]
    if main:
        handles += [Line2D([], [], color=GREY, linestyle=s, label=label) for s, label in ways]
    grid = Grid(
        [names.target(t) for t in targets], [f"S = {s}" for s in all_states], (2.8, 1.9),
        x="state", y="accuracy (%)", legend=[str(h.get_label()) for h in handles],
    )  # fmt: skip
    for target, states, axes in grid.over(targets, all_states):
        for method, (colour, marker) in styles.items():
            place = (target, method, states, fraction)
            found = (study.raw(place), study.get(place, main) if main else None)
            for summary, (style, _) in zip(found, ways, strict=False):
                values = [100 * v for v in summary.accuracy] if summary else []
                axes.plot(
                    range(1, len(values) + 1), values, style, color=colour, linewidth=1.3,
                    marker=marker, markersize=2.6 if style == "-" else 0,
                )  # fmt: skip
        axes.set(xlim=(0.5, states + 0.5), ylim=(0, 100))
        whole_ticks(axes.xaxis, states)
        axes.grid()
    grid.legend(handles)
    return finish(
        grid, "figure-5", *words("figure-5", label=main.label() if main else "", seeds=study.seeds)
    )


def transfer_figure(study: Study) -> Picture | None:
    """The transfer matrix: what one reference alone gains on one target."""
    singles = main_singles(study)
    if not singles:
        return None
    there = [{k[i] for k in singles} for i in range(3)]
    references = [x for x in study.references if x in there[0]]
    targets = [t for t in study.targets if t in there[1]]
    methods = [m for m in study.methods if m in there[2]]
    all_states = sorted({k[3] for k in singles})
    rows = [short(names.target(x), 14) for x in references]
    columns = [short(names.target(x), 14) for x in targets]
    grid = Grid(
        names.methods(methods), [f"S = {s}" for s in all_states],
        (max(1.6, 0.46 * len(targets)), max(0.7, 0.24 * len(references))),
        left=room(rows), below=0.1 + 0.72 * room(columns, most=14),
    )  # fmt: skip
    most = max([1.0, *(abs(e.gain or 0.0) for e in singles.values())])
    for method, states, axes in grid.over(methods, all_states):
        found = [[singles.get((r, t, method, states)) for t in targets] for r in references]
        gains = np.array([[np.nan if e is None or e.gain is None else e.gain for e in row]
                          for row in found], dtype=float)  # fmt: skip
        axes.add_patch(_hatched(len(targets), len(references)))
        heat(axes, gains, most, names.signed)
        axes.set_yticks(range(1, len(rows) + 1), rows)
        axes.set_xticks(range(1, len(columns) + 1), columns, rotation=45, ha="right",
                        rotation_mode="anchor")  # fmt: skip
    return finish(grid, "transfer-matrix", *words("transfer-matrix"))


def _hatched(width: int, height: int) -> Any:
    """What shows where there is no number."""
    from matplotlib.patches import Rectangle

    return Rectangle((0.5, 0.5), width, height, fill=False, hatch="////", edgecolor=GREY,
                     linewidth=0, zorder=-1)  # fmt: skip

"""Pictures of a result, for people who would rather look than read. Needs matplotlib."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from transil._common.files import atomic_file
from transil.errors import TransilError
from transil.evaluation.metrics import Metrics
from transil.report.drawing import whole_ticks
from transil.report.figures_accuracy import heat
from transil.report.figures_scores import draw_scores
from transil.report.names import shorten
from transil.report.palette import BLUE, GREY, ORANGE, Style, bank_styles
from transil.report.plotting import figure_class, settings
from transil.report.texts import printable
from transil.schedule import Schedule

RAW, CORRECTED = (ORANGE, "o"), (BLUE, "o")
FORMATS = (".png", ".svg", ".pdf")


def draw_evaluation(
    results: Mapping[str, Metrics],
    schedule: Schedule,
    path: Path,
    title: str = "",
    corrections: Mapping[str, str] | None = None,
) -> None:
    """Accuracy per state, mean score per group and accuracy matrices, raw and corrected.

    The panels are the paper's Figures 5, 2 and 4 for one model. `results` maps 'raw' and, where
    there is a correction, 'corrected' to metrics. Of several banks, which `corrections` names with
    their corrections, the accuracy per state alone is drawn.
    """
    if path.suffix.lower() not in FORMATS:
        raise TransilError(f"{path}: figures are {', '.join(FORMATS)}")
    with settings({"svg.hashsalt": "transil"}):
        figure = _figure(results, schedule, title, corrections)
        data = _rendered(figure, path.suffix[1:].lower())
    with atomic_file(path) as file:
        file.write(data)


def _figure(
    results: Mapping[str, Metrics],
    schedule: Schedule,
    title: str,
    corrections: Mapping[str, str] | None,
) -> Any:
    several, alone = bool(corrections), len(results) == 1
    size = (8.5, 5.2) if several else (14.5, 4.4) if alone else (10.5, 8.0)
    figure = figure_class()(figsize=size, layout="constrained")
    figure.suptitle(_plain(title), fontsize=12)
    if corrections:
        styles = {"raw": (GREY, "o"), **bank_styles(corrections)}
        _draw_accuracy(figure.subplots(), results, styles)
    else:
        first, second = figure.subfigures(*((1, 2) if alone else (2, 1)),
                                          **({"width_ratios": (2, 1.1)} if alone else {}))  # fmt: skip
        accuracy, scores = first.subplots(1, 2)
        _draw_accuracy(accuracy, results, {"raw": RAW, "corrected": CORRECTED})
        _draw_group_scores(scores, results, schedule)
        _draw_matrices(second, results)
    return figure


def _plain(text: str) -> str:
    """Text of any name: a dollar does not begin mathematics, nothing moves or is very long."""
    return shorten(printable(text), 200).replace("$", r"\$")


def _draw_accuracy(axes: Any, results: Mapping[str, Metrics], styles: Mapping[str, Style]) -> None:
    for name, metrics in results.items():
        states = [s.state for s in metrics.states]
        values = [100 * s.accuracy for s in metrics.states]
        colour, marker = styles[name]
        line = "--" if name == "raw" else "-"
        short = name if len(name) <= 40 else f"…{name[-39:]}"  # the end of a path tells most
        label = _plain(f"{short} ({_average(metrics)})")
        # Not clipped: a marker at 100 % stands across the edge.
        axes.plot(
            states, values, line, marker=marker, color=colour, label=label, clip_on=False, zorder=3
        )
    whole = not any(metrics.lost for metrics in results.values())
    judged = "classes seen so far" if whole else "groups that have images"
    axes.set(xlabel="state", ylabel=f"accuracy on {judged} (%)", ylim=(0, 100))
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_title("Accuracy per state")
    axes.legend(frameon=False)
    axes.grid(alpha=0.3)


def _average(metrics: Metrics) -> str:
    """The average incremental accuracy, or why there is none."""
    if metrics.lost:
        return "no mean: past groups have no images"
    average = 100 * metrics.average_incremental_accuracy
    return "one state" if np.isnan(average) else f"mean of states 2..S: {average:.1f} %"


def _draw_group_scores(axes: Any, results: Mapping[str, Metrics], schedule: Schedule) -> None:
    for i, (name, metrics) in enumerate(results.items()):
        last = metrics.states[-1]
        shift = 0.16 * (i - (len(results) - 1) / 2)  # side by side around their group
        style = (RAW if name == "raw" else CORRECTED)[0]
        sizes = schedule.sizes[: last.state]
        draw_scores(axes, last.mean_score, last.score_deviation, style, "o", name, shift, sizes)
    axes.set(xlabel="group (the newest is last)", ylabel="mean score, less the overall mean")
    axes.set_title("Scores per group in the last state (bar: std)")
    axes.legend(frameon=False)


def _draw_matrices(figure: Any, results: Mapping[str, Metrics]) -> None:
    panels = np.atleast_1d(figure.subplots(1, len(results)))
    for axes, (name, metrics) in zip(panels, results.items(), strict=True):
        heat(axes, 100 * metrics.accuracy_matrix)
        axes.set(xlabel="group", ylabel="state", title=f"Accuracy per group (%), {name}")
        for axis in (axes.xaxis, axes.yaxis):
            whole_ticks(axis, len(metrics.accuracy_matrix))


def _rendered(figure: Any, kind: str) -> bytes:
    """The bytes of a file; the same figure always gives the same ones."""
    metadata = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
    data = io.BytesIO()
    figure.savefig(data, format=kind, dpi=130, metadata=metadata[kind])
    return data.getvalue()

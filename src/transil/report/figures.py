"""Pictures of a result, for people who would rather look than read. Needs matplotlib."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from transil.errors import TransilError
from transil.files import atomic_file
from transil.metrics import Metrics
from transil.schedule import Schedule

# Okabe and Ito's colours, which colour-blind readers can tell apart.
COLOURS = {"raw": "#D55E00", "corrected": "#0072B2"}
FORMATS = (".png", ".svg", ".pdf")


def draw_evaluation(
    results: Mapping[str, Metrics], schedule: Schedule, path: Path, title: str = ""
) -> None:
    """Accuracy per state, mean score per group and accuracy matrices, raw and corrected.

    The panels are the paper's Figures 5, 2 and 4 for one model. `results` maps 'raw' and, where
    there is a correction, 'corrected' to metrics.
    """
    if path.suffix.lower() not in FORMATS:
        raise TransilError(f"{path}: figures are {', '.join(FORMATS)}")
    figure = figure_class()(figsize=(10.5, 8.0), layout="constrained")
    figure.suptitle(title.replace("$", r"\$"), fontsize=12)  # a dollar would begin mathematics
    top, bottom = figure.subfigures(2, 1)
    accuracy, scores = top.subplots(1, 2)
    _draw_accuracy(accuracy, results)
    _draw_scores(scores, results)
    _draw_matrices(bottom, results, schedule)
    _save(figure, path)


def _draw_accuracy(axes: Any, results: Mapping[str, Metrics]) -> None:
    for name, metrics in results.items():
        states = [s.state for s in metrics.states]
        values = [100 * s.accuracy for s in metrics.states]
        style = "--" if name == "raw" else "-"
        label = f"{name} ({_average(metrics)})"
        axes.plot(states, values, style, marker="o", color=COLOURS[name], label=label)
    axes.set(xlabel="state", ylabel="accuracy on classes seen so far (%)", ylim=(0, 100))
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


def _draw_scores(axes: Any, results: Mapping[str, Metrics]) -> None:
    shift = -0.08
    for name, metrics in results.items():
        last = metrics.states[-1]
        groups = np.arange(1, last.state + 1)
        # Predictions do not depend on a common shift of all scores; the mean is taken out so
        # that raw and corrected scores, which lie elsewhere, can be compared.
        weights = [metrics.states[k].classes - (metrics.states[k - 1].classes if k else 0)
                   for k in range(last.state)]  # fmt: skip
        mean = np.array(last.mean_score) - np.average(last.mean_score, weights=weights)
        axes.errorbar(
            groups + shift, mean, yerr=last.score_deviation, fmt="o", capsize=3,
            color=COLOURS[name], label=name,
        )  # fmt: skip
        shift = -shift
    axes.axhline(0, color="black", linewidth=0.6)
    axes.set(xlabel="group (the newest is last)", ylabel="mean score, less the overall mean")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_title("Scores per group in the last state (bar: std)")
    axes.legend(frameon=False)
    axes.grid(alpha=0.3)


def _draw_matrices(figure: Any, results: Mapping[str, Metrics], schedule: Schedule) -> None:
    panels = np.atleast_1d(figure.subplots(1, len(results)))
    image = None
    for axes, (name, metrics) in zip(panels, results.items(), strict=True):
        matrix = 100 * metrics.accuracy_matrix
        size = len(matrix)
        extent = (0.5, size + 0.5, size + 0.5, 0.5)
        image = axes.imshow(matrix, vmin=0, vmax=100, cmap="viridis", extent=extent)
        if size <= 12:
            for s, k in zip(*np.nonzero(~np.isnan(matrix)), strict=True):
                value = matrix[s, k]
                axes.text(
                    k + 1, s + 1, f"{value:.0f}", ha="center", va="center", fontsize=7,
                    color="black" if value > 60 else "white",
                )  # fmt: skip
        axes.set(xlabel="group", ylabel="state", title=f"Accuracy per group (%), {name}")
        for axis in (axes.xaxis, axes.yaxis):
            axis.get_major_locator().set_params(integer=True)
    figure.colorbar(image, ax=list(panels), label=f"accuracy (%), {schedule.seen[-1]} classes")


def figure_class() -> Any:
    """Matplotlib's figure, without its global state; an error that says how to get it."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise TransilError("figures need matplotlib; run: pip install 'transil[plot]'") from None
    return Figure


def _save(figure: Any, path: Path) -> None:
    """Write a figure atomically; the same figure always gives the same bytes."""
    import matplotlib

    kind = path.suffix[1:].lower()
    metadata = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
    data = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "transil"}):
        figure.savefig(data, format=kind, dpi=130, metadata=metadata[kind])
    with atomic_file(path) as file:
        file.write(data.getvalue())

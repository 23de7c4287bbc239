"""The paper's Figures 2 and 3: scores per group, and the pairs that correct them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from transil.report import names
from transil.report.drawing import GROUP, TEXT, Grid, Picture, finish, not_run, whole_ticks
from transil.report.palette import BLUE, ORANGE, method_style
from transil.report.rendering import words
from transil.report.study import Study, grouped, in_order_of, unique

if TYPE_CHECKING:
    from transil.experiment.results import Detail

ALPHA = "\N{GREEK SMALL LETTER ALPHA}"


def shown_details(study: Study) -> dict[tuple[str, str, int], tuple[Detail, Detail]]:
    """(target, method, S) to the details before and after: main correction, first seed."""
    main = study.main
    if main is None or not study.details:
        return {}
    fraction = max(d.setting.fraction for d in study.details)
    raw_names = {c.name for c in study.cells if c.kind == "raw"} | {"raw"}
    found: dict[tuple[str, str, int], dict[bool, Detail]] = {}
    for d in sorted(study.details, key=lambda d: -d.setting.seed):  # the first seed comes last
        s = d.setting
        is_raw = d.name in raw_names and d.solver is None
        is_main = (d.name, d.solver, d.transfer) == (main.name, main.solver, main.transfer)
        if s.fraction == fraction and (is_raw or is_main):
            found.setdefault((s.target, s.method, s.states), {})[is_raw] = d
    order = sorted(found, key=lambda k: (_at(study.targets, k[0]), _at(study.methods, k[1]), k[2]))
    return {k: (found[k][True], found[k][False]) for k in order if len(found[k]) == 2}


def pick_states(states: list[int]) -> int:
    """The S of a figure that shows one only: the paper's 10, or the middle one."""
    return 10 if 10 in states else sorted(states)[len(states) // 2]


def scores_figure(study: Study) -> Picture | None:
    """Figure 2: mean score per group in the last state, before and after."""
    found = shown_details(study)
    if not found:
        return None
    states = pick_states(unique(k[2] for k in found))
    found = {k: v for k, v in found.items() if k[2] == states}
    targets, methods = unique(k[0] for k in found), unique(k[1] for k in found)
    grid = Grid(names.methods(methods), [names.target(t) for t in targets], (2.5, 1.8),
                x=GROUP, y="score", legend=("uncorrected", "corrected"))  # fmt: skip
    handles: list[Any] = []
    for method, target, axes in grid.over(methods, targets):
        details = found.get((target, method, states))
        if details is None:
            not_run(axes)
            continue
        ways = ((ORANGE, "o", "uncorrected", -0.13), (BLUE, "s", "corrected", 0.13))
        handles = [draw_scores(axes, d.mean_score, d.score_deviation, *way)
                   for d, way in zip(details, ways, strict=True)]  # fmt: skip
    grid.legend(handles)
    main = study.main
    label = main.label() if main else ""
    return finish(
        grid, "figure-2", *words("figure-2", label=label, states=states, seeds=study.seeds)
    )


def draw_scores(
    axes: Any, level: Sequence[float], deviation: Sequence[float], colour: str, marker: str,
    label: str, shift: float, sizes: Sequence[int] | None = None,
) -> Any:  # fmt: skip
    """Mean scores of groups; their mean, over classes where `sizes` are known, is taken out."""
    groups = np.arange(1, len(level) + 1)
    axes.axhline(0, color=TEXT, linewidth=0.6)
    axes.grid(axis="y")
    whole_ticks(axes.xaxis, len(level))
    return axes.errorbar(
        groups + shift, np.array(level) - np.average(level, weights=sizes), yerr=deviation,
        fmt=marker, markersize=3.4, capsize=1.6, elinewidth=1.0, capthick=1.0, color=colour,
        label=label,
    )  # fmt: skip


def pairs_figure(study: Study) -> Picture | None:
    """Figure 3: alpha and beta per group in the last state, mean and spread over references."""
    main = study.main
    kinds = unique((p.correction, p.solver) for p in study.pairs)
    if not kinds:
        return None
    wanted = (main.name, str(main.solver)) if main else kinds[0]
    kind = wanted if wanted in kinds else kinds[0]
    seed = min(p.seed for p in study.pairs)
    pairs = [p for p in study.pairs if (p.correction, p.solver) == kind and p.seed == seed]
    if not pairs:
        return None
    all_states = sorted({p.states for p in pairs})
    methods = in_order_of(study.methods, [p.method for p in pairs])
    of = grouped(((p.method, p.states), p) for p in pairs)
    known = unique([*study.methods, *methods])  # the colours of the other figures
    grid = Grid([f"S = {s}" for s in all_states], (f"{ALPHA} (factor)", "β (shift)"), (2.9, 1.9),
                x=GROUP, legend=names.methods(methods))  # fmt: skip
    handles: list[Any] = []
    for states, letter, axes in grid.over(all_states, ("alpha", "beta")):
        handles = []
        for i, method in enumerate(methods):
            colour, marker = method_style(known, method)
            values = [np.array(getattr(p, letter), dtype=float)
                      for p in of.get((method, states), ())]  # fmt: skip
            values = [v for v in values if v.size]
            mean = values[0].mean(axis=0) if values else np.empty(0)
            std = values[0].std(axis=0) if values else np.empty(0)
            shift = 0.16 * (i - (len(methods) - 1) / 2) * (1 if states > 5 else 0.6)
            handles.append(axes.errorbar(
                np.arange(1, len(mean) + 1) + shift, mean, yerr=std, color=colour,
                marker=marker, markersize=3.6, linewidth=1.0, capsize=1.6, elinewidth=0.9,
                label=names.methods([method])[0],
            ))  # fmt: skip
        axes.axhline(letter == "alpha", color=TEXT, linewidth=0.6, linestyle=":")
        axes.grid(axis="y")
        whole_ticks(axes.xaxis, states)
    grid.legend(handles)
    counts = sorted({len(p.references) for p in pairs})
    many = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return finish(
        grid,
        "figure-3",
        *words(
            "figure-3",
            correction=names.correction(kind[0]),
            solver=kind[1],
            many=many,
            seeds=study.seeds,
        ),
    )


def _at(items: list[str], item: str) -> int:
    return items.index(item) if item in items else len(items)

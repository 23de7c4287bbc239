"""The pictures of advice: shares of groups, scores of groups, and what is risked."""

from __future__ import annotations

from typing import Any

import numpy as np

from transil.adaptation.advice import Advice
from transil.report.drawing import GROUP, TEXT, Grid, Picture, drawing, finish, whole_ticks
from transil.report.palette import BLUE, GREEN, GREY, ORANGE

PANEL = (2.9, 2.2)
BEFORE, AFTER = "uncorrected", "corrected"


def advice_pictures(advice: Advice) -> list[Picture]:
    """All that there are data for."""
    with drawing():
        made = [_shares(advice), _scores(advice), _risk(advice)]
    return [picture for picture in made if picture is not None]


def _shares(advice: Advice) -> Picture:
    acts = advice.abstained is None
    legend = ["share of classes", BEFORE, *([AFTER, "assumed"] if acts else [])]
    grid = Grid([""], [""], PANEL, x=GROUP, y="% of the predictions", legend=legend)
    axes, groups = grid.panels[0], np.arange(1, advice.state + 1)
    edges = np.arange(advice.state + 1) + 0.5
    fair = 100 * np.array([g.fair for g in advice.groups])
    handles: list[Any] = [
        axes.stairs(fair, edges, color=GREY, linewidth=1.4, label=legend[0], baseline=None)
    ]
    before, after, assumed = (
        100 * np.array([getattr(g, name) for g in advice.groups])
        for name in ("before", "after", "assumed")
    )
    if acts:
        axes.vlines(groups, before, after, color=GREY, linewidth=0.8)
    size = 6 if advice.state <= 12 else 3.5
    plain = {"linestyle": "none", "markersize": size}
    handles += axes.plot(groups, before, "s", color=ORANGE, label=BEFORE, **plain)
    if acts:
        handles += axes.plot(groups, after, "o", color=BLUE, label=AFTER, **plain)
        handles += axes.plot(
            groups, assumed, "_", color=GREEN, label="assumed", markersize=2.2 * size,
            markeredgewidth=1.8, linestyle="none",
        )  # fmt: skip
    axes.set_ylim(bottom=0)
    axes.grid(axis="y")
    whole_ticks(axes.xaxis, advice.state)
    grid.legend(handles)
    said = (
        "Shares of the predictions in each group of classes, beside its share of the classes. "
        "The bias of an incremental model shows as newest groups far above the line"
    )
    more = "; what the correction assumes is marked as well." if acts else "."
    return finish(grid, "shares", "Who is predicted", said + more)


def _scores(advice: Advice) -> Picture:
    acts = advice.abstained is None
    kinds = [("raw", BEFORE, ORANGE, "s")] + ([("corrected", AFTER, BLUE, "o")] if acts else [])
    grid = Grid([""], [""], PANEL, x=GROUP, y="highest score in the group",
                legend=[k[1] for k in kinds])  # fmt: skip
    axes, handles = grid.panels[0], []
    size = 5 if advice.state <= 12 else 3
    for number, (name, label, colour, marker) in enumerate(kinds):
        level = np.array([getattr(g, name) for g in advice.groups])
        places = np.arange(1, advice.state + 1) + (0.17 * (2 * number - 1) if acts else 0.0)
        axes.vlines(places, level[:, 0], level[:, 4], color=colour, linewidth=1.0)
        axes.vlines(places, level[:, 1], level[:, 3], color=colour, linewidth=size * 0.7)
        handles += axes.plot(
            places, level[:, 2], marker, color=colour, label=label, linestyle="none",
            markersize=size, markeredgecolor=TEXT, markeredgewidth=0.6,
        )  # fmt: skip
    axes.axhline(0, color=TEXT, linewidth=0.6)
    axes.grid(axis="y")
    whole_ticks(axes.xaxis, advice.state)
    grid.legend(handles)
    return finish(
        grid, "scores", "How high each group scores",
        "The highest score of each group, over the images: the median, half of the images (thick) and "
        "nine of ten (thin). The mean over groups is taken out of each image. A group that stands "
        "higher is predicted more often; one of many classes stands a little higher by right.",
    )  # fmt: skip


def _risk(advice: Advice) -> Picture | None:
    risk = advice.risk
    if risk is None:
        return None
    grid = Grid([""], [""], PANEL, x="% of the traffic that is of the newest group",
                y="gain over uncorrected (points)")  # fmt: skip
    axes = grid.panels[0]
    shares, gains = 100 * np.array(risk.shares), 100 * np.array(risk.gains)
    axes.axhline(0, color=TEXT, linewidth=0.8)
    axes.plot(shares, gains, color=BLUE, linewidth=1.8)
    axes.fill_between(shares, gains, 0, where=gains >= 0, color=BLUE, alpha=0.18, linewidth=0)
    axes.fill_between(shares, gains, 0, where=gains <= 0, color=ORANGE, alpha=0.3, linewidth=0)
    assumed = 100 * advice.groups[-1].assumed
    axes.axvline(assumed, color=GREEN, linewidth=1.4, linestyle="--")
    right = assumed < 60
    axes.annotate(
        "assumed", (assumed, 0.97), xycoords=("data", "axes fraction"), va="top", color=TEXT,
        xytext=(4 if right else -4, 0), textcoords="offset points", ha="left" if right else "right",
    )  # fmt: skip
    axes.set_xlim(0, 100)
    low, high = axes.get_ylim()
    axes.set_ylim(low, high + 0.12 * (high - low))  # for the word
    axes.grid(axis="y")
    even = "" if risk.even is None else f" Here that begins at about {100 * risk.even:.0f} %."
    return finish(
        grid, "risk", "What is risked",
        "What the advised correction gains over uncorrected scores, by how much of the traffic is of "
        "the newest group. Below 0 uncorrected scores are better."
        f"{even} It is an estimate from the scores themselves; only labelled images tell.",
    )  # fmt: skip

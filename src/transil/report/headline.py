"""What the main correction gains for each method, and whether a control does as well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from transil.report import names
from transil.report.names import Line
from transil.report.rendering import notes
from transil.report.study import Study, Summary, mean_or_none
from transil.report.tables import Entry, Row, Table, mark, percent
from transil.report.wanted import Place

COLUMNS = (
    "gain (points)", "95 % interval", "surely better in", "surely worse in",
    "over the best control (points)", "ahead of it in", "beats the controls",
)  # fmt: skip
FOUR = ("average", "last state", "newest group", "earlier groups")


@dataclass(frozen=True)
class Headline:
    """One method; gains and leads in points, one per setting."""

    method: str
    gains: list[float]
    low: float | None
    high: float | None
    better: int
    worse: int
    leads: list[float]  # over the best control, where there is one

    @property
    def ahead(self) -> int:
        """Settings in which it is better than every control."""
        return sum(x > 0 for x in self.leads)

    @property
    def verdict(self) -> str:
        """Whether it beats the controls, in a word or two."""
        if not self.leads:
            return "no control was run"
        if self.ahead == len(self.leads):
            return "yes, everywhere"
        if self.ahead == 0:
            return "no, nowhere"
        return "yes, on average" if self.lead > 0 else "no, not on average"

    @property
    def gain(self) -> float:
        """The mean over settings."""
        return fmean(self.gains)

    @property
    def lead(self) -> float:
        """The mean over settings; 0 without a control."""
        return fmean(self.leads or [0.0])

    @property
    def sentence(self) -> str:
        """All of it for people who read."""
        return notes("sentence", h=self)[0]


def headlines(study: Study) -> list[Headline]:
    """One for each method that the main correction was tried on."""
    main = study.main
    if main is None:
        return []
    fraction = study.fractions[0]
    out = []
    for method in study.methods:
        found: list[tuple[Place, Summary, float]] = []
        for target, states in study.columns(fraction):
            summary = study.get((target, method, states, fraction), main)
            if summary is not None and summary.gain is not None:
                found.append(((target, method, states, fraction), summary, 100 * summary.gain))
        if not found:
            continue
        best = [(gain, best_control(study, place)) for place, _, gain in found]
        out.append(
            Headline(
                method,
                [gain for _, _, gain in found],
                percent(mean_or_none(s.low for _, s, _ in found)),
                percent(mean_or_none(s.high for _, s, _ in found)),
                sum(s.surely_better for _, s, _ in found),
                sum(s.surely_worse for _, s, _ in found),
                [gain - control for gain, control in best if control is not None],
            )
        )
    return out


def best_control(study: Study, place: Place) -> float | None:
    """The highest gain (points) of a control at a place; one that harms is worse than none: 0."""
    gains = [
        100 * s.gain
        for line in study.lines_at(place)
        if line.kind == "control" and (s := study.get(place, line)) and s.gain is not None
    ]
    return max(0.0, *gains) if gains else None


def headline_table(study: Study) -> Table | None:
    """One row per method."""
    rows = []
    for h in headlines(study):
        n, m = len(h.gains), len(h.leads)
        known = h.low is not None and h.high is not None
        texts = (
            names.signed(h.gain),
            names.interval(h.low or 0.0, h.high or 0.0) if known else names.MISSING,
            f"{h.better} of {n}",
            f"{h.worse} of {n}",
            names.signed(h.lead) if m else names.MISSING,
            f"{h.ahead} of {m}" if m else names.MISSING,
            h.verdict,
        )
        entries = [Entry(text=t) for t in texts]
        # Numbers for programs, beside the words for people.
        entries[0] = replace(entries[0], value=h.gain, low=h.low, high=h.high)
        if m:
            entries[4] = replace(entries[4], value=h.lead)
        rows.append(Row(names.method(h.method), "", tuple(entries)))
    if not rows or study.main is None:
        return None
    title = f"Headline: what {study.main.label()} gains over the uncorrected model"
    columns = tuple(("", c) for c in COLUMNS)
    return Table("headline", title, "method", columns, tuple(rows), notes("headline_notes"))


def summary_table(study: Study) -> Table | None:
    """Four accuracies of each method: uncorrected, the main correction, and the best one if another."""
    main, rows = study.main, []
    if main is None:
        return None
    for method in study.methods:
        fraction = study.fractions[0]
        places = [(t, method, s, fraction) for t, s in study.columns(fraction)]
        places = [p for p in places if study.raw(p) and study.get(p, main)]
        lines = [x for x in study.lines(fraction) if x.kind != "bound"
                 and places and all(study.get(p, x) for p in places)]  # fmt: skip
        found = {line: four(study, places, line) for line in lines}
        raw = next((x for x in lines if x.kind == "raw"), None)
        if raw is None:
            continue
        # Equal as printed is equal: then the first is taken.
        best = max(dict.fromkeys((raw, main, *lines)), key=lambda x: round(found[x][0] or 0.0, 1))
        block = []
        for line in dict.fromkeys((raw, main, best)):
            entries = [
                Entry(now, gain=None if line == raw or now is None or old is None else now - old)
                for now, old in zip(found[line], found[raw], strict=True)
            ]
            label = "" if line == raw else f"+ {line.label()}"
            block.append(
                Row(names.method(method), label, tuple(entries), line.kind, best=line == best)
            )
        rows += mark(block, "best")
    if not rows:
        return None
    columns = tuple(("", c) for c in FOUR)
    title = "In short: accuracy before and after"
    return Table("summary", title, "method", columns, tuple(rows), notes("summary_notes"))


def four(study: Study, places: Sequence[Place], line: Line) -> list[float | None]:
    """Average, last state, newest and earlier groups (%) of a line, mean over places and seeds."""
    found = [study.get(place, line) for place in places]
    cells = [cell for summary in found if summary for cell in summary.cells]
    parts = [p for c in cells if (p := study.newest_and_earlier(c)) is not None]
    every = parts if len(parts) == len(cells) else []
    last = [c.accuracy[-1] for c in cells if c.accuracy]
    numbers = [s.average for s in found if s], last, [p[0] for p in every], [p[1] for p in every]
    return [percent(mean_or_none(values)) for values in numbers]

"""What the main correction gains for each method, and whether a control does as well."""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import fmean

from transil.report import names
from transil.report.study import Study, Summary, mean_or_none
from transil.report.tables import Entry, Row, Table, percent
from transil.report.wanted import Place

COLUMNS = (
    "gain (points)", "95 % interval", "surely better in", "surely worse in",
    "over the best control (points)", "ahead of it in", "beats the controls",
)  # fmt: skip
NOTE = (
    "Means over targets and numbers of states. The interval is the mean of the settings' "
    "intervals, which is wider than that of independent settings would be. 'Surely': the "
    "setting's own 95 % interval leaves out zero, with every seed. A control corrects without any "
    "reference, or not at all; the best one is chosen for each setting afterwards, which favours it."
)


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
        return "yes, on average" if fmean(self.leads) > 0 else "no, not on average"

    @property
    def sentence(self) -> str:
        """All of it for people who read."""
        n = len(self.gains)
        text = f"{names.signed(fmean(self.gains))} points on average"
        if self.low is not None and self.high is not None:
            text += f", 95 % interval {names.interval(self.low, self.high)}"
        text += f"; surely better in {self.better} of {names.count(n, 'setting')}"
        text += f", surely worse in {self.worse}. Beats the controls: {self.verdict}"
        if not self.leads:
            return f"{text}."
        return (f"{text} (ahead of the best one in {self.ahead} of {len(self.leads)}; "
                f"{names.signed(fmean(self.leads))} points against it on average).")  # fmt: skip


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
            names.signed(fmean(h.gains)),
            names.interval(h.low or 0.0, h.high or 0.0) if known else names.MISSING,
            f"{h.better} of {n}",
            f"{h.worse} of {n}",
            names.signed(fmean(h.leads)) if m else names.MISSING,
            f"{h.ahead} of {m}" if m else names.MISSING,
            h.verdict,
        )
        entries = [Entry(text=t) for t in texts]
        # Numbers for programs, beside the words for people.
        entries[0] = replace(entries[0], value=fmean(h.gains), low=h.low, high=h.high)
        if m:
            entries[4] = replace(entries[4], value=fmean(h.leads))
        rows.append(Row(names.method(h.method), "", tuple(entries)))
    if not rows or study.main is None:
        return None
    title = f"Headline: what {study.main.label()} gains over the uncorrected model"
    columns = tuple(("", c) for c in COLUMNS)
    return Table("headline", title, "method", columns, tuple(rows), (NOTE,))

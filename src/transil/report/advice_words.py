"""Advice in plain words: sections of sentences and small tables, for the terminal and for the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from transil.adaptation.advice import Advice, BankTried
from transil.adaptation.left import LEAST_LEFT
from transil.report.names import MISSING, count, method, signed

# Names of priors as a person reads them.
PRIORS = {
    "predicted": "as the scores predict",
    "uniform": "all classes alike",
    "cautious": "remembered within groups",
    "remembered": "remembered, groups by size",
    "known": "as you gave them",
    "known groups": "as you gave them, by group",
}
ONLY_LABELS = "Whether a correction helps, only labelled images tell: transil evaluate."
# Where the newest group has this many times its share of the classes, scores favour it.
FAVOURED = 1.2
# Of more groups than these the first and the last are shown.
MOST_ROWS = 24
T = TypeVar("T")


@dataclass(frozen=True)
class Grid:
    """A small table; the first column is text."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Section:
    """A heading, sentences below it, and a table below these."""

    name: str
    heading: str
    lines: tuple[str, ...]
    grid: Grid | None = None


def sections(advice: Advice, commands: Sequence[str]) -> list[Section]:
    """All that is said; `commands` are the next ones."""
    made = [Section("seen", "What the scores show", _seen(advice), _shares(advice))]
    lost = advice.abstained is not None and advice.nothing_left
    if not lost:
        made.insert(0, Section("newest", "First, one number", _newest(advice)))
    made.append(Section("advised", "What to do", _advised(advice)))
    if not lost:
        heading = "If class frequencies are others"
        made.append(Section("assumptions", heading, _assumed(advice), _assumptions(advice)))
    if advice.cautions:
        made.append(Section("cautions", "Beware", tuple(map(_sentence, advice.cautions))))
    lines = (ONLY_LABELS,) if commands else ("Nothing: the scores stay as they are.",)
    made.append(Section("next", "Next", lines))
    return made


def title(advice: Advice) -> str:
    """What was looked at, in a line."""
    return f"{advice.rows:,} rows of state {advice.state}: {advice.schedule}"


def in_short(advice: Advice) -> str:
    """The answer in one sentence."""
    if advice.abstained is not None:
        return "Leave the scores as they are."
    what = _correction(advice)
    newest = advice.groups[-1]
    return (
        f"{what[0].upper()}{what[1:]}. It changes {percent(advice.moved)} of the predictions and "
        f"brings the newest group from {percent(newest.before)} to {percent(newest.after)} of them."
    )


def percent(share: float) -> str:
    """A share in words: 23 %, and 0.4 % where it is small."""
    return f"{share:.1%}" if 0 < share < 0.0995 else f"{share:.0%}"


def points(gain: float | None) -> str:
    """A difference of shares in points, with its sign."""
    return MISSING if gain is None else signed(100 * gain, minus="-")


def prior_name(name: str) -> str:
    """The short name of a prior, in words."""
    base, _, newest = name.partition(", newest ")
    if newest:
        return f"newest {float(newest):.0%}, others {PRIORS.get(base, base)}"
    return PRIORS.get(name, name)


def facts(advice: Advice, commands: Sequence[str]) -> dict[str, Any]:
    """The same as plain data, for machines."""
    return {
        "state": advice.state,
        "rows": advice.rows,
        "bank": advice.bank,
        "prior": advice.prior.name,
        "moved": advice.moved,
        "left": advice.left,
        "newest": advice.newest,
        "newest_from": advice.newest_from,
        "estimate": None if advice.estimate is None else vars(advice.estimate),
        "recall": advice.recall,
        "even": None if advice.risk is None else advice.risk.even,
        "abstained": advice.abstained,
        "cautions": advice.cautions,
        "banks": [vars(bank) for bank in advice.banks],
        "groups": [
            {name: value for name, value in vars(g).items() if name not in ("raw", "corrected")}
            for g in advice.groups
        ],
        "assumptions": [vars(row) for row in advice.assumptions],
        "next": list(commands),
    }


def _newest(advice: Advice) -> tuple[str, ...]:
    group = advice.groups[-1]
    which = f"group {group.group}, {count(group.classes, 'class', 'classes')}"
    estimate, said = advice.estimate, []
    if advice.newest_from == "given":
        assert advice.newest is not None
        said.append(f"You say that {percent(advice.newest)} of the traffic is of the newest group.")
    elif advice.newest_from is None:
        said.append(
            f"How much of your traffic is of the newest group ({which})? No other number matters as "
            "much, and unlabelled scores alone do not tell it."
        )
    if estimate is not None:
        said += _estimate(advice)
    elif advice.newest_from is None:
        said.append(
            "If you know it roughly, say so: --newest 0.3. If you have labelled images of the newest "
            "classes, add their scores to the file and mark those rows: --newest-labels labels.npy."
        )
    return tuple(said)


def _estimate(advice: Advice) -> list[str]:
    estimate = advice.estimate
    assert estimate is not None
    rates = (
        f"Of the traffic, {percent(estimate.predicted)} is predicted as the newest group; of "
        f"{count(advice.labelled, 'labelled image')} of it, {percent(estimate.recognised)}"
    )
    if estimate.mistaken is not None:
        rates += f"; of images from before, {percent(estimate.mistaken)}"
    if estimate.share is not None:
        found = (
            f"So it is about {percent(estimate.share)} of the traffic "
            f"({percent(estimate.low)} to {percent(estimate.high)})."
        )
    elif not estimate.tells:
        found = "That says nothing of its share of the traffic: any is possible."
    else:
        found = (
            f"So it is at most {percent(estimate.high)} of the traffic. How many others are mistaken "
            "for it, only traffic from before its classes existed tells: --before before.npy."
        )
    return [f"{rates}. {found}"]


def _seen(advice: Advice) -> tuple[str, ...]:
    group = advice.groups[-1]
    said = ["They are no probabilities, so they can be corrected."]
    favoured = group.before > FAVOURED * group.fair
    said.append(
        f"The newest group has {percent(group.fair)} of the classes and {percent(group.before)} of "
        "the predictions"
        + (
            ": either much of the traffic is of it, or the model favours it, as incremental ones do."
            if favoured
            else "."
        )
    )
    said += [_distance(bank) for bank in advice.banks if bank.distance is not None]
    if advice.left is not None:
        means = (
            "so nothing can be recovered" if advice.nothing_left else "so there is something left"
        )
        said.append(
            f"They tell old classes apart to {advice.left:.2f} of 1, {means} (below {LEAST_LEFT:g} "
            "nothing is)."
        )
    said.append(
        "In %, for each group: its share of all classes and of the raw predictions"
        + (
            ", of the corrected ones, and the share that is assumed."
            if advice.abstained is None
            else "."
        )
    )
    return tuple(said)


def _distance(bank: BankTried) -> str:
    means = "likely another method or loss" if bank.far else "as those it was fitted on"
    return (
        f"They lie {bank.distance:.1f} times as far as usual from the references of the "
        f"{method(bank.name)} bank: {means}."
    )


def _shares(advice: Advice) -> Grid:
    heads = ("group", "classes", "of all", "raw", "corrected", "assumed")
    rows = [
        ("...", *[""] * 5)
        if g is None
        else (
            f"{g.group}", f"{g.classes}",
            *(f"{100 * share:.1f}" for share in (g.fair, g.before, g.after, g.assumed)),
        )
        for g in _some(advice.groups)
    ]  # fmt: skip
    shown = len(heads) if advice.abstained is None else 4
    return Grid(heads[:shown], tuple(row[:shown] for row in rows))


def _some(items: Sequence[T]) -> list[T | None]:
    """All of them, or of many the first and the last ones; None stands for those left out."""
    if len(items) <= MOST_ROWS:
        return list(items)
    return [*items[:4], None, *items[5 - MOST_ROWS :]]


def _advised(advice: Advice) -> tuple[str, ...]:
    said = [in_short(advice)]
    if advice.abstained is not None:
        return (*said, _sentence(advice.abstained))
    said.append(_why(advice))
    said.append(f"It assumes that {advice.prior.says}.")
    said += _paid(advice)
    return tuple(said)


def _correction(advice: Advice) -> str:
    bank = advice.bank
    if bank is None:
        what = "use no bank, but shift the classes"
    elif bank == "generic":
        what = "use the generic bank, made for your schedule"
    else:
        what = f"use the {method(bank)} bank, made for your schedule"
    if bank is not None and advice.shifted:
        what += ", and shift the classes"
    return what


def _why(advice: Advice) -> str:
    if advice.bank is None:
        return "Your scores are unlike those of the references of any bank that was looked at."
    if advice.bank == "generic" and advice.method is None:
        return (
            "Say how the model was trained (--method lwf-t, lucir, ...: transil bank list) to have the "
            "bank of that method, which knows more."
        )
    if advice.bank != advice.method:
        assert advice.method is not None
        return (
            f"The bank of {method(advice.method)} would be a guess, because the scores are unlike those "
            "of its references. Is that how the model was trained?"
        )
    return "It is the bank of your model's method."


def _paid(advice: Advice) -> list[str]:
    said = []
    if advice.recall is not None:
        before, after = advice.recall
        said.append(
            f"What the newest group pays: of your {count(advice.labelled, 'labelled image')} of it, "
            f"{percent(before)} are right uncorrected and {percent(after)} corrected."
        )
    elif advice.risk is not None:
        lost = advice.risk.before - advice.risk.after
        if lost > 0.005:
            said.append(
                f"What the newest group pays: about {100 * lost:.0f} of 100 images of it that were "
                "right are so no more (an estimate from the scores)."
            )
    risk = advice.risk
    if risk is None:
        return said
    if risk.even is None:
        said.append("The scores know no share of the newest group at which uncorrected is better.")
    elif risk.even <= 0:
        said.append("By the scores' own account uncorrected predictions are as good or better.")
    else:
        said.append(
            f"The risk: if the newest group is more than about {percent(risk.even)} of the traffic, "
            "uncorrected scores are better (an estimate from the scores)."
        )
    return said


def _assumed(advice: Advice) -> tuple[str, ...]:
    said = (
        "Each row is another assumption: the share of the newest group in it, the share of "
        "predictions it would then have, and the predictions that "
    )
    if advice.risk is None:
        return (said + "would change.",)
    return (
        said + "differ from the advised ones. The row with * is advised.",
        "Gain: what the advised correction gains over uncorrected scores if the row is true, in points, "
        "estimated from the scores.",
    )


def _assumptions(advice: Advice) -> Grid:
    heads = ("class frequencies", "newest", "predicted", "moved", "gain")
    acts = advice.risk is not None
    rows = (row for row in advice.assumptions if acts or not row.advised)
    cells = [
        (
            prior_name(row.name) + (" *" if row.advised else ""),
            f"{row.share:.1%}",
            f"{row.called:.1%}",
            f"{row.moved:.1%}",
            points(row.gain),
        )
        for row in rows
    ]
    shown = len(heads) if acts else 4
    return Grid(heads[:shown], tuple(row[:shown] for row in cells))


def _sentence(text: str) -> str:
    """A message as a sentence."""
    return text[:1].upper() + text[1:].rstrip(".") + "."

"""A bank for any schedule: parameters of a function, fitted on references of many schedules."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from transil._common.files import write_json
from transil.correction.any_fit import PENALTY, fit_any
from transil.correction.bank import Bank
from transil.correction.evidence import NEWTON, Evidence
from transil.correction.layers import Correction
from transil.correction.parameters import Parameters
from transil.correction.references import Reference
from transil.errors import ScheduleWarning, TransilError
from transil.schedule import Schedule, ScheduleLike

MOST_STATES = 300
MOST_SEEN = 1e9  # of states, of classes, of a group's size over the mean
# Beyond the smallest and largest that references had, by this factor, pairs are a guess.
BEYOND = 1.5
GENERIC = "generic"
# Methods differ more than references of one: their function is kept smoother (docs/any-schedule.md).
GENERIC_PENALTY = 1.0


@dataclass(frozen=True)
class Seen:
    """Which schedules references had: the smallest and the largest number of each kind.

    `states` and `classes` of a schedule; `ratio`: of a group's size to the mean of those so far.
    """

    states: tuple[float, float]
    classes: tuple[float, float]
    ratio: tuple[float, float]

    def __post_init__(self) -> None:
        for what, (least, most) in vars(self).items():
            if not 1.0 / MOST_SEEN < least <= most < MOST_SEEN:
                raise TransilError(f"{what}: expected a smallest and a largest number above 0")

    @classmethod
    def of(cls, schedules: Sequence[Schedule]) -> Seen:
        """What these schedules show."""
        facts = [_numbers(schedule) for schedule in schedules]
        ranges = [(min(f[i][0] for f in facts), max(f[i][1] for f in facts)) for i in range(3)]
        return cls(*ranges)

    def beyond(self, schedule: Schedule) -> list[str]:
        """In which ways a schedule lies outside, and how far; nothing where it does not."""
        said = []
        words = ("states", "classes", "times the mean size in a group")
        for what, (low, high), (least, most) in zip(
            words, _numbers(schedule), vars(self).values(), strict=True
        ):
            for value, factor in ((low, least / low), (high, high / most)):
                if factor > BEYOND:
                    were = f"{_shown(least)} to {_shown(most)} were seen"
                    said.append(f"{_shown(value)} {what} ({were}: {factor:.1f} times off)")
        return said


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) else f"{value:.3g}"


def _numbers(schedule: Schedule) -> tuple[tuple[float, float], ...]:
    """Smallest and largest: states, classes, and a group's size over the mean of those so far."""
    ratios = []
    for state in range(2, schedule.states + 1):
        mean = schedule.seen[state - 1] / state
        ratios += [min(schedule.sizes[:state]) / mean, max(schedule.sizes[:state]) / mean]
    states, classes = float(schedule.states), float(schedule.seen[-1])
    return (
        (states, states),
        (classes, classes),
        (min(ratios, default=1.0), max(ratios, default=1.0)),
    )


@dataclass(frozen=True, eq=False)
class OpenBank:
    """Parameters that hold for any schedule; `for_schedule` makes the bank of one.

    `methods`: those it was fitted on together, where it is the generic one, which has no `method`.
    `expected`: what it gained on data sets that it was not fitted on, in words.
    """

    correction: Correction
    parameters: Parameters
    references: tuple[str, ...]
    seen: Seen
    method: str | None = None
    methods: tuple[str, ...] = ()
    solver: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    score_kind: str = "logit"
    expected: str | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        evidence: Sequence[Evidence],
        *,
        method: str | None = None,
        methods: Sequence[str] = (),
        score_kind: str = "logit",
        expected: str | None = None,
        provenance: Mapping[str, Any] | None = None,
    ) -> OpenBank:
        """Fitted on the states of references, of one method or of several."""
        penalty = GENERIC_PENALTY if methods else PENALTY
        correction, parameters = fit_any(evidence, penalty=penalty)
        return cls(
            correction=correction,
            parameters=parameters,
            references=tuple(dict.fromkeys(one.reference for one in evidence)),
            seen=Seen.of([one.facts.schedule for one in evidence]),
            method=method,
            methods=tuple(methods),
            solver=NEWTON.name,
            settings=NEWTON.settings(),
            score_kind=score_kind,
            expected=expected,
            provenance=provenance or {},
        )

    def __repr__(self) -> str:
        names = ", ".join(self.references)
        return f"OpenBank({self.name} {self.correction.name}: any schedule; of {names})"

    @property
    def name(self) -> str:
        """The method, or 'generic'; 'unnamed' where the stores did not tell it."""
        return GENERIC if self.methods else self.method or "unnamed"

    def for_schedule(self, schedule: ScheduleLike) -> Bank:
        """The bank of a schedule.

        It warns where that is far from all that references had, and where the bank is the generic one.
        """
        schedule = Schedule.of(schedule)
        if schedule.states < 2:
            raise TransilError("schedule: one of a single state has nothing to correct")
        if schedule.states > MOST_STATES:
            raise TransilError(
                f"schedule: {schedule.states} states; a bank is made for at most {MOST_STATES}"
            )
        if beyond := self.seen.beyond(schedule):
            warnings.warn(
                f"schedule far from what the {self.name} bank was fitted on: {'; '.join(beyond)}; "
                "compare with labels before you rely on it",
                ScheduleWarning,
                stacklevel=2,
            )
        if self.methods:
            gained = f"; expected: {self.expected}" if self.expected else ""
            warnings.warn(
                f"the generic bank knows less than one of your model's own method: it was fitted on "
                f"{', '.join(self.methods)} together{gained}",
                ScheduleWarning,
                stacklevel=2,
            )
        pairs = dict.fromkeys(range(2, schedule.states + 1), self.parameters)
        provenance = {"made_from": self.name, "of": list(self.references), **self.provenance}
        if self.expected is not None:
            provenance["expected"] = self.expected
        return Bank(
            correction=self.correction,
            schedule=Schedule.from_sizes(schedule.sizes),
            references=(Reference(f"{self.name}, any schedule", pairs),),
            method=self.method,
            solver=self.solver,
            settings=self.settings,
            score_kind=self.score_kind,
            provenance=provenance,
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as JSON, atomically."""
        from transil.correction.bank_json import open_to_json

        write_json(path, open_to_json(self))

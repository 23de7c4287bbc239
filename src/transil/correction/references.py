"""What a bank keeps of each reference, and how that becomes what is applied."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from transil.correction.layers import Correction, told
from transil.correction.parameters import Parameters
from transil.correction.solvers import FitRecord
from transil.errors import TransilError
from transil.schedule import Schedule


@dataclass(frozen=True, eq=False)
class Reference:
    """What one reference data set gave: the pairs of each state from 2, and how it was fitted."""

    name: str
    pairs: Mapping[int, Parameters]
    records: Mapping[int, FitRecord] = field(default_factory=dict)
    scale: Mapping[int, float] = field(default_factory=dict)  # see `score_scale`
    source: str | None = None  # fingerprint of the score store


@dataclass(frozen=True)
class Transfer:
    """How the references' pairs become those that are applied.

    `how` names a rule (see `rules`); `reference` is the only one in use, as with 'single'; `choice`
    gives that of each state, as with 'oracle'.
    """

    how: str = "mean"
    reference: str | None = None
    choice: Mapping[int, str] = field(default_factory=dict)


def check_references(
    references: Sequence[Reference], schedule: Schedule, correction: Correction
) -> None:
    """An error where they do not make a bank: each state from 2 has what the correction fits there."""
    if not references:
        raise TransilError("bank: it has no references")
    if schedule.states < 2:
        raise TransilError("bank: a schedule of one state has nothing to correct")
    twice, times = Counter(reference.name for reference in references).most_common(1)[0]
    if times > 1:
        raise TransilError(f"bank: two references are called '{twice}'; rename one")
    wanted = range(2, schedule.states + 1)
    counts: dict[int, dict[str, int]] = {}  # of parameters, by state
    for reference in references:
        if sorted(reference.pairs) != list(wanted):
            missing = min(set(wanted) ^ set(reference.pairs))
            raise TransilError(
                f"bank, reference '{reference.name}': state {missing} does not belong or is "
                f"missing; the schedule ({schedule}) asks for states 2 to {wanted[-1]}"
            )
        for state, fitted in reference.pairs.items():
            if state not in counts:
                counts[state] = dict(correction.outline(schedule, state).counts)
            if fitted.counts != counts[state]:
                raise TransilError(
                    f"bank, reference '{reference.name}', state {state}: {told(fitted.counts)}, but "
                    f"'{correction.name}' has {told(counts[state])}"
                )

"""Banks as JSON: written plainly, read strictly. The layout is in docs/formats.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, TypeAlias

import numpy as np

from transil._common.typed import Between, read_record, short
from transil.correction.bank import FORMAT, VERSION, Bank
from transil.correction.facts import Facts, Moments
from transil.correction.layers import Correction, told
from transil.correction.open_bank import MOST_STATES, OpenBank, Seen
from transil.correction.parameters import Pairs, Parameters
from transil.correction.references import Reference, Transfer
from transil.correction.registry import get_correction
from transil.correction.solvers import FitRecord
from transil.correction.strength import AS_FITTED
from transil.errors import TransilError
from transil.schedule import Schedule, read_state

ANY = "any"  # in place of a schedule
ALL = "all"  # in place of a state: the parameters of all of them

Number: TypeAlias = Annotated[float, Between(-1e100, 1e100)]  # the square is still one, too
Numbers: TypeAlias = tuple[Number, ...]
# Larger scores are no numbers in single precision.
Scale: TypeAlias = Annotated[float, Between(1e-38, 1e38)]


# -- the files, key by key ---------------------------------------------------------------------


@dataclass(frozen=True)
class StateFile:
    """One state of a reference; in version 1 the pairs lie in it themselves."""

    parameters: Mapping[str, Numbers] | None = None
    alpha: Numbers = ()
    beta: Numbers = ()
    score_scale: Annotated[float, Between(0, 1e100)] | None = None
    fit: FitRecord | None = None

    def __post_init__(self) -> None:
        self.fitted  # noqa: B018  # what is wrong with it is told with its place

    @cached_property
    def fitted(self) -> Parameters:
        """What was fitted."""
        if self.parameters is None:
            return Pairs(self.alpha, self.beta)
        return _parameters(self.parameters)


@dataclass(frozen=True)
class ReferenceFile:
    """A reference and its states, or all of them as one."""

    name: str
    states: Mapping[str, StateFile]
    source: str | None = None


@dataclass(frozen=True)
class TransferFile:
    """See `Transfer`; the bank checks it."""

    how: str
    reference: str | None = None
    choice: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class FactsFile:
    """What was measured of a state, a number for each group."""

    score_scale: Scale
    share: Numbers
    mean: Numbers
    deviation: Numbers
    top: Numbers


@dataclass(frozen=True, kw_only=True)
class AnyFile:
    """What all banks have."""

    correction: str
    correction_settings: Mapping[str, Any] = field(default_factory=dict)
    method: str | None
    solver: str | None
    settings: Mapping[str, Any]
    score_kind: str
    provenance: Mapping[str, Any]

    def read(self) -> dict[str, Any]:
        """By the names that banks have for it; checked as far as it is looked at."""
        looked_at: list[tuple[str, Any, Any]] = [
            ("settings.penalty", self.settings.get("penalty", {}), Mapping[str, Number]),
            ("provenance.versions", self.provenance.get("versions", {}), Mapping[str, Any]),
            ("provenance.datasets", self.provenance.get("datasets", []), list[Any]),
        ]
        for where, value, hint in looked_at:
            read_record(value, hint, "bank", where)
        return {
            "correction": get_correction(self.correction, **self.correction_settings),
            "method": self.method,
            "solver": self.solver,
            "settings": self.settings,
            "score_kind": self.score_kind,
            "provenance": self.provenance,
        }


@dataclass(frozen=True, kw_only=True)
class BankFile(AnyFile):
    """A bank of one schedule."""

    schedule: Schedule
    references: tuple[ReferenceFile, ...]
    transfer: TransferFile
    facts: Mapping[str, FactsFile] = field(default_factory=dict)
    strength: float = AS_FITTED


@dataclass(frozen=True, kw_only=True)
class OpenFile(AnyFile):
    """A bank for any schedule."""

    parameters: Mapping[str, Numbers]
    references: tuple[str, ...]
    seen: Seen
    methods: tuple[str, ...] = ()
    expected: str | None


# -- written -----------------------------------------------------------------------------------


def bank_to_json(bank: Bank) -> dict[str, Any]:
    """The bank as plain values."""
    measured = {str(state): _facts_to_json(facts) for state, facts in sorted(bank.facts.items())}
    transfer: dict[str, Any] = {"how": bank.transfer.how}
    if bank.transfer.how == "single":
        transfer["reference"] = bank.transfer.reference
    if bank.transfer.how == "oracle":
        transfer["choice"] = {str(s): name for s, name in bank.transfer.choice.items()}
        transfer["upper_bound"] = True
    return {
        "format": FORMAT,
        "version": VERSION,
        "method": bank.method,
        "schedule": {"sizes": list(bank.schedule.sizes)},
        **_correction_to_json(bank.correction),
        "solver": bank.solver,
        "settings": dict(bank.settings),
        "score_kind": bank.score_kind,
        "transfer": transfer,
        **({} if bank.strength == AS_FITTED else {"strength": bank.strength}),
        "references": [_reference_to_json(r) for r in bank.references],
        "provenance": dict(bank.provenance),
        **({"facts": measured} if measured else {}),
    }


def open_to_json(bank: OpenBank) -> dict[str, Any]:
    """A bank for any schedule as plain values."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "method": bank.method,
        **({"methods": list(bank.methods)} if bank.methods else {}),
        "schedule": ANY,
        "seen": {name: list(limits) for name, limits in vars(bank.seen).items()},
        **_correction_to_json(bank.correction),
        "solver": bank.solver,
        "settings": dict(bank.settings),
        "score_kind": bank.score_kind,
        "references": list(bank.references),
        "expected": bank.expected,
        **_values(bank.parameters),
        "provenance": dict(bank.provenance),
    }


def _correction_to_json(correction: Correction) -> dict[str, Any]:
    settings = correction.settings()
    return {
        "correction": correction.name,
        **({"correction_settings": settings} if settings else {}),
    }


def _reference_to_json(reference: Reference) -> dict[str, Any]:
    states = {}
    fitted = sorted(reference.pairs.items())
    if len(fitted) > 1 and all(one is fitted[0][1] for _, one in fitted):
        states[ALL] = _values(fitted[0][1])
        fitted = []
    for state, pairs in fitted:
        entry = _values(pairs)
        if state in reference.scale:
            entry["score_scale"] = reference.scale[state]
        if state in reference.records:
            record = vars(reference.records[state])
            entry["fit"] = {k: v for k, v in record.items() if k != "seconds" and v is not None}
        states[str(state)] = entry
    return {"name": reference.name, "source": reference.source, "states": states}


def _values(parameters: Parameters) -> dict[str, Any]:
    return {"parameters": {name: vector.tolist() for name, vector in parameters.items()}}


def _facts_to_json(facts: Facts) -> dict[str, Any]:
    moments = facts.moments
    assert moments is not None  # a bank keeps facts of scores only
    return {"score_scale": facts.scale, **{k: v.tolist() for k, v in vars(moments).items()}}


# -- read --------------------------------------------------------------------------------------


def any_bank_from_json(data: Any) -> Bank | OpenBank:
    """A bank of one schedule, or one for any."""
    if not _is_open(data):
        return bank_from_json(data)
    kept = read_record(data, OpenFile, "bank")
    if not kept.references:
        raise TransilError("bank: it has no references")
    known, parameters = kept.read(), _parameters(kept.parameters)
    wanted = known["correction"].outline(Schedule.equal(2, 2), 2).counts
    if parameters.counts != wanted:
        raise TransilError(
            f"bank: it has {told(parameters.counts)}, but '{kept.correction}' has {told(wanted)}"
        )
    return OpenBank(
        parameters=parameters,
        references=kept.references,
        seen=kept.seen,
        methods=kept.methods,
        expected=kept.expected,
        **known,
    )


def bank_from_json(data: Any) -> Bank:
    """Read what `bank_to_json` gave; anything wrong is told with its place."""
    if _is_open(data):
        raise TransilError(
            "this bank holds for any schedule: say which one (--schedule 12,5,5,8, or "
            "load_bank(..., schedule=[12, 5, 5, 8]))"
        )
    kept = read_record(data, BankFile, "bank")
    transfer = kept.transfer
    choice = {
        read_state(key, "bank: transfer.choice: "): name for key, name in transfer.choice.items()
    }
    return Bank(
        schedule=kept.schedule,
        references=tuple(_reference(one, kept.schedule.states) for one in kept.references),
        transfer=Transfer(transfer.how, transfer.reference, choice),
        facts=dict(_facts(key, of, kept.schedule) for key, of in kept.facts.items()),
        strength=kept.strength,
        **kept.read(),
    )


def _is_open(data: Any) -> bool:
    """Whether a bank is for any schedule; an error where it is none of a version that is known."""
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise TransilError(f'not a bank (a JSON object with "format": "{FORMAT}")')
    if data.get("version") not in (1, VERSION) or isinstance(data["version"], bool):
        raise TransilError(
            f"bank version {short(data.get('version'))}, but this transil reads 1 to {VERSION}; "
            "use the transil that wrote it, or a newer one"
        )
    return bool(data.get("schedule") == ANY)


def _reference(given: ReferenceFile, last: int) -> Reference:
    where = f"bank, reference '{given.name}'"
    if list(given.states) == [ALL]:
        if last > MOST_STATES:  # a short file could name any number
            raise TransilError(f"bank: {last} states; one set of parameters is for {MOST_STATES}")
        pairs = dict.fromkeys(range(2, last + 1), given.states[ALL].fitted)
        return Reference(given.name, pairs, source=given.source)
    states = {read_state(key, f"{where}: "): entry for key, entry in given.states.items()}
    return Reference(
        given.name,
        pairs={state: entry.fitted for state, entry in states.items()},
        records={state: entry.fit for state, entry in states.items() if entry.fit},
        scale={s: e.score_scale for s, e in states.items() if e.score_scale is not None},
        source=given.source,
    )


def _parameters(given: Mapping[str, Numbers]) -> Parameters:
    return Pairs(**given) if list(given) == ["alpha", "beta"] else Parameters(given)


def _facts(key: str, given: FactsFile, schedule: Schedule) -> tuple[int, Facts]:
    """What was measured of a state."""
    state = schedule.check_state(read_state(key, "bank: facts: "))
    moments = {name: np.array(getattr(given, name)) for name in Moments.__dataclass_fields__}
    if any(len(vector) != state for vector in moments.values()):
        raise TransilError(f"bank: facts.{key}: expected {state} numbers for each of its groups")
    return state, Facts(schedule, state, given.score_scale, Moments(**moments))

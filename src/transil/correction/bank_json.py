"""Banks as JSON: written plainly, read strictly. The layout is in docs/formats.md."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from transil.correction.bank import Bank, Reference, Transfer
from transil.correction.facts import Facts, Moments
from transil.correction.layers import Correction, told
from transil.correction.open_bank import MOST_STATES, OpenBank, Seen
from transil.correction.parameters import Pairs, Parameters
from transil.correction.registry import get_correction
from transil.correction.solvers import FitRecord
from transil.correction.strength import AS_FITTED
from transil.errors import TransilError
from transil.schedule import Schedule, read_state
from transil.typed import short

ANY = "any"  # in place of a schedule
ALL = "all"  # in place of a state: the parameters of all of them
FORMAT, VERSION = "transil-bank", 2  # version 1 knew pairs only, and is read
LARGEST = 1e100  # of any number: its square is still one, too
MOST_SEEN = 1e9  # of states, of classes, of a group's size over the mean
MOST_SCALE = 1e38  # larger scores are no numbers in single precision


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
        "parameters": {name: vector.tolist() for name, vector in bank.parameters.items()},
        "provenance": dict(bank.provenance),
    }


def any_bank_from_json(data: Any) -> Bank | OpenBank:
    """A bank of one schedule, or one for any."""
    if isinstance(data, dict) and data.get("schedule") == ANY:
        return _open_bank(_bank_object(data))
    return bank_from_json(data)


def _open_bank(top: _Object) -> OpenBank:
    seen = top.object("seen")
    limits = {}
    for field in fields(Seen):
        limits[field.name] = seen.numbers(field.name)
        if len(limits[field.name]) != 2 or not _are_limits(*limits[field.name]):
            raise seen.wrong(field.name, "a smallest and a largest number above 0")
    names = top.texts("references")
    if not names:
        raise top.wrong("references", "a list of names")
    correction, parameters = _correction(top), _named(top.object("parameters"))
    wanted = correction.outline(Schedule.equal(2, 2), 2).counts
    if parameters.counts != wanted:
        raise TransilError(
            f"bank: it has {told(parameters.counts)}, but '{correction.name}' has {told(wanted)}"
        )
    return OpenBank(
        correction=correction,
        parameters=parameters,
        references=tuple(names),
        seen=Seen(**{name: (low, high) for name, (low, high) in limits.items()}),
        method=top.text_or_none("method"),
        methods=tuple(top.texts("methods")) if "methods" in top.data else (),
        solver=top.text_or_none("solver"),
        **_settings(top),
        score_kind=top.text("score_kind"),
        expected=top.text_or_none("expected"),
    )


def _correction_to_json(correction: Correction) -> dict[str, Any]:
    settings = correction.settings()
    return {
        "correction": correction.name,
        **({"correction_settings": settings} if settings else {}),
    }


def _correction(top: _Object) -> Correction:
    known = "correction_settings"
    settings = top.object(known).data if known in top.data else {}
    return get_correction(top.text("correction"), **settings)


def _bank_object(data: Any) -> _Object:
    """The bank, where it is one of a version that is known."""
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise TransilError(f'not a bank (a JSON object with "format": "{FORMAT}")')
    if data.get("version") not in (1, VERSION) or isinstance(data["version"], bool):
        raise TransilError(
            f"bank version {short(data.get('version'))}, but this transil reads 1 to {VERSION}; "
            "use the transil that wrote it, or a newer one"
        )
    return _Object(data, "bank")


def bank_from_json(data: Any) -> Bank:
    """Read what `bank_to_json` gave; anything wrong is told with its place."""
    top = _bank_object(data)
    if data.get("schedule") == ANY:
        raise TransilError(
            "this bank holds for any schedule: say which one (--schedule 12,5,5,8, or "
            "load_bank(..., schedule=[12, 5, 5, 8]))"
        )
    transfer = top.object("transfer")
    schedule = Schedule.from_json(top.object("schedule").data)
    return Bank(
        correction=_correction(top),
        schedule=schedule,
        references=tuple(
            _reference_from_json(_Object(item, f"bank, reference {number}"), schedule.states)
            for number, item in enumerate(top.list("references"), start=1)
        ),
        method=top.text_or_none("method"),
        solver=top.text_or_none("solver"),
        **_settings(top),
        score_kind=top.text("score_kind"),
        transfer=Transfer(
            transfer.text("how"),  # Bank checks it
            transfer.text("reference") if "reference" in transfer.data else None,
            _choice(transfer.object("choice")) if "choice" in transfer.data else {},
        ),
        facts=_facts(top.object("facts"), schedule) if "facts" in top.data else {},
        strength=top.number("strength") if "strength" in top.data else AS_FITTED,
    )


def _settings(top: _Object) -> dict[str, Any]:
    """The `settings` and the `provenance`, of which only what is looked at is checked."""
    settings, provenance = top.object("settings"), top.object("provenance")
    if "penalty" in settings.data:
        penalty = settings.object("penalty")
        for name in penalty.data:
            penalty.number(name)
    if "versions" in provenance.data:
        provenance.object("versions")
    if "datasets" in provenance.data:
        provenance.list("datasets")
    return {"settings": settings.data, "provenance": provenance.data}


class _Object:
    """A JSON object that tells where a key is missing or a value has the wrong form."""

    def __init__(self, data: Any, where: str) -> None:
        if not isinstance(data, dict):
            raise TransilError(f"{where}: expected an object, not {short(data)}")
        self.data, self.where = data, where

    def get(self, key: str) -> Any:
        if key not in self.data:
            raise TransilError(f"{self.where}: the key '{key}' is missing")
        return self.data[key]

    def wrong(self, key: str, wanted: str) -> TransilError:
        return TransilError(f"{self.where}: '{key}' must be {wanted}, not {short(self.data[key])}")

    def text(self, key: str) -> str:
        value = self.get(key)
        if not isinstance(value, str):
            raise self.wrong(key, "a text")
        return value

    def text_or_none(self, key: str) -> str | None:
        return None if self.get(key) is None else self.text(key)

    def number(self, key: str) -> float:
        if not _is_number(self.get(key)):
            raise self.wrong(key, "a number")
        return float(self.data[key])

    def numbers(self, key: str) -> list[float]:
        values = self.list(key)
        if not all(map(_is_number, values)):
            raise self.wrong(key, "a list of numbers")
        return [float(value) for value in values]

    def texts(self, key: str) -> list[str]:
        values = self.list(key)
        if not all(isinstance(value, str) for value in values):
            raise self.wrong(key, "a list of names")
        return values

    def list(self, key: str) -> list[Any]:
        if not isinstance(self.get(key), list):
            raise self.wrong(key, "a list")
        found: list[Any] = self.data[key]
        return found

    def object(self, key: str) -> _Object:
        return _Object(self.get(key), f"{self.where}, '{key}'")


def _reference_to_json(reference: Reference) -> dict[str, Any]:
    states = {}
    fitted = sorted(reference.pairs.items())
    if len(fitted) > 1 and all(one is fitted[0][1] for _, one in fitted):
        return {
            "name": reference.name,
            "source": reference.source,
            "states": {ALL: _values(fitted[0][1])},
        }
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


def _reference_from_json(data: _Object, last: int) -> Reference:
    name, given = data.text("name"), data.object("states")
    pairs: dict[int, Parameters] = {}
    records, scale = {}, {}
    if list(given.data) == [ALL]:
        if last > MOST_STATES:  # a short file could name any number
            raise TransilError(f"bank: {last} states; one set of parameters is for {MOST_STATES}")
        pairs = dict.fromkeys(range(2, last + 1), _parameters(given.object(ALL)))
        return Reference(name, pairs, source=data.text_or_none("source"))
    for key, item in given.data.items():
        state = read_state(key, f"bank, reference '{name}': ")
        entry = _Object(item, f"bank, reference '{name}', state {state}")
        try:
            pairs[state] = _parameters(entry)
        except TransilError as error:
            text = str(error)
            raise TransilError(
                text if text.startswith("bank") else f"{entry.where}: {text}"
            ) from None
        if "score_scale" in entry.data:
            scale[state] = entry.number("score_scale")
            if scale[state] < 0:
                raise entry.wrong("score_scale", "0 or more")
        if "fit" in entry.data:
            records[state] = _record(entry.object("fit"))
    return Reference(name, pairs, records, scale, source=data.text_or_none("source"))


def _parameters(entry: _Object) -> Parameters:
    """Of one state; those of version 1 are pairs and lie in the state itself."""
    if "parameters" not in entry.data:
        return Pairs(entry.numbers("alpha"), entry.numbers("beta"))
    return _named(entry.object("parameters"))


def _named(given: _Object) -> Parameters:
    if list(given.data) == ["alpha", "beta"]:
        return Pairs(given.numbers("alpha"), given.numbers("beta"))
    return Parameters({name: given.numbers(name) for name in given.data})


def _record(data: _Object) -> FitRecord:
    converged = data.data.get("converged")
    if converged is not None and not isinstance(converged, bool):
        raise data.wrong("converged", "true or false")
    return FitRecord(
        objective=data.number("objective"),
        gradient_norm=data.number("gradient_norm"),
        iterations=int(data.number("iterations")),
        seconds=math.nan,
        converged=converged,
        kept=int(data.number("kept")) if "kept" in data.data else None,
    )


def _facts_to_json(facts: Facts) -> dict[str, Any]:
    moments = facts.moments
    assert moments is not None  # a bank keeps facts of scores only
    return {"score_scale": facts.scale, **{k: v.tolist() for k, v in vars(moments).items()}}


def _facts(data: _Object, schedule: Schedule) -> dict[int, Facts]:
    """What was measured of each state."""
    found = {}
    for key in data.data:
        state, entry = schedule.check_state(read_state(key, f"{data.where}: ")), data.object(key)
        values = [entry.numbers(field.name) for field in fields(Moments)]
        if any(len(vector) != state for vector in values):
            raise TransilError(f"{entry.where}: expected {state} numbers for each of its groups")
        moments = Moments(*(np.array(vector) for vector in values))
        if not 0.0 < entry.number("score_scale") < MOST_SCALE:
            raise entry.wrong("score_scale", "a number above 0 that scores can have")
        found[state] = Facts(schedule, state, entry.number("score_scale"), moments)
    return found


def _choice(data: _Object) -> Mapping[int, str]:
    return {read_state(key, f"{data.where}: "): data.text(key) for key in data.data}


def _are_limits(least: float, most: float) -> bool:
    return 1.0 / MOST_SEEN < least <= most < MOST_SEEN


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return -LARGEST < value < LARGEST

"""Banks as JSON: written plainly, read strictly. The layout is in docs/formats.md."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from transil.correction.bank import Bank, Reference, Transfer
from transil.correction.layers import Pairs
from transil.correction.registry import get_correction
from transil.correction.solvers import FitRecord
from transil.errors import TransilError
from transil.schedule import Schedule

FORMAT, VERSION = "transil-bank", 1
LARGEST = 1e100  # of any number: its square is still one, too


def bank_to_json(bank: Bank) -> dict[str, Any]:
    """The bank as plain values."""
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
        "correction": bank.correction.name,
        "solver": bank.solver,
        "settings": dict(bank.settings),
        "score_kind": bank.score_kind,
        "transfer": transfer,
        "references": [_reference_to_json(r) for r in bank.references],
        "provenance": dict(bank.provenance),
    }


def bank_from_json(data: Any) -> Bank:
    """Read what `bank_to_json` gave; anything wrong is told with its place."""
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise TransilError(f'not a bank (a JSON object with "format": "{FORMAT}")')
    if data.get("version") != VERSION:
        raise TransilError(
            f"bank version {data.get('version')}, but this transil reads version {VERSION}; "
            "use the transil that wrote it, or a newer one"
        )
    top = _Object(data, "bank")
    transfer = top.object("transfer")
    settings, provenance = top.object("settings"), top.object("provenance")
    if "penalty" in settings.data:
        penalty = settings.object("penalty")
        for name in penalty.data:
            penalty.number(name)
    if "versions" in provenance.data:
        provenance.object("versions")
    if "datasets" in provenance.data:
        provenance.list("datasets")
    return Bank(
        correction=get_correction(top.text("correction")),
        schedule=Schedule.from_json(top.object("schedule").data),
        references=tuple(
            _reference_from_json(_Object(item, f"bank, reference {number}"))
            for number, item in enumerate(top.list("references"), start=1)
        ),
        method=top.text_or_none("method"),
        solver=top.text_or_none("solver"),
        settings=settings.data,
        score_kind=top.text("score_kind"),
        transfer=Transfer(
            transfer.text("how"),  # type: ignore[arg-type]  # Bank checks it
            transfer.text("reference") if "reference" in transfer.data else None,
            _choice(transfer.object("choice")) if "choice" in transfer.data else {},
        ),
        provenance=provenance.data,
    )


class _Object:
    """A JSON object that tells where a key is missing or a value has the wrong form."""

    def __init__(self, data: Any, where: str) -> None:
        if not isinstance(data, dict):
            raise TransilError(f"{where}: expected an object, not {_short(data)}")
        self.data, self.where = data, where

    def get(self, key: str) -> Any:
        if key not in self.data:
            raise TransilError(f"{self.where}: the key '{key}' is missing")
        return self.data[key]

    def wrong(self, key: str, wanted: str) -> TransilError:
        return TransilError(f"{self.where}: '{key}' must be {wanted}, not {_short(self.data[key])}")

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

    def list(self, key: str) -> list[Any]:
        if not isinstance(self.get(key), list):
            raise self.wrong(key, "a list")
        found: list[Any] = self.data[key]
        return found

    def object(self, key: str) -> _Object:
        return _Object(self.get(key), f"{self.where}, '{key}'")


def _reference_to_json(reference: Reference) -> dict[str, Any]:
    states = {}
    for state, pairs in sorted(reference.pairs.items()):
        entry: dict[str, Any] = {"alpha": pairs.alpha.tolist(), "beta": pairs.beta.tolist()}
        if state in reference.scale:
            entry["score_scale"] = reference.scale[state]
        if state in reference.records:
            record = vars(reference.records[state])
            entry["fit"] = {k: v for k, v in record.items() if k != "seconds" and v is not None}
        states[str(state)] = entry
    return {"name": reference.name, "source": reference.source, "states": states}


def _reference_from_json(data: _Object) -> Reference:
    name = data.text("name")
    pairs, records, scale = {}, {}, {}
    for key, item in data.object("states").data.items():
        state = _state(key, f"bank, reference '{name}'")
        entry = _Object(item, f"bank, reference '{name}', state {state}")
        try:
            pairs[state] = Pairs(entry.numbers("alpha"), entry.numbers("beta"))  # type: ignore[arg-type]
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


def _choice(data: _Object) -> Mapping[int, str]:
    return {_state(key, data.where): data.text(key) for key in data.data}


def _state(key: str, where: str) -> int:
    if not re.fullmatch(r"[1-9][0-9]{0,7}", key):
        raise TransilError(f"{where}: '{key[:20]}' is not the number of a state")
    return int(key)


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return -LARGEST < value < LARGEST


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."

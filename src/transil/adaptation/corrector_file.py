"""Correctors as JSON: what was learned, enough to correct without bank, ledger or scores."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import numpy as np

from transil._common.arrays import Float64Array
from transil._common.files import check_replaceable, open_regular, write_json
from transil._common.typed import Between, read_file, sealed
from transil._version import __version__
from transil.adaptation.columns import Columns
from transil.adaptation.priors import Prior
from transil.errors import TransilError
from transil.schedule import Schedule

if TYPE_CHECKING:
    from transil.adaptation.corrector import Corrector

FORMAT, VERSION = "transil-corrector", 1
C = TypeVar("C", bound="Corrector")


@dataclass(frozen=True)
class PriorFile:
    """The prior that was assumed."""

    name: str
    says: str
    shares: tuple[float, ...]


@dataclass(frozen=True)
class CorrectorFile:
    """The file, key by key; lists have an entry for each column.

    `predicted`, `expected`: shares of the classes in learning order, before and with the shifts.
    """

    format: str
    version: int
    schedule: tuple[tuple[int, ...], ...]
    state: int
    method: str | None
    rows: Annotated[int, Between(0, 2**53)]
    centred: bool
    scale: tuple[float, ...]
    shift: tuple[float, ...]
    shifts: tuple[float, ...]
    classes: tuple[str, ...] | tuple[int, ...]
    predicted: tuple[float, ...] | None = None
    expected: tuple[float, ...] | None = None
    prior: PriorFile | None = None
    temperature: float = 1.0
    left: float | None = None
    abstained: str | None = None
    provenance: Mapping[str, Any] | None = None
    checksum: str = ""


def write_corrector(path: str | os.PathLike[str], corrector: Corrector) -> None:
    """Write what `Corrector.load` reads."""
    columns, prior = corrector.columns_, corrector.prior_
    kept = CorrectorFile(
        format=FORMAT,
        version=VERSION,
        schedule=corrector._schedule.groups,
        state=corrector.state_,
        method=corrector.method,
        rows=corrector.rows_,
        centred=columns.centred,
        scale=tuple(columns.scale.tolist()),
        shift=tuple(columns.shift.tolist()),
        shifts=tuple(corrector.shifts_.tolist()),
        classes=tuple(corrector.classes_.tolist()),
        predicted=_list(corrector.predicted_),
        expected=_list(corrector.expected_),
        prior=None if prior is None else PriorFile(prior.name, prior.says, tuple(prior.shares.tolist())),
        temperature=corrector.temperature_,
        left=corrector.left_,
        abstained=corrector.abstained_,
        provenance={"transil": __version__},
    )  # fmt: skip
    check_replaceable(path, FORMAT, VERSION)
    write_json(path, sealed(kept))


def is_corrector(name: str | os.PathLike[str]) -> bool:
    """Whether a name is that of a corrector's file; its beginning says what it is."""
    if not os.path.isfile(name):
        return False
    with open_regular(name) as file:
        start = file.read(200).decode(errors="replace")
    return re.search(rf'"format":\s*"{FORMAT}"', start) is not None


def read_corrector(path: str | os.PathLike[str], make: type[C]) -> C:
    """A fitted corrector from its file."""
    remedy = "fit it again"
    kept = read_file(path, CorrectorFile, FORMAT, VERSION, "corrector", remedy)
    prior = kept.prior
    lists = [kept.scale, kept.shift, kept.shifts, kept.classes, kept.predicted, kept.expected]
    lists += [prior.shares] if prior else []
    try:
        schedule = Schedule.from_groups(kept.schedule)
        columns = schedule.columns(kept.state)
        if any(values is not None and len(values) != columns for values in lists):
            raise TransilError("its numbers do not go together")
    except TransilError as error:
        raise TransilError(f"{path}: damaged corrector: {error}; {remedy}") from None
    made = make(schedule, method=kept.method)
    known = Columns(np.array(kept.scale), np.array(kept.shift), kept.centred)
    made._known(schedule, kept.state, known)
    made.rows_, made.shifts_ = kept.rows, np.array(kept.shifts)
    named = all(isinstance(name, str) for name in kept.classes)
    made.classes_ = np.array(kept.classes, dtype=object if named else np.int64)
    if named:
        made.feature_names_in_ = made.classes_
    made.predicted_, made.expected_ = _array(kept.predicted), _array(kept.expected)
    if prior is not None:
        made.prior_ = Prior(prior.name, np.array(prior.shares), prior.says)
    made.temperature_, made.left_, made.abstained_ = kept.temperature, kept.left, kept.abstained
    return made


def _list(values: Float64Array | None) -> tuple[float, ...] | None:
    return None if values is None else tuple(values.tolist())


def _array(values: tuple[float, ...] | None) -> Float64Array | None:
    return None if values is None else np.array(values)

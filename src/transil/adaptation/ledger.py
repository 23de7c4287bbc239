"""The ledger: what is remembered from update to update, a few numbers for each class.

When a group is new, all its classes are equally new, so the model's own shares within the group hardly
suffer from forgetting: they are kept. Later, what the model predicts otherwise is forgetting, not
frequency. No image is kept, and no score of an image.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from transil._common.arrays import Float64Array
from transil._common.files import check_replaceable, locked, write_json
from transil._common.typed import Between, read_file, sealed
from transil.errors import TransilError
from transil.schedule import MOST_CLASSES, Schedule, ScheduleLike

FORMAT, VERSION = "transil-ledger", 1
Share = Annotated[float, Between(0, 1)]


@dataclass(frozen=True)
class Entry:
    """What was recorded in one state.

    `within`: the share of each class of the newest group among its classes; `groups`: the shares of
    all groups, as the corrected scores predicted them; `rows`: of how many images.
    """

    rows: Annotated[int, Between(1, 2**53)]
    within: tuple[Share, ...]
    groups: tuple[Share, ...]


@dataclass(frozen=True)
class LedgerFile:
    """The file, key by key."""

    format: str
    version: int
    method: str | None
    sizes: tuple[Annotated[int, Between(1, MOST_CLASSES)], ...]
    states: Mapping[str, Entry]
    checksum: str = ""


class Ledger:
    """Shares of classes within their group, recorded when the group was new.

    A new one is made with the `schedule` of the groups learned so far, and the `method` that the model
    is trained with; an existing one is opened by its path alone. A schedule may name more groups later;
    it must begin as it did.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        schedule: ScheduleLike | None = None,
        method: str | None = None,
    ) -> None:
        self.path = Path(path)
        self.states: Mapping[int, Entry] = {}
        given = None if schedule is None else Schedule.of(schedule)
        if self.path.exists():
            kept = self._read()
            self.sizes, self.method = kept.sizes, kept.method
            self.states = {int(state): entry for state, entry in kept.states.items()}
            if given is not None:
                self.check(given, method)
                self.sizes = max(self.sizes, given.sizes, key=len)
            self.method = self.method or method
        elif given is None:
            raise TransilError(
                f"{self.path}: no such ledger; a new one needs a schedule (schedule=[12, 5, 5], "
                "--schedule 12,5,5)"
            )
        else:
            self.sizes, self.method = given.sizes, method

    def __repr__(self) -> str:
        states = ", ".join(map(str, self.states)) or "none"
        return (
            f"Ledger({self.path}: groups of {_told(self.sizes)} classes; states recorded: {states})"
        )

    def check(self, schedule: Schedule, method: str | None) -> None:
        """An error where this ledger is of another schedule or method."""
        short = min(len(self.sizes), len(schedule.sizes))
        if self.sizes[:short] != schedule.sizes[:short]:
            raise TransilError(
                f"{self.path}: this ledger is of groups of {_told(self.sizes)} classes, not of "
                f"{_told(schedule.sizes)}; give the ledger of this model"
            )
        if method is not None and self.method is not None and method != self.method:
            raise TransilError(
                f"{self.path}: this ledger is of a model trained with '{self.method}', not with "
                f"'{method}'; give the ledger of this model"
            )

    def record(self, state: int, scores: Any, *, bank: Any = None) -> Entry:
        """Keep what unlabelled scores (n, columns) of the traffic in a state say, once per update.

        They are the scores of the model that has just learned the group of this state. Recorded
        again, the newest record counts. `bank`: one of your own, as for `Corrector`.
        """
        schedule = Schedule.from_sizes(self.sizes)
        state = schedule.check_state(state)
        self._check_order(state)
        entry = _entry(schedule, state, scores, self.method, bank)
        check_replaceable(self.path, FORMAT, VERSION)
        with locked(self.path.with_name(f".{self.path.name}.lock")):
            if self.path.exists():  # another process may have recorded meanwhile
                self.states = {int(s): e for s, e in self._read().states.items()}
                self._check_order(state)
            self.states = {**self.states, state: entry}
            states = {str(s): self.states[s] for s in sorted(self.states)}
            made = LedgerFile(FORMAT, VERSION, self.method, self.sizes, states)
            write_json(self.path, sealed(made))
        return entry

    def _check_order(self, state: int) -> None:
        if later := [s for s in self.states if s > state]:
            raise TransilError(
                f"{self.path}: state {max(later)} is recorded already, so state {state} comes too late; "
                "shares are recorded when a group is new"
            )

    def within(self, state: int) -> Float64Array:
        """The share of each class seen in `state` within its group (c,); NaN where none was recorded."""
        parts = [
            np.array(self.states[k].within) if k in self.states else np.full(size, np.nan)
            for k, size in enumerate(self.sizes[:state], start=1)
        ]
        return np.concatenate(parts)

    def _read(self) -> LedgerFile:
        remedy = "the shares of earlier states are lost; begin a new one beside it"
        kept = read_file(self.path, LedgerFile, FORMAT, VERSION, "ledger", remedy)
        wrong = f"{self.path}: damaged ledger"
        if not kept.sizes:
            raise TransilError(f"{wrong}: it has no groups; {remedy}")
        known = {f"{state}": (size, state) for state, size in enumerate(kept.sizes, start=1)}
        for state, entry in kept.states.items():
            if (len(entry.within), len(entry.groups)) != known.get(state):
                raise TransilError(
                    f"{wrong}: state {state[:20]} does not go with its sizes; {remedy}"
                )
        return kept


def _entry(schedule: Schedule, state: int, scores: Any, method: str | None, bank: Any) -> Entry:
    """What scores of a state say, corrected: raw ones call old images new classes."""
    from transil.adaptation.corrector import NO_BANK, Corrector

    bank = NO_BANK if state == 1 else bank  # there is nothing to correct yet
    corrector = Corrector(schedule, method=method, bank=bank, prior="predicted")
    fitted = corrector.fit(scores, state=state)
    shares, newest = np.asarray(fitted.predicted_), schedule.group_columns(state)
    groups = np.add.reduceat(shares, [schedule.group_columns(k + 1).start for k in range(state)])
    return Entry(fitted.rows_, _plain(shares[newest] / shares[newest].sum()), _plain(groups))


def open_ledger(ledger: Ledger | str | os.PathLike[str]) -> Ledger:
    """A ledger, or that of a file."""
    return ledger if isinstance(ledger, Ledger) else Ledger(ledger)


def _plain(shares: Float64Array) -> tuple[float, ...]:
    """Six digits: more would say nothing, and a file stays small."""
    return tuple(float(f"{share:.6g}") for share in shares)


def _told(sizes: tuple[int, ...]) -> str:
    shown = ", ".join(map(str, sizes[:8]))
    return shown + (", ..." if len(sizes) > 8 else "")

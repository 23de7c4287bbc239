"""Which class belongs to which state: pure index arithmetic, no torch.

States and groups are counted from 1, as in the paper: state s knows the groups 1..s, and group k
holds the classes first learned in state k. The columns of the scores of state s are the classes
seen so far in the order in which they were learned: first those of group 1, then of group 2, ...
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from transil.errors import TransilError

IntArray: TypeAlias = NDArray[np.int64]

# Beyond this a schedule is a mistake, or a file made to exhaust memory.
MOST_CLASSES = 10_000_000


@dataclass(frozen=True)
class Schedule:
    """The classes of every group, in the order in which they are learned.

    Build one with `Schedule.equal(100, 10)`, `Schedule.from_sizes([50, 10, 5, 1, 34])` or
    `Schedule.from_groups([[5, 2, ...], [0, 7, ...], ...])` (class ids); `Schedule.of` accepts any
    of these forms.
    """

    groups: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        if not self.groups:
            raise TransilError("schedule: it has no groups; give at least one")
        for k, group in enumerate(self.groups, start=1):
            if not group:
                raise TransilError(f"schedule: group {k} has no classes; leave it out or fill it")
        if sum(map(len, self.groups)) > MOST_CLASSES:
            raise TransilError(f"schedule: more than {MOST_CLASSES:,} classes")
        first_seen: dict[int, int] = {}
        for k, group in enumerate(self.groups, start=1):
            for label in group:
                if not 0 <= label < 2**63:
                    raise TransilError(
                        f"schedule: class {label} in group {k}; "
                        "class labels are whole numbers from 0 to 2^63 - 1"
                    )
                if label in first_seen:
                    raise TransilError(
                        f"schedule: class {label} is in group {first_seen[label]} and again in "
                        f"group {k}; every class is learned once"
                    )
                first_seen[label] = k

    # -- ways to make one ---------------------------------------------------------------------

    @classmethod
    def equal(cls, classes: int, states: int) -> Schedule:
        """`classes` classes in `states` groups of one size, labels 0, 1, ... in order."""
        classes, states = (
            _whole(number, f"the number of {what}")
            for number, what in ((classes, "classes"), (states, "states"))
        )
        if states < 1 or classes < 1:
            raise TransilError(
                f"schedule: {classes} classes in {states} states; both must be at least 1"
            )
        if max(classes, states) > MOST_CLASSES:
            raise TransilError(f"schedule: more than {MOST_CLASSES:,} classes")
        if classes % states:
            raise TransilError(
                f"schedule: {classes} classes cannot be cut into {states} equal groups; "
                f"take a number of states that divides {classes}, or give group sizes where they "
                "can be given"
            )
        return cls.from_sizes([classes // states] * states)

    @classmethod
    def from_sizes(cls, sizes: Iterable[int]) -> Schedule:
        """Groups of the given sizes, labels 0, 1, ... in order."""
        sizes = [_whole(size, "a group size") for size in sizes]
        for k, size in enumerate(sizes, start=1):
            if size < 1:
                raise TransilError(f"schedule: group {k} has size {size}; sizes are at least 1")
        if sum(sizes) > MOST_CLASSES:
            raise TransilError(f"schedule: more than {MOST_CLASSES:,} classes")
        starts = np.cumsum([0, *sizes]).tolist()
        return cls(tuple(tuple(range(a, a + n)) for a, n in zip(starts[:-1], sizes, strict=True)))

    @classmethod
    def from_groups(cls, groups: Iterable[Iterable[int]]) -> Schedule:
        """Groups given as lists of class labels, in the order of the score columns."""
        listed = [group if isinstance(group, Iterable) else [group] for group in groups]
        return cls(tuple(tuple(_whole(c, "a class label") for c in group) for group in listed))

    @classmethod
    def of(cls, spec: ScheduleLike) -> Schedule:
        """A schedule from any of its forms.

        A `Schedule`, a list of sizes, a list of class lists, or a text: `"100/10"` (100 classes
        in 10 equal groups) or `"50,10,5,1,34"` (sizes).
        """
        if isinstance(spec, Schedule):
            return spec
        if isinstance(spec, str):
            return cls._parse(spec)
        given: Any = spec.tolist() if hasattr(spec, "tolist") else spec  # an array
        if not isinstance(given, Sequence) or isinstance(given, bytes):
            shown = repr(given)[:40]
            raise TransilError(f"schedule: cannot read {shown}; give sizes or lists of classes")
        if len(given) and all(isinstance(group, Sequence | np.ndarray) for group in given):
            return cls.from_groups(given)
        return cls.from_sizes(given)

    @classmethod
    def _parse(cls, text: str) -> Schedule:
        try:
            if "/" in text:
                classes, states = (int(part) for part in text.split("/"))
                return cls.equal(classes, states)
            return cls.from_sizes([int(part) for part in text.split(",")])
        except TransilError:
            raise
        except ValueError:
            raise TransilError(
                f"schedule: cannot read '{text[:40]}'; write '100/10' (100 classes in 10 equal groups) "
                "or the sizes, '50,10,5,1,34'"
            ) from None

    # -- what it knows ------------------------------------------------------------------------

    @property
    def states(self) -> int:
        """The number S of states, which is also the number of groups."""
        return len(self.groups)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The number of classes of each group."""
        return tuple(len(group) for group in self.groups)

    @cached_property
    def seen(self) -> tuple[int, ...]:
        """The number of classes seen at the end of each state: the columns of its scores."""
        return tuple(np.cumsum(self.sizes).tolist())

    def columns(self, state: int) -> int:
        """How many score columns the model of `state` has."""
        return self.seen[self.check_state(state) - 1]

    def classes(self, state: int) -> IntArray:
        """The class label of each score column of `state`, shape (columns,)."""
        return self._labels[: self.columns(state)]

    def group_columns(self, group: int) -> slice:
        """The score columns of one group."""
        stop = self.seen[self.check_state(group) - 1]
        return slice(stop - self.sizes[group - 1], stop)

    def group_of_column(self, state: int) -> IntArray:
        """The group (from 1) of each score column of `state`, shape (columns,)."""
        return np.repeat(np.arange(1, state + 1), self.sizes[: self.check_state(state)])

    def column_of(
        self, labels: ArrayLike, state: int, where: str = "labels", first_row: int = 0
    ) -> IntArray:
        """The score column of each label, shape as `labels`; a label not seen yet is an error."""
        labels = np.asarray(labels)
        known, column = self._columns_by_label
        place = np.minimum(np.searchsorted(known, labels), len(known) - 1)
        columns = column[place]
        bad = (known[place] != labels) | (columns >= self.columns(state))
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise TransilError(
                f"{where}: label {labels.flat[row]} in row {first_row + row} is not one of the "
                f"{self.columns(state)} classes seen in state {state}; "
                "check the labels or the schedule"
            )
        return columns

    def state_with(self, columns: int) -> int:
        """The state whose scores have `columns` columns."""
        try:
            return self.seen.index(columns) + 1
        except ValueError:
            raise TransilError(
                f"scores have {columns} columns, but the states of this schedule have "
                f"{_short_list(self.seen)}; check the scores or the schedule"
            ) from None

    def check_state(self, state: int) -> int:
        """`state` as an int where the schedule has it, else an error."""
        if isinstance(state, bool | np.bool_) or not hasattr(state, "__index__"):
            raise TransilError(f"state {state!r}: a state is a whole number, from 1")
        state = operator.index(state)
        if not 1 <= state <= self.states:
            raise TransilError(
                f"state {state} does not exist; this schedule has the states 1 to {self.states}"
            )
        return state

    def check_columns(self, columns: int, state: int, where: str = "scores") -> None:
        """An error where scores of `state` have another number of columns than they must."""
        wanted = self.columns(state)
        if columns != wanted:
            remedy = "check the state or the schedule"
            if columns == self.seen[-1]:
                remedy = f"keep the {wanted} columns of the classes seen so far, in learning order"
            raise TransilError(
                f"{where}: {columns} columns, but state {state} has {wanted} classes "
                f"seen so far; {remedy}"
            )

    def starts_like(self, other: Schedule) -> bool:
        """Whether the group sizes of this schedule begin those of `other` (or equal them).

        A deployed model that is only in its third state can use a bank made for ten.
        """
        return self.sizes == other.sizes[: self.states]

    def __str__(self) -> str:
        if len(set(self.sizes)) == 1:
            return f"{self.seen[-1]} classes, {self.states} groups of {self.sizes[0]}"
        return f"{self.seen[-1]} classes, {self.states} groups of {_short_list(self.sizes)}"

    # -- files --------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Sizes where the labels are 0, 1, ... in order, else the class lists."""
        if self == Schedule.from_sizes(self.sizes):
            return {"sizes": list(self.sizes)}
        return {"groups": [list(group) for group in self.groups]}

    @classmethod
    def from_json(cls, data: Any) -> Schedule:
        """Read what `to_json` gave."""
        sizes, groups = (
            data.get(k) if isinstance(data, dict) else None for k in ("sizes", "groups")
        )
        if isinstance(sizes, list):
            return cls.from_sizes(sizes)
        if isinstance(groups, list) and all(isinstance(group, list) for group in groups):
            return cls.from_groups(groups)
        raise TransilError("schedule: expected an object with a list 'sizes' or 'groups'")

    # -- tables, made once --------------------------------------------------------------------

    @cached_property
    def _labels(self) -> IntArray:
        labels = np.array([label for group in self.groups for label in group], dtype=np.int64)
        labels.setflags(write=False)  # handed out by `classes`
        return labels

    @cached_property
    def _columns_by_label(self) -> tuple[IntArray, IntArray]:
        """The labels in rising order, and the column of each."""
        column = np.argsort(self._labels)
        return self._labels[column], column


# What `Schedule.of` accepts.
ScheduleLike: TypeAlias = Schedule | str | Sequence[int] | Sequence[Sequence[int]]


def _whole(value: Any, what: str) -> int:
    """`value` as an int; 3.0 and NumPy integers pass, 3.5, "3" and True do not."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    try:
        if not isinstance(value, bool):
            return operator.index(value)
    except (TypeError, ValueError, RuntimeError):  # no number, or a tensor of several
        pass
    raise TransilError(f"schedule: {what} must be a whole number, not {repr(value)[:40]}")


def read_whole(text: str, where: str) -> int:
    """The number of a state or group that a name or a key gives in digits."""
    if len(text.lstrip("0")) >= len(str(MOST_CLASSES)):
        raise TransilError(f"{where}: so large a number no state has")
    return int(text)


def read_state(key: str, where: str = "") -> int:
    """The state that a key of a file gives; each number has one way to stand there."""
    if not re.fullmatch(r"[1-9][0-9]{0,7}", key):
        raise TransilError(f"{where}'{key[:20]}' is not the number of a state")
    return int(key)


def _short_list(values: Sequence[int], most: int = 12) -> str:
    shown = ", ".join(str(v) for v in values[:most])
    return shown + (", ..." if len(values) > most else "")

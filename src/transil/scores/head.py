"""Which columns of a model's output are the scores of the classes seen so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from transil._common.arrays import is_torch, to_numpy
from transil.errors import TransilError
from transil.schedule import IntArray, Schedule

if TYPE_CHECKING:
    import torch

HeadOrder: TypeAlias = "Sequence[int] | NDArray[np.integer[Any]] | torch.Tensor | Literal['labels']"


@dataclass(frozen=True, eq=False)
class Head:
    """How the last layer of a model is laid out; as it is made here, it grows with the classes.

    `width`: the columns that it has in every state, where it has those of classes still to come, too.
    `order`: the place in it of each class in the order in which they were learned, from 0; "labels"
    where class c stands at place c. `columns`: how many columns each place has, side by side, of which
    the first one is the score.
    """

    width: int | None = None
    order: HeadOrder | None = None
    columns: int = 1

    def __post_init__(self) -> None:
        for name, value in (("width", self.width), ("columns", self.columns)):
            if value is not None and (type(value) is not int or value < 1):
                raise TransilError(f"{name}: expected a whole number from 1, not {value!r}")

    @property
    def is_plain(self) -> bool:
        """Whether the columns are those of a store already."""
        return self.width is None and self.order is None and self.columns == 1

    def state(self, schedule: Schedule, state: int) -> HeadState:
        """What of its output belongs into the scores of a state."""
        places, seen = self._places(schedule), schedule.columns(state)
        needed = self.columns * (int(places[:seen].max()) + 1)
        index: Any = self.columns * places[:seen]
        if self.order is None:  # a slice costs no copy
            index = slice(0, needed, self.columns)
        return HeadState(self, schedule, state, self.width or needed, needed, index)

    def _places(self, schedule: Schedule) -> IntArray:
        """The place of each class of the schedule, (classes,)."""
        classes = schedule.seen[-1]
        if self.order is None:
            return np.arange(classes)
        if isinstance(self.order, str):
            if self.order != "labels":
                raise TransilError(
                    f"order: a list of columns, or 'labels', not '{self.order[:40]}'"
                )
            return schedule.classes(schedule.states)
        places = to_numpy(self.order, "order")
        if places.ndim != 1 or not np.issubdtype(places.dtype, np.integer):
            raise TransilError("order: expected a list of whole numbers, one column for each class")
        if len(places) != classes:
            raise TransilError(
                f"order: it names {len(places)} columns, but the schedule has {classes} classes; name "
                "one for each, from 0"
            )
        if places.min() < 0 or len(np.unique(places)) < classes:
            raise TransilError(
                "order: a column is named twice, or is below 0; name each class's own"
            )
        return places.astype(np.int64)


@dataclass(frozen=True, eq=False)
class HeadState:
    """The output of a head in one state. `width`: its columns; `index`: those of the classes seen."""

    head: Head
    schedule: Schedule
    number: int
    width: int
    needed: int  # columns, at least
    index: Any

    def scores(self, output: Any, where: str) -> Any:
        """The scores (n, classes seen so far) in an array or tensor (n, width)."""
        if output.shape[-1] != self.width or self.needed > self.width:
            raise TransilError(f"{where}: {self._told(int(output.shape[-1]))}")
        if self.head.is_plain:
            return output
        if is_torch(output) and not isinstance(self.index, slice):
            import torch

            return output[:, torch.as_tensor(self.index, device=output.device)]
        return output[:, self.index]

    def _told(self, found: int) -> str:
        """What is wrong with so many columns, and how the head may really be laid out."""
        classes = self.schedule.columns(self.number)
        what = f"{found} columns, but state {self.number} has {classes} classes seen so far"
        if self.head.width is not None:
            what += f" in a head of {self.head.width} columns (width)"
        elif not self.head.is_plain:
            what += f", the last of which ends at column {self.needed}"
        return f"{what}; {self._hint(found)}"

    def _hint(self, found: int) -> str:
        own, seen = self.head.columns, self.needed // self.head.columns
        classes = self.schedule.columns(self.number)
        whole = int(self.head._places(self.schedule).max()) + 1
        hints = []
        if found == whole * own and found > self.needed:
            hints.append(
                f"where the others are of classes still to come, say so (width={found}), or keep the "
                f"{classes} columns of the classes seen so far"
            )
        elif (
            own == 1 and found % whole == 0 and found > whole and self.number < self.schedule.states
        ):
            hints.append(
                f"where it has {found // whole} columns for each class, also of those to come, say so "
                f"(width={found}, columns={found // whole})"
            )
        if own == 1 and found % seen == 0 and found > seen:
            hints.append(
                f"where it has {found // seen} columns for each class, of which the first is the score, "
                f"say so (columns={found // seen})"
            )
        others = range(1, self.schedule.states + 1) if self.head.width is None else ()
        alike = [n for n in others if self.head.state(self.schedule, n).width == found]
        hints += [f"state {n} has so many: check the state" for n in alike]
        return "; ".join(hints) or "check the state or the schedule"

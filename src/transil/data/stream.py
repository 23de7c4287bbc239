"""ClassStream: the classes of a data set, state by state, and no image that the protocol forbids.

Splits are pure index arithmetic over the labels. A *target* hands out the training and validation
images of the current state and no others; a *reference*, which is used offline, may also see the
validation images of past groups. Test images of the classes seen so far are for evaluation only.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from transil._common.files import digest, write_json
from transil.data.images import Images
from transil.data.orders import class_order
from transil.data.source import Pixels
from transil.data.splits import SplitRule, split_by_class
from transil.data.statistics import Statistics, colour_statistics
from transil.errors import LeakError, TransilError
from transil.schedule import IntArray, Schedule, ScheduleLike

Role = Literal["target", "reference"]


class Subset:
    """Some images of a data set with their new labels; asks its stream before it gives any.

    Labels are score columns: classes are numbered in the order in which they are learned.
    """

    def __init__(
        self, pixels: Pixels, rows: IntArray, labels: IntArray, allowed: Callable[[], None]
    ) -> None:
        self._pixels, self._rows, self._labels, self._allowed = pixels, rows, labels, allowed

    def __len__(self) -> int:
        return len(self._rows)

    def check_open(self) -> None:
        """An error where the stream has left the state that gave this subset."""
        self._allowed()

    @property
    def labels(self) -> IntArray:
        """The label of each image, shape (n,)."""
        self._allowed()
        return self._labels.copy()

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, size, size, 3)."""
        return (len(self._rows), *self._pixels.shape[1:])

    @property
    def nbytes(self) -> int:
        """The bytes all images take."""
        return int(np.prod(self.shape))

    def read(self, index: Any = slice(None)) -> Pixels:
        """A copy of some images, (k, size, size, 3) uint8, by position in this subset.

        `index` is a slice, a position or a list of them; one image comes as (1, size, size, 3).
        """
        self._allowed()
        if index is None or isinstance(index, bool | np.bool_):
            raise TransilError(f"read: {index!r} is no position; give a slice or whole numbers")
        # A list of rows, never a single one: indexing by a list copies, so that nobody gets a
        # view through which the rest of the data set can be reached.
        return np.array(self._pixels[np.atleast_1d(self._rows[index])])

    def fingerprint(self) -> str:
        """A checksum of which images these are, without looking at them."""
        return digest([self._rows.tolist(), self._labels.tolist()])


@dataclass(frozen=True)
class State:
    """What may be seen in one state.

    `train`: the images of the new classes. `val`: their validation images; of a reference, those
    of all groups up to this one. `test`: the test images of all classes seen so far.
    """

    number: int
    classes: tuple[str, ...]  # names of the new classes
    train: Subset
    val: Subset
    test: Subset


class ClassStream:
    """The states of an incremental process over one data set.

    - `states` (equal groups) or `schedule`: how many classes each state brings;
    - `order`: 'label', 'seed:N', 'authors-cifar100' or a list of labels;
    - `val_per_class` or `val_fraction`: training images of each class set aside, from the `first`,
      the `last` or a seeded choice (`val_from`); without either, the data set's own split 'val';
    - `train_fraction`: the share of the remaining training images that is used (the paper's half),
      chosen with `fraction_seed`;
    - `role`: 'target' or 'reference';
    - `past`: so many groups were learned elsewhere: the stream begins after them, and their classes
      need no images; `colours`: the statistics that were used there.
    """

    def __init__(
        self,
        images: Images,
        states: int | None = None,
        *,
        schedule: ScheduleLike | None = None,
        order: str | Sequence[int] | None = None,
        val_per_class: int | None = None,
        val_fraction: float | None = None,
        val_from: str = "first",
        train_fraction: float = 1.0,
        fraction_seed: int = 0,
        role: Role = "target",
        past: int = 0,
        colours: Statistics | None = None,
    ) -> None:
        if (states is None) == (schedule is None):
            raise TransilError("stream: give the number of states or a schedule, one of the two")
        if role not in ("target", "reference"):
            raise TransilError(f"stream: role '{role}' is unknown; 'target' or 'reference'")
        if states is not None and (not isinstance(states, int) or isinstance(states, bool)):
            raise TransilError(f"stream: states is {states!r}, not a whole number")
        if schedule is None:
            given = Schedule.equal(images.classes, states or 0)
        else:
            given = Schedule.of(schedule)
        if given.seen[-1] > images.classes:
            raise TransilError(
                f"stream: the schedule has {given.seen[-1]} classes, {images.name} only "
                f"{images.classes}"
            )
        rule = SplitRule(val_per_class, val_fraction, val_from, train_fraction, fraction_seed)
        listed = given != Schedule.from_sizes(given.sizes)
        if listed and order is not None:
            raise TransilError("stream: the schedule names the classes; an order is one too many")
        if listed:
            labels = given.classes(given.states)
            if labels.max() >= images.classes:
                raise TransilError(f"stream: {images.name} has no class {labels.max()}")
        else:
            wanted = "seed:0" if order is None else order
            labels = class_order(wanted, images.classes)[: given.seen[-1]]
        self.name = images.name
        self._role: Role = role
        self._schedule = Schedule.from_sizes(given.sizes)
        self._order = np.array(labels)
        self._order.setflags(write=False)
        written = order if order is None or isinstance(order, str) else [int(c) for c in order]
        if written is None:
            written = self._order.tolist() if listed else "seed:0"
        self._settings = {"role": role, "order": written, **vars(rule)}
        self._current = past
        self._colours = colours
        self._images = images
        # Where the images of each split come from, and the rows of each class there.
        self._origin = {"train": "train", "val": "train" if rule.aside else "val", "test": "test"}
        by_split = {split: data.labels for split, data in images.splits.items()}
        new = self._order[self._schedule.seen[past - 1] :] if past else self._order
        self._rows = split_by_class(by_split, images.class_names, rule, new)

    # -- going through it ---------------------------------------------------------------------

    def __iter__(self) -> Iterator[State]:
        """The states from the next one on."""
        for number in range(self._current + 1, self.schedule.states + 1):
            yield self.enter(number)

    def __len__(self) -> int:
        return self.schedule.states

    # What a stream is cannot be changed from outside: it decides which images may be seen.

    @property
    def role(self) -> Role:
        """'target' or 'reference'."""
        return self._role

    @property
    def schedule(self) -> Schedule:
        """The group sizes; classes are numbered in learning order."""
        return self._schedule

    @property
    def order(self) -> IntArray:
        """The data set's labels in the order in which they are learned, read-only."""
        return self._order

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names of the classes in the order in which they are learned."""
        return tuple(self._images.class_names[label] for label in self._order)

    @property
    def image_size(self) -> int:
        """The width and height of the images, in pixels."""
        return self._images.size

    @property
    def settings(self) -> dict[str, Any]:
        """How the stream was made."""
        return dict(self._settings)

    def __reduce__(self) -> Any:
        raise LeakError(
            f"{self.name}: a stream cannot be copied, the copy could go back; make a new one"
        )

    @property
    def current(self) -> int:
        """The state the stream is in; 0 before the first, or the last that was learned elsewhere."""
        return self._current

    def enter(self, number: int) -> State:
        """Go to a state, this one or a later one. What earlier states gave is closed after that."""
        self.schedule.check_state(number)
        if number < self._current:
            raise LeakError(
                f"{self.name}: state {number} is past, the stream is in state {self._current}; "
                "its images may not be seen again"
            )
        self._current = number
        past = range(1, number + 1)
        names = self.class_names[self.schedule.group_columns(number)]
        return State(
            number,
            names,
            train=self._subset("train", [number], number),
            val=self._subset("val", past if self.role == "reference" else [number], number),
            test=self._subset("test", past, number),
        )

    # -- what is known of it ------------------------------------------------------------------

    @cached_property
    def statistics(self) -> Statistics:
        """Mean and deviation of the first state's training images, the only ones known then."""
        if self._colours is not None:
            return self._colours
        rows = np.concatenate(self._rows_of("train", 1))
        return colour_statistics(self._images.splits["train"].pixels, rows)

    def label_map(self) -> list[dict[str, Any]]:
        """For each new label: the class's name, its label in the data set, and its group."""
        groups = self.schedule.group_of_column(self.schedule.states)
        return [
            {"label": new, "class": name, "original": int(old), "group": int(group)}
            for new, (name, old, group) in enumerate(
                zip(self.class_names, self.order, groups, strict=True)
            )
        ]

    def counts(self) -> dict[str, list[int]]:
        """The number of images each group has in each split."""
        groups = range(1, self.schedule.states + 1)
        return {
            split: [sum(len(rows) for rows in self._rows_of(split, k)) for k in groups]
            for split in self._rows
        }

    def save_label_map(self, path: str | os.PathLike[str]) -> None:
        """Write label map, settings and counts as JSON."""
        write_json(
            path,
            {
                "format": "transil-label-map",
                "version": 1,
                "dataset": self.name,
                "fingerprint": self._images.fingerprint,
                "schedule": self.schedule.to_json(),
                "settings": self.settings,
                "images": self.counts(),
                "colours": asdict(self.statistics),
                "labels": self.label_map(),
            },
        )

    def __str__(self) -> str:
        groups = [
            f"  state {k}: "
            + ", ".join(self.class_names[self.schedule.group_columns(k)][:6])
            + (f" and {size - 6} more" if size > 6 else "")
            for k, size in enumerate(self.schedule.sizes, start=1)
        ]
        head = f"{self.name} as {self.role}, {self.schedule}, order {self.settings['order']}"
        return "\n".join([head, *groups])

    # -- details ------------------------------------------------------------------------------

    def _rows_of(self, split: str, group: int) -> list[IntArray]:
        """The rows of each class of a group."""
        return [self._rows[split][c] for c in self.order[self.schedule.group_columns(group)]]

    def _subset(self, split: str, groups: Sequence[int], number: int) -> Subset:
        rows = [rows for group in groups for rows in self._rows_of(split, group)]
        first = self.schedule.group_columns(groups[0]).start
        new = [np.full(len(r), first + i, dtype=np.int64) for i, r in enumerate(rows)]
        data = self._images.splits.get(self._origin[split], self._images.splits["train"])
        return Subset(
            data.pixels,
            np.concatenate(rows),
            np.concatenate(new),
            lambda: self._check(split, number),
        )

    def _check(self, split: str, number: int) -> None:
        if number != self._current:
            raise LeakError(
                f"{self.name}: {split} images of state {number} were asked for in state "
                f"{self._current}; as {self.role} only the current state's may be seen"
            )

"""Which images are for training, validation and test: index arithmetic over labels alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from transil.data.orders import read_seed
from transil.errors import TransilError
from transil.schedule import IntArray

FORMS = "'first', 'last' or 'seed:0'"


@dataclass(frozen=True)
class SplitRule:
    """How many training images of each class are set aside, which, and how many of the rest stay."""

    val_per_class: int | None = None
    val_fraction: float | None = None
    val_from: str = "first"
    train_fraction: float = 1.0
    fraction_seed: int = 0

    def __post_init__(self) -> None:
        if self.val_per_class is not None and self.val_fraction is not None:
            raise TransilError("stream: give val_per_class or val_fraction, not both")
        for name in ("val_per_class", "fraction_seed"):
            value = getattr(self, name)
            if value is not None and (not hasattr(value, "__index__") or value < 0):
                raise TransilError(f"stream: {name} is {value!r}, not a whole number from 0")
        if self.val_fraction is not None and not 0.0 <= self.val_fraction < 1.0:
            raise TransilError(f"stream: val_fraction {self.val_fraction} is not in [0, 1)")
        if not 0.0 < self.train_fraction <= 1.0:
            raise TransilError(f"stream: train_fraction {self.train_fraction} is not in (0, 1]")
        if self.val_from not in ("first", "last"):
            read_seed(self.val_from, FORMS)

    @property
    def aside(self) -> bool:
        """Whether validation images are taken from the training images."""
        return self.val_per_class is not None or self.val_fraction is not None

    def cut(self, rows: IntArray, label: int, name: str) -> tuple[IntArray, IntArray]:
        """The training rows of one class as (training, validation), both in rising order."""
        count = self.val_per_class or 0
        if self.val_fraction is not None:
            count = round(self.val_fraction * len(rows))
        if count >= len(rows):
            raise TransilError(
                f"class '{name}' has {len(rows)} training images, too few to set {count} aside "
                "for validation; ask for fewer"
            )
        chosen = np.zeros(len(rows), dtype=bool)
        if self.val_from == "first":
            chosen[:count] = True
        elif self.val_from == "last":
            chosen[len(rows) - count :] = True
        else:
            chosen[_draw([read_seed(self.val_from, FORMS), label, 2], len(rows), count)] = True
        train, val = rows[~chosen], rows[chosen]
        if self.train_fraction < 1.0:
            keep = max(1, round(self.train_fraction * len(train)))
            train = train[_draw([self.fraction_seed, label, 3], len(train), keep)]
        return train, val


def _draw(seed: list[int], total: int, count: int) -> IntArray:
    """`count` of the numbers 0..total-1, in rising order."""
    return np.sort(np.random.default_rng(seed).permutation(total)[:count])


def rows_by_class(labels: IntArray, classes: int) -> list[IntArray]:
    """The rows of each class, in their own order."""
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.cumsum(np.bincount(labels, minlength=classes))[:-1])


def split_by_class(
    labels: Mapping[str, IntArray], names: tuple[str, ...], rule: SplitRule, used: IntArray
) -> dict[str, list[IntArray]]:
    """For train, val and test: the rows of each class; those not `used` are not cut.

    Rows of `val` count in the split 'train' of the data set where `rule.aside`, else in its 'val'.
    """
    classes = len(names)
    none = [np.empty(0, dtype=np.int64)] * classes
    wanted = set(used.tolist())
    cuts = [
        rule.cut(rows, label, names[label]) if label in wanted else (none[0], none[0])
        for label, rows in enumerate(rows_by_class(labels["train"], classes))
    ]
    val = [aside for _, aside in cuts]
    if not rule.aside:
        val = rows_by_class(labels["val"], classes) if "val" in labels else none
    return {
        "train": [train for train, _ in cuts],
        "val": val,
        "test": rows_by_class(labels["test"], classes) if "test" in labels else none,
    }

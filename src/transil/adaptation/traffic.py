"""Simulated traffic: test images of which some classes come more often, and which of them are judged.

The images of each class are cut in two halves by a seed, the same images in every state. One half is
thinned to the frequencies of the traffic: a corrector adapts to it. The other half is judged, each
image with the weight of its class, which is what thinning would give on average.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from transil._common.arrays import Float64Array
from transil.errors import TransilError
from transil.schedule import IntArray, Schedule

# Each use of the seed draws its own numbers.
_ORDER, _HALVES, _ROUNDING, _FEWER, _ABSENT, _COPIES = range(6)


@dataclass(frozen=True)
class Traffic:
    """Class frequencies that are simulated, and the seed of all that is drawn for it.

    - `ratio`: how many times as often the commonest comes as the rarest; between them frequencies fall
      by one factor, in a random order;
    - `over`: whether that is a tail of classes, or of whole groups, whose classes come alike;
    - `newest`: the share of the newest group in every state; or `newest_times`: how many times as often
      its classes come as they would;
    - `absent`: the share of each group's classes, rounded down, that do not come at all;
    - `drifts`: whether the order of the tail is another one in every state;
    - `copies`: how often each image to adapt to comes, so that different ones are fewer;
    - `most`: how many images there are to adapt to, at most.
    """

    ratio: float = 1.0
    over: Literal["classes", "groups"] = "classes"
    newest: float | None = None
    newest_times: float | None = None
    absent: float = 0.0
    drifts: bool = False
    copies: int = 1
    most: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.ratio) and self.ratio >= 1):
            raise TransilError(
                f"traffic: a ratio of the commonest to the rarest is 1 or more, not {self.ratio:g}"
            )
        if self.over not in ("classes", "groups"):
            raise TransilError(f"traffic: a tail is over classes or groups, not {self.over!r}")
        if self.newest is not None and not 0 < self.newest < 1:
            raise TransilError(
                f"traffic: the share of the newest group is between 0 and 1, not {self.newest:g}"
            )
        times = self.newest_times
        if times is not None and not (math.isfinite(times) and times > 0):
            raise TransilError(f"traffic: newest_times is a number above 0, not {times:g}")
        if self.newest is not None and times is not None:
            raise TransilError("traffic: give newest or newest_times, not both")
        if not 0 <= self.absent < 1:
            raise TransilError(
                f"traffic: the share of absent classes is 0 or more and below 1, not {self.absent:g}"
            )
        if self.copies < 1:
            raise TransilError(f"traffic: copies is a number above 0, not {self.copies}")
        if self.most is not None and self.most < 1:
            raise TransilError(f"traffic: most is a number of images above 0, not {self.most}")
        if self.seed < 0:
            raise TransilError(f"traffic: a seed is 0 or more, not {self.seed}")

    @property
    def name(self) -> str:
        """In words, without the seed: 'classes 10:1', 'newest 0.5', 'classes 10:1, 300 images'."""
        told = [f"newest {self.newest:g}"] if self.newest is not None else []
        told += [f"newest x{self.newest_times:g}"] if self.newest_times is not None else []
        if self.ratio > 1 or not told:
            told.insert(0, f"{self.over} {self.ratio:g}:1")
        told += [f"{self.absent:.0%} absent"] if self.absent else []
        told += ["drifting"] if self.drifts else []
        told += [f"{self.copies} copies"] if self.copies > 1 else []
        told += [f"{self.most} images"] if self.most is not None else []
        return ", ".join(told)

    def frequencies(self, schedule: Schedule, state: int) -> Float64Array:
        """The share of each class that was seen, (c,)."""
        group = schedule.group_of_column(schedule.states) - 1
        places = schedule.states if self.over == "groups" else len(group)
        tail = self.ratio ** -np.linspace(0.0, 1.0, places)
        tail = tail[self._random(_ORDER, *[state] * self.drifts).permutation(places)]
        seen = schedule.columns(state)
        shares: Float64Array = (tail[group] if self.over == "groups" else tail)[:seen]
        for k, size in enumerate(schedule.sizes[:state]):
            away = self._random(_ABSENT, k).permutation(size)[: int(self.absent * size)]
            shares[schedule.group_columns(k + 1).start + away] = 0.0
        newest = group[:seen] == state - 1
        if state > 1 and self.newest is not None:
            there, others = shares[newest].sum(), shares[~newest].sum()
            shares = np.where(
                newest, shares * self.newest / there, shares * (1 - self.newest) / others
            )
        elif self.newest_times is not None:
            shares = np.where(newest, shares * self.newest_times, shares)
        found: Float64Array = shares / shares.sum()
        return found

    def cut(self, columns: IntArray, schedule: Schedule, state: int) -> Cut:
        """What becomes of the test images of a state; columns (n,) are their classes.

        Of a class the images must stand in one order in all states.
        """
        shares = self.frequencies(schedule, state)
        weight = np.zeros(len(columns))
        halves = []
        for c, rows in enumerate(_by_class(columns, len(shares))):
            shuffled = rows[self._random(_HALVES, c).permutation(len(rows))]
            halves.append(shuffled[: len(rows) // 2])
            rest = shuffled[len(rows) // 2 :]
            weight[rest] = shares[c] / max(len(rest), 1)
        sizes = np.array([len(half) for half in halves])
        there = (sizes > 0) & (shares > 0)
        # So many images that the classes which are short of them just do.
        total = float((sizes[there] / shares[there]).min()) if there.any() else 0.0
        lucky = self._random(_ROUNDING).random(schedule.columns(schedule.states))[: len(shares)]
        counts = np.minimum(np.floor(shares * total + lucky).astype(np.int64), sizes)
        rows = np.concatenate([half[:n] for half, n in zip(halves, counts, strict=True)])
        if self.copies > 1:
            some = self._random(_COPIES, state).permutation(rows)
            rows = np.tile(some[: -(-len(rows) // self.copies)], self.copies)[: len(rows)]
        if self.most is not None and len(rows) > self.most:
            rows = self._random(_FEWER, state).permutation(rows)[: self.most]
        return Cut(shares, np.sort(rows), weight / weight.sum() if weight.any() else weight)

    def _random(self, *use: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, *use])


@dataclass(frozen=True, eq=False)
class Cut:
    """The shares of classes (c,), rows to adapt to, and the weight (n,) of each image when judged.

    Rows to adapt to, and those that were thinned away, have weight 0.
    """

    shares: Float64Array
    adapt: IntArray
    weight: Float64Array

    @property
    def judged(self) -> IntArray:
        """The rows that are judged."""
        return np.flatnonzero(self.weight)


def _by_class(columns: IntArray, classes: int) -> Iterator[IntArray]:
    """The rows of each class."""
    order = np.argsort(columns, kind="stable")
    yield from np.split(order, np.searchsorted(columns[order], np.arange(1, classes)))

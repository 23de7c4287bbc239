"""What a family of pictures is: classes drawn from a formula, images drawn from a class."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from transil.data.formula.hashing import Doubles, Draws, key_of, keys_of
from transil.data.source import Pixels

# A class that comes out too near to an earlier one is drawn again at most this often; then the
# farthest of the draws is kept, so that any number of classes can be had in bounded time.
REDRAWS = 24
# First draws, and what is compared of them, are made for this many classes at once.
_DRAWN_AT_ONCE = 256


class Family(ABC):
    """Pictures of one kind. A class is a row of parameters, an image a random variation of it."""

    name: ClassVar[str]
    summary: ClassVar[str]
    #: The least distance between the signatures of two classes.
    apart: ClassVar[float]

    @abstractmethod
    def propose(self, random: Draws) -> Doubles:
        """(n, p) parameters of classes, drawn without regard to each other."""

    @abstractmethod
    def signature(self, classes: Doubles) -> Doubles:
        """(n, p) -> (n, q): points that lie near each other where classes look alike."""

    @abstractmethod
    def render(self, classes: Doubles, random: Draws, size: int) -> Pixels:
        """An image for each row of parameters: (n, p) -> (n, size, size, 3)."""

    def draw_classes(self, count: int, seed: int) -> Doubles:
        """Parameters of `count` classes, no two alike; a longer draw begins with the shorter one.

        Each class in turn takes its first draw that is far enough from all classes before it.
        """
        key = key_of("classes", self.name, seed)
        chosen: list[Doubles] = []
        taken = np.empty((count, 0))
        for number in range(count):
            place = number % _DRAWN_AT_ONCE
            if place == 0:
                block = np.arange(number, min(number + _DRAWN_AT_ONCE, count))
                first = self.propose(Draws(keys_of(key, block, np.zeros_like(block))))
                marks = self.signature(first)
                if number == 0:
                    taken = np.empty((count, marks.shape[1]))
            parameters, mark = first[place], marks[place]
            if number and _nearest(taken[:number], mark) < self.apart:
                parameters, mark = self._redraw(key, number, taken[:number])
            chosen.append(parameters)
            taken[number] = mark
        return np.array(chosen)

    def _redraw(self, key: np.uint64, number: int, taken: Doubles) -> tuple[Doubles, Doubles]:
        """The first of some new draws that is far enough from `taken`, else the farthest."""
        tries = np.arange(1, REDRAWS + 1)
        drawn = self.propose(Draws(keys_of(key, np.full_like(tries, number), tries)))
        marks = self.signature(drawn)
        gaps = np.array([_nearest(taken, mark) for mark in marks])
        best = int(np.argmax(gaps >= self.apart) if gaps.max() >= self.apart else np.argmax(gaps))
        return drawn[best], marks[best]


def _nearest(points: Doubles, point: Doubles) -> float:
    """Distance from a point to the nearest of some."""
    return float(np.sqrt(((points - point) ** 2).sum(axis=1).min()))

"""Some rows of a stream of scores, in memory that does not grow."""

from __future__ import annotations

import math

import numpy as np

from transil._common.arrays import FloatArray

SIZE = (
    4096  # rows: shifts found on them are moved by more of them no further than errors of counting
)


# Rows that agree in so many columns, to the last digit, are of one image.
TOLD_BY = 16


def different(scores: FloatArray) -> float:
    """As how many different images rows (n, columns) count: copies tell nothing more."""
    step = -(-scores.shape[1] // TOLD_BY)
    some = np.ascontiguousarray(scores[:, ::step])
    keys = some.view(np.dtype((np.void, some.dtype.itemsize * some.shape[1])))
    counts = np.unique(keys, return_counts=True)[1]
    return len(scores) ** 2 / float(counts.astype(np.float64) @ counts)


class Sample:
    """Up to `SIZE` rows of all that were seen.

    Without `half_life` each row seen is as likely to be among them as any other; with it, a row that was
    seen so many rows ago is half as likely as the last one.
    """

    def __init__(self, half_life: int | None = None, seed: int = 0) -> None:
        self.seen = 0
        self._random = np.random.default_rng(seed)
        self._rows: FloatArray | None = None
        # A row stays for so many replacements on average, and is replaced by every `1 / share`-th.
        places = SIZE if half_life is None else max(1, min(SIZE, round(half_life / math.log(2))))
        self._share = None if half_life is None else min(1.0, places * math.log(2) / half_life)
        self._places = places

    def add(self, scores: FloatArray) -> None:
        """Look at rows (n, columns)."""
        if self._rows is None:
            self._rows = np.empty((0, scores.shape[1]), dtype=scores.dtype)
        room = self._places - len(self._rows)
        first, rest = scores[:room], scores[room:]
        if len(first):
            self._rows = np.concatenate([self._rows, first])
        self.seen += len(first)
        if len(rest):
            self._replace(rest)

    def _replace(self, rows: FloatArray) -> None:
        """Put some of the rows (n, columns) in the place of earlier ones."""
        assert self._rows is not None
        numbers = self.seen + 1 + np.arange(len(rows))
        share = self._share if self._share is not None else self._places / numbers
        taken = np.flatnonzero(self._random.random(len(rows)) < share)
        places = self._random.integers(0, self._places, len(taken))
        self._rows[places] = rows[taken]  # of two for one place the later stays
        self.seen += len(rows)

    @property
    def rows(self) -> FloatArray:
        """The rows that are kept (m, columns)."""
        return np.empty((0, 0)) if self._rows is None else self._rows

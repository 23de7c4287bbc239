"""Mean and deviation of colours."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from transil.data.source import Pixels
from transil.errors import TransilError
from transil.schedule import IntArray

# Images looked at together.
BLOCK = 4096


@dataclass(frozen=True)
class Statistics:
    """Mean and standard deviation of red, green and blue, for pixels between 0 and 1."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __post_init__(self) -> None:
        if not len(self.mean) == len(self.std) == 3 or min(self.std) <= 0:
            raise TransilError("mean and std need three numbers each, those of std above 0")


def colour_statistics(pixels: Pixels, rows: IntArray) -> Statistics:
    """The statistics of some images, exact: from counts of the 256 values of each colour."""
    counts = np.zeros((3, 256), dtype=np.int64)
    for start in range(0, len(rows), BLOCK):
        block = pixels[rows[start : start + BLOCK]].reshape(-1, 3)
        for colour in range(3):
            counts[colour] += np.bincount(block[:, colour], minlength=256)
    values = np.arange(256) / 255
    share = counts / counts.sum(axis=1, keepdims=True)
    mean = share @ values
    std = np.sqrt(np.maximum(share @ values**2 - mean**2, 1e-12))
    return Statistics(tuple(mean.tolist()), tuple(std.tolist()))

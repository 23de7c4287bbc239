"""How sure a gain is: a paired bootstrap over test images."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from transil.evaluation.hits import Hits


class Bootstrap:
    """Resamples of the test images of one target, drawn once and used for all its cells.

    An image is tested in every state from that in which its class is learned; it is drawn for all
    of them together. Needs the images of a state to be the first ones of the next state's.
    """

    def __init__(self, images: int, resamples: int, seed: int = 0) -> None:
        random = np.random.default_rng([seed, 6])
        # Counts of a draw with replacement; float32, since they only meet in matrix products.
        self.weights = np.empty((resamples, images), dtype=np.float32)
        for row in self.weights:
            row[:] = np.bincount(random.integers(0, images, images), minlength=images)

    def interval(
        self, raw: Sequence[Hits], corrected: Sequence[Hits], level: float = 0.95
    ) -> tuple[float, float]:
        """The interval of the gain of the average accuracy; hits (n_s,) of states 2..S."""
        gains = np.zeros(len(self.weights))
        for before, after in zip(raw, corrected, strict=True):
            count = len(before)
            difference = after.astype(np.float32) - before.astype(np.float32)
            weights = self.weights[:, :count]
            gains += (weights @ difference) / np.maximum(weights.sum(axis=1), 1.0)
        gains /= len(raw)
        low, high = np.quantile(gains, [(1 - level) / 2, (1 + level) / 2])
        return float(low), float(high)

"""What is left of old classes, told without labels."""

from __future__ import annotations

import numpy as np

from transil._common.arrays import Float64Array, FloatArray

# Below it there is nothing to recover. In references (tiny-a) plain fine-tuning has 0.08 at the most,
# methods that keep something have 0.23 or more: this is the middle, of logarithms (docs/adaptation.md).
LEAST_LEFT = 0.13


def softmax(scores: FloatArray) -> Float64Array:
    """Of rows (n, columns)."""
    away = np.asarray(scores, dtype=np.float64)
    powers = np.exp(away - away.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def left_of(shares: Float64Array, old: int) -> float | None:
    """How much the images tell of which old class they show, from 0 to 1; None for fewer than two.

    `shares` (n, columns): the softmax of corrected scores, the `old` classes first. It is the
    information between image and old class, in units of what would tell all of it. A model that has
    forgotten everything gives every image the same shares of old classes.
    """
    if old < 2:
        return None
    weight = shares[:, :old].sum(axis=1)
    given = shares[:, :old] / np.maximum(weight, 1e-300)[:, None]
    mean = weight @ given / max(weight.sum(), 1e-300)
    inside = weight @ _entropy(given) / max(weight.sum(), 1e-300)
    return float((_entropy(mean[None])[0] - inside) / np.log(old))


def _entropy(shares: Float64Array) -> Float64Array:
    """Of each row (n, c), in nats."""
    return np.asarray(-(shares * np.log(np.maximum(shares, 1e-300))).sum(axis=1))

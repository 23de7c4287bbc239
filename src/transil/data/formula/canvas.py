"""What the families share: pixel grids, small distortions, coarse maps of points, and paint."""

from __future__ import annotations

from typing import Any

import numpy as np

from transil.data.formula.hashing import Doubles, Draws, Singles
from transil.data.source import Pixels

# Coarse maps have this many anchors a side; points count for anchors within about one gap.
_ANCHORS = 6
# Width of the border between the two colours of a background, in half sides of the picture.
_SOFT_BORDER = 0.15
# The farthest that border lies from the centre.
_OFF_CENTRE = 0.8


def single(x: Doubles) -> Singles:
    """(n,) or (n, 1) numbers as (n, 1, 1), to multiply (n, size, size) pixels in float32."""
    return x.astype(np.float32).reshape(-1, 1, 1)


def grid(size: int) -> tuple[Singles, Singles]:
    """Coordinates of pixel centres, x as (1, 1, size) and y as (1, size, 1), in (-1, 1)."""
    axis = ((np.arange(size) + 0.5) * (2.0 / size) - 1.0).astype(np.float32)
    return axis[None, None, :], axis[None, :, None]


def jitter(random: Draws, turn: float, stretch: float, shift: float) -> tuple[Doubles, Doubles]:
    """Random small affine maps: matrices (n, 2, 2) and offsets (n, 2).

    `turn` is the largest angle in radians, `stretch` the largest change of log scale along either
    axis (the axes differ by at most half of it), `shift` the largest offset.
    """
    angle = random.uniform(1, -turn, turn)[:, 0]
    common = random.uniform(1, -stretch, stretch)
    scale = np.exp(common + random.uniform(2, -stretch / 4, stretch / 4))
    cos, sin = np.cos(angle), np.sin(angle)
    matrix = np.stack([cos, -sin, sin, cos], axis=1).reshape(-1, 2, 2) * scale[:, None, :]
    return matrix, random.uniform(2, -shift, shift)


def turned(matrix: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """Points or pixels x, y under matrices (n, 2, 2, ...)."""
    return (
        matrix[:, 0, 0] * x + matrix[:, 0, 1] * y,
        matrix[:, 1, 0] * x + matrix[:, 1, 1] * y,
    )


def coarse_map(x: Doubles, y: Doubles) -> Doubles:
    """Where the points (n, k) of n drawings lie, as 36 blurred counts of norm 1."""
    anchors = np.linspace(-1.0, 1.0, _ANCHORS)
    gap = anchors[1] - anchors[0]
    near_x = np.exp(-(((x[:, None, :] - anchors[:, None]) / gap) ** 2))
    near_y = np.exp(-(((y[:, None, :] - anchors[:, None]) / gap) ** 2))
    counts = (near_x[:, :, None, :] * near_y[:, None, :, :]).sum(axis=3).reshape(len(x), -1)
    return np.asarray(counts / np.sqrt((counts**2).sum(axis=1, keepdims=True)))


def expose(
    points: tuple[Doubles, Doubles],
    matrix: Doubles,
    shift: Doubles,
    size: int,
) -> Singles:
    """How many of the points of each image fall into each pixel: (n, size, size)."""
    x, y = points
    count, half = len(x), 0.5 * size
    column, row = turned(half * matrix[..., None], x, y)
    shift = half * (shift[..., None] + 1.0)
    column, row = column + shift[:, 0], row + shift[:, 1]
    inside = (column >= 0) & (column < size) & (row >= 0) & (row < size)
    j, i = (np.where(inside, v, 0.0).astype(np.int64) for v in (column, row))
    pixels = count * size * size
    place = (np.arange(count)[:, None] * size + i) * size + j
    # What misses the picture is counted in one place behind all pixels, and dropped.
    hits = np.bincount(np.where(inside, place, pixels).ravel(), minlength=pixels + 1)[:pixels]
    return hits.reshape(count, size, size).astype(np.float32)


def background(random: Draws, size: int) -> Singles:
    """(n, size, size) shares of a second background colour: a soft half-plane somewhere."""
    x, y = grid(size)
    angle = random.uniform(1, 0.0, 2.0 * np.pi)
    offset = random.uniform(1, -_OFF_CENTRE, _OFF_CENTRE)
    along = single(np.cos(angle)) * x + single(np.sin(angle)) * y - single(offset)
    share = along * np.float32(0.5 / _SOFT_BORDER) + np.float32(0.5)
    return np.asarray(np.clip(share, 0.0, 1.0), np.float32)


def paint(
    layers: list[Singles],
    colours: Doubles,
    random: Draws,
    grain: tuple[float, float],
) -> Pixels:
    """Lay colours over each other and add noise: (n, size, size) shares to (n, size, size, 3).

    `colours` is (n, 1 + layers, 3) in 0..1; the first fills the picture, each other covers what is
    below it by the share of its layer. The noise of an image has a standard deviation between the
    two of `grain`.
    """
    count, size, _ = layers[0].shape
    strength = single(random.uniform(1, *grain) * 255.0)
    noise = random.bulk_normal(3 * size * size).reshape(count, 3, size, size)
    image = np.empty((count, size, size, 3), np.uint8)
    for channel in range(3):
        flat = single(colours[:, 0, channel] * 255.0)
        for number, layer in enumerate(layers, start=1):
            above = single(colours[:, number, channel] * 255.0)
            flat = flat + layer * (above - flat)
        tone = flat + strength * noise[:, channel]
        np.clip(tone, 0.0, 255.0, out=tone)
        image[..., channel] = np.rint(tone, out=tone)
    return image

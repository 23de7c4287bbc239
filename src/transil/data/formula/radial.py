"""Closed contours around a centre, one inside the other, filled: flowers, stars and blobs."""

from __future__ import annotations

import numpy as np

from transil.data.formula.canvas import background, grid, jitter, paint, single, turned
from transil.data.formula.family import Family
from transil.data.formula.hashing import Doubles, Draws
from transil.data.source import Pixels

# Waves around the centre that bend a contour: 2 is an ellipse, 3 a triangle, and so on.
_WAVES = range(2, 7)
# The largest amplitude of a wave, in log radius, and how far amplitudes stray in a class (s. d.).
_AMPLITUDE, _WOBBLE = 0.30, 0.028
_LEAST_RINGS, _MOST_RINGS = 1.5, 4.0
# What a ring more, and another start of the rings, count against amplitudes between classes.
_RING_COUNTS, _START_COUNTS = 0.15, 0.08
# Mean radius of the outer contour, in half sides of the picture.
_RADIUS = 0.62
# Largest distortions of an image: see `jitter`; and the largest change of the log of its rings.
_TURN, _STRETCH, _SHIFT, _RING_STRETCH = 0.25, 0.18, 0.16, 0.08
# Half the width of a line as a share of the room between lines; noise of pixels. With these and
# the wobble a small network reaches about 80 % of ten classes (benchmarks/formula.py).
_LINE, _GRAIN = (0.10, 0.30), (0.03, 0.12)


class Radial(Family):
    """Contours r(angle) = exp(sum of waves), repeated inwards.

    Radial contours as classes are the idea of Kataoka et al., "Replacing labeled real-image
    datasets with auto-generated contours", CVPR 2022; the waves are our formula.
    """

    name = "radial"
    summary = "nested closed contours around a centre"
    apart = 0.20

    def propose(self, random: Draws) -> Doubles:
        """Cosine and sine amplitudes of the waves, the number of rings, and their start."""
        waves = len(_WAVES)
        # A few waves rule each class, else all contours are alike round.
        size = _AMPLITUDE * random.uniform(waves) ** 2
        phase = random.uniform(waves, 0.0, 2.0 * np.pi)
        rings = random.uniform(1, _LEAST_RINGS, _MOST_RINGS)
        parts = [size * np.cos(phase), size * np.sin(phase), rings, random.uniform(1)]
        return np.concatenate(parts, axis=1)

    def signature(self, classes: Doubles) -> Doubles:
        """Amplitudes, the rings on a scale on which they count as much, and their start."""
        waves = classes[:, : 2 * len(_WAVES)]
        rings, start = classes[:, -2], 2.0 * np.pi * classes[:, -1]
        extra = np.stack([np.cos(start), np.sin(start)], axis=1) * _START_COUNTS
        return np.concatenate([waves, _RING_COUNTS * rings[:, None], extra], axis=1)

    def render(self, classes: Doubles, random: Draws, size: int) -> Pixels:
        count, waves = len(classes), len(_WAVES)
        matrix, shift = jitter(random, _TURN, _STRETCH, _SHIFT)
        bend = classes[:, : 2 * waves] + _WOBBLE * random.normal(2 * waves)
        x, y = grid(size)
        x, y = x - single(shift[:, 0]), y - single(shift[:, 1])
        x, y = turned(matrix.astype(np.float32)[..., None, None], x, y)
        distance = np.sqrt(x * x + y * y) + np.float32(1e-4)
        cos, sin = x / distance, y / distance
        # Cosine and sine of the k-fold angle by the addition theorem: no angle is ever computed.
        cos_k, sin_k, exponent = cos, sin, np.zeros_like(distance)
        for number in range(waves):
            cos_k, sin_k = cos_k * cos - sin_k * sin, sin_k * cos + cos_k * sin
            exponent += single(bend[:, number]) * cos_k
            exponent += single(bend[:, waves + number]) * sin_k
        # 1 on the outer contour, falling to 0 at the centre.
        depth = distance * np.exp(-exponent) * np.float32(1.0 / _RADIUS)
        rings = classes[:, -2] * np.exp(random.uniform(1, -_RING_STRETCH, _RING_STRETCH)[:, 0])
        pixel = np.float32(2.0 / (size * _RADIUS))
        inside = np.clip((1.0 - depth) / pixel + np.float32(0.5), 0.0, 1.0)
        phase = depth * single(rings) + single(classes[:, -1])
        # How far from the middle of a line, in rings; lines have a share of the room between them.
        off = np.abs(phase - np.floor(phase) - np.float32(0.5))
        share = single(random.uniform(1, *_LINE))
        line = np.clip((share - off) / (pixel * single(rings)) + np.float32(0.5), 0.0, 1.0)
        colours = random.uniform(12).reshape(count, 4, 3)
        layers = [background(random, size), inside, line * inside]
        return paint(layers, colours, random, _GRAIN)

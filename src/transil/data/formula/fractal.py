"""Attractors of iterated function systems: dust of light on a dark ground."""

from __future__ import annotations

import numpy as np

from transil.data.formula.canvas import background, coarse_map, expose, jitter, paint, single
from transil.data.formula.family import Family
from transil.data.formula.hashing import Doubles, Draws, key_of, keys_of
from transil.data.source import Pixels

_MAPS = 3
# Walkers that play at once, the steps they take before their points count, and those that count.
# Maps shrink by about 0.7, so 12 steps leave a hundredth of where a walker began.
_WALKERS, _LEAD_IN, _STEPS = 64, 12, 14
# Walkers whose points are compared between classes.
_COMPARED = 24
# Sum of the singular values s1 + 2 * s2 over the maps, in which the attractors of three maps are
# neither dust nor a blot: Anderson and Farrell, "Improving fractal pre-training", WACV 2022.
_LEAST_SPREAD, _MOST_SPREAD = 0.5 * (5 + _MAPS), 0.5 * (6 + _MAPS)
# The most that a map may leave of a length, and the weight of a map without area in the game.
_SHRINK, _LEAST_WEIGHT = 0.92, 0.08
# How far the numbers of its maps stray between images of a class (standard deviation).
_WOBBLE = 0.075
# Largest distortions of an image: see `jitter`.
_TURN, _STRETCH, _SHIFT = 0.4, 0.2, 0.16
# Half sides of an attractor before its distortion, and of one of no class, which lies anywhere.
_FILLED, _STRAY, _STRAY_SHIFT = 0.78, 0.45, 0.7
# Light of one point, by which the dust is fine or bold; colours; noise of pixels. With these and
# the wobble a small network reaches about 80 % of ten classes (benchmarks/formula.py).
_GAIN, _DARK, _BRIGHT, _GRAIN = (0.25, 0.9), (0.0, 0.4), (0.3, 1.0), (0.03, 0.14)


class Fractal(Family):
    """Three random affine maps, played as Barnsley's chaos game ("Fractals everywhere", 1988)."""

    name = "fractal"
    summary = "attractors of three affine maps, played as a chaos game"
    apart = 0.20

    def propose(self, random: Draws) -> Doubles:
        """Six numbers a map: a, b, c, d of the matrix and its offset e, f."""
        count = len(random)
        turn, tilt = random.uniform(_MAPS, -np.pi, np.pi), random.uniform(_MAPS, -np.pi, np.pi)
        # Singular values; those of a map differ by no more than 1 to 0.3, else it draws needles.
        large = random.uniform(_MAPS, 0.5, 0.9)
        small = random.uniform(_MAPS, 0.3, 1.0) * large
        spread = random.uniform(1, _LEAST_SPREAD, _MOST_SPREAD)
        # One common factor brings the sum into the range; no map may stop shrinking by it.
        factor = spread / (large + 2.0 * small).sum(axis=1, keepdims=True)
        large, small = np.minimum(large * factor, _SHRINK), np.minimum(small * factor, _SHRINK)
        small = small * np.where(random.uniform(_MAPS) < 0.5, -1.0, 1.0)  # half of them mirror
        ct, st, cp, sp = np.cos(turn), np.sin(turn), np.cos(tilt), np.sin(tilt)
        matrix = [
            ct * large * cp - st * small * sp,
            -ct * large * sp - st * small * cp,
            st * large * cp + ct * small * sp,
            -st * large * sp + ct * small * cp,
        ]
        offset = random.uniform(2 * _MAPS, -1.0, 1.0).reshape(count, 2, _MAPS)
        return np.concatenate([*matrix, offset[:, 0], offset[:, 1]], axis=1)

    def signature(self, classes: Doubles) -> Doubles:
        """Where the attractor lies."""
        number = np.zeros(len(classes), np.int64)
        return coarse_map(*_play(classes, Draws(keys_of(key_of("signature"), number)), _COMPARED))

    def render(self, classes: Doubles, random: Draws, size: int) -> Pixels:
        count = len(classes)
        maps = classes + _WOBBLE * random.normal(classes.shape[1])
        matrix, shift = jitter(random, _TURN, _STRETCH, _SHIFT)
        # A smaller attractor of no class, anywhere: there is more in a picture than its subject.
        stray = self.propose(random)
        away = random.uniform(2, -_STRAY_SHIFT, _STRAY_SHIFT)
        # The dimension of the attractors is about 1.5: so many points fill the larger picture.
        walkers = round(_WALKERS * (size / 32.0) ** 1.5)
        gain = single(random.uniform(1, *_GAIN))
        subject = expose(_play(maps, random, walkers), _FILLED * matrix, shift, size)
        beside = expose(_play(stray, random, walkers // 4), _STRAY * matrix, away, size)
        colours = np.concatenate([random.uniform(6, *_DARK), random.uniform(6, *_BRIGHT)], axis=1)
        colours = colours.reshape(count, 4, 3)
        lights = [1.0 - np.exp(-gain * hits) for hits in (beside, subject)]
        return paint([background(random, size), *lights], colours, random, _GRAIN)


def _play(maps: Doubles, random: Draws, walkers: int) -> tuple[Doubles, Doubles]:
    """Points x, y (n, k) of n attractors, each brought to the square from -1 to 1."""
    count = len(maps)
    a, b, c, d, e, f = maps.reshape(count, 6, _MAPS).transpose(1, 0, 2).reshape(6, -1)
    # Larger maps are played more often, which spreads the points evenly (Barnsley); the floor
    # keeps flat maps in the game.
    weight = np.abs(a * d - b * c).reshape(count, _MAPS) + _LEAST_WEIGHT
    total = weight[:, 0] + weight[:, 1] + weight[:, 2]
    first = (weight[:, 0] / total * 65536.0).astype(np.uint16)[:, None]
    second = ((weight[:, 0] + weight[:, 1]) / total * 65536.0).astype(np.uint16)[:, None]
    base = np.arange(count)[:, None] * _MAPS
    x = y = np.zeros((count, walkers))
    played = []
    for _ in range(_LEAD_IN + _STEPS):
        dice = random.bulk(walkers)
        chosen = base + (dice >= first) + (dice >= second)
        x, y = (
            a[chosen] * x + b[chosen] * y + e[chosen],
            c[chosen] * x + d[chosen] * y + f[chosen],
        )
        played.append((x, y))
    points = np.concatenate(played[_LEAD_IN:], axis=2)  # (2, n, k)
    low, high = points.min(axis=2, keepdims=True), points.max(axis=2, keepdims=True)
    extent = np.maximum((high - low).max(axis=0), 1e-6)
    x, y = (2.0 * points - low - high) / extent
    return x, y

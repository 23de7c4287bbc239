"""Glyphs of a few pen strokes: dark ink on light paper."""

from __future__ import annotations

import numpy as np

from transil.data.formula.canvas import background, coarse_map, grid, jitter, paint, single, turned
from transil.data.formula.family import Family
from transil.data.formula.hashing import Doubles, Draws, Singles
from transil.data.source import Pixels

_STROKES = 3
# Room for glyphs: how far the middle of a stroke lies from the centre, half its length, and how
# far it bends to either side (in half lengths), all in half sides of the picture.
_MIDDLE, _HALF, _BEND = 0.45, (0.25, 0.65), 1.6
# A stroke is a quadratic curve of Bezier, drawn as at least this many straight pieces, and as one
# more for so many pixels, that it looks smooth in large pictures.
_PIECES, _PIXELS_A_PIECE = 3, 16
# Points of each stroke that are compared between classes.
_COMPARED = 12
# How far the points of strokes stray between images of a class (standard deviation).
_WOBBLE = 0.11
# Largest distortions of an image: see `jitter`.
_TURN, _STRETCH, _SHIFT = 0.4, 0.22, 0.18
# Half the width of the pen; colours; noise of pixels. With these and the wobble a small network
# reaches about 85 % of ten classes (benchmarks/formula.py).
_PEN, _PAPER, _INK, _GRAIN = (0.035, 0.11), (0.45, 1.0), (0.0, 0.6), (0.03, 0.14)


class Strokes(Family):
    """Three curved strokes between random points, written with an unsteady hand.

    New characters as classes follow Lake, Salakhutdinov and Tenenbaum, "Human-level concept
    learning through probabilistic program induction", Science 2015.
    """

    name = "strokes"
    summary = "glyphs of three curved pen strokes"
    apart = 0.17

    def propose(self, random: Draws) -> Doubles:
        """Begin, end and bend of each stroke: x of all, then y."""
        count = len(random)
        middle = random.uniform(2 * _STROKES, -_MIDDLE, _MIDDLE).reshape(count, 2, _STROKES)
        angle = random.uniform(_STROKES, 0.0, 2.0 * np.pi)
        half = random.uniform(_STROKES, *_HALF)
        way = np.stack([np.cos(angle), np.sin(angle)], axis=1) * half[:, None]
        side = np.stack([-way[:, 1], way[:, 0]], axis=1)
        bend = middle + side * random.uniform(_STROKES, -_BEND, _BEND)[:, None]
        return np.stack([middle - way, bend, middle + way], axis=2).reshape(count, -1)

    def signature(self, classes: Doubles) -> Doubles:
        """Where the ink lies, whatever the order and the sense of the strokes."""
        x, y = _curves(classes, _COMPARED)
        return coarse_map(x.reshape(len(x), -1), y.reshape(len(y), -1))

    def render(self, classes: Doubles, random: Draws, size: int) -> Pixels:
        count = len(classes)
        points = classes + _WOBBLE * random.normal(classes.shape[1])
        matrix, shift = jitter(random, _TURN, _STRETCH, _SHIFT)
        pieces = max(_PIECES, size // _PIXELS_A_PIECE)
        px, py = _curves(points, pieces)
        px, py = turned(matrix[..., None, None], px, py)
        px, py = px + shift[:, :1, None], py + shift[:, 1:, None]
        x, y = grid(size)
        nearest = np.full((count, size, size), np.inf, np.float32)
        for stroke in range(_STROKES):
            for piece in range(pieces):
                ends = (slice(None), stroke, slice(piece, piece + 2))
                np.minimum(nearest, _square_distance(x, y, px[ends], py[ends]), out=nearest)
        # A scratch that belongs to no class, in the same ink: without it every line would tell.
        from_to = random.uniform(4, -1.0, 1.0)
        scratch = _square_distance(x, y, from_to[:, :2], from_to[:, 2:])
        np.minimum(nearest, scratch, out=nearest)
        pen = single(random.uniform(1, *_PEN))
        ink = np.clip((pen - np.sqrt(nearest)) * np.float32(size / 2.0) + np.float32(0.5), 0.0, 1.0)
        colours = np.concatenate([random.uniform(6, *_PAPER), random.uniform(3, *_INK)], axis=1)
        colours = colours.reshape(count, 3, 3)
        return paint([background(random, size), ink], colours, random, _GRAIN)


def _curves(classes: Doubles, pieces: int) -> tuple[Doubles, Doubles]:
    """Points x, y (n, strokes, pieces + 1) along the strokes."""
    xy = classes.reshape(len(classes), 2, 3, _STROKES, 1)
    t = np.linspace(0.0, 1.0, pieces + 1)
    along = (1 - t) ** 2 * xy[:, :, 0] + 2 * t * (1 - t) * xy[:, :, 1] + t**2 * xy[:, :, 2]
    return along[:, 0], along[:, 1]


def _square_distance(
    x: Singles,
    y: Singles,
    px: Doubles,
    py: Doubles,
) -> Singles:
    """From each pixel to a straight piece with ends px, py (n, 2), as (n, size, size)."""
    dx, dy = px[:, 1] - px[:, 0], py[:, 1] - py[:, 0]
    square = dx * dx + dy * dy + 1e-9
    from_x, from_y = x - single(px[:, 0]), y - single(py[:, 0])
    # The foot of the perpendicular, as a share of the piece.
    foot = single(dx / square) * from_x + single(dy / square) * from_y
    np.clip(foot, 0.0, 1.0, out=foot)
    off_x, off_y = from_x - foot * single(dx), from_y - foot * single(dy)
    return np.asarray(off_x * off_x + off_y * off_y)

"""Images from formulas: data sets with any number of classes and nothing to download.

Image `i` of class `c` depends on (family, seed, split, c, i, size) alone: not on how many images
are asked for, in which order, nor on how many classes the set has. Formula-driven data sets are
the idea of Kataoka et al., "Pre-training without natural images", ACCV 2020.

>>> from transil.data.formula import make_images
>>> make_images("strokes", [0, 0, 7], [0, 1, 0], seed=0, split="train", count=10).shape
(3, 32, 32, 3)
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from transil._common.registry import nearest
from transil.data.formula.family import Family
from transil.data.formula.fractal import Fractal
from transil.data.formula.hashing import Doubles, Draws, key_of, keys_of
from transil.data.formula.noise import Noise
from transil.data.formula.radial import Radial
from transil.data.formula.strokes import Strokes
from transil.data.source import Pixels
from transil.errors import TransilError

FAMILIES: dict[str, Family] = {f.name: f for f in (Fractal(), Radial(), Noise(), Strokes())}

SMALLEST, LARGEST = 16, 256
# Pixels rendered at once: enough to hide the cost of a NumPy call, few enough for the cache.
BLOCK_PIXELS = 1 << 17


def get_family(name: str) -> Family:
    """The family of that name, else an error with the nearest one."""
    if name not in FAMILIES:
        raise TransilError(f"image family '{name}' is unknown; {nearest(name, FAMILIES)}")
    return FAMILIES[name]


@lru_cache(maxsize=64)
def _classes(family: str, count: int, seed: int) -> Doubles:
    """Parameters of the classes, kept: every batch of a training asks for them again."""
    classes = get_family(family).draw_classes(count, seed)
    classes.setflags(write=False)
    return classes


def make_images(
    family: str,
    classes: NDArray[np.int64] | Sequence[int],
    numbers: NDArray[np.int64] | Sequence[int],
    *,
    seed: int,
    split: str,
    size: int = 32,
    count: int,
) -> Pixels:
    """Image `numbers[j]` of class `classes[j]` for each j, as (n, size, size, 3) RGB.

    `family` is a name in `FAMILIES`, `count` the number of classes in the set, `size` 16 to 256 pixels.
    Image numbers have no end. Any integer is a `seed`, of other classes; any word is a `split`, of other
    images of the same classes.
    """
    found = get_family(family)
    which, number = np.asarray(classes, np.int64), np.asarray(numbers, np.int64)
    if which.ndim != 1 or which.shape != number.shape:
        raise TransilError(
            f"classes and numbers: expected two lists of one length, not {which.shape} and "
            f"{number.shape}"
        )
    if not SMALLEST <= size <= LARGEST:
        raise TransilError(f"size {size}: images have {SMALLEST} to {LARGEST} pixels a side")
    if len(which) and not 0 <= which.min() <= which.max() < count:
        raise TransilError(
            f"classes {which.min()} to {which.max()}: the set has classes 0 to {count - 1}"
        )
    if len(number) and number.min() < 0:
        raise TransilError(f"image number {number.min()}: images are counted from 0")
    images = np.empty((len(which), size, size, 3), np.uint8)
    if not len(which):
        return images
    parameters = _classes(family, count, seed)
    keys = keys_of(key_of("images", family, seed, split), which, number)
    step = max(1, BLOCK_PIXELS // size**2)
    for first in range(0, len(which), step):
        block = slice(first, first + step)
        images[block] = found.render(parameters[which[block]], Draws(keys[block]), size)
    return images


__all__ = ["FAMILIES", "Draws", "Family", "get_family", "make_images"]

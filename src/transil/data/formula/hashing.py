"""Random numbers by counting: number j of an image is a hash of the image's key and of j.

A generator with a running state would tie an image to those drawn before it. Here every image has
a key of 64 bits made from (family, seed, split, class, number), and draw j is `mix(key + j * GAMMA)`.
So images can be made in any order and in blocks of any size, and all of a block at once. The
mixing function is the finaliser of SplitMix64 (Steele, Lea and Flood, "Fast splittable
pseudorandom number generators", OOPSLA 2014); the idea of counting is that of Salmon et al.,
"Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

import hashlib
from functools import cache
from statistics import NormalDist
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Doubles: TypeAlias = NDArray[np.float64]
Singles: TypeAlias = NDArray[np.float32]

# The odd integer nearest to 2**64 / golden ratio: multiples of it are spread over all 64 bits.
GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SHIFT_1, _SHIFT_2, _SHIFT_3 = np.uint64(30), np.uint64(27), np.uint64(31)
_TO_53_BITS = np.uint64(11)
# Bulk draws, whose number depends on the size of the image, count from here: the few numbers that
# decide what a picture shows are then the same at every size.
_BULK_START = 1 << 40
# Pixel noise needs no more than 12 bits: the tails then end at 3.7 standard deviations.
_NORMAL_BITS = 12


def mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64: a bijection of 64 bits in which each bit depends on all."""
    x = x ^ (x >> _SHIFT_1)
    x *= _MIX_1
    x ^= x >> _SHIFT_2
    x *= _MIX_2
    x ^= x >> _SHIFT_3
    return x


def key_of(*parts: str | int) -> np.uint64:
    """One key for a few words and numbers; integers of any size and sign."""
    # A NumPy integer must give the key of the plain one, though its repr is another.
    plain = tuple(part if isinstance(part, str) else int(part) for part in parts)
    digest = hashlib.blake2b(repr(plain).encode(), digest_size=8).digest()
    return np.uint64(int.from_bytes(digest, "little"))


def keys_of(key: np.uint64, *columns: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A key for each row of some integer columns, below a common key."""
    keys = np.full(len(columns[0]), key, np.uint64)
    for column in columns:
        keys = mix(keys + (column.astype(np.uint64) + np.uint64(1)) * GAMMA)
    return keys


@cache
def _normal_table() -> Singles:
    """Normal quantiles in the middle of 2**12 equal slices of probability."""
    slices = 1 << _NORMAL_BITS
    quantile = NormalDist().inv_cdf
    return np.array([quantile((i + 0.5) / slices) for i in range(slices)], np.float32)


class Draws:
    """The random numbers of n images; each call gives the next ones of every image."""

    def __init__(self, keys: NDArray[np.uint64]) -> None:
        self._keys = keys
        self._next, self._next_bulk = 1, _BULK_START

    def __len__(self) -> int:
        return len(self._keys)

    def _words(self, first: int, count: int) -> NDArray[np.uint64]:
        counters = np.arange(first, first + count, dtype=np.uint64)
        return mix(self._keys[:, None] + counters * GAMMA)

    def uniform(self, count: int, low: float = 0.0, high: float = 1.0) -> Doubles:
        """(n, count) numbers, uniform in [low, high)."""
        words = self._words(self._next, count)
        self._next += count
        return low + (high - low) * 2.0**-53 * (words >> _TO_53_BITS).astype(np.float64)

    def normal(self, count: int) -> Doubles:
        """(n, count) standard normal numbers (Box and Muller, 1958)."""
        radius = np.sqrt(-2.0 * np.log1p(-self.uniform(count)))
        return radius * np.cos(self.uniform(count, 0.0, 2.0 * np.pi))

    def bulk(self, count: int) -> NDArray[np.uint16]:
        """(n, count) integers, uniform in 0..65535, for a quarter of the price: four a word."""
        words = -(-count // 4)
        drawn = self._words(self._next_bulk, words)
        self._next_bulk += words
        # "<": the same numbers on machines of either byte order.
        return drawn.astype("<u8", copy=False).view("<u2")[:, :count]

    def bulk_normal(self, count: int) -> Singles:
        """(n, count) normal numbers from a table of 4,096 quantiles, for noise in pixels."""
        return _normal_table().take(self.bulk(count) >> np.uint16(16 - _NORMAL_BITS))

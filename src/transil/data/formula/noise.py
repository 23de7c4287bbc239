"""Textures: noise with the spectrum of its class, over the whole picture."""

from __future__ import annotations

import numpy as np

from transil.data.formula.canvas import paint, single
from transil.data.formula.family import Family
from transil.data.formula.hashing import Doubles, Draws
from transil.data.source import Pixels

# The highest frequency, in cycles a side. Textures are the same at every size that shows it.
_CYCLES = 12
# Ranges of the frequencies of the coarse and of the fine lobe, in cycles a side.
_COARSE, _FINE = (1.8, 4.2), (4.2, 9.5)
# Width of a lobe in log frequency.
_WIDTH = 0.16
# Narrowness of a lobe in angle: the concentration of a von Mises law, from nearly round to a ray.
_ROUND, _RAY = 0.5, 6.0
# Power of the fine lobe as a share of both.
_FINE_SHARE = (0.25, 0.75)
# Largest changes of an image: of log frequency, of angle, of the share of the fine lobe.
_STRETCH, _TURN, _SHARE = 0.17, 0.26, 0.15
# Contrast from soft to nearly two-coloured; noise of pixels. With these a small network reaches
# about 85 % of ten classes (benchmarks/formula.py).
_SHARP, _GRAIN = (0.3, 1.2), (0.04, 0.15)


class Noise(Family):
    """Random waves from two lobes of the spectrum, as of two Gabor filters.

    Band-limited oriented noise as texture follows Lagae et al., "Procedural noise using sparse
    Gabor convolution", SIGGRAPH 2009; here the waves are summed by an inverse Fourier transform.
    """

    name = "noise"
    summary = "random textures with two oriented bands of frequencies"
    apart = 0.22

    def propose(self, random: Draws) -> Doubles:
        """Log frequencies of two lobes, their directions, narrowness, and the share of the fine."""
        coarse = random.uniform(1, *np.log(_COARSE))
        fine = random.uniform(1, *np.log(_FINE))
        angles = random.uniform(2, 0.0, np.pi)
        narrow = random.uniform(2, _ROUND, _RAY)
        share = random.uniform(1, *_FINE_SHARE)
        return np.concatenate([coarse, fine, angles, narrow, share], axis=1)

    def signature(self, classes: Doubles) -> Doubles:
        """Frequencies and doubled angles (a wave has no sense), scaled by what the eye tells."""
        frequency, angle, narrow, share = np.split(classes, [2, 4, 6], axis=1)
        # The direction of a lobe counts by its narrowness: a round lobe has none.
        strength = 0.5 * np.sqrt(narrow / _RAY)
        parts = [frequency, strength * np.cos(2 * angle), strength * np.sin(2 * angle), share]
        return np.concatenate(parts, axis=1)

    def render(self, classes: Doubles, random: Draws, size: int) -> Pixels:
        count = len(classes)
        frequency, angle, narrow, share = np.split(classes, [2, 4, 6], axis=1)
        frequency = frequency + random.uniform(1, -_STRETCH, _STRETCH)
        angle = angle + random.uniform(1, -_TURN, _TURN)
        share = np.clip(share + random.uniform(1, -_SHARE, _SHARE), 0.1, 0.9)
        kx, ky = np.arange(_CYCLES + 1.0), np.arange(-_CYCLES, _CYCLES + 1.0)[:, None]
        square = kx**2 + ky**2
        square[_CYCLES, 0] = np.inf  # the mean of the picture is no wave
        log = np.where(np.isfinite(square), 0.5 * np.log(square), 9.0).astype(np.float32)
        cos2 = ((kx**2 - ky**2) / square).astype(np.float32)
        sin2 = (2.0 * kx * ky / square).astype(np.float32)
        power = np.zeros((count, *log.shape), np.float32)
        for lobe, weight in enumerate((1.0 - share, share)):
            ring = (log - single(frequency[:, lobe])) ** 2 * np.float32(-0.5 / _WIDTH**2)
            turned = single(np.cos(2 * angle[:, lobe])) * cos2
            turned = turned + single(np.sin(2 * angle[:, lobe])) * sin2
            bell = np.exp(ring + single(narrow[:, lobe]) * (turned - np.float32(1.0)))
            # A lobe has the power of its weight, however many waves it holds.
            total = bell.reshape(count, -1).sum(axis=1).reshape(-1, 1, 1)
            power += single(weight) / total * bell
        waves = random.bulk_normal(2 * log.size).reshape(count, *log.shape, 2)
        amplitude = np.sqrt(power)
        shown = min(_CYCLES, (size - 1) // 2)
        field = np.zeros((count, size, size // 2 + 1), np.complex64)
        rows = np.arange(-shown, shown + 1)
        kept = amplitude[:, _CYCLES - shown : _CYCLES + shown + 1, : shown + 1]
        wave = waves[:, _CYCLES - shown : _CYCLES + shown + 1, : shown + 1]
        field[:, rows % size, : shown + 1] = kept * (wave[..., 0] + 1j * wave[..., 1])
        height = np.fft.irfft2(field, s=(size, size), norm="forward").astype(np.float32)
        spread = height.reshape(count, -1).std(axis=1).reshape(-1, 1, 1)
        sharp = single(random.uniform(1, *_SHARP))
        mixed = np.clip(np.float32(0.5) + sharp * height / spread * np.float32(0.5), 0.0, 1.0)
        colours = random.uniform(6).reshape(count, 2, 3)
        return paint([mixed], colours, random, _GRAIN)

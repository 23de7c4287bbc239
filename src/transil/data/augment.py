"""Augmentation as batched tensor operations on the device.

Randomness stays outside: a transform draws the numbers of a whole epoch at once (`plan`), and
`apply` is a fixed sequence of tensor operations on one batch and its share of the plan, which can be
captured in a graph. The same numbers give the same crops and flips on every device; scaled images
differ by rounding there (a GPU scales in bfloat16; the tests allow two grey levels on average).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from transil.data.statistics import Statistics
from transil.errors import TransilError


class Normalise:
    """uint8 (b, h, w, 3) to float (b, 3, h, w): (x / 255 - mean) / std in one multiply-add."""

    def __init__(self, statistics: Statistics, device: torch.device | str) -> None:
        mean, std = (
            torch.tensor(v, dtype=torch.float32) for v in (statistics.mean, statistics.std)
        )
        self.scale = (1.0 / (255.0 * std)).to(device)
        self.shift = (-mean / std).to(device)

    def __call__(self, pixels: torch.Tensor) -> torch.Tensor:
        """The result keeps the memory order of the pixels: it is in channels_last format."""
        count, high, wide = pixels.shape[:3]
        # Whole lines at once: a last dimension of 3 is much slower than one of 3 * wide.
        lines = pixels.reshape(count, high, wide * 3).float()
        out = torch.addcmul(self.shift.repeat(wide), lines, self.scale.repeat(wide))
        return out.view(count, high, wide, 3).permute(0, 3, 1, 2)


class Transform(ABC):
    """One way to make network inputs from stored images."""

    def plan(self, random: np.random.Generator, count: int, size: int) -> dict[str, NDArray[Any]]:
        """Random numbers for `count` images of `size` pixels; each array has `count` rows."""
        return {}

    def output(self, stored: int) -> int:
        """Width and height of the result for stored images of that size."""
        return stored

    @abstractmethod
    def apply(self, pixels: torch.Tensor, plan: dict[str, torch.Tensor]) -> torch.Tensor:
        """uint8 (b, size, size, 3) to uint8 or float (b, out, out, 3), not normalised."""


@dataclass(frozen=True)
class AsStored(Transform):
    """The evaluation transform for images that already have the right size."""

    def apply(self, pixels: torch.Tensor, plan: dict[str, torch.Tensor]) -> torch.Tensor:
        return pixels


@dataclass(frozen=True)
class CentreCrop(Transform):
    """The evaluation transform at 224 px: scale the short side to `resize`, cut the middle out.

    Stored images are squares; where they are `resize` pixels already nothing is scaled.
    """

    size: int = 224
    resize: int = 256

    def __post_init__(self) -> None:
        _require(1 <= self.size <= self.resize, f"CentreCrop: {self.size} px of {self.resize} px")

    def output(self, stored: int) -> int:
        return self.size

    def apply(self, pixels: torch.Tensor, plan: dict[str, torch.Tensor]) -> torch.Tensor:
        stored = pixels.shape[1]
        margin = (self.resize - self.size) // 2
        if stored == self.resize:
            return pixels[:, margin : margin + self.size, margin : margin + self.size]
        whole = torch.tensor([[0.0, 0.0, stored, stored]], device=pixels.device)
        weights = resize_weights(whole[:, 0], whole[:, 2], stored, self.resize)
        weights = weights[:, margin : margin + self.size].expand(len(pixels), -1, -1)
        return resample(pixels, weights, weights)


@dataclass(frozen=True)
class PadCropFlip(Transform):
    """The usual augmentation at 32 px: a random crop of the zero-padded image, and a flip.

    Without `flip` nothing is mirrored: for classes that differ by their orientation.
    """

    pad: int = 4
    flip: bool = True

    def __post_init__(self) -> None:
        _require(self.pad >= 0, f"PadCropFlip: pad {self.pad}")

    def plan(self, random: np.random.Generator, count: int, size: int) -> dict[str, NDArray[Any]]:
        corner = random.integers(0, 2 * self.pad + 1, (count, 2))
        return {"corner": corner, **({"flip": random.random(count) < 0.5} if self.flip else {})}

    def apply(self, pixels: torch.Tensor, plan: dict[str, torch.Tensor]) -> torch.Tensor:
        count, size = pixels.shape[:2]
        wide = size + 2 * self.pad
        padded = torch.nn.functional.pad(pixels, (0, 0, self.pad, self.pad, self.pad, self.pad))
        # Row y of a crop is a run of bytes in the padded image: gather runs, not pixels.
        rows = torch.arange(size, device=pixels.device)
        image = torch.arange(count, device=pixels.device)[:, None] * wide
        corner = plan["corner"]
        start = ((image + corner[:, :1] + rows) * wide + corner[:, 1:]) * 3
        runs = padded.view(-1).unfold(0, size * 3, 1)
        crops = runs.index_select(0, start.view(-1)).view(count, size, size, 3)
        return _choose(plan["flip"], crops.flip(2), crops) if self.flip else crops


@dataclass(frozen=True)
class RandomResizedCrop(Transform):
    """The paper's training transform at 224 px: a random box, scaled with antialiasing, and a flip.

    Boxes are drawn as torchvision draws them: area a share of the image in `scale`, aspect
    log-uniform in `ratio`, ten tries, else the largest central box of an allowed aspect.
    """

    size: int = 224
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)

    def __post_init__(self) -> None:
        ranges = 0 < self.scale[0] <= self.scale[1] <= 1 and 0 < self.ratio[0] <= self.ratio[1]
        _require(self.size >= 1 and ranges, f"RandomResizedCrop: {self}")

    def output(self, stored: int) -> int:
        return self.size

    def plan(self, random: np.random.Generator, count: int, size: int) -> dict[str, NDArray[Any]]:
        tries = 10
        area = size * size * random.uniform(*self.scale, (count, tries))
        low, high = math.log(self.ratio[0]), math.log(self.ratio[1])
        aspect = np.exp(random.uniform(low, high, (count, tries)))
        width = np.round(np.sqrt(area * aspect)).astype(np.int64)
        height = np.round(np.sqrt(area / aspect)).astype(np.int64)
        fits = (width > 0) & (width <= size) & (height > 0) & (height <= size)
        first = (np.arange(count), fits.argmax(axis=1))
        any_fits = fits.any(axis=1)
        # The fallback on a square image: the whole of it, unless no allowed aspect contains 1.
        narrow = min(1.0, self.ratio[1]), min(1.0, 1.0 / self.ratio[0])
        width = np.where(any_fits, width[first], round(size * narrow[0]))
        height = np.where(any_fits, height[first], round(size * narrow[1]))
        left = np.floor(random.random(count) * (size - width + 1)).astype(np.int64)
        top = np.floor(random.random(count) * (size - height + 1)).astype(np.int64)
        left = np.where(any_fits, left, (size - width) // 2)
        top = np.where(any_fits, top, (size - height) // 2)
        return {
            "box": np.stack([left, top, left + width, top + height], axis=1).astype(np.float32),
            "flip": random.random(count) < 0.5,
        }

    def apply(self, pixels: torch.Tensor, plan: dict[str, torch.Tensor]) -> torch.Tensor:
        box, stored = plan["box"], pixels.shape[1]
        rows = resize_weights(box[:, 1], box[:, 3], stored, self.size)
        columns = resize_weights(box[:, 0], box[:, 2], stored, self.size)
        columns = torch.where(plan["flip"].view(-1, 1, 1), columns.flip(1), columns)
        return resample(pixels, rows, columns)


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise TransilError(f"{what} makes no sense")


def _choose(which: torch.Tensor, yes: torch.Tensor, no: torch.Tensor) -> torch.Tensor:
    """`yes` or `no` for each image, by `which` (b,); eight bytes at a time where they divide."""
    flat = [x.reshape(len(which), -1) for x in (yes, no)]
    if flat[0].shape[1] % 8 == 0:
        flat = [x.view(torch.int64) for x in flat]
    return torch.where(which[:, None], flat[0], flat[1]).view(torch.uint8).view(yes.shape)


def resize_weights(start: torch.Tensor, stop: torch.Tensor, stored: int, size: int) -> torch.Tensor:
    """The matrix (b, size, stored) that scales the pixels start..stop of a line to `size` pixels.

    A triangle filter, widened when it shrinks (antialiasing) and cut off at the ends of the box:
    what Pillow computes for the cropped image.
    """
    scale = (stop - start) / size  # (b,)
    support = scale.clamp(min=1.0)
    out = torch.arange(size, device=start.device, dtype=torch.float32) + 0.5
    centre = start[:, None] + out * scale[:, None]  # (b, size)
    source = torch.arange(stored, device=start.device, dtype=torch.float32) + 0.5
    distance = (source - centre[..., None]).abs() / support[:, None, None]
    inside = (source > start[:, None, None]) & (source < stop[:, None, None])
    weights = (1.0 - distance).clamp(min=0.0) * inside
    return weights / weights.sum(dim=2, keepdim=True)


def resample(pixels: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    """uint8 (b, h, w, 3) through the two matrices (b, out, h) and (b, out, w): float (b, out, out, 3).

    Two batched matrix products, which is what the device does best; each image has its own box.
    """
    count, high, wide = pixels.shape[:3]
    dtype = torch.bfloat16 if pixels.is_cuda else torch.float32
    lines = torch.bmm(rows.to(dtype), pixels.to(dtype).reshape(count, high, wide * 3))
    lines = lines.reshape(count, -1, wide, 3).permute(0, 2, 1, 3).reshape(count, wide, -1)
    result = torch.bmm(columns.to(dtype), lines)
    size = rows.shape[1]
    return result.reshape(count, size, size, 3).permute(0, 2, 1, 3).float()

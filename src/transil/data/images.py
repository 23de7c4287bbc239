"""The object that all sources end in: uint8 images of one size, labels, class names, splits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from transil.data.source import Pixels
from transil.schedule import IntArray


@dataclass(frozen=True, eq=False)
class ImageSplit:
    """pixels (n, size, size, 3) uint8, a read-only view of the cache; labels (n,)."""

    pixels: Pixels
    labels: IntArray

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, eq=False)
class Images:
    """A data set of decoded images. Labels are 0..classes-1, in the order of `class_names`.

    `fingerprint` tells their content.
    `skipped` names the images that could not be decoded (only where that was allowed);
    `duplicates` counts test images that are also training images.
    """

    name: str
    class_names: tuple[str, ...]
    splits: Mapping[str, ImageSplit]
    fingerprint: str
    skipped: tuple[str, ...] = ()
    duplicates: int = 0

    @property
    def classes(self) -> int:
        """The number of classes."""
        return len(self.class_names)

    @property
    def size(self) -> int:
        """The width and height of the images, in pixels."""
        return int(self.splits["train"].pixels.shape[1])

    @property
    def facts(self) -> dict[str, str | int]:
        """By what a run knows its images again."""
        return {"name": self.name, "fingerprint": self.fingerprint, "pixels": self.size}

    def counts(self, split: str) -> IntArray:
        """The number of images of each class, shape (classes,)."""
        return np.bincount(self.splits[split].labels, minlength=self.classes)

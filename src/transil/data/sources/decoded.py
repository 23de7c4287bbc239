"""Decoded images as a source: a part of what `transil data convert` has made."""

from __future__ import annotations

from transil._common.files import digest
from transil.data.images import Images
from transil.data.source import Source


class DecodedSource(Source):
    """Images that need no decoding."""

    def __init__(self, images: Images) -> None:
        self.images = images
        self.name, self.class_names = images.name, images.class_names
        self.labels = {split: data.labels for split, data in images.splits.items()}
        self.pixels = {split: data.pixels for split, data in images.splits.items()}

    def stamp(self) -> str:
        return digest(["decoded", self.images.fingerprint])

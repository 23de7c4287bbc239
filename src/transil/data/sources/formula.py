"""Images from formulas: `formula:radial?classes=100&seed=3`. Nothing to download."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from transil._common.files import digest
from transil.data.formula import make_images
from transil.data.source import Block, Source, blocks_of
from transil.errors import TransilError

# To be raised whenever a family changes what it draws: decoded caches are then made anew.
VERSION = 1
MOST_CLASSES = 100_000
DEFAULTS = {"classes": 10, "seed": 0, "train": 100, "val": 0, "test": 50, "size": 32}


class FormulaSource(Source):
    """`train`, `val` and `test` images for each of `classes` classes of one family."""

    def __init__(self, family: str, **settings: int) -> None:
        for key, value in settings.items():
            if value < (0 if key in ("seed", "val", "test") else 1):
                raise TransilError(f"formula:{family}: {key}={value} is too small")
        if settings.get("classes", 0) > MOST_CLASSES or max(settings.values(), default=0) > 2**40:
            raise TransilError(f"formula:{family}: at most {MOST_CLASSES:,} classes can be drawn")
        self.family = family
        self.settings = {**DEFAULTS, **settings}
        classes, seed = self.settings["classes"], self.settings["seed"]
        self.name = f"formula-{family}-{classes}-seed{seed}"
        self.class_names = tuple(f"{family}-{seed}-{label:04d}" for label in range(classes))
        counts = {split: self.settings[split] for split in ("train", "val", "test")}
        self.labels = {
            split: np.repeat(np.arange(classes), count) for split, count in counts.items() if count
        }
        self._make("train", np.arange(0))  # an unknown family is told here

    def blocks(self, split: str) -> Iterator[Block]:
        for rows in blocks_of(np.arange(len(self.labels[split]))):
            yield self._make(split, np.asarray(rows))

    def _make(self, split: str, rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Block:
        numbers = rows % self.settings[split]
        return make_images(
            self.family, self.labels[split][rows], numbers, split=split,
            seed=self.settings["seed"], size=self.settings["size"], count=self.settings["classes"],
        )  # fmt: skip

    def stamp(self) -> str:
        return digest(["formula", VERSION, self.family, self.settings])

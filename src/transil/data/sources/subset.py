"""Another source restricted to some of its classes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from transil._common.files import digest
from transil.data.class_lists import find_classes
from transil.data.source import Block, Source, as_text
from transil.schedule import IntArray


class ClassSubset(Source):
    """The classes of a source that are called so, in that order; the others are not decoded.

    Of each class only the first `most[split]` images are kept, where that is given. A split that
    has no images of these classes is left out.
    """

    def __init__(
        self, source: Source, names: Sequence[str], most: Mapping[str, int] | None = None
    ) -> None:
        source.check_labels()
        self.source = source
        self.name, self.by_content = source.name, source.by_content
        chosen = find_classes(names, source.class_names, as_text(source.name))
        self.class_names = tuple(source.class_names[label] for label in chosen)
        new = np.full(len(source.class_names), -1, dtype=np.int64)
        new[chosen] = np.arange(len(chosen))
        self.rows: dict[str, IntArray] = {}
        for split, labels in source.labels.items():
            rows = np.flatnonzero(new[labels] >= 0)
            if most is not None and split in most:
                rows = rows[_first_of_each(labels[rows], most[split])]
            if len(rows) or split == "train":  # without those, `check` says which class has none
                self.rows[split] = rows
        self.labels = {split: new[source.labels[split][rows]] for split, rows in self.rows.items()}

    def blocks(self, split: str) -> Iterator[Block]:
        return self.source.blocks_of_rows(split, self.rows[split])

    def stamp(self) -> str:
        kept = {split: digest(rows.tolist()) for split, rows in self.rows.items()}
        return digest(
            ["classes", self.source.stamp_of_rows(self.rows), list(self.class_names), kept]
        )

    def where(self, split: str, row: int) -> str:
        return self.source.where(split, int(self.rows[split][row]))


def _first_of_each(labels: IntArray, most: int) -> IntArray:
    """The places of the first `most` of each label, ascending."""
    order = np.argsort(labels, kind="stable")
    ordered = labels[order]
    number = np.arange(len(labels)) - np.searchsorted(ordered, ordered)
    return np.sort(order[number < most])

"""In which order classes are learned."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from transil.errors import TransilError
from transil.schedule import IntArray

# The order of CIFAR-100's fine labels in the authors' lists, which no seed reproduces.
AUTHORS_CIFAR100 = (
    8, 12, 75, 16, 9, 30, 19, 78, 83, 85, 68, 82, 44, 18, 2, 34, 28, 53, 25, 43,
    59, 3, 80, 57, 55, 86, 10, 17, 48, 42, 20, 49, 79, 88, 31, 33, 35, 52, 26, 1,
    77, 11, 93, 56, 29, 99, 71, 96, 58, 87, 92, 89, 66, 64, 90, 95, 15, 50, 91, 7,
    5, 32, 70, 0, 76, 74, 21, 81, 27, 69, 51, 6, 46, 73, 14, 61, 67, 98, 36, 24,
    40, 72, 62, 47, 41, 45, 13, 22, 94, 4, 60, 38, 65, 97, 39, 54, 84, 37, 63, 23,
)  # fmt: skip
FORMS = "'label', 'seed:0', 'authors-cifar100' or a list of labels"


def class_order(order: str | Sequence[int], classes: int) -> IntArray:
    """Labels in the order in which they are learned, a permutation of 0..classes-1.

    `label` keeps their order, `seed:N` shuffles it, `authors-cifar100` is that of the paper's
    authors; a list is taken as it is.
    """
    if isinstance(order, str):
        if order == "label":
            return np.arange(classes)
        if order == "authors-cifar100":
            order = AUTHORS_CIFAR100
        else:
            return np.random.default_rng(read_seed(order, FORMS)).permutation(classes)
    labels = np.asarray(order)
    if labels.shape != (classes,) or not np.array_equal(np.sort(labels), np.arange(classes)):
        raise TransilError(
            f"class order: {labels.size} labels given; it must name each of 0..{classes - 1} once"
        )
    return labels.astype(np.int64)


def read_seed(text: str, forms: str) -> int:
    """7 from 'seed:7'."""
    name, _, number = text.partition(":")
    if name != "seed" or not number.isdecimal():
        raise TransilError(f"'{text}' is not understood; give {forms}")
    return int(number)

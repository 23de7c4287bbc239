"""The numbers of the TransIL paper (WACV 2022), to stand beside ours.

Average incremental accuracy (%) over states 2..S, for S = 5, 10 and 20, with ResNet-18 at 224
pixels. A data set is matched by its exact name only: other images are another experiment.
"""

from __future__ import annotations

STATES = (5, 10, 20)
TARGETS = {
    "cifar100": "CIFAR-100",
    "imn100": "IMN-100",
    "birds100": "BIRDS-100",
    "food100": "FOOD-100",
    "places100": "PLACES-100",  # from the supplement; without BiC and the oracle
}

# One block per data set in the order of TARGETS, in a block one number per S.
# Table 1: all training images, ten references.
ALL_IMAGES = {
    ("lwf", "raw"): "53.0 44.0 29.1 | 53.8 41.1 29.2 | 53.7 41.8 30.1 | 42.9 31.8 22.2 "
    "| 43.3 35.1 25.9",
    ("lwf", "bic"): "54.0 45.5 30.8 | 54.7 42.5 31.1 | 54.6 43.1 31.8 | 43.4 32.6 23.8",
    ("lwf", "adbic"): "54.3 46.4 32.3 | 55.1 43.4 32.3 | 55.0 44.0 32.8 | 43.5 33.3 24.7 "
    "| 44.2 36.6 28.6",
    ("lwf", "oracle"): "54.9 47.3 32.6 | 55.9 44.2 33.1 | 55.8 44.8 33.3 | 44.0 34.2 25.3",
    ("lucir", "raw"): "50.1 33.7 19.5 | 48.3 30.1 17.7 | 50.8 31.4 17.9 | 44.2 26.4 15.5 "
    "| 40.5 26.0 16.0",
    ("lucir", "bic"): "52.5 37.1 22.4 | 54.9 36.8 21.8 | 56.0 37.7 20.6 | 49.9 31.5 17.2",
    ("lucir", "adbic"): "54.8 42.2 28.4 | 59.0 46.1 27.3 | 58.5 45.4 27.3 | 52.0 37.1 17.7 "
    "| 42.8 35.4 23.3",
    ("lucir", "oracle"): "55.5 43.6 31.2 | 59.4 46.6 29.7 | 59.0 46.0 28.8 | 52.6 38.2 21.0",
    ("siw", "raw"): "29.9 22.7 14.8 | 32.6 23.3 15.1 | 30.6 23.2 14.9 | 29.4 21.6 14.1 "
    "| 27.3 20.6 14.0",
    ("siw", "bic"): "31.4 22.8 14.7 | 33.9 22.6 13.9 | 32.8 22.7 12.8 | 29.1 20.3 12.1",
    ("siw", "adbic"): "31.7 24.1 15.8 | 35.1 24.5 15.0 | 33.0 25.2 15.3 | 30.9 21.3 14.5 "
    "| 28.8 21.2 13.1",
    ("siw", "oracle"): "32.8 25.0 16.5 | 36.4 25.7 16.1 | 34.4 26.2 16.3 | 31.5 22.6 15.1",
    ("ft+", "raw"): "28.9 22.6 14.5 | 31.7 23.2 14.6 | 29.7 23.3 13.5 | 28.7 21.1 13.3 "
    "| 26.9 20.8 12.1",
    ("ft+", "bic"): "30.7 22.5 14.8 | 33.0 21.9 13.8 | 32.3 22.5 12.4 | 28.6 20.6 11.8",
    ("ft+", "adbic"): "31.9 23.6 15.0 | 34.9 23.7 15.7 | 34.0 25.0 14.2 | 30.8 22.2 14.2 "
    "| 27.3 19.7 13.2",
    ("ft+", "oracle"): "32.5 24.6 15.9 | 35.7 24.9 16.2 | 34.5 25.7 15.4 | 31.3 22.7 14.5",
}

# Table 2: half of the target's training images.
HALF = {
    ("lwf", "raw"): "41.3 33.3 23.3 | 45.6 33.5 23.8 | 44.6 34.0 23.2 | 29.5 23.3 17.3 "
    "| 35.4 27.7 21.5",
    ("lwf", "adbic"): "42.1 34.8 25.0 | 46.7 35.3 25.6 | 45.5 35.4 25.2 | 29.9 24.3 18.7 "
    "| 35.9 28.5 23.6",
    ("lucir", "raw"): "43.5 27.8 16.6 | 42.9 27.6 17.0 | 45.2 27.8 16.0 | 37.9 22.7 13.9 "
    "| 35.5 23.2 14.7",
    ("lucir", "adbic"): "48.3 38.5 25.3 | 54.1 42.4 23.2 | 52.8 40.9 25.6 | 45.7 32.6 19.8 "
    "| 40.5 33.6 22.3",
    ("siw", "raw"): "31.7 21.6 13.7 | 32.1 22.7 14.4 | 29.7 22.8 14.1 | 28.4 18.7 13.5 "
    "| 27.2 19.6 14.8",
    ("siw", "adbic"): "33.7 22.5 14.0 | 35.0 22.6 12.2 | 32.1 23.7 13.5 | 29.9 16.9 13.3 "
    "| 28.5 19.3 14.3",
    ("ft+", "raw"): "30.4 21.5 12.9 | 31.2 22.2 12.0 | 29.2 22.8 12.2 | 27.4 18.2 11.6",
    ("ft+", "adbic"): "32.0 21.4 13.4 | 34.8 21.2 13.7 | 31.9 23.0 13.6 | 28.8 16.2 12.2 "
    "| 25.6 17.2 13.5",
}

# Table 3: (mean, std) with R references; the raw models are those of Table 1.
REFERENCE_COUNTS: dict[tuple[str, str, int], dict[int, tuple[float, float | None]]] = {
    ("lucir", "food100", 5): {
        1: (51.9, 0.4), 2: (52.0, 0.2), 3: (52.1, 0.2), 5: (52.1, 0.1), 7: (52.0, 0.1),
        9: (52.0, 0.1), 10: (52.0, None),
    },
    ("lucir", "food100", 10): {
        1: (36.7, 0.7), 2: (36.9, 0.4), 3: (37.2, 0.4), 5: (37.1, 0.2), 7: (37.0, 0.1),
        9: (37.1, 0.1), 10: (37.1, None),
    },
    ("lucir", "food100", 20): {
        1: (17.6, 1.2), 2: (17.5, 0.7), 3: (17.6, 0.7), 5: (17.5, 0.3), 7: (17.8, 0.3),
        9: (17.7, 0.1), 10: (17.7, None),
    },
    ("lwf", "cifar100", 5): {1: (54.3, 0.2), 10: (54.3, None)},
    ("lwf", "cifar100", 10): {1: (46.2, 0.3), 10: (46.4, None)},
    ("lwf", "cifar100", 20): {1: (31.8, 0.3), 10: (32.3, None)},
    ("lucir", "cifar100", 5): {1: (54.7, 0.4), 10: (54.8, None)},
    ("lucir", "cifar100", 10): {1: (42.0, 0.7), 10: (42.2, None)},
    ("lucir", "cifar100", 20): {1: (27.5, 1.4), 10: (28.4, None)},
    ("siw", "cifar100", 5): {1: (31.6, 0.2), 10: (31.7, None)},
    ("siw", "cifar100", 10): {1: (23.8, 0.4), 10: (24.1, None)},
    ("siw", "cifar100", 20): {1: (15.7, 0.3), 10: (15.8, None)},
    ("ft+", "cifar100", 5): {1: (31.9, 0.2), 10: (31.9, None)},
    ("ft+", "cifar100", 10): {1: (23.2, 0.4), 10: (23.6, None)},
    ("ft+", "cifar100", 20): {1: (14.8, 0.2), 10: (15.0, None)},
}  # fmt: skip

JOINT = {"cifar100": 72.7, "imn100": 75.5, "birds100": 80.9, "food100": 71.03}


def _parse(rows: dict[tuple[str, str], str]) -> dict[tuple[str, str, str, int], float]:
    return {
        (method, line, target, states): float(number)
        for (method, line), text in rows.items()
        for target, block in zip(TARGETS, text.split("|"), strict=False)
        for states, number in zip(STATES, block.split(), strict=True)
    }


_TABLES = {1.0: _parse(ALL_IMAGES), 0.5: _parse(HALF)}


def accuracy(method: str, target: str, states: int, fraction: float, line: str) -> float | None:
    """The paper's average accuracy (%); `line`: 'raw', 'bic', 'adbic' or 'oracle' (of adBiC)."""
    table = _TABLES.get(fraction, {})
    return table.get((method.lower(), line, _plain(target), states))


def with_references(
    method: str, target: str, states: int, count: int
) -> tuple[float, float | None] | None:
    """Mean and standard deviation (%) over draws of `count` references, adBiC, all images."""
    return REFERENCE_COUNTS.get((method.lower(), _plain(target), states), {}).get(count)


def joint(target: str) -> float | None:
    """The accuracy (%) of a model that learned all classes at once."""
    return JOINT.get(_plain(target))


def _plain(target: str) -> str:
    return target.lower().replace("-", "").replace("_", "")

"""NumPy: an .npz file with `x_{split}` (n, size, size, 3) uint8 and `y_{split}` (n,)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from transil._common.files import digest
from transil.data.source import Pixels, Source, file_stamp, hashed_whole, names_for
from transil.errors import TransilError
from transil.schedule import IntArray
from transil.scores.array_files import load_archive


class NpzSource(Source):
    """Arrays x_train, y_train, x_test, y_test and, if there are any, x_val, y_val, class_names."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.stem
        arrays = load_archive(path)
        self.pixels: dict[str, Pixels] = {}
        labels: dict[str, IntArray] = {}
        for split in ("train", "val", "test"):
            x, y = arrays.get(f"x_{split}"), arrays.get(f"y_{split}")
            if x is None and y is None:
                continue
            if x is None or y is None:
                raise TransilError(f"{path}: x_{split} and y_{split} are needed together")
            if x.ndim == 3:
                x = np.repeat(x[..., None], 3, axis=3)
            if x.dtype != np.uint8 or x.ndim != 4 or x.shape[3] != 3 or 0 in x.shape[1:]:
                raise TransilError(
                    f"{path}: x_{split} must be uint8 (n, height, width, 3), "
                    f"not {x.dtype} {x.shape}"
                )
            if y.shape != x.shape[:1] or not np.issubdtype(y.dtype, np.integer):
                raise TransilError(f"{path}: y_{split} must be {len(x)} whole numbers")
            self.pixels[split], labels[split] = x, y.astype(np.int64)
        self.labels = labels
        given = arrays.get("class_names")
        if given is not None and (given.ndim != 1 or len(set(given.tolist())) < len(given)):
            raise TransilError(f"{path}: class_names must be a list of names, each there once")
        self.class_names = tuple(map(str, given)) if given is not None else names_for(labels)
        self.by_content = hashed_whole([path])

    def stamp(self) -> str:
        return digest(["npz", *file_stamp(self.path)])

"""Any torchvision data set, where torchvision is installed: `torchvision:Food101?root=DIR`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from transil._common.files import digest
from transil._common.registry import nearest
from transil.data.decode import known_formats_only
from transil.data.source import Block, Source, blocks_of, names_for
from transil.errors import TransilError, reason
from transil.schedule import IntArray

# What sets call their splits. ImageNet and Places365 keep their test labels secret; the other names
# of 'train' are those of Places365 and of the pets.
CALLED = {"train": ("train", "train-standard", "trainval"), "test": ("test", "val")}


class TorchvisionSource(Source):
    """A classification set of torchvision, with its train and test (or val) splits.

    Sets say which split they mean with `train=True` or with `split="train"`; both are tried.
    Nothing is downloaded unless `download` is set.
    """

    by_content = False

    def __init__(self, kind: str, root: Path, *, download: bool = False) -> None:
        module = _datasets()
        cls = getattr(module, kind, None)
        if cls is None:
            known = [n for n in dir(module) if n[:1].isupper()]
            raise TransilError(f"torchvision has no data set '{kind}'; {nearest(kind, known)}")
        self.name, self.kind, self.root = kind.lower(), kind, root
        self.sets = {split: _make(cls, root, split, download) for split in ("train", "test")}
        self.labels = {split: _labels(data) for split, data in self.sets.items()}
        names = getattr(self.sets["train"], "classes", None)
        self.class_names = tuple(map(_name, names)) if names else names_for(self.labels)

    def blocks(self, split: str) -> Iterator[Block]:
        return self.blocks_of_rows(split, np.arange(len(self.sets[split])))

    def blocks_of_rows(self, split: str, rows: IntArray) -> Iterator[Block]:
        data = self.sets[split]
        for part in blocks_of(rows):
            with known_formats_only():
                block = [_pixels(data, int(row)) for row in part]
            yield block

    def stamp(self) -> str:
        counts = {split: digest(labels.tolist()) for split, labels in self.labels.items()}
        return digest(["torchvision", self.kind, str(self.root.resolve()), counts])


def _pixels(data: Any, row: int) -> Any:
    """One image; what torchvision cannot open is handed on as bytes that nobody can decode."""
    try:
        return np.asarray(data[row][0].convert("RGB"))
    except Exception:  # Pillow raises many kinds for damaged files
        return b""


def _name(name: Any) -> str:
    """ImageNet has several names for a class."""
    return ", ".join(name) if isinstance(name, tuple) else str(name)


def _make(cls: Any, root: Path, split: str, download: bool) -> Any:
    known = inspect.signature(cls).parameters
    options: dict[str, Any] = {"download": download} if "download" in known else {}
    tries: list[dict[str, Any]] = [{"split": name} for name in CALLED[split]]
    if "train" in known:
        tries = [{"train": split == "train"}, *(tries[1:] if "split" in known else ())]
    elif "split" not in known:
        tries = tries[:1]
    error: Exception | None = None
    for choice in tries:
        try:
            return cls(str(root), **choice, **options)
        except Exception as caught:  # each set raises its own kind for missing files
            error = error or caught
    raise TransilError(f"torchvision's {cls.__name__} in {root}: {reason(error)}") from None


def _labels(data: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
    for name in ("targets", "labels", "_labels"):
        if hasattr(data, name):
            return np.asarray(getattr(data, name), dtype=np.int64)
    if hasattr(data, "samples"):
        return np.array([label for _, label in data.samples], dtype=np.int64)
    return np.array([data[i][1] for i in range(len(data))], dtype=np.int64)


def _datasets() -> Any:
    try:
        from torchvision import datasets
    except Exception as error:  # a build that does not fit torch fails with a RuntimeError
        raise TransilError(f"torchvision cannot be used here ({reason(error)})") from None
    return datasets

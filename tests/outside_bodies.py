"""Bodies that are not transil's, as a user's module has them: good ones and bad ones."""

from __future__ import annotations

import torch
from torch import nn


def _layers() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(),
        nn.Conv2d(8, 12, 3, 2, 1), nn.BatchNorm2d(12), nn.ReLU(),
    )  # fmt: skip


def maps() -> nn.Module:
    """Says what images it wants."""
    made = _layers()
    made.image_size, made.mean, made.std = 16, (0.5, 0.4, 0.3), (0.2, 0.2, 0.25)  # type: ignore[assignment]
    return made


def vectors() -> nn.Module:
    return nn.Sequential(_layers(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, 10))


def shared_relu() -> nn.Module:
    relu = nn.ReLU()
    return nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), relu, nn.Conv2d(8, 8, 3, 2, 1), relu)


def dropping() -> nn.Module:
    return nn.Sequential(_layers(), nn.Dropout(0.1))


def fixed() -> nn.Module:
    """Takes images of 24 px alone."""
    made = nn.Sequential(nn.Flatten(), nn.Linear(3 * 24 * 24, 8))
    made.image_size = 24  # type: ignore[assignment]
    return made


def rows() -> nn.Module:
    return nn.Flatten(2)


def colourless() -> nn.Module:
    made = maps()
    made.std = (0.2, 0.0, 0.2)  # type: ignore[assignment]
    return made


def raising() -> nn.Module:
    raise RuntimeError("no such file\nand more")


def tensor() -> torch.Tensor:
    return torch.zeros(3)

"""A network of some hundred weights, so that the files made with it are small."""

from __future__ import annotations

import torch
from torch import nn

from transil.nets import BODIES, Body


@BODIES.register
class Dot(Body):
    """One convolution."""

    name = "dot"
    summary = "one convolution of 4 channels, for tests"
    width = 4

    def __init__(self, last_relu: bool = True) -> None:
        super().__init__(last_relu)
        self.conv = nn.Conv2d(3, self.width, 4, 4, bias=False)
        self.norm = nn.BatchNorm2d(self.width)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """(b, 3, h, w) to (b, 4, h / 4, w / 4)."""
        maps: torch.Tensor = self.norm(self.conv(images))
        return torch.relu(maps) if self.last_relu else maps

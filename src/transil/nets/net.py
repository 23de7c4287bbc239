"""A body and a head together."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn

from transil.nets.bodies import BODIES, Body
from transil.nets.heads import Head, find_head


class Outputs(NamedTuple):
    """What a network says about a batch: features (b, d) and scores (b, classes), float32."""

    features: torch.Tensor
    scores: torch.Tensor


class Net(nn.Module):
    """images (b, 3, h, w) to `Outputs`.

    Pooling and head work in float32 even where the body does not: rounded scores have ties.
    """

    def __init__(self, body: Body, head: Head) -> None:
        super().__init__()
        self.body, self.head = body, head

    def forward(self, images: torch.Tensor) -> Outputs:
        """Features are averaged over the image."""
        maps = self.body(images)
        with torch.autocast(maps.device.type, enabled=False):
            features = maps.mean((2, 3), dtype=torch.float32)
            return Outputs(features, self.head(features))


def build_net(body: str, head: str, classes: int, *, last_relu: bool = True, seed: int = 0) -> Net:
    """A fresh network on the CPU; a seed always gives the same one.

    Convolutions are drawn as in the original ResNet code (normal, by fan-out).
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        made = BODIES.find(body)(last_relu)
        for module in made.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        return Net(made, find_head(head)(made.width, classes))

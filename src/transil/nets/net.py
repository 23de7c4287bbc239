"""A body and a head together."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn

from transil.nets.bodies import BODIES
from transil.nets.heads import Head, find_head
from transil.nets.outside import is_outside, load_weights, make_outside


class Outputs(NamedTuple):
    """What a network says about a batch: features (b, d) and scores (b, classes), float32."""

    features: torch.Tensor
    scores: torch.Tensor


class Net(nn.Module):
    """images (b, 3, h, w) to `Outputs`. A `frozen` body learns nothing, its statistics neither.

    Pooling and head work in float32 even where the body does not: rounded scores have ties.
    """

    def __init__(self, body: nn.Module, head: Head, *, frozen: bool = False) -> None:
        super().__init__()
        self.body, self.head, self.frozen = body, head, frozen
        if frozen:
            body.requires_grad_(False)

    def forward(self, images: torch.Tensor) -> Outputs:
        """Features are averaged over the image, where the body has not done that."""
        maps = self.body(images)
        with torch.autocast(maps.device.type, enabled=False):
            features = maps.mean((2, 3), dtype=torch.float32) if maps.dim() == 4 else maps.float()
            return Outputs(features, self.head(features))

    def train(self, mode: bool = True) -> Net:
        """A frozen body stays in evaluation mode."""
        super().train(mode)
        self.body.train(mode and not self.frozen)
        return self


def build_net(
    body: str,
    head: str,
    classes: int,
    *,
    last_relu: bool = True,
    seed: int = 0,
    weights: str | None = None,
    frozen: bool = False,
) -> Net:
    """A fresh network on the CPU, its body with the weights of a file; a seed gives always the same.

    Convolutions of our bodies are drawn as in the original ResNet code (normal, by fan-out).
    """
    made: nn.Module
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if is_outside(body):
            made, width = make_outside(body, last_relu)
        else:
            made = BODIES.find(body)(last_relu)
            width = made.width
            for module in made.modules():
                if isinstance(module, nn.Conv2d):
                    nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        net = Net(made, find_head(head)(width, classes), frozen=frozen)
    if weights is not None:
        load_weights(made, weights)
    return net

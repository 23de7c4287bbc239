"""Heads: features (b, d) to one score per class (b, classes).

A head has all its columns from the start; the engine masks those of classes not seen yet. Shapes
then never change, and a training step can be captured once for all states.
"""

from __future__ import annotations

import math

import torch
from torch import nn

from transil.errors import TransilError


class Head(nn.Module):
    """What all heads have: `weight` (classes, d), one row per class."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(classes, width))

    @torch.no_grad()
    def reset(
        self, generator: torch.Generator | None = None, rows: torch.Tensor | None = None
    ) -> None:
        """Draw rows anew, as a fresh layer of torch has them: U(-1/sqrt(d), 1/sqrt(d)).

        All, or those of a mask `rows` (classes,).
        Numbers are drawn on the CPU: a seed gives the same rows on every device.
        """
        bound = 1.0 / math.sqrt(self.weight.shape[1])
        for parameter in self.drawn():
            fresh = torch.empty(parameter.shape).uniform_(-bound, bound, generator=generator)
            fresh = fresh.to(parameter.device)
            if rows is not None:
                mask = rows.view(-1, *[1] * (parameter.dim() - 1))
                fresh = torch.where(mask, fresh, parameter)
            parameter.copy_(fresh)

    def drawn(self) -> list[nn.Parameter]:
        """The parameters that `reset` draws."""
        return [self.weight]


class LinearHead(Head):
    """score = w f + b."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__(width, classes)
        self.bias = nn.Parameter(torch.empty(classes))
        self.reset()

    def drawn(self) -> list[nn.Parameter]:
        return [self.weight, self.bias]

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """(b, d) to (b, classes)."""
        return nn.functional.linear(features, self.weight, self.bias)


class CosineHead(Head):
    """score = eta cos(w, f), with one learnable scale eta that starts at 1: LUCIR's."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__(width, classes)
        self.eta = nn.Parameter(torch.ones(1))
        self.reset()

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """(b, d) to (b, classes)."""
        rows = nn.functional.normalize(self.weight, dim=1)
        cosines: torch.Tensor = nn.functional.normalize(features, dim=1) @ rows.T
        return self.eta * cosines


HEADS: dict[str, type[Head]] = {"linear": LinearHead, "cosine": CosineHead}


def find_head(name: str) -> type[Head]:
    """The head of that name."""
    if name not in HEADS:
        raise TransilError(f"head '{name}' is unknown; there are: {', '.join(HEADS)}")
    return HEADS[name]

"""A method with a price on moving weights, in the manner of EWC.

transil --import examples/ewc.py train --data DATA --method ewc --recipe ft-tiny --states 3 -o runs/ewc
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from transil.methods import Context, Method, register_method
from transil.methods.losses import cross_entropy
from transil.nets import Net, Outputs


@register_method
@dataclass(frozen=True)
class Ewc(Method):
    """Fine-tuning; weights of the body that had large gradients in past states are held."""

    name = "ewc"
    summary = "fine-tuning with a price on moving weights that mattered"
    paper = "after Kirkpatrick et al., PNAS 2017"

    strength: float = 100.0

    def begin(self, net: Net, context: Context) -> None:
        for name, weight in net.body.named_parameters():
            if context.number == 1:
                context.keep(f"importance.{name}", torch.zeros_like(weight))
                context.keep(f"squares.{name}", torch.zeros_like(weight))
            context.keep(f"before.{name}", weight)

    def loss(
        self, student: Outputs, teacher: Outputs | None, labels: torch.Tensor, context: Context
    ) -> torch.Tensor:
        return cross_entropy(student.scores, labels, context.seen)

    def penalty(self, net: Net, context: Context) -> torch.Tensor:
        moved = [
            (context.kept[f"importance.{n}"] * (w - context.kept[f"before.{n}"]).square()).sum()
            for n, w in net.body.named_parameters()
        ]
        return self.strength * torch.stack(moved).sum()

    def after_step(self, net: Net, context: Context) -> None:
        for name, weight in net.body.named_parameters():
            context.kept[f"squares.{name}"].lerp_(weight.grad.square(), 0.01)

    def end(self, net: Net, context: Context) -> None:
        for name, _ in net.body.named_parameters():
            context.kept[f"importance.{name}"] += context.kept[f"squares.{name}"]

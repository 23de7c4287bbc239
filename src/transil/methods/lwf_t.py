"""LwF with softmax and temperature: what most code calls LwF."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from transil.errors import TransilError
from transil.methods.base import Context, Method
from transil.methods.losses import cross_entropy, only
from transil.nets.net import Net, Outputs


@dataclass(frozen=True)
class LwfT(Method):
    """Cross-entropy over the new classes, distillation at temperature T over the old ones.

    Its scores have another scale than those of `lwf`: a bank of one does not fit the other. T = 2
    and weight 1 are those of Li and Hoiem (Eq. 3).
    """

    name = "lwf-t"
    summary = "learning without forgetting: softmax outputs, distillation at a temperature"
    paper = "Li and Hoiem, ECCV 2016"
    teacher = True

    temperature: float = 2.0
    weight: float = 1.0

    def check(self) -> None:
        if self.temperature <= 0:
            raise TransilError(f"settings.temperature is {self.temperature}; it must be above 0")
        if self.weight < 0:
            raise TransilError(f"settings.weight is {self.weight}; it must be 0 or more")

    def begin(self, net: Net, context: Context) -> None:
        if context.number > 1:  # weight decay has worn the rows of classes not seen before
            net.head.reset(context.generator, context.new)

    def compared(self, context: Context) -> torch.Tensor:
        """The classes that new images are told apart from, (classes,) bool."""
        return context.new

    def loss(
        self, student: Outputs, teacher: Outputs | None, labels: torch.Tensor, context: Context
    ) -> torch.Tensor:
        losses = cross_entropy(student.scores, labels, self.compared(context))
        if teacher is None:
            return losses
        wanted = (only(teacher.scores, context.old) / self.temperature).softmax(1)
        found = (only(student.scores, context.old) / self.temperature).log_softmax(1)
        # Columns outside the mask have probability 0, and 0 * -inf is not a number.
        found = found.masked_fill(~context.old, 0.0)
        return losses - self.weight * (wanted * found).sum(1)

"""LUCIR without exemplars, as in src/lucir of the released code."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn import functional

from transil.errors import TransilError
from transil.methods.base import Context, Method
from transil.methods.losses import cross_entropy
from transil.nets.net import Net, Outputs


@dataclass(frozen=True)
class Lucir(Method):
    """Cosine scores, and features that stay close to those of the previous model.

    Rows of past classes are frozen, those of new classes begin at the mean feature of their
    images. No margin loss and no balanced fine-tuning: both need exemplars.
    """

    name = "lucir"
    summary = "unified classifier via rebalancing: cosine head, less-forget loss, imprinted rows"
    paper = "Hou et al., CVPR 2019"
    head = "cosine"
    last_relu = False
    teacher = True

    less_forget: float = 5.0  # lambda_base of the original; grows with sqrt(old / new classes)

    def check(self) -> None:
        if self.less_forget < 0:
            raise TransilError(f"settings.less_forget is {self.less_forget}; it must be 0 or more")

    def begin(self, net: Net, context: Context) -> None:
        ratio = context.old_classes / context.new_classes
        context.keep("less_forget", torch.tensor(self.less_forget * ratio**0.5))
        if context.number > 1:
            self._imprint(net, context)
        context.keep("rows", net.head.weight)

    def loss(
        self, student: Outputs, teacher: Outputs | None, labels: torch.Tensor, context: Context
    ) -> torch.Tensor:
        losses = cross_entropy(student.scores, labels, context.seen)
        if teacher is None:
            return losses
        apart = 1.0 - functional.cosine_similarity(student.features, teacher.features, dim=1)
        return losses + context.kept["less_forget"] * apart

    def after_step(self, net: Net, context: Context) -> None:
        # Frozen means: neither the gradient nor weight decay moves an old row.
        old = context.old[:, None]
        net.head.weight.copy_(torch.where(old, context.kept["rows"], net.head.weight))

    @staticmethod
    def _imprint(net: Net, context: Context) -> None:
        """New rows: the mean direction of the class's features, as long as old rows on average."""
        outputs, labels = context.train_outputs()
        features = functional.normalize(outputs.features, dim=1)
        weight = net.head.weight
        sums = torch.zeros_like(weight).index_add_(0, labels, features)
        length = weight[context.old].norm(dim=1).mean()
        weight.copy_(
            torch.where(context.new[:, None], length * functional.normalize(sums, dim=1), weight)
        )

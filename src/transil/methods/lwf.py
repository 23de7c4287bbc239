"""LwF as the paper uses it: iCaRL's loss without its exemplars (src/lwf of its code)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn import functional

from transil.methods.base import Context, Method
from transil.nets.net import Outputs


@dataclass(frozen=True)
class Lwf(Method):
    """Sigmoid cross-entropy of every output, old ones against the previous model's sigmoid.

    All outputs exist from the start and all are trained in every state: those of future classes
    are pushed to 0. Their mean gives each output the same weight in every state. No temperature
    and no weight between the two parts.
    """

    name = "lwf"
    summary = "learning without forgetting: sigmoid outputs, distillation on the old ones"
    paper = "Li and Hoiem, ECCV 2016, with the loss of iCaRL (Rebuffi et al., CVPR 2017)"
    last_relu = False
    teacher = True

    def loss(
        self, student: Outputs, teacher: Outputs | None, labels: torch.Tensor, context: Context
    ) -> torch.Tensor:
        targets = functional.one_hot(labels, student.scores.shape[1]).to(student.scores.dtype)
        if teacher is not None:
            targets = torch.where(context.old, teacher.scores.sigmoid(), targets)
        losses = functional.binary_cross_entropy_with_logits(
            student.scores, targets, reduction="none"
        )
        return losses.mean(1)

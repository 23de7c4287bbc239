"""Joint: all classes at once, the upper bound of every incremental method."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from transil.methods.base import Context, Method
from transil.methods.losses import cross_entropy
from transil.nets.net import Outputs


@dataclass(frozen=True)
class Joint(Method):
    """Cross-entropy over all classes in a single state.

    Neither the paper nor its code says how its Joint was trained; this is FT's first
    state on all classes.
    """

    name = "joint"
    summary = "all classes in one state, not incremental: the upper bound"
    paper = "baseline"
    one_state = True

    def loss(
        self, student: Outputs, teacher: Outputs | None, labels: torch.Tensor, context: Context
    ) -> torch.Tensor:
        return cross_entropy(student.scores, labels, context.seen)

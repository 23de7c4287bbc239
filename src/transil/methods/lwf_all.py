"""LwF with cross-entropy over all classes seen: what Avalanche and Mammoth call LwF."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from transil.methods.base import Context
from transil.methods.lwf_t import LwfT


@dataclass(frozen=True)
class LwfAll(LwfT):
    """As `lwf-t`, but the new images compete with the old classes, too.

    Each new image pushes the scores of all old classes down, which distillation alone does not
    undo: the bias towards the newest classes is the strongest of all methods here.
    """

    name = "lwf-all"
    summary = "learning without forgetting: cross-entropy over all classes seen, distillation"
    paper = "Li and Hoiem, ECCV 2016, as Avalanche and Mammoth have it"

    def compared(self, context: Context) -> torch.Tensor:
        return context.seen

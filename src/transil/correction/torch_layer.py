"""A correction as the last layer of a model, to compile, export and deploy with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from transil.correction.layers import affine

if TYPE_CHECKING:
    from transil.correction.bank import Bank


class CorrectionLayer(torch.nn.Module):
    """What a bank does in one state: scores (..., columns) to corrected ones of the same dtype.

    alpha and beta are buffers, one for each column: they move with the model and are part of its
    state dict, and no optimiser changes them. Scores are not checked.
    """

    scale: torch.Tensor
    shift: torch.Tensor

    def __init__(self, bank: Bank, state: int) -> None:
        super().__init__()
        pairs, group = bank.applied(state), bank.schedule.group_of_column(state) - 1
        self.centred = bank.correction.centred
        for name, values in (("scale", pairs.alpha), ("shift", pairs.beta)):
            self.register_buffer(name, torch.tensor(values[group], dtype=torch.float32))

    def forward(self, scores: torch.Tensor) -> torch.Tensor:
        """Corrected scores, the shape and dtype of `scores`."""
        dtype = torch.promote_types(scores.dtype, torch.float32)
        return affine(scores, self.scale.to(dtype), self.shift.to(dtype), self.centred)

    def extra_repr(self) -> str:
        return f"columns={len(self.scale)}, centred={self.centred}"

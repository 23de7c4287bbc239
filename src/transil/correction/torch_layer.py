"""A correction as the last layer of a model, to compile, export and deploy with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from transil.correction.columns import OrderLike, backwards, read_order
from transil.correction.layers import affine
from transil.errors import TransilError

if TYPE_CHECKING:
    from transil.correction.bank import Bank


class CorrectionLayer(torch.nn.Module):
    """What a bank does in one state: scores (..., columns) to corrected ones of the same dtype.

    alpha and beta are buffers, one for each column: they move with the model and are part of its
    state dict, and no optimiser changes them. They stay in float32 where the model is cast to half
    precision: its scores are corrected in float32 and rounded once. Scores are not checked.
    """

    scale: torch.Tensor
    shift: torch.Tensor

    def __init__(self, bank: Bank, state: int, order: OrderLike | None = None) -> None:
        super().__init__()
        pairs, group = bank.applied(state), bank.schedule.group_of_column(state) - 1
        if order is not None:
            group = group[backwards(read_order(order, len(group)))]
        self.centred = bank.correction.centred
        for name, values in (("scale", pairs.alpha), ("shift", pairs.beta)):
            self.register_buffer(name, torch.tensor(values[group], dtype=torch.float32))

    def forward(self, scores: torch.Tensor) -> torch.Tensor:
        """Corrected scores, the shape and dtype of `scores`."""
        if scores.shape[-1] != len(self.scale):
            raise TransilError(
                f"scores of {scores.shape[-1]} columns, but this layer corrects {len(self.scale)}"
            )
        dtype = torch.promote_types(scores.dtype, torch.float32)
        return affine(scores, self.scale.to(dtype), self.shift.to(dtype), self.centred)

    def _apply(self, fn: Any, recurse: bool = True) -> CorrectionLayer:
        """What `to`, `cuda` and `half` call: the device changes, the precision does not."""
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = buffer.to(fn(buffer.new_empty(0)).device)
        return self

    def extra_repr(self) -> str:
        return f"columns={len(self.scale)}, centred={self.centred}"

"""A correction as the last layer of a model, to compile, export and deploy with it."""

# Without `from __future__ import annotations`: TorchScript reads these as types, not as text.

import math
from typing import Any

import torch

from transil.errors import TransilError


def affine(
    scores: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor, centred: bool
) -> torch.Tensor:
    """`correct_groups` of tensors, with alpha and beta of each column: `scale`, `shift` (columns,).

    Written so that TorchScript and both exporters to ONNX understand it.
    """
    corrected = scores * scale + shift
    if centred:
        finite = torch.isfinite(scores)
        total = torch.where(finite, scores, 0.0).sum(-1, keepdim=True, dtype=scale.dtype)
        mean = total / finite.sum(-1, keepdim=True).clamp(min=1)
        corrected = corrected + mean * (1.0 - scale)
    return torch.where(scores == -math.inf, scores, corrected).to(scores.dtype)


class CorrectionLayer(torch.nn.Module):
    """What is done to the scores of one state: (..., columns) to corrected ones of the same dtype.

    alpha and beta of each column, `scale` and `shift` (columns,), are buffers: they move with the
    model and are part of its state dict, and no optimiser changes them. They stay in float32 where the
    model is cast to half precision: its scores are corrected in float32 and rounded once. Of scores
    only the number of columns is checked. A state dict also says whether the correction is centred,
    and is refused by a layer that is otherwise.
    """

    scale: torch.Tensor
    shift: torch.Tensor

    def __init__(self, scale: Any, shift: Any, centred: bool) -> None:
        super().__init__()
        self.centred = centred
        for name, values in (("scale", scale), ("shift", shift)):
            self.register_buffer(name, torch.tensor(values, dtype=torch.float32))

    def forward(self, scores: torch.Tensor) -> torch.Tensor:
        """Corrected scores, the shape and dtype of `scores`."""
        columns = self.scale.shape[0]
        if scores.shape[-1] != columns:
            raise TransilError(
                f"scores of {scores.shape[-1]} columns, but this layer corrects {columns}"
            )
        dtype = torch.promote_types(scores.dtype, torch.float32)
        return affine(scores, self.scale.to(dtype), self.shift.to(dtype), self.centred)

    def _apply(self, fn: Any, recurse: bool = True) -> "CorrectionLayer":
        """What `to`, `cuda` and `half` call: the device changes, the precision does not."""
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = buffer.to(fn(buffer.new_empty(0)).device)
        return self

    def get_extra_state(self) -> torch.Tensor:
        """For the state dict: whether it is centred, as a tensor, which every format can hold."""
        return torch.tensor(self.centred)

    def set_extra_state(self, state: torch.Tensor) -> None:
        """Refuse the state dict of another kind of correction."""
        if bool(state) != self.centred:
            theirs, ours = ("centred" if x else "not centred" for x in (bool(state), self.centred))
            raise TransilError(
                f"this state dict is of a correction that is {theirs}, and the layer is {ours}; make "
                "the layer from the bank that the state dict came from"
            )

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        """State dicts of earlier versions do not say it: they are taken as they are."""
        state_dict.setdefault(f"{prefix}_extra_state", self.get_extra_state())
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def extra_repr(self) -> str:
        return f"columns={len(self.scale)}, centred={self.centred}"


class Normalise(torch.nn.Module):
    """Features (..., d) at length 1: what a cosine head does before its rows, as a layer of its own."""

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """(..., d)."""
        return torch.nn.functional.normalize(features, dim=-1)

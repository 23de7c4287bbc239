"""Batch normalisation with what follows it: modules one by one, or all in one kernel on a GPU."""

from __future__ import annotations

import torch
from torch import nn


def normalised(
    norm: nn.Module, x: torch.Tensor, add: torch.Tensor | None = None, *, relu: bool = True
) -> torch.Tensor:
    """ReLU(norm(x) + add); all are (b, c, h, w)."""
    return normalised_twice(norm, x, add, relu=relu)[0]


def normalised_twice(
    norm: nn.Module, x: torch.Tensor, add: torch.Tensor | None = None, *, relu: bool = True
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same tensor two times, to be used in two places: kernels can add up its gradients then."""
    if getattr(norm, "fused", False) and _suits(norm, x, add):
        from transil.kernels.norm import normalise

        assert isinstance(norm, nn.BatchNorm2d)
        return normalise(norm, x, add, relu=relu)
    y: torch.Tensor = norm(x)
    if add is not None:
        y = y.add_(add)
    if relu:
        y = torch.relu_(y)
    return y, y


def fuse(net: nn.Module) -> None:
    """Let batch normalisation use the kernel, in training and in frozen networks.

    Rounding apart, nothing changes.
    """
    for module in net.modules():
        if type(module) is nn.BatchNorm2d:
            usual = module.affine and module.track_running_stats and module.momentum is not None
            module.fused = usual  # type: ignore[assignment]


def _suits(norm: nn.Module, x: torch.Tensor, add: torch.Tensor | None) -> bool:
    """Whether the kernels can do it: maps in channels_last format, on a GPU."""
    maps = [x] if add is None else [x, add]
    if not norm.training:
        # Scores are made by the modules; and so are gradients through fixed statistics.
        learns = torch.is_grad_enabled() and any(t.requires_grad for t in maps)
        if learns or norm.weight.requires_grad:
            return False
    return x.numel() < 2**31 and all(
        t.is_cuda
        and (t.dtype, t.shape) == (x.dtype, x.shape)
        and t.is_contiguous(memory_format=torch.channels_last)
        for t in maps
    )

"""A step of SGD with momentum that reads half-precision gradients and writes half-precision copies."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

BLOCK = 1024


@triton.jit  # type: ignore[untyped-decorator]
def _sgd(  # type: ignore[no-untyped-def]
    weight, copy, gradient, buffer, rate, count, momentum, decay, BLOCK: tl.constexpr
):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mine = at < count
    old = tl.load(weight + at, mask=mine)
    speed = tl.load(gradient + at, mask=mine).to(tl.float32) + decay * old
    speed += momentum * tl.load(buffer + at, mask=mine)
    new = old - tl.load(rate) * speed
    tl.store(buffer + at, speed, mask=mine)
    tl.store(weight + at, new, mask=mine)
    tl.store(copy + at, new.to(copy.dtype.element_ty), mask=mine)


def sgd(
    weight: torch.Tensor,
    copy: torch.Tensor,
    gradient: torch.Tensor,
    buffer: torch.Tensor,
    rate: torch.Tensor,
    *,
    momentum: float,
    decay: float,
) -> None:
    """What `torch.optim.SGD` does to `weight` and its momentum `buffer`, in place; `copy` follows.

    All four have the same shape and order in memory; `rate` is one number, on the device.
    """
    if gradient.stride() != weight.stride():
        gradient = torch.empty_like(copy).copy_(gradient)
    count = weight.numel()
    with torch.cuda.device_of(weight):  # type: ignore[no-untyped-call]
        _sgd[(triton.cdiv(count, BLOCK),)](
            weight, copy, gradient, buffer, rate, count, momentum, decay, BLOCK
        )

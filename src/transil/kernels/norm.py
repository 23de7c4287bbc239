"""Batch normalisation, a sum and ReLU in one go on a GPU: Triton kernels.

On small images batch normalisation, ReLU and residual sums take as long as the convolutions between
them: all they do is read and write memory. Here each activation is read as few times as possible:
once for its moments and once to be normalised, summed and cut off; on the way back likewise.

Maps (b, c, h, w) in channels_last format are seen as a matrix of `rows` b * h * w and c `channels`.
A program takes a tile of 64 channels and some rows. Sums over rows come as `parts`, one from each
program, which the next kernel adds up in a fixed order: no atomics, the same result each time.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import nn
from torch.autograd.function import once_differentiable

# Rows and channels of a tile, parts that are added up at a time, programs of a kernel (about), warps.
# Chosen of seven by LwF steps on an H200, 2 s each: the most images/s for two runs at once. The best
# three are within 2 %, which so short a measurement cannot tell apart (`benchmarks/kernels.py --tiles`).
ROWS, CHANNELS, PARTS, PROGRAMS, WARPS = 128, 64, 64, 264, 4


@triton.jit  # type: ignore[untyped-decorator]
def _tile(start, rows, channels, c, mine, BM: tl.constexpr):  # type: ignore[no-untyped-def]
    """Where the BM rows from `start` on are, in the channels `c`, and which of them there are."""
    r = start + tl.arange(0, BM)
    inside = (r < rows)[:, None] & mine[None, :]
    return r[:, None] * channels + c[None, :], inside


@triton.jit
def _layer(kept, weight, bias, channels, c, mine):  # type: ignore[no-untyped-def]
    """Mean, 1 / deviation, scale and offset: the layer gives (x - mean) * scale + offset."""
    mean = tl.load(kept + c, mask=mine, other=0.0)
    rstd = tl.load(kept + channels + c, mask=mine, other=0.0)
    scale = rstd * tl.load(weight + c, mask=mine, other=0.0)
    return mean, rstd, scale, tl.load(bias + c, mask=mine, other=0.0)


@triton.jit  # type: ignore[untyped-decorator]
def _fewer(tile, BM: tl.constexpr, BC: tl.constexpr, OWN: tl.constexpr):  # type: ignore[no-untyped-def]
    """Sums over the OWN rows of a tile that a thread has itself, to need fewer registers."""
    return tl.sum(tl.reshape(tile, [OWN, BM // OWN, BC]), 0)


@triton.jit  # type: ignore[untyped-decorator]
def _moments(  # type: ignore[no-untyped-def]
    x, parts, rows, channels, per, BM: tl.constexpr, BC: tl.constexpr, OWN: tl.constexpr
):
    """Sums of x - x[0] and of its square, over `per` rows."""
    part = tl.program_id(0)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    mine = c < channels
    # Apart from some value of the channel: squares of large means would cancel.
    shift = tl.load(x + c, mask=mine, other=0.0).to(tl.float32)
    total = tl.zeros([BM // OWN, BC], tl.float32)
    square = tl.zeros([BM // OWN, BC], tl.float32)
    for start in range(part * per, part * per + per, BM):
        at, inside = _tile(start, rows, channels, c, mine, BM)
        value = tl.load(x + at, mask=inside, other=0.0).to(tl.float32) - shift[None, :]
        value = tl.where(inside, value, 0.0)
        total += _fewer(value, BM, BC, OWN)
        square += _fewer(value * value, BM, BC, OWN)
    out = parts + part * 2 * channels + c
    tl.store(out, tl.sum(total, 0), mask=mine)
    tl.store(out + channels, tl.sum(square, 0), mask=mine)


@triton.jit  # type: ignore[untyped-decorator]
def _added_up(parts, number, channels, c, mine, BP: tl.constexpr, BC: tl.constexpr):  # type: ignore[no-untyped-def]
    """Both sums over all parts, (BC,) each."""
    first = tl.zeros([BP, BC], tl.float32)
    second = tl.zeros([BP, BC], tl.float32)
    for start in range(0, number, BP):
        p = start + tl.arange(0, BP)
        inside = (p < number)[:, None] & mine[None, :]
        at = parts + p[:, None] * 2 * channels + c[None, :]
        first += tl.load(at, mask=inside, other=0.0)
        second += tl.load(at + channels, mask=inside, other=0.0)
    return tl.sum(first, 0), tl.sum(second, 0)


@triton.jit  # type: ignore[untyped-decorator]
def _normalised(  # type: ignore[no-untyped-def]
    x, add, y, parts, number, weight, bias, running_mean, running_var, batches, kept,
    rows, channels, per, momentum, eps,
    TRAIN: tl.constexpr, ADD: tl.constexpr, RELU: tl.constexpr,
    BM: tl.constexpr, BC: tl.constexpr, BP: tl.constexpr,
):  # fmt: skip
    """y = ReLU((x - mean) * scale + offset + add); `kept` gets mean and 1 / deviation of the batch."""
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    mine = c < channels
    if TRAIN:
        shift = tl.load(x + c, mask=mine, other=0.0).to(tl.float32)
        total, square = _added_up(parts, number, channels, c, mine, BP, BC)
        apart = total / rows
        var = square / rows - apart * apart
        var = tl.where(var < 0.0, 0.0, var)
        mean = shift + apart
        rstd = tl.rsqrt(var + eps)
        if tl.program_id(0) == 0:
            tl.store(kept + c, mean, mask=mine)
            tl.store(kept + channels + c, rstd, mask=mine)
            old = tl.load(running_mean + c, mask=mine, other=0.0)
            tl.store(running_mean + c, old + momentum * (mean - old), mask=mine)
            old = tl.load(running_var + c, mask=mine, other=0.0)
            unbiased = var * (rows / (rows - 1.0))
            tl.store(running_var + c, old + momentum * (unbiased - old), mask=mine)
            if tl.program_id(1) == 0:
                tl.store(batches, tl.load(batches) + 1)
    else:
        mean = tl.load(running_mean + c, mask=mine, other=0.0)
        rstd = tl.rsqrt(tl.load(running_var + c, mask=mine, other=1.0) + eps)
    scale = rstd * tl.load(weight + c, mask=mine, other=0.0)
    offset = tl.load(bias + c, mask=mine, other=0.0)
    first = tl.program_id(0) * per
    for start in range(first, first + per, BM):
        at, inside = _tile(start, rows, channels, c, mine, BM)
        value = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
        value = (value - mean[None, :]) * scale[None, :] + offset[None, :]
        if ADD:
            value += tl.load(add + at, mask=inside, other=0.0).to(tl.float32)
        if RELU:
            # A NaN stays one. A choice by tl.where would do, too, in twice as many instructions.
            value = tl.maximum(value, 0.0, propagate_nan=tl.PropagateNan.ALL)
        tl.store(y + at, value.to(y.dtype.element_ty), mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def _gradient_sums(  # type: ignore[no-untyped-def]
    dy, more, x, y, g, parts, weight, bias, kept, rows, channels, per,
    MORE: tl.constexpr, ADD: tl.constexpr, RELU: tl.constexpr, KEEP: tl.constexpr,
    BM: tl.constexpr, BC: tl.constexpr, OWN: tl.constexpr,
):  # fmt: skip
    """Sums of g and of g * (x - mean) / deviation, where g is dy + more before ReLU; KEEP writes it."""
    part = tl.program_id(0)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    mine = c < channels
    mean, rstd, scale, offset = _layer(kept, weight, bias, channels, c, mine)
    first = tl.zeros([BM // OWN, BC], tl.float32)
    second = tl.zeros([BM // OWN, BC], tl.float32)
    for start in range(part * per, part * per + per, BM):
        at, inside = _tile(start, rows, channels, c, mine, BM)
        grad = tl.load(dy + at, mask=inside, other=0.0).to(tl.float32)
        value = tl.load(x + at, mask=inside, other=0.0).to(tl.float32) - mean[None, :]
        if MORE:
            grad += tl.load(more + at, mask=inside, other=0.0).to(tl.float32)
        if RELU:
            if ADD:
                dead = tl.load(y + at, mask=inside, other=0.0) <= 0
            else:
                dead = value * scale[None, :] + offset[None, :] <= 0
            grad = tl.where(dead, 0.0, grad)
        if KEEP:
            tl.store(g + at, grad.to(g.dtype.element_ty), mask=inside)
        first += _fewer(grad, BM, BC, OWN)
        second += _fewer(grad * value, BM, BC, OWN)
    out = parts + part * 2 * channels + c
    tl.store(out, tl.sum(first, 0), mask=mine)
    tl.store(out + channels, tl.sum(second, 0) * rstd, mask=mine)


@triton.jit  # type: ignore[untyped-decorator]
def _gradient(  # type: ignore[no-untyped-def]
    g, x, dx, parts, number, weight, bias, kept, dweight, dbias, rows, channels, per,
    RELU: tl.constexpr, BM: tl.constexpr, BC: tl.constexpr, BP: tl.constexpr,
):  # fmt: skip
    """dx, and the gradients of weight and bias, which are the two sums."""
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    mine = c < channels
    first, second = _added_up(parts, number, channels, c, mine, BP, BC)
    if tl.program_id(0) == 0:
        tl.store(dbias + c, first, mask=mine)
        tl.store(dweight + c, second, mask=mine)
    mean, rstd, scale, offset = _layer(kept, weight, bias, channels, c, mine)
    # dx = scale * (g - first / rows - (x - mean) * rstd * second / rows)
    slope = rstd * second / rows
    level = first / rows
    begin = tl.program_id(0) * per
    for start in range(begin, begin + per, BM):
        at, inside = _tile(start, rows, channels, c, mine, BM)
        grad = tl.load(g + at, mask=inside, other=0.0).to(tl.float32)
        value = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
        if RELU:
            dead = (value - mean[None, :]) * scale[None, :] + offset[None, :] <= 0
            grad = tl.where(dead, 0.0, grad)
        made = scale[None, :] * (grad - level[None, :] - (value - mean[None, :]) * slope[None, :])
        tl.store(dx + at, made.to(dx.dtype.element_ty), mask=inside)


def normalise(
    norm: nn.BatchNorm2d, x: torch.Tensor, add: torch.Tensor | None = None, *, relu: bool = True
) -> tuple[torch.Tensor, torch.Tensor]:
    """ReLU(norm(x) + add), (b, c, h, w) all, as the modules would compute it; twice the same tensor.

    Where a result is used in two places, one each: a kernel that reads its gradients adds them up.
    """
    if norm.training:
        made: tuple[torch.Tensor, torch.Tensor] = _Normalise.apply(  # type: ignore[no-untyped-call]
            x, add, norm.weight, norm.bias, norm, relu
        )
        return made
    y = _forward(x, add, norm, relu)[0]
    return y, y


class _Normalise(torch.autograd.Function):
    """The training mode, with statistics of the batch."""

    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        add: torch.Tensor | None,
        weight: torch.Tensor,
        bias: torch.Tensor,
        norm: nn.BatchNorm2d,
        relu: bool,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        y, kept = _forward(x, add, norm, relu)
        ctx.added, ctx.relu = add is not None, relu
        ctx.save_for_backward(x, y if ctx.added and relu else None, weight, bias, kept)
        ctx.set_materialize_grads(False)
        return y, y.view_as(y)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> Any:
        x, y, weight, bias, kept = ctx.saved_tensors
        last = torch.channels_last
        dy, *more = [g.contiguous(memory_format=last) for g in gradients if g is not None]
        keep = bool(more) or (ctx.added and ctx.relu)
        g = torch.empty_like(x) if keep else dy
        dx, dweight, dbias = (torch.empty_like(t) for t in (x, weight, bias))
        with torch.cuda.device_of(x):  # type: ignore[no-untyped-call]
            grid, sizes, block, own, parts = _tiles(x)
            _gradient_sums[grid](
                dy, more[0] if more else None, x, y, g, parts, weight, bias, kept, *sizes,
                bool(more), ctx.added, ctx.relu, keep, OWN=own, **block,
            )  # fmt: skip
            _gradient[grid](
                g, x, dx, parts, len(parts), weight, bias, kept, dweight, dbias, *sizes,
                ctx.relu and not keep, BP=PARTS, **block,
            )  # fmt: skip
        return dx, g if ctx.added else None, dweight, dbias, None, None


def _forward(
    x: torch.Tensor, add: torch.Tensor | None, norm: nn.BatchNorm2d, relu: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """y, and mean and 1 / deviation of the batch (2, c) in training mode."""
    y = torch.empty_like(x)
    kept = torch.empty((2, x.shape[1]), dtype=torch.float32, device=x.device)
    with torch.cuda.device_of(x):  # type: ignore[no-untyped-call]
        grid, sizes, block, own, parts = _tiles(x)
        if norm.training:
            _moments[grid](x, parts, *sizes, OWN=own, **block)
        _normalised[grid](
            x, add, y, parts, len(parts), norm.weight, norm.bias, norm.running_mean,
            norm.running_var, norm.num_batches_tracked, kept, *sizes, norm.momentum, norm.eps,
            norm.training, add is not None, relu, BP=PARTS, **block,
        )  # fmt: skip
    return y, kept


def _tiles(
    x: torch.Tensor,
) -> tuple[tuple[int, int], tuple[int, int, int], dict[str, int], int, torch.Tensor]:
    """The grid of a kernel, (rows, channels, rows of a program), its tile, how many rows of it a
    thread has, and room for sums.
    """
    channels = x.shape[1]
    rows = x.numel() // channels
    wide = min(CHANNELS, triton.next_power_of_2(channels))
    across = triton.cdiv(channels, wide)
    per = triton.cdiv(rows * across, PROGRAMS * ROWS) * ROWS
    down = triton.cdiv(rows, per)
    parts = torch.empty((down, 2, channels), dtype=torch.float32, device=x.device)
    block = {"BM": ROWS, "BC": wide, "num_warps": WARPS}
    own = max(1, ROWS * wide // (WARPS * 32 * 8))  # a thread has 8 channels of each
    return (down, across), (rows, channels, per), block, own, parts

"""alpha_k * o + beta_k on arrays and tensors: Eq. 2 for any pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike

from transil._common.arrays import FloatArray, Scores, is_torch
from transil.errors import TransilError
from transil.schedule import Schedule

if TYPE_CHECKING:
    import torch

# Rows are corrected in blocks of about this many values, so that a block stays in the cache and
# a memory map larger than memory can pass through.
BLOCK = 1 << 17


def correct_groups(
    scores: Scores,
    alpha: ArrayLike | torch.Tensor,
    beta: ArrayLike | torch.Tensor,
    schedule: Schedule,
    state: int,
    out: FloatArray | None = None,
    *,
    centred: bool = False,
) -> Scores:
    """alpha_k * o + beta_k on the columns of each group k: Eq. 2 for any pairs.

    `scores` (..., columns); `alpha`, `beta` one value per group, shape (state,). Half-precision
    scores are corrected in float32 and rounded once. `out` (NumPy only) receives the result.
    `centred`: alpha_k multiplies the distance of o from the mean of its row. A class masked by minus
    infinity stays so, whatever the sign of its alpha.
    """
    schedule.check_columns(scores.shape[-1], state)
    column_group = schedule.group_of_column(state) - 1
    if is_torch(scores):
        import torch

        index = torch.as_tensor(column_group, device=scores.device)
        dtype = torch.promote_types(scores.dtype, torch.float32)
        by_column = [
            torch.as_tensor(v, dtype=dtype, device=scores.device)[index] for v in (alpha, beta)
        ]
        made = correct_columns(scores, by_column[0], by_column[1], centred=centred)
        return cast(Scores, made)
    scale, shift = (np.asarray(v)[column_group] for v in (alpha, beta))
    return correct_columns(scores, scale, shift, out, centred=centred)


def correct_columns(
    scores: Scores,
    scale: Any,
    shift: Any,
    out: FloatArray | None = None,
    *,
    centred: bool = False,
) -> Scores:
    """As `correct_groups`, with alpha and beta of each column: `scale`, `shift` (columns,)."""
    if is_torch(scores):
        import torch

        from transil.correction.torch_layer import affine

        dtype = torch.promote_types(scores.dtype, torch.float32)
        there = [torch.as_tensor(v, dtype=dtype, device=scores.device) for v in (scale, shift)]
        return cast(Scores, affine(scores, there[0], there[1], centred))
    array = cast(FloatArray, scores)
    work = np.promote_types(array.dtype, np.float32)
    # What overflows becomes infinite, which those who look at the result tell.
    with np.errstate(over="ignore", invalid="ignore"):
        kept = [np.asarray(v, dtype=work) for v in (scale, shift)]
        return cast(Scores, _affine_in_blocks(array, kept[0], kept[1], out, centred))


def _affine_in_blocks(
    scores: FloatArray,
    scale: FloatArray,
    shift: FloatArray,
    out: FloatArray | None,
    centred: bool,
) -> FloatArray:
    if out is None:
        out = np.empty(scores.shape, dtype=scores.dtype)
    columns = scores.shape[-1]
    flat_in, flat_out = scores.reshape(-1, columns), out.reshape(-1, columns)
    if out.size and not np.shares_memory(flat_out, out):
        raise TransilError("out: its rows do not lie one after the other; give a contiguous array")
    rows = max(1, BLOCK // columns)
    buffer = np.empty((min(rows, len(flat_in)), columns), dtype=scale.dtype)
    turned = bool((scale <= 0).any())  # minus infinity would become plus infinity, or no number
    for start in range(0, len(flat_in), rows):
        block = flat_in[start : start + rows]
        target = flat_out[start : start + rows]
        work = target if target.dtype == scale.dtype else buffer[: len(block)]
        mean = _row_means(block, scale.dtype) if centred else None
        masked = np.isneginf(block) if turned else None
        np.multiply(block, scale, out=work)
        np.add(work, shift, out=work)
        if mean is not None:
            work += mean * (1.0 - scale)
        if masked is not None:
            work[masked] = -np.inf
        if work is not target:
            target[...] = work
    return out


def _row_means(scores: FloatArray, dtype: Any) -> FloatArray:
    """Of finite scores, shape (n, 1): a class may be masked by minus infinity."""
    mean: FloatArray = scores.mean(axis=1, keepdims=True, dtype=dtype)
    if not np.isfinite(mean).all():
        finite = np.isfinite(scores)
        total = np.where(finite, scores, 0.0).sum(axis=1, keepdims=True, dtype=np.float64)
        mean = (total / np.maximum(finite.sum(axis=1, keepdims=True), 1)).astype(dtype)
    return mean

"""NumPy arrays and torch tensors under one roof, without importing torch for the former."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard, TypeVar

import numpy as np
from numpy.typing import NDArray

from transil.errors import TransilError, reason

if TYPE_CHECKING:
    import torch

FloatArray: TypeAlias = NDArray[np.floating[Any]]
Float64Array: TypeAlias = NDArray[np.float64]

# A function over `Scores` gives back the kind it was given.
Scores = TypeVar("Scores", bound="FloatArray | torch.Tensor")

# So many rows tell whether scores are probabilities; from `SURE_ROWS` on even where they were rounded.
KIND_ROWS, SURE_ROWS = 64, 16
BLOCK = 1 << 18  # values that are looked at together


def is_torch(x: object) -> TypeGuard[torch.Tensor]:
    """Whether `x` is a torch tensor; never imports torch to find out."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def check_scores(scores: object, where: str = "scores") -> None:
    """An error where `scores` is not a floating array or tensor with at least one dimension."""
    if is_torch(scores):
        check_plain(scores, where)
        floating, shape = scores.is_floating_point(), tuple(scores.shape)
    elif isinstance(scores, np.ndarray):
        floating, shape = np.issubdtype(scores.dtype, np.floating), scores.shape
    else:
        raise TransilError(
            f"{where}: expected a NumPy array, a torch tensor or a DataFrame, not "
            f"{type(scores).__name__}"
        )
    refuse_masks(scores, where)
    if not floating:
        raise TransilError(f"{where}: expected floating-point scores, not {scores.dtype}")
    if not shape:
        raise TransilError(f"{where}: expected one column per class, but this is a single number")


def check_plain(x: torch.Tensor, where: str) -> None:
    """An error for tensors that are no plain table of numbers, such as sparse and nested ones."""
    import torch

    kinds = {
        "nested": x.is_nested,
        "sparse": x.layout != torch.strided,
        "quantized": x.is_quantized,
        "eight-bit": x.dtype.itemsize == 1 and x.is_floating_point(),
    }
    for kind, is_so in kinds.items():
        if is_so:
            raise TransilError(f"{where}: a {kind} tensor; give plain floating-point numbers")


def refuse_masks(scores: object, where: str = "scores") -> None:
    """An error for masked arrays of NumPy, whose masks would get lost on the way."""
    if isinstance(scores, np.ma.MaskedArray) and np.ma.is_masked(scores):
        raise TransilError(f"{where}: a masked array; fill it, scores with .filled(-numpy.inf)")


def check_finite(scores: FloatArray, where: str, first_row: int = 0) -> None:
    """An error that names the first NaN or infinite score of a (rows, columns) array.

    Block by block, and as fast as they can be added up.
    """
    rows = max(1, BLOCK // max(1, scores.shape[1]))
    for start in range(0, len(scores), rows):
        block = scores[start : start + rows]
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(block.sum()):
                continue
        bad = np.argwhere(~np.isfinite(block))
        if len(bad):
            row, column = (int(i) for i in bad[0])
            raise TransilError(
                f"{where}: score {float(block[row, column])} in row {first_row + start + row}, column "
                f"{column} (counted from 0); remove or repair that row: NaN and infinity are no scores"
            )


def probabilities(scores: FloatArray | torch.Tensor) -> str | None:
    """'probabilities', 'log-probabilities' or 'scores less ...' where rows (n, columns) surely are such.

    Two columns, or rows of nothing but 0 and 1, may be anything. One row of raw scores may add up
    to about 1 by chance, many do not: of many, rounded ones are recognised, too, those in per cent
    ('probabilities times 100'), and outputs of sigmoids.
    """
    some = scores[:KIND_ROWS]
    rows = np.asarray(some.detach().double() if is_torch(some) else some, dtype=np.float64)
    if rows.shape[0] == 0 or rows.shape[1] < 3 or not np.isfinite(rows).all():
        return None
    # Half precision adds up to 1 only roughly.
    near = 1e-2 if scores.dtype.itemsize <= 2 else 1e-4
    with np.errstate(over="ignore", invalid="ignore"):  # huge scores are surely raw ones
        return _kind_of(rows, near)


def _kind_of(rows: Float64Array, near: float) -> str | None:
    many = len(rows) >= SURE_ROWS
    off, share = _rounding(rows) if many else (0.0, 0.0)
    powers = np.exp(rows)
    sums = {"probabilities": rows.sum(axis=1), "log-probabilities": powers.sum(axis=1)}
    signs = {"probabilities": rows.min() >= 0 and bool(((rows > 0) & (rows < 1)).any()),
             "log-probabilities": rows.max() <= 0}  # fmt: skip
    # What rounding does to the sums: errors of probabilities add up, those of logarithms are shares
    # of what they stand for.
    wrong = 0.0
    if signs["log-probabilities"]:
        wrong = np.expm1(1.1 * off) + 2.0 * share * float((powers * -rows).sum(axis=1).max())
    within = {"probabilities": max(near, min(0.3, off * rows.shape[1] + 2.0 * share)),
              "log-probabilities": max(near, min(0.06, wrong))}  # fmt: skip
    for kind, one in sums.items():
        if signs[kind] and np.abs(one - 1.0).max() < within[kind]:
            return kind
    if many and rows.min() >= 0 and (total := _common_sum(rows, near, off, share)):
        return f"probabilities times {total:.3g}"
    # Cosines may lie there, too, but most are not near 0 while some are near 1.
    if many and signs["probabilities"] and np.median(rows) < 0.1 and 0.9 < rows.max() <= 1:
        return "probabilities of each class by itself, as a sigmoid gives them"
    if many and (rows.max(axis=1) == 0).all() and rows.any():  # a softmax on its way
        return "scores less the highest of their row"
    return None


def _common_sum(rows: Float64Array, near: float, off: float, share: float) -> float | None:
    """What all rows (n, columns) of numbers from 0 add up to, where that is no accident.

    It may be one where rows are alike, or where all but one number of each is 0. And it is nothing
    where numbers hardly differ: sums then do not, either. So they must differ less than those of
    independent numbers would.
    """
    sums = rows.sum(axis=1)
    total = float(np.median(sums))
    if total <= 0 or (rows == rows[0]).all() or not ((rows > 0) & (rows < 0.9 * total)).any():
        return None
    # Errors of rounding mostly cancel each other.
    rounded = 4.0 * off * math.sqrt(rows.shape[1]) / total
    within = total * max(0.1 * near, min(0.05, rounded + 2.0 * share))
    within = min(within, 0.2 * float(rows.std()) * math.sqrt(rows.shape[1]))
    return total if np.abs(sums - total).max() < within else None


def _rounding(rows: Float64Array) -> tuple[float, float]:
    """By how much values were rounded, absolutely and as a share of them.

    To 1 to 4 decimals, or to the bits of bfloat16; otherwise 0.
    """
    for decimals in range(1, 5):
        unit = 10.0**-decimals
        if np.abs(rows - rows.round(decimals)).max() < 0.05 * unit:
            return unit / 2, 0.0
    bits = rows.astype(np.float32).view(np.uint32)
    return (0.0, 0.0) if (bits & 0xFFFF).any() else (0.0, 2.0**-9)


def check_raw(
    scores: FloatArray | torch.Tensor, where: str, why: str, centred: bool = False
) -> None:
    """An error where rows (n, columns) are probabilities, or, unless `centred`, shifted row by row.

    A common shift of a row, all that the logarithm of a softmax adds, does not matter to what is
    centred. `why` says what raw scores are needed for.
    """
    found = probabilities(scores)
    if found is None or (centred and not found.startswith("probabilities")):
        return
    raise TransilError(
        f"{where}: these are {found}, and {why}; give it the scores before softmax or sigmoid"
    )


def readable(scores: FloatArray | torch.Tensor) -> bool:
    """Whether values can be looked at: not on a GPU, which would stall, nor while torch traces."""
    if not is_torch(scores):
        return True
    import torch

    if torch.compiler.is_compiling():
        return False
    # Within torch.func.grad or vmap a tensor has no values of its own.
    return scores.device.type == "cpu" and not torch._C._functorch.is_functorch_wrapped_tensor(
        scores
    )


def has_masks(scores: FloatArray | torch.Tensor) -> bool:
    """Whether some score is minus infinity, which masks a class."""
    values = scores.detach() if is_torch(scores) else scores
    return math.prod(values.shape) > 0 and float(values.min()) == -math.inf


def array_or_tensor(x: Any, where: str) -> Any:
    """A plain tensor as it is, wherever it lies; anything else as an array."""
    if is_torch(x):
        check_plain(x, where)
        return x
    return to_numpy(x, where)


def to_numpy(x: Any, where: str = "array") -> NDArray[Any]:
    """An array on the CPU from a NumPy array, a torch tensor or nested lists."""
    if not is_torch(x):
        refuse_masks(x, where)
        try:
            array = np.asarray(x)
        except Exception as error:  # whatever the conversion of somebody's object raises
            raise TransilError(f"{where}: not an array of numbers ({reason(error)})") from None
        # Files of other machines may hold their bytes in the other order.
        return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
    check_plain(x, where)
    try:
        x = x.detach().cpu().resolve_conj().resolve_neg()
        # NumPy has no bfloat16.
        tensor: NDArray[Any] = (x.float() if str(x.dtype) == "torch.bfloat16" else x).numpy()
    except (TypeError, RuntimeError):
        raise TransilError(
            f"{where}: a tensor of kind {x.dtype} on {x.device} cannot be used; "
            "give plain floating-point numbers"
        ) from None
    return tensor

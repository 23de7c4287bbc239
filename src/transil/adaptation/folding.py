"""A correction inside a linear or cosine head: it is affine, so the corrected model needs no new layer.

    W_c <- alpha_c W_c,    b_c <- alpha_c b_c + beta_c + shift_c

In the centred form alpha multiplies the distance from the mean over columns, which is linear itself:
(1 - alpha_c) times the mean of rows (and of biases) is added.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from transil._common.arrays import Float64Array, is_torch, to_numpy
from transil.adaptation.columns import Columns
from transil.errors import TransilError


def folded(
    columns: Columns, weight: Float64Array, bias: Float64Array
) -> tuple[Float64Array, Float64Array]:
    """Weights (rows, d) and biases (rows,) of the corrected head.

    Rows of classes that are not seen yet stay as they are.
    """
    seen, scale = len(columns.scale), columns.scale[:, None]
    new_weight, new_bias = weight.copy(), bias.copy()
    new_weight[:seen] *= scale
    new_bias[:seen] = columns.scale * bias[:seen] + columns.shift
    if columns.centred:
        new_weight[:seen] += (1.0 - scale) * weight[:seen].mean(axis=0)
        new_bias[:seen] += (1.0 - columns.scale) * bias[:seen].mean()
    return new_weight, new_bias


def fold(columns: Columns, head: Any, bias: Any = None) -> Any:
    """The corrected head, of the kind that was given: a module of torch, or (weight, bias)."""
    from_torch = _is_module(head)
    if from_torch:
        if bias is not None:
            raise TransilError("fold: give a head, or weights with a bias; the head has its own")
        return _folded_module(columns, head)
    weight = _numbers(head, "weight", len(columns.scale), 2)
    kept = np.zeros(len(weight)) if bias is None else _numbers(bias, "bias", len(columns.scale), 1)
    made = folded(columns, weight, kept)
    if is_torch(head):
        import torch

        return tuple(torch.as_tensor(x, dtype=head.dtype, device=head.device) for x in made)
    dtype = np.asarray(head).dtype
    return tuple(x.astype(dtype) if dtype.kind == "f" else x for x in made)


def _is_module(head: Any) -> bool:
    import sys

    torch = sys.modules.get("torch")
    return torch is not None and isinstance(head, torch.nn.Module)


def _folded_module(columns: Columns, head: Any) -> Any:
    """A linear layer for a linear head; for a cosine head features are normalised before it."""
    import torch

    from transil.correction.torch_layer import Normalise

    weight = _numbers(getattr(head, "weight", None), "weight of the head", len(columns.scale), 2)
    given = head.weight
    names = ("eta", "sigma")
    cosine = not isinstance(head, torch.nn.Linear) and any(hasattr(head, name) for name in names)
    if cosine:
        eta = head.eta if hasattr(head, "eta") else getattr(head, "sigma", None)
        factor = 1.0 if eta is None else float(to_numpy(eta).reshape(-1)[0])
        weight = factor * weight / np.maximum(np.linalg.norm(weight, axis=1, keepdims=True), 1e-12)
    own = getattr(head, "bias", None)
    bias = (
        np.zeros(len(weight)) if own is None else _numbers(own, "bias of the head", len(weight), 1)
    )
    made_weight, made_bias = folded(columns, weight, bias)
    layer = torch.nn.Linear(weight.shape[1], len(weight), device=given.device, dtype=given.dtype)
    with torch.no_grad():
        layer.weight.copy_(torch.as_tensor(made_weight))
        layer.bias.copy_(torch.as_tensor(made_bias))
    return torch.nn.Sequential(Normalise(), layer) if cosine else layer


def _numbers(given: Any, what: str, columns: int, dimensions: int) -> Float64Array:
    if given is None:
        raise TransilError(
            f"fold: there is no {what}; give a linear or cosine head, or its weights"
        )
    values = to_numpy(given, what)
    if values.ndim != dimensions or len(values) < columns:
        raise TransilError(
            f"fold: {what} of shape {tuple(values.shape)}; at least {columns} rows are expected, one "
            "for each class seen so far"
        )
    return np.asarray(values, dtype=np.float64)

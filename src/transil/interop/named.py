"""The scores of a file that may hold several arrays, by name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from transil.arrays import is_torch
from transil.errors import TransilError, reason
from transil.files import check_regular
from transil.interop.numpy_files import load_archive, load_array
from transil.interop.torch_files import checked_tensor, load_safely
from transil.registry import nearest

TORCH = (".pt", ".pth", ".ckpt")
ARRAYS = (".npy", ".npz", *TORCH, ".safetensors")


def load_named(path: Path, key: str | None = None) -> Any:
    """The array or tensor that `key` names; without it the only one that the file holds."""
    if path.suffix not in ARRAYS:
        raise TransilError(f"{path}: unknown kind of file; give {', '.join(ARRAYS)}")
    scores = _picked(path, _read(path), key)
    return checked_tensor(scores, str(path)) if is_torch(scores) else scores


def _picked(path: Path, found: Any, key: str | None) -> Any:
    if not isinstance(found, Mapping):
        if key is not None:
            raise TransilError(f"{path}: it holds one array, without a name; leave out --key {key}")
        return found
    if key is not None:
        if key not in found:
            raise TransilError(f"{path}: no array '{key}' in it; {nearest(key, list(found))}")
        return found[key]
    if len(found) != 1:
        raise TransilError(f"{path}: {_told(found)}")
    return next(iter(found.values()))


def _read(path: Path) -> Any:
    """An array or tensor, or several by their names."""
    if path.suffix == ".npy":
        return load_array(path)
    if path.suffix == ".npz":
        return load_archive(path)
    if path.suffix == ".safetensors":
        return _read_safetensors(path)
    found = load_safely(path)
    if isinstance(found, Mapping):
        return {str(name): value for name, value in found.items() if is_torch(value)}
    if not is_torch(found):
        raise TransilError(f"{path}: expected one tensor, found {type(found).__name__}")
    return found


def _read_safetensors(path: Path) -> dict[str, Any]:
    from safetensors.torch import load_file

    check_regular(path)
    try:
        tensors: dict[str, Any] = load_file(path)
    except Exception as error:  # the library has its own, torch others for types that it lacks
        raise TransilError(f"{path}: cut short or no safetensors file ({reason(error)})") from None
    return tensors


def _told(found: Mapping[str, Any]) -> str:
    """Which arrays there are, and what to do."""
    if not found:
        return "it holds no arrays; give one of scores (rows, columns)"
    shapes = {name: _shape(array) for name, array in found.items()}
    shown = [f"{name} ({shape or 'a number'})" for name, shape in shapes.items()]
    shown = [*shown[:8], "..."] if len(shown) > 8 else shown
    tables = [name for name, array in found.items() if array.ndim == 2 and _is_floating(array)]
    likely = tables[0] if tables else "NAME"
    return f"it holds {', '.join(shown)}; say which are the scores: --key {likely}"


def _shape(array: Any) -> str:
    if is_torch(array) and array.is_nested:
        return "nested"
    return " x ".join(map(str, array.shape))


def _is_floating(array: Any) -> bool:
    if is_torch(array):
        return array.is_floating_point()
    return bool(np.issubdtype(array.dtype, np.floating))

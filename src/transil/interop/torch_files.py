"""Tensors from other people's torch files, without running what may hide in them."""

from __future__ import annotations

import os
import pickle
from typing import TYPE_CHECKING, Any

from transil.errors import TransilError, reason
from transil.files import told

if TYPE_CHECKING:
    import torch


def load_safely(path: str | os.PathLike[str]) -> Any:
    """What `torch.save` wrote, if it is plain tensors and containers, on the CPU.

    Only torch's restricted unpickler is used (weights_only); it builds tensors and refuses
    anything else, so a crafted pickle does not execute. Needs torch >= 2.6, where that holds.
    """
    import torch

    with told(f"cannot read {path}"):
        try:
            return torch.load(path, map_location="cpu", weights_only=True)
        except pickle.UnpicklingError:
            raise TransilError(
                f"{path}: refused, it is not a file of plain tensors (nothing in it was executed); "
                "get it again from a source you trust"
            ) from None
        except OSError:
            raise
        except Exception as error:  # torch raises many kinds for a file that is cut or foreign
            raise TransilError(f"{path}: cut short or not a torch file ({reason(error)})") from None


def load_tensor(path: str | os.PathLike[str]) -> torch.Tensor:
    """The single tensor in a torch file."""
    import torch

    value = load_safely(path)
    if not isinstance(value, torch.Tensor):
        raise TransilError(f"{path}: expected one tensor, found {type(value).__name__}")
    return value

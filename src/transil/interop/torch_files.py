"""Tensors from other people's torch files, without running what may hide in them."""

from __future__ import annotations

import os
import pickle
import warnings
from typing import TYPE_CHECKING, Any

from transil.arrays import check_plain
from transil.errors import TransilError, reason
from transil.files import open_regular, told
from transil.interop.zips import check_growth, check_unpacked

if TYPE_CHECKING:
    import torch


def load_safely(path: str | os.PathLike[str]) -> Any:
    """What `torch.save` wrote, if it is plain tensors and containers, on the CPU.

    Only torch's restricted unpickler is used (weights_only); it builds tensors and refuses
    anything else, so a crafted pickle does not execute. Needs torch >= 2.6, where that holds.
    """
    import torch

    with told(f"cannot read {path}"), open_regular(path) as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch, about kinds of tensors that are refused later
        try:
            check_unpacked(file, str(path))
            return torch.load(file, map_location="cpu", weights_only=True)
        except pickle.UnpicklingError:
            raise TransilError(
                f"{path}: refused, it is not a file of plain tensors (nothing in it was executed); "
                "get it again from a source you trust"
            ) from None
        except (OSError, TransilError):
            raise
        except Exception as error:  # torch raises many kinds for a file that is cut or foreign
            raise TransilError(f"{path}: cut short or not a torch file ({reason(error)})") from None


def load_tensor(path: str | os.PathLike[str]) -> torch.Tensor:
    """The single tensor in a torch file."""
    import torch

    value = load_safely(path)
    if not isinstance(value, torch.Tensor):
        raise TransilError(f"{path}: expected one tensor, found {type(value).__name__}")
    return checked_tensor(value, str(path))


def checked_tensor(x: torch.Tensor, where: str) -> torch.Tensor:
    """A tensor of a file; an error where it is no plain table, or repeats the little that is stored."""
    check_plain(x, where)
    check_growth(x.numel() * x.element_size(), x.untyped_storage().nbytes(), where)
    return x

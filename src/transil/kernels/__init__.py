"""Kernels of our own for GPUs, in Triton, where several of torch's would read memory again and again.

Used with `engine.fuse=true` where Triton works, which comes with torch for GPUs; else torch's
operations do the same. Nothing else here is imported unless `available` says so.
"""

from __future__ import annotations

import warnings
from functools import cache
from importlib.util import find_spec

import torch

from transil.errors import reason


@cache
def available(device: torch.device) -> bool:
    """Whether Triton is installed and works on a GPU; it needs a C compiler, for example."""
    if find_spec("triton") is None:
        return False
    try:
        _try(device)
    except Exception as error:  # whatever it may be, torch's operations work
        warnings.warn(
            f"Triton does not work here, training is slower without its kernels: {reason(error)}",
            RuntimeWarning,
            stacklevel=2,
        )
        return False
    return True


def _try(device: torch.device) -> None:
    """Update one number."""
    from transil.kernels.sgd import sgd

    one, buffer, rate = (torch.ones(1, device=device) for _ in range(3))
    copy, gradient = one.bfloat16(), one.bfloat16()  # not every GPU can
    sgd(one, copy, gradient, buffer, rate, momentum=0.5, decay=0.0)
    if copy.item() != -0.5:
        raise RuntimeError(f"1 - (1 + 0.5) gives {copy.item()}")


__all__ = ["available"]

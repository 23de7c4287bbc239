"""Processes that work for another one."""

from __future__ import annotations

import ctypes
import os
import signal


def die_with(parent: int) -> None:
    """End this process when its parent ends, however that happens (Linux)."""
    try:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    except (OSError, AttributeError):
        return
    if os.getppid() != parent:  # it ended before we said so
        os._exit(1)

"""Processes that work for another one."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker


def die_with(parent: int) -> None:
    """End this process when its parent ends, however that happens (Linux)."""
    try:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    except (OSError, AttributeError):
        return
    if os.getppid() != parent:  # it ended before we said so
        os._exit(1)


@contextmanager
def spared() -> Iterator[None]:
    """Processes that are started inside the block do not hear of Ctrl-C: it is the parent's to handle.

    They would hear of it while they import, with a traceback, before they can ignore it themselves.
    The parent hears of it right after the block.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # where multiprocessing starts it, the signal is let in again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

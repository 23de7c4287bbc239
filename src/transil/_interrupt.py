"""Ctrl-C while the command is still being imported: one line, where Python would show a traceback.

The package imports this first. Nothing is done where it is imported as a library.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from typing import Any


def _is_command() -> bool:
    """Whether this process is `transil` or `python -m transil`."""
    name = sys.argv[0] if sys.argv else ""
    if name == "-m":  # what Python puts there until it has found the module
        words = sys.orig_argv
        return "-m" in words and words[words.index("-m") + 1 :][:1] == ["transil"]
    return os.path.basename(name) in ("transil", "transil.exe")


def _quit(*_: Any) -> None:
    # Nothing was begun, and the middle of an import is no place for anything else.
    try:
        os.write(2, b"transil: interrupted before it began\n")
    finally:
        os._exit(130)


def over() -> None:
    """The command has begun, and handles Ctrl-C itself."""
    if signal.getsignal(signal.SIGINT) is _quit:
        signal.signal(signal.SIGINT, signal.default_int_handler)


# Ctrl-C may also be ignored here (nohup), or another thread be importing.
if _is_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    with contextlib.suppress(ValueError):  # not the main thread
        signal.signal(signal.SIGINT, _quit)

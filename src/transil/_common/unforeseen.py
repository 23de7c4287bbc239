"""What nobody foresaw: one line for the user, and a file with the traceback for who mends it."""

from __future__ import annotations

import os
import platform
import shlex
import tempfile
import traceback
from collections.abc import Sequence

from transil._common.files import private_folder
from transil._common.provenance import versions
from transil.errors import TransilError, reason


def unforeseen(error: BaseException, words: Sequence[str] = ()) -> str:
    """One line on an error that is no `TransilError`; its traceback goes into a file.

    `words` are those of the command line.
    """
    what = type(error).__name__ + (f": {reason(error)}" if str(error).strip() else "")
    if isinstance(error, MemoryError):
        begins = f"not enough memory ({what}); free some, or give less at once"
    elif isinstance(error, RecursionError):
        begins = f"something is nested too deeply ({what}); look at the files that were given"
    else:
        begins = f"transil did not foresee this ({what})"
    try:
        path = _written(error, words)
    except (OSError, TransilError) as failed:
        frames = traceback.extract_tb(error.__traceback__)[-1:]
        where = "".join(f" (at {frame.filename}, line {frame.lineno})" for frame in frames)
        return (
            f"{begins}; please report this line{where} and the command; the traceback cannot be "
            f"written: {reason(failed)}"
        )
    return (
        f"{begins}; the traceback is in {path}: please report it with that file, which also names "
        "the command and the versions; look through it first, paths and names of yours may be in it"
    )


def _written(error: BaseException, words: Sequence[str]) -> str:
    """Write the traceback, and what one asks for first, into a new file; its path."""
    facts = {"command": shlex.join(["transil", *words]), **versions(), "on": platform.platform()}
    text = "".join(f"{name}: {value}\n" for name, value in facts.items())
    text += "\n" + "".join(traceback.format_exception(error))
    handle, path = tempfile.mkstemp(prefix="traceback-", suffix=".txt", dir=private_folder())
    with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)
    return path

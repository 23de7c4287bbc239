"""Standard output and error that outlive those who read them: work never ends because nobody looks.

What can no longer be written is dropped. Whether that matters is asked at the end, once.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any


class Stream:
    """A text file to print on. What goes wrong with it first is kept as `error`, and told to nobody."""

    def __init__(self, file: Any) -> None:
        # Python has None where the stream was closed before it began.
        self.file = open(os.devnull, "w") if file is None else file  # noqa: SIM115
        self.closed_before = file is None
        self.error: OSError | None = None
        if isinstance(file, io.TextIOWrapper):  # a name the terminal cannot show is no error
            file.reconfigure(errors="backslashreplace")

    def write(self, text: str) -> int:
        """All of it, or none."""
        if self.closed_before and text and self.error is None:
            self.error = OSError(errno.EBADF, "it is closed")
        if self.error is None:
            try:
                self.file.write(text)
            except OSError as error:
                self._drop(error)
        return len(text)

    def flush(self) -> None:
        """As far as it goes."""
        if self.error is None:
            try:
                self.file.flush()
            except OSError as error:
                self._drop(error)

    def _drop(self, error: OSError) -> None:
        self.error = error
        with suppress(OSError, ValueError):  # what is still to be flushed goes nowhere
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.file.fileno())
            os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)


@contextmanager
def guarded() -> Iterator[Stream]:
    """Print on such streams inside the block; gives standard output."""
    before = sys.stdout, sys.stderr
    out, err = Stream(sys.stdout), Stream(sys.stderr)
    sys.stdout, sys.stderr = out, err
    try:
        yield out
    finally:
        out.flush()
        err.flush()
        sys.stdout, sys.stderr = before
        for stream in (out, err):
            if stream.closed_before:
                stream.file.close()


def fill_closed() -> None:
    """Open nothing in place of standard streams that are closed (`>&-`).

    The next file that is opened would get such a stream's number, and what other programs print, too.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            with suppress(OSError):
                os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)

"""The command `transil`. Everything it does is a call of the library."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from transil import _interrupt
from transil.cli.streams import fill_closed
from transil.errors import missing


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0, or 2 for bad input (see `app`)."""
    fill_closed()
    try:
        from transil.cli.app import run
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        print(f"transil: {missing('the command line needs', 'typer', 'rich')}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    _interrupt.over()
    return run(args)

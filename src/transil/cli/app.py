"""The commands in one app, and how errors leave it: one line on stderr, exit code 2."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.markup import escape

from transil import __version__
from transil.cli import banks, demo, scores
from transil.cli.output import stderr
from transil.errors import TransilError

app = typer.Typer(
    name="transil",
    help="Class-incremental learning without memory: correct the bias towards recent classes.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
scores.add_to(app)
banks.add_to(app)
demo.add_to(app)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"transil {__version__}")
        raise typer.Exit


@app.callback(
    epilog="Begin with: transil demo. Each command shows examples with --help; "
    "states and groups count from 1."
)
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    del version


def run(args: Sequence[str] | None) -> int:
    """Run one command line; bad input is told in one line, never as a traceback."""
    usage_error: Any = typer.BadParameter.__bases__[0]
    warnings.showwarning = _show_warning
    try:
        result: Any = typer.main.get_command(app).main(
            list(sys.argv[1:] if args is None else args), prog_name="transil", standalone_mode=False
        )
        return result if isinstance(result, int) else 0
    except TransilError as error:
        return _fail(str(error))
    except usage_error as error:  # click's, or typer's own copy of it
        context = getattr(error, "ctx", None)
        command = context.command_path if context is not None else "transil"
        return _fail(f"{_one_line(error)} (see: {command} --help)")
    except BrokenPipeError:
        # The reader of our output has gone (`transil ... | head`): nothing is wrong here.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _fail(f"{where}{error.strerror or error}")
    except typer.Abort:
        return 130
    except KeyboardInterrupt:
        print("transil: interrupted; nothing half-written is left", file=sys.stderr)
        return 130


def _fail(message: str) -> int:
    stderr.print(f"[bold red]error:[/] {escape(message)}", soft_wrap=True, highlight=False)
    return 2


def _one_line(error: Any) -> str:
    message = error.format_message() if hasattr(error, "format_message") else str(error)
    return " ".join(message.split())


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    stderr.print(f"[yellow]warning:[/] {escape(str(message))}", soft_wrap=True, highlight=False)

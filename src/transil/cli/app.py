"""The commands in one app, and how errors leave it: one line on stderr, exit code 2."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
import warnings
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.markup import escape

from transil import __version__
from transil.cli import banks, correct, data, demo, experiments, predict, scores, train
from transil.cli.output import printable, stderr
from transil.errors import TransilError
from transil.plugins import add_plugin

LONGEST = 2000  # characters of a message

app = typer.Typer(
    name="transil",
    help="Class-incremental learning without memory: correct the bias towards recent classes.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
scores.add_to(app)
correct.add_to(app)
banks.add_to(app)
data.add_to(app)
train.add_to(app)
predict.add_to(app)
experiments.add_to(app)
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
    plugins: Annotated[
        list[str] | None,
        typer.Option("--import", metavar="FILE", help="A Python file (or module) that registers "
                     "methods or corrections of your own; may be repeated. Also: $TRANSIL_IMPORT."),
    ] = None,
) -> None:  # fmt: skip
    del version
    for name in plugins or ():
        add_plugin(name)


def run(args: Sequence[str] | None) -> int:
    """Run one command line; bad input is told in one line, never as a traceback."""
    # click's class, or that of the copy of click inside newer versions of typer.
    usage_error: Any = typer.BadParameter.__bases__[0]
    warnings.showwarning = _show_warning
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a name the terminal cannot show is no error
            stream.reconfigure(errors="backslashreplace")
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _terminate)
    words = list(sys.argv[1:] if args is None else args)
    try:
        _check_words(words)
        result: Any = typer.main.get_command(app).main(
            words, prog_name="transil", standalone_mode=False
        )
        sys.stdout.flush()
        if result == 130:  # newer versions of typer turn Ctrl-C into this
            raise KeyboardInterrupt
        return result if isinstance(result, int) else 0
    except (TransilError, Warning) as error:  # warnings are raised under python -W error
        return _fail(str(error))
    except usage_error as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # a command without its words
            print(error.ctx.get_help())
            return 0
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
    except (typer.Abort, KeyboardInterrupt):
        print(
            "transil: interrupted; nothing half-written is left, and the same command goes on "
            "or begins again",
            file=sys.stderr,
        )
        return 130


def _check_words(words: Sequence[str]) -> None:
    """An error for a word without a letter: as a path it would be the current folder."""
    for before, word in zip(("transil", *words), words, strict=False):
        option, equals, value = word.partition("=")
        if not word.strip() or (option.startswith("--") and equals and not value.strip()):
            after = option if equals else before
            raise TransilError(f"nothing stands after '{after}'; give a value, or leave it out")


def _fail(message: str) -> int:
    stderr.print(f"[bold red]error:[/] {escape(_plain(message))}", soft_wrap=True, highlight=False)
    return 2


def _one_line(error: Any) -> str:
    return str(error.format_message() if hasattr(error, "format_message") else error)


def _plain(text: str) -> str:
    """One line without control characters, whatever names and files hold, of bearable length."""
    line = " ".join(printable(text).split())
    return line if len(line) <= LONGEST else f"{line[:LONGEST]} ..."


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    text = escape(_plain(str(message)))
    stderr.print(f"[yellow]warning:[/] {text}", soft_wrap=True, highlight=False)


def _terminate(number: int, _: Any) -> None:
    """SIGTERM unwinds the stack, so that temporary files are removed."""
    raise SystemExit(128 + number)

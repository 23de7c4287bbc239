"""The commands in one app, and how errors leave it: one line on stderr, and an exit code.

0 is done; 1 is done but for runs that failed; 2 is bad input; 70 is what nobody foresaw; 130 and
143 are Ctrl-C and SIGTERM.
"""

from __future__ import annotations

import signal
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from typing import Annotated, Any

import typer
from typer import Option

from transil import __version__
from transil._common.unforeseen import unforeseen
from transil.cli import (
    advise,
    banks,
    check,
    correct,
    data,
    demo,
    evaluate,
    experiments,
    export,
    fits,
    ledger,
    predict,
    scores,
    train,
)
from transil.cli.output import complain, drop_warnings, note, tell_warnings, warn
from transil.cli.streams import Stream, guarded
from transil.errors import TransilError
from transil.plugins import add_plugin

# How `app` and its groups show help.
SHOWN: dict[str, Any] = {"no_args_is_help": True, "rich_markup_mode": None}
# The commands in the order of the help, each with its line there; below them those of groups.
COMMANDS: dict[str, tuple[Callable[..., Any], str]] = {
    "advise": (advise.advise_command, "What to do with scores that have no labels."),
    "import-scores": (scores.import_scores, "Scores of a model into a store."),
    "evaluate": (evaluate.evaluate_command, "Accuracy, raw and corrected."),
    "correct": (correct.correct, "Correct a file of scores."),
    "export": (export.export_command, "A corrected last layer, to serve."),
    "import-bank": (fits.import_bank, "Released parameters into a bank."),
    "fit": (fits.fit_command, "Fit a correction on references."),
    "transfer": (fits.transfer_command, "From references to a target."),
    "train": (train.train_command, "Train a model state by state."),
    "methods": (train.methods_command, "What can be trained."),
    "recipes": (train.recipes_command, "Ready-made settings."),
    "predict": (predict.predict, "Classes of new images, by a trained model."),
    "run": (experiments.run_command, "A whole experiment, from images to a report."),
    "report": (experiments.report_command, "Tables and figures of experiments."),
    "demo": (demo.demo, "See it work, from images to a report."),
    "bank list": (banks.list_command, "The banks that come with transil."),
    "bank show": (banks.show, "What a bank is, its alpha and beta."),
    "bank make": (banks.make, "The bank of your schedule."),
    "bank compare": (banks.compare, "How far two banks are apart."),
    "bank check": (check.check_command, "How banks go with scores, without labels."),
    "ledger record": (ledger.record, "Keep what the scores of an update say."),
    "ledger show": (ledger.show, "What is remembered."),
    "data list": (data.list_command, "What can be opened."),
    "data show": (data.show, "Counts, statistics, a picture."),
    "data convert": (data.convert_command, "Any source into decoded images."),
    "data cache": (data.cache_command, "List or clear the decoded cache."),
}
app = typer.Typer(
    name="transil",
    help="Class-incremental learning without memory: correct the bias towards recent classes.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    **SHOWN,
)
groups = {
    "bank": typer.Typer(help="Look at banks.", **SHOWN),
    "ledger": typer.Typer(help="Remember how often classes came when they were new.", **SHOWN),
    "data": typer.Typer(help="Look at image sets.", **SHOWN),
}
for _words, (_command, _help) in COMMANDS.items():
    _group, _, _name = _words.rpartition(" ")
    groups.get(_group, app).command(_name, short_help=_help)(_command)
for _group, _commands in groups.items():
    app.add_typer(_commands, name=_group)


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
        Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    plugins: Annotated[
        list[str] | None,
        Option("--import", metavar="FILE", help="A Python file (or module) that registers "
                     "methods or corrections of your own; may be repeated. Also: $TRANSIL_IMPORT.")
    ] = None,
) -> None:  # fmt: skip
    del version
    for name in plugins or ():
        add_plugin(name)


def run(args: Sequence[str] | None) -> int:
    """Run one command line; bad input is told in one line, never as a traceback."""
    words = list(sys.argv[1:] if args is None else args)
    warnings.showwarning = lambda message, *_, **__: warn(str(message))
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _terminate)
    with guarded() as out:
        code = _told(words)
        tell_warnings()
        out.flush()
        return _delivered(code, out, words)


def _told(words: list[str]) -> int:
    """The exit code of one command line; what went wrong is told."""
    # click's class, or that of the copy of click inside newer versions of typer.
    usage_error: Any = typer.BadParameter.__bases__[0]
    try:
        _check_words(words)
        result: Any = _compiled().main(words, prog_name="transil", standalone_mode=False)
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
        told = error.format_message() if hasattr(error, "format_message") else error
        return _fail(f"{told} (see: {command} --help)")
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _fail(f"{where}{error.strerror or error}")
    except (typer.Abort, KeyboardInterrupt):
        return _stopped("interrupted", 130)
    except _Terminated:
        return _stopped("terminated", 143)
    except Exception as error:
        return _fail(unforeseen(error, words), 70)


@cache
def _compiled() -> Any:
    """The commands, put together once: that takes longer than many of them."""
    return typer.main.get_command(app)


def _check_words(words: Sequence[str]) -> None:
    """An error for a word without a letter: as a path it would be the current folder."""
    for before, word in zip(("transil", *words), words, strict=False):
        option, equals, value = word.partition("=")
        if not word.strip() or (option.startswith("--") and equals and not value.strip()):
            after = option if equals else before
            raise TransilError(f"nothing stands after '{after}'; give a value, or leave it out")


def _delivered(code: int, out: Stream, words: list[str]) -> int:
    """The exit code, when not all that was printed could be written."""
    if out.error is None or isinstance(out.error, BrokenPipeError):
        return code  # `transil ... | head`: nothing is wrong here
    message = f"cannot write standard output: {out.error.strerror or out.error}"
    if code or not _has_output(words):
        return _fail(message, code or 2)
    if not out.closed_before:
        complain("warning", "yellow", message)
    return code


def _has_output(words: list[str]) -> bool:
    """Whether the result is in files, so that what is printed only tells of it."""
    return any(w in ("-o", "demo", "convert") or w.startswith("--output") for w in words)


def _fail(message: str, code: int = 2) -> int:
    if code == 2:
        drop_warnings()
    else:
        tell_warnings()
    complain("error", "bold red", message)
    return code


def _stopped(how: str, code: int) -> int:
    note(
        f"transil: {how}; nothing half-written is left, and the same command goes on or begins again"
    )
    return code


class _Terminated(SystemExit):
    """SIGTERM, as what unwinds the stack, so that temporary files are removed."""


def _terminate(number: int, _: Any) -> None:
    raise _Terminated(128 + number)

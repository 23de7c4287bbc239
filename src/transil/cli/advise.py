"""The command that looks at unlabelled scores and says what to do with them."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transil._common.arrays import check_finite
from transil._common.files import check_output, check_replaceable, read_json
from transil.adaptation.score_files import read_state
from transil.cli.options import Keep, Key, Order, read_names, read_order_option
from transil.cli.output import print_json, print_table, read_schedule, say, stdout
from transil.errors import TransilError
from transil.scores.array_files import TORCH, load_array
from transil.scores.files import read_labels, read_scores

if TYPE_CHECKING:
    from transil.adaptation.advice import Advice

WIDEST = 96  # characters of a line
MINE = "mine.json"  # where a next command has the correction written


def advise_command(
    source: Annotated[
        Path, typer.Argument(help="Raw scores of your traffic, in any kind of file.")
    ],
    schedule: Annotated[
        str, typer.Option(help="How many classes each group has: 12,5,5,8 or 100/10.")
    ],
    state: Annotated[
        int | None, typer.Option(help="The model's state, from 1; else told by the columns.")
    ] = None,
    method: Annotated[
        str | None, typer.Option(help="How the model is trained: lwf-t, lucir, ...")
    ] = None,
    newest: Annotated[
        float | None, typer.Option(help="The share of the newest group in the traffic, 0.3.")
    ] = None,
    prior: Annotated[
        str | None,
        typer.Option(
            help="Which class frequencies are assumed: predicted, uniform, remembered, cautious, or a "
            "file (.json, .npy) with a share for each class or group."
        ),
    ] = None,
    ledger: Annotated[
        Path | None, typer.Option(help="What 'transil ledger record' kept at each update.")
    ] = None,
    newest_labels: Annotated[
        Path | None,
        typer.Option(help="The class of each row known to be of the newest group, else -1 (.npy)."),
    ] = None,
    before: Annotated[
        Path | None,
        typer.Option(help="Scores, by this model, of traffic from before the newest classes."),
    ] = None,
    order: Order = None,
    key: Key = None,
    keep: Keep = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Also as a page with pictures (.html).")
    ] = None,
    bank_out: Annotated[
        Path | None, typer.Option(help="Write the advised correction here (.json).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Look at unlabelled scores of a deployed model and say which correction it needs.

    No label is used. It says what the scores show, what it would do and what that changes, what it
    assumes about class frequencies and what would follow from others, when it would rather do
    nothing, and the next command. The share of the newest group matters most: give it (--newest), or
    have it estimated (--newest-labels, with --before).

    \b
    Examples:
      transil advise scores.npy --schedule 12,5,5,8,3,4 --method lwf-t
      transil advise scores.npy --schedule 12,5,5,8,3,4 --newest 0.3 --bank-out mine.json
      transil advise scores.npy --schedule 12,5,5,8,3,4 --ledger ledger.json -o advice.html
      transil advise scores.npy --schedule 12,5,5,8,3,4 --newest-labels labels.npy --before before.npy
    """
    from transil.adaptation.advice import advise
    from transil.adaptation.corrector_file import FORMAT, VERSION

    if output is not None:
        if output.suffix not in (".html", ".htm"):
            raise TransilError(f"{output}: the page is written as .html")
        check_output(output)
    if bank_out is not None:
        if bank_out.suffix != ".json":
            raise TransilError(f"{bank_out}: the correction is written as .json")
        check_replaceable(bank_out, FORMAT, VERSION)
    groups = read_schedule(schedule)
    assert groups is not None
    places = read_order_option(order)
    scores = read_state(source, groups, state, key, read_names(keep), places)
    earlier = None if before is None else read_scores(before, key, read_names(keep)).scores
    if earlier is not None and earlier.ndim == 2:
        check_finite(earlier, str(before))
    told = {
        "prior": read_prior(prior),
        "newest_labels": None if newest_labels is None else read_labels(newest_labels),
        "before": earlier,
        "order": places,
    }
    try:
        advice = advise(
            scores, groups, state=state, method=method, newest=newest, ledger=ledger, **told
        )
    except TransilError as error:
        raise TransilError(f"{source}: {error}") from None
    written = bank_out if advice.abstained is None else None
    if written is not None:
        advice.corrector.save(written)
    options = {
        "--schedule": schedule, "--state": f"{advice.state}", "--method": method,
        "--newest": None if newest is None else f"{newest:g}", "--prior": prior,
        "--ledger": _text(ledger), "--newest-labels": _text(newest_labels), "--before": _text(before),
        "--order": order, "--key": key, "--keep": keep,
    }  # fmt: skip
    commands = next_commands(advice, source, options, written)
    if output is not None:
        from transil.report.advice_page import write_page

        write_page(advice, commands, output, source.name)
    if as_json:
        from transil.report.advice_words import facts

        print_json(facts(advice, commands))
        return
    _print(advice, commands, source)
    if written is not None:
        say(f"written: {written}, the advised correction")
    elif bank_out is not None:
        say(f"not written: {bank_out}, because there is nothing to correct")
    if output is not None:
        say(f"written: {output}, the same with pictures")


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def read_prior(text: str | None) -> Any:
    """What --prior gives: the name of one, or the shares of a file."""
    if text is None or not text.endswith((".json", ".npy")):
        return text
    if text.endswith(".npy"):
        return load_array(Path(text))
    found = read_json(text)
    if not isinstance(found, list | dict):
        raise TransilError(f"{text}: expected a list of shares, or an object of shares by class")
    return found


def next_commands(
    advice: Advice, source: Path, options: Mapping[str, str | None], written: Path | None
) -> list[str]:
    """What to paste next: commands that correct the file, none where nothing is advised.

    `options` are those that this command was given; `written` is where the correction is.
    """
    if advice.abstained is not None:
        return []
    target = "corrected.pt" if source.suffix in TORCH else "corrected.npy"
    correct = ["transil", "correct", str(source), "--bank"]
    if written is None and not advice.shifted:
        kept = _given(options, "--schedule", "--state", "--order", "--key", "--keep")
        return [shlex.join([*correct, str(advice.bank), *kept, "-o", target])]
    key = _given(options, "--key", "--keep")
    if written is not None:
        return [shlex.join([*correct, str(written), *key, "-o", target])]
    again = ["transil", "advise", str(source), *_given(options, *options), "--bank-out", MINE]
    return [shlex.join(again), shlex.join([*correct, MINE, *key, "-o", target])]


def _given(options: Mapping[str, str | None], *names: str) -> list[str]:
    """Those options of the names that have a value, as words."""
    return [
        word for name in names if (value := options[name]) is not None for word in (name, value)
    ]


def _print(advice: Advice, commands: list[str], source: Path) -> None:
    from transil.report.advice_words import sections, title

    _tell(f"{source}: {title(advice)}")
    for section in sections(advice, commands):
        say("")
        say(section.heading.upper())
        for line in section.lines:
            _tell(line)
        if section.grid is not None:
            print_table(None, section.grid.heads, section.grid.rows)
    for command in commands:
        say(f"  {command}")


def _tell(text: str) -> None:
    """A paragraph in lines that the terminal holds."""
    width = max(40, min(stdout.width, WIDEST))
    for line in textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False):
        say(line)

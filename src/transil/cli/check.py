"""The command that tells, without labels, how banks go with a file of scores."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from transil.cli.options import (
    Groups,
    Keep,
    Key,
    Order,
    Rescale,
    Strength,
    read_names,
    read_order_option,
    strengthened,
)
from transil.cli.output import print_json, print_table, read_schedule, say
from transil.correction.checks import BankCheck, check_bank, fitting_banks
from transil.correction.scales import Distance, Mismatch
from transil.correction.shipped import ANY, load_bank, shipped_any
from transil.errors import TransilError
from transil.scores.files import read_scores


def check_command(
    source: Annotated[Path, Argument(help="Raw scores, in any kind of file that 'correct' reads.")],
    state: Annotated[int, Option(help="The model's state, from 1.")],
    bank: Annotated[
        list[str] | None,
        Option(help="A bank (file or name); may be repeated. Else the default of each method."),
    ] = None,
    every: Annotated[
        bool, Option("--all", help="All shipped banks that fit, not only the defaults.")
    ] = False,
    schedule: Groups = None,
    order: Order = None,
    key: Key = None,
    keep: Keep = None,
    rescale: Rescale = False,
    strength: Strength = None,
    as_json: Annotated[bool, Option("--json", help="As JSON.")] = False,
) -> None:
    """How banks go with scores, without labels: size, predictions changed, share of the newest group.

    Size is how many times as much the scores spread as those of the references; for a bank of any
    schedule it is how far the scores lie from the references', 1 being usual. Shares can be judged
    only where classes come about equally often. Scores that pass may still be those of another
    method: LwF's and FT+'s are of one size. Whether a bank helps, only labelled images tell
    (transil evaluate). With --schedule the banks for any schedule are asked. --rescale judges the
    rescaled banks, and shows beside what they would leave to the newest group as they are.

    \b
    Examples:
      transil bank check scores.npy --state 7
      transil bank check scores.npy --state 6 --schedule 12,5,5,8,3,4
      transil bank check scores.npy --state 7 --bank lucir-s10 --rescale
      transil bank check scores.npy --state 7 --bank lucir-s10 --strength 0.5
      transil bank check scores.npy --state 7 --bank mine.json --bank lwf-s10 --json
    """
    scores = read_scores(source, key, read_names(keep)).scores
    if every and bank:
        raise TransilError("give --bank or --all, not both")
    groups = read_schedule(schedule)
    if bank:
        names = bank
    elif groups is not None:
        names = [f"{name}{ANY}" for name in shipped_any()]
    else:
        fitting = fitting_banks(state, scores.shape[-1])
        names = [item.short_name for item in fitting if every or item.default]
    places = read_order_option(order)
    found: dict[str, BankCheck] = {}
    for name in names:
        try:
            loaded = strengthened(load_bank(name, schedule=groups), strength)
            found[name] = check_bank(loaded, scores, state, order=places, rescale=rescale)
        except TransilError as error:
            raise TransilError(f"{source}, bank '{name}': {error}") from None
    if as_json:
        print_json([{"bank": name, **_facts(check)} for name, check in found.items()])
        return
    _print(source, found, rescale)


def _facts(check: BankCheck) -> dict[str, Any]:
    return {
        "state": check.state,
        "rows": check.rows,
        "ratio": check.size.ratio if isinstance(check.size, Mismatch) else None,
        "distance": check.size.ratio if isinstance(check.size, Distance) else None,
        "changed": check.changed,
        "newest_before": check.newest_before,
        "newest_after": check.newest_after,
        "newest_fair": check.newest_fair,
        **({} if check.newest_as_is is None else {"newest_as_is": check.newest_as_is}),
        "verdict": check.verdict,
    }


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _print(source: Path, found: dict[str, BankCheck], rescaled: bool) -> None:
    rows = [
        [
            name,
            f"{check.size.ratio:.2f}" if check.size else "-",
            f"{check.changed:.1%}",
            f"{check.newest_before:.1%}",
            f"{check.newest_after:.1%}",
            *([_share(check.newest_as_is)] if rescaled else []),
        ]
        for name, check in found.items()
    ]
    first = next(iter(found.values()))
    say(
        f"{source}: {first.rows:,} rows of state {first.state}"
        + (", banks brought to their size" if rescaled else "")
    )
    headings = ["bank", "size", "changed", "newest before", "after"]
    print_table(None, headings + ["not rescaled"] * rescaled, rows)
    for name, check in found.items():
        say(f"{name}: {check.verdict}")
    say(
        "size: spread of the scores over that of the references' (any schedule: distance from "
        "them, 1 is usual); changed: share of predictions"
    )
    say(
        f"newest: share predicted as newest group, which has {first.newest_fair:.1%} of the classes; "
        "that is the right share only where classes come equally often"
    )
    say("whether a bank helps, only labelled images tell: transil evaluate")

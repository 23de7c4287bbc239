"""Commands on the ledger, what is remembered from update to update: ledger record, ledger show."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from transil._common.files import check_replaceable
from transil.adaptation.ledger import FORMAT, VERSION, Ledger
from transil.adaptation.score_files import read_state
from transil.cli.options import Keep, Key, Order, read_names, read_order_option
from transil.cli.output import print_json, print_table, read_schedule, say, warnings_last
from transil.correction.columns import read_order, reordered
from transil.errors import TransilError

MOST_CLASSES = 6  # whose shares are shown in a line


def record(
    source: Annotated[
        Path, Argument(help="Raw scores of the traffic after the update, in any kind of file.")
    ],
    schedule: Annotated[str, Option(help="How many classes each group has: 12,5,5,8 or 100/10.")],
    state: Annotated[int, Option(help="The state that the model has just reached, from 1.")],
    ledger: Annotated[Path, Option(help="The ledger, a .json file; made if not there.")],
    method: Annotated[
        str | None, Option(help="How the model is trained: lwf-t, lucir, ...")
    ] = None,
    order: Order = None,
    key: Key = None,
    keep: Keep = None,
) -> None:
    """Keep, once per update, how often each of the newest classes is predicted in unlabelled scores.

    All classes of the newest group are equally new, so their shares within it hardly suffer from
    forgetting. Later what a model predicts otherwise is forgetting, not frequency. A few numbers per
    class are kept; no image, and no score of an image.

    \b
    Examples:
      transil ledger record scores.npy --schedule 12,5,5 --state 3 --method lwf-t --ledger ledger.json
      transil advise scores.npy --schedule 12,5,5 --method lwf-t --ledger ledger.json
    """
    groups = read_schedule(schedule)
    assert groups is not None
    if ledger.suffix != ".json":
        raise TransilError(f"{ledger}: a ledger is a .json file")
    check_replaceable(ledger, FORMAT, VERSION)
    opened = Ledger(ledger, groups, method)
    places = read_order_option(order)
    scores = read_state(source, groups, state, key, read_names(keep), places)
    if places is not None:
        scores = reordered(scores, read_order(places, scores.shape[-1]))
    again = state in opened.states
    try:
        with warnings_last():
            entry = opened.record(state, scores)
    except TransilError as error:
        raise TransilError(f"{source}: {error}") from None
    known = ", ".join(map(str, opened.states))
    say(
        f"{ledger}: state {state} {'recorded again' if again else 'recorded'} from {entry.rows:,} rows; "
        f"states there: {known}"
    )


def show(
    ledger: Annotated[Path, Argument(help="A ledger, a .json file.")],
    as_json: Annotated[bool, Option("--json", help="As JSON.")] = False,
) -> None:
    """Show what a ledger remembers: for each state, the shares of the newest classes in their group.

    \b
    Examples:
      transil ledger show ledger.json
      transil ledger show ledger.json --json
    """
    opened = Ledger(ledger)
    if as_json:
        states = {f"{state}": vars(entry) for state, entry in opened.states.items()}
        print_json({"method": opened.method, "sizes": opened.sizes, "states": states})
        return
    sizes = ", ".join(map(str, opened.sizes))
    say(
        f"{ledger}: groups of {sizes} classes, trained with {opened.method or 'a method not named'}"
    )
    rows = []
    for state, entry in opened.states.items():
        shares = [f"{100 * share:.1f}" for share in entry.within]
        more = ["..."] if len(shares) > MOST_CLASSES else []
        rows.append(
            [f"{state}", f"{entry.rows:,}", f"{100 * entry.groups[-1]:.1f}",
             " ".join(shares[:MOST_CLASSES] + more)]
        )  # fmt: skip
    heads = ["state", "rows", "% of its group", "% of each class within the group"]
    print_table(None, heads, rows)
    lacking = [f"{k}" for k in range(1, len(opened.sizes) + 1) if k not in opened.states]
    if lacking:
        say(f"not recorded: group {', '.join(lacking)}; its shares are taken as they are predicted")

"""The command that corrects a file of scores."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from transil._common.progress import part
from transil.adaptation.corrector import Corrector
from transil.adaptation.score_files import correct_file
from transil.cli.evaluate import describe
from transil.cli.options import (
    Groups,
    Keep,
    Key,
    Order,
    Rescale,
    Strength,
    load_correction,
    read_names,
    read_order_option,
)
from transil.cli.output import check_apart, note, progress_bar, say
from transil.correction.bank import Bank
from transil.correction.scales import Newest
from transil.scores.tables import STREAM


def correct(
    source: Annotated[
        Path,
        Argument(
            help="Scores: .npy, .npz, a torch or safetensors file, or a table (.csv, .parquet, .arrow); "
            "- is CSV from standard input."
        ),
    ],
    bank: Annotated[
        str, Option(help="What to correct with: a bank (a file or a name), or what advise wrote.")
    ],
    output: Annotated[
        Path,
        Option(
            "--output",
            "-o",
            help="Where to write: a file of any of these kinds; - is CSV to standard output.",
        ),
    ],
    state: Annotated[
        int | None, Option(help="The model's state, from 1; else told by the columns.")
    ] = None,
    schedule: Groups = None,
    order: Order = None,
    rescale: Rescale = False,
    strength: Strength = None,
    keep: Keep = None,
    key: Key = None,
) -> None:
    """Correct the scores of one model: rows are images, columns the classes seen so far.

    Columns stand in the order in which the classes were learned, or as --order says; they stay
    where they are. A .npy file may be larger than memory. In a table, columns of text are carried
    along, and so are those that --keep names; without --state it names all that are no scores. Each
    kind of file can be written from each; an array holds the scores alone. Only raw scores (logits)
    can be corrected, not probabilities. 'transil bank list' names the banks that come with transil.

    \b
    Examples:
      transil correct scores.npy --bank bank.json --state 7 -o corrected.npy
      transil correct logits.pt --bank bank.json -o corrected.pt
      transil correct outputs.pt --key logits --bank bank.json -o corrected.pt
      transil correct scores.csv --bank bank.json --keep id,label -o corrected.parquet
      transil correct - --bank bank.json --state 7 -o - < scores.csv > corrected.csv
      transil correct scores.npy --bank lwf-t --schedule 12,5,5,8,3,4 --state 6 -o corrected.npy
      transil correct scores.npy --bank lwf-s10 --state 7 --rescale -o corrected.npy
      transil correct scores.npy --bank lwf-s10 --state 7 --strength 0.5 -o corrected.npy
      transil correct scores.npy --bank lwf-s10 --state 7 --order order.json -o corrected.npy
      transil correct scores.npy --bank mine.json -o corrected.npy  (of advise --bank-out)
    """
    loaded = load_correction(bank, schedule, strength)
    if STREAM not in (source, output):
        check_apart(output, source, "these are the scores to correct")
    costs: list[Newest] = []
    with progress_bar() as progress:
        done, rows = correct_file(
            source,
            output,
            loaded,
            state,
            part(progress, 0, 1, "correcting"),
            order=read_order_option(order),
            rescale=rescale,
            keep=read_names(keep),
            key=key,
            cost=costs.append,
        )
    how = describe(loaded, rescale) if isinstance(loaded, Bank) else _described(loaded)
    tell = note if output == STREAM else say
    tell(f"{output}: {rows:,} rows of state {done}, corrected with {how}")
    for cost in costs:
        tell(f"rescaled the bank predicts {cost}")


def _described(corrector: Corrector) -> str:
    prior = "" if corrector.prior_ is None else f"; it assumes that {corrector.prior_.says}"
    return f"a corrector fitted on {corrector.rows_:,} rows{prior}"

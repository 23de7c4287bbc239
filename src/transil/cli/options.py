"""Options that several commands have, and what their texts mean."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from transil._common.files import read_json
from transil.adaptation.corrector import Corrector
from transil.adaptation.corrector_file import is_corrector, read_corrector
from transil.cli.output import read_schedule
from transil.correction.bank import Bank
from transil.correction.shipped import load_bank
from transil.errors import TransilError

AnyMethod = Annotated[
    bool, Option("--any-method", help="Use a bank of another method all the same.")
]
Rescale = Annotated[bool, Option("--rescale", help="Bring the bank to the scale of the scores.")]
Strength = Annotated[
    float | None, Option(help="How strongly to correct: 0 not at all, 1 as fitted, 2 at the most.")
]
Order = Annotated[
    str | None,
    Option(
        help="Where columns stand otherwise: the column (from 0) of each class in the order in "
        "which they were learned, 3,0,2,1 or a JSON file."
    ),
]
Groups = Annotated[
    str | None,
    Option(
        "--schedule",
        help="How many classes each group has, 12,5,5,8 or 100/10: for a bank that holds for any.",
    ),
]
Key = Annotated[
    str | None,
    Option(
        help="Which array is the scores, where a file holds several; in Parquet, the column of lists."
    ),
]
Keep = Annotated[str | None, Option(help="Columns of a table that are no scores: id,label.")]


def read_names(text: str | None) -> list[str]:
    """What --keep gives."""
    return text.split(",") if text else []


def read_order_option(text: str | None) -> list[int] | None:
    """What --order gives: numbers, or a JSON file of them."""
    if text is None:
        return None
    if text.endswith(".json"):
        data = read_json(text)
        if not isinstance(data, list) or not all(type(place) is int for place in data):
            raise TransilError(f"{text}: expected a list of columns, whole numbers from 0")
        return data
    try:
        return [int(place) for place in text.split(",")]
    except ValueError:
        raise TransilError(
            f"--order '{text[:40]}': give columns from 0, as 3,0,2,1, or a .json file of them"
        ) from None


def check_goes_with_bank(bank: bool, rescale: bool, strength: float | None) -> None:
    """An error where something is said of a bank that is not there."""
    for name, given in (("rescale", rescale), ("strength", strength is not None)):
        if given and not bank:
            raise TransilError(f"--{name} goes with --bank")


def load_correction(
    name: str, schedule: str | None, strength: float | None, **others: object
) -> Bank | Corrector:
    """A bank, or a corrector from its file, which knows the schedule, the strength and `others`."""
    if not is_corrector(name):
        return strengthened(load_bank(name, schedule=read_schedule(schedule)), strength)
    for word, given in {"schedule": schedule, "strength": strength, **others}.items():
        if given is not None:
            raise TransilError(f"{name}: a corrector knows its {word}; leave out --{word}")
    return read_corrector(name, Corrector)


def strengthened(bank: Bank, strength: float | None) -> Bank:
    """The bank as --strength wants it."""
    return bank if strength is None else bank.at_strength(strength)

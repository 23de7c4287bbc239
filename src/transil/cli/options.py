"""Options of all commands that correct."""

from __future__ import annotations

from typing import Annotated

import typer

from transil.correction.bank import Bank
from transil.errors import TransilError

AnyMethod = Annotated[
    bool, typer.Option("--any-method", help="Use a bank of another method all the same.")
]
Rescale = Annotated[
    bool, typer.Option("--rescale", help="Bring the bank to the scale of the scores.")
]
Strength = Annotated[
    float | None,
    typer.Option(help="How strongly to correct: 0 not at all, 1 as fitted, 2 at the most."),
]


def check_goes_with_bank(bank: bool, rescale: bool, strength: float | None) -> None:
    """An error where something is said of a bank that is not there."""
    for name, given in (("rescale", rescale), ("strength", strength is not None)):
        if given and not bank:
            raise TransilError(f"--{name} goes with --bank")


def strengthened(bank: Bank, strength: float | None) -> Bank:
    """The bank as --strength wants it."""
    return bank if strength is None else bank.at_strength(strength)

"""From references to a target: mean (the paper), median, one reference, or the oracle bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from transil._common.files import digest
from transil.correction.alike import check_alike, check_scales
from transil.correction.bank import Bank
from transil.correction.references import Transfer
from transil.correction.rules import RULES
from transil.errors import TransilError
from transil.scores.store import ScoreStore


def merge(banks: Sequence[Bank]) -> Bank:
    """One bank with the references of all; they must be of one kind, fitted in one way."""
    if not banks:
        raise TransilError("transfer: no bank was given")
    first = banks[0]
    for number, bank in enumerate(banks[1:], start=2):
        remedy = "only banks fitted in the same way can be joined"
        check_alike(_facts(first), _facts(bank), ("the first bank", f"bank {number}"), remedy)
    if len(banks) == 1:
        return first
    provenance = {
        **first.provenance,
        "config_hash": digest([bank.provenance.get("config_hash") for bank in banks]),
        "datasets": [name for bank in banks for name in bank.provenance.get("datasets", [])],
    }
    references = tuple(reference for bank in banks for reference in bank.references)
    return replace(
        first,
        references=references,
        transfer=Transfer(),
        provenance=provenance,
    )


def transfer(
    banks: Bank | Sequence[Bank],
    how: str = "mean",
    *,
    reference: str | None = None,
    target: ScoreStore | None = None,
    split: str = "test",
    same_method: bool = True,
) -> Bank:
    """Join the references of some banks and say how they become the target's pairs.

    - `mean` (the paper, Sec. 3.3) and `median` over references, for each state and group;
    - `single`: the pairs of the one called `reference`;
    - `oracle`: for each state the reference that is best on the target's own test labels
      (`target`, `split`). It looks at what it is judged by: an upper bound over single references.
    """
    bank = merge([banks] if isinstance(banks, Bank) else banks)
    wants = RULES.find(how).wants
    if reference is not None and wants != "reference":
        raise TransilError(f"transfer: a reference is named, but '{how}' does not take one")
    if target is not None and wants != "target":
        raise TransilError(f"transfer: a target is given, but '{how}' does not look at it")
    if wants == "reference" and reference is None:
        raise TransilError(f"transfer: '{how}' needs the name of a reference ({bank.names()})")
    if wants is None and not isinstance(banks, Bank):  # else `fit` has looked
        check_scales(bank.references)
    if wants == "target":
        if target is None:
            raise TransilError(f"transfer: '{how}' needs the target's score store with test labels")
        bank.check_store(target, same_method=same_method)
        return replace(bank, transfer=Transfer(how, choice=_best(bank, target, split)))
    return replace(bank, transfer=Transfer(how, reference))


def _facts(bank: Bank) -> dict[str, Any]:
    return {
        "method": bank.method,
        "schedule": bank.schedule.sizes,
        "correction": bank.correction.name,
        "correction's settings": bank.correction.settings(),
        "solver": bank.solver,
        "settings": bank.settings,
        "score kind": bank.score_kind,
        "strength": bank.strength,
    }


def _best(bank: Bank, target: ScoreStore, split: str) -> dict[int, str]:
    """The name of the reference with the best accuracy on the target, for each state.

    A target that has not reached the last states is given the first reference there.
    """
    choice = dict.fromkeys(range(2, bank.schedule.states + 1), bank.references[0].name)
    for state in target.require(split)[1:]:
        data = target.get(split, state)
        accuracy = {}
        for reference in bank.references:
            pairs = bank.alone(reference.name).ready(data.scores, state).applied(state)
            scores = bank.apply(pairs, data.scores, state)
            accuracy[reference.name] = float((scores.argmax(axis=1) == data.columns).mean())
        choice[state] = max(accuracy, key=accuracy.__getitem__)
    return choice

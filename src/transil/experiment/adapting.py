"""Simulated traffic in an experiment: what each prior adds to a bank when classes are not alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from transil.adaptation.traffic import Traffic
from transil.adaptation.trial import BANK, RAW, Column, trial
from transil.correction.bank import Bank
from transil.correction.transfers import transfer
from transil.evaluation.hits import Correct, applied
from transil.experiment.results import Adapted

if TYPE_CHECKING:
    from transil.experiment.recipe import Experiment
    from transil.experiment.studies import Target

ORACLE = "oracle"


def study_traffic(
    experiment: Experiment, target: Target, bank: Bank, controls: Mapping[str, Correct]
) -> Iterator[Adapted]:
    """Raw, controls, the bank, each prior and the oracle, for each tail and each draw of it.

    `bank` holds the references that the target may use.
    """
    how = next((h for h in experiment.transfer if h != ORACLE), "mean")
    chosen = transfer(bank, how)
    oracle = transfer(bank, ORACLE, target=target.store)
    others = {**controls, ORACLE: applied(oracle)}
    for ratio in experiment.traffic:
        for seed in experiment.traffic_seeds:
            found = trial(
                target.store, Traffic(ratio, seed=seed), experiment.priors,
                bank=chosen, others=others,
            )  # fmt: skip
            for name, column in found.columns.items():
                yield Adapted(
                    target.setting, ratio, seed, bank.correction.name, bank.solver or "",
                    _kind(name, controls), name, list(found.adapted), list(found.short),
                    *_numbers(column),
                )  # fmt: skip


def _kind(name: str, controls: Mapping[str, Correct]) -> str:
    kinds = {RAW: RAW, BANK: BANK, ORACLE: "bound", **dict.fromkeys(controls, "control")}
    return kinds.get(name, "prior")


def _numbers(
    column: Column,
) -> tuple[list[float], float, float, float, list[float], list[float], list[int]]:
    """The last fields of a row."""
    return (
        list(column.accuracy), column.average, column.low, column.high,
        list(column.over_raw), list(column.over_bank), list(column.abstained),
    )  # fmt: skip

"""Fits that are kept in the results folder, and made again only when scores or settings change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from transil.correction.bank import Bank
from transil.correction.fitting import SolverLike, fit
from transil.correction.registry import get_solver
from transil.correction.solvers import Solver
from transil.scores import ScoreStore

# The name of the split that `joined` makes.
FIT = "fit"


def fitted(
    path: Path,
    stores: Mapping[str, ScoreStore],
    correction: str,
    solver: SolverLike,
    told: Mapping[str, Any] | None = None,
) -> Bank:
    """The pairs of all references, from the file where it is of the same scores and settings.

    `told` is what else the bank's provenance says.
    """
    how = get_solver(solver)
    bank = _kept(path, stores, correction, how)
    if bank is None:
        names, given = list(stores), list(stores.values())
        bank = fit(given, split=FIT, names=names, correction=correction, solver=how)
        bank.save(path)
    whole = {**bank.provenance, **(told or {})}
    if whole != bank.provenance:
        bank = replace(bank, provenance=whole)
        bank.save(path)
    return bank


def _kept(
    path: Path, stores: Mapping[str, ScoreStore], correction: str, how: Solver
) -> Bank | None:
    if path.exists():
        bank = Bank.load(path)
        made = ([(r.name, r.source) for r in bank.references], bank.correction.name, bank.solver)
        wanted = ([(n, s.fingerprint()) for n, s in stores.items()], correction, how.name)
        if made == wanted and bank.settings == how.settings():
            return bank
    return None


def joined(store: ScoreStore, splits: Sequence[str], name: str) -> ScoreStore:
    """A store whose split 'fit' holds the rows of several splits."""
    made = ScoreStore(store.schedule, method=store.method, dataset=name, kind=store.kind)
    for state in store.require(splits[0]):
        parts = [store.get(split, state) for split in splits]
        made.put(
            FIT,
            state,
            np.concatenate([part.scores for part in parts]) if len(parts) > 1 else parts[0].scores,
            np.concatenate([part.labels for part in parts]),
        )
    return made

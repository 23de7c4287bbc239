"""From scores with labels to pairs: one state of arrays, or whole stores into a bank."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from transil._common.arrays import check_raw, check_scores, to_numpy
from transil._common.files import digest
from transil._common.progress import Progress, no_progress, part
from transil._common.provenance import versions
from transil.correction.alike import check_alike, check_scales
from transil.correction.bank import Bank
from transil.correction.evidence import Evidence
from transil.correction.layers import AdBiCCentred, Correction
from transil.correction.objective import Problem
from transil.correction.open_bank import OpenBank
from transil.correction.parameters import Parameters
from transil.correction.predicted import refuse_predictions
from transil.correction.references import Reference
from transil.correction.registry import get_correction, get_solver
from transil.correction.scales import score_scale
from transil.correction.solvers import Fit, Solver
from transil.errors import TransilError
from transil.schedule import Schedule, ScheduleLike
from transil.scores.data_files import StateScores, checked_scores
from transil.scores.store import ScoreStore, as_store

# Squares of larger scores leave the range in which fits are exact.
LARGEST = 1e12

CorrectionLike: TypeAlias = str | Correction | type[Correction]
SolverLike: TypeAlias = str | Solver | type[Solver]
StoreLike: TypeAlias = ScoreStore | str | os.PathLike[str]


def fit_state(
    scores: Any,
    labels: Any,
    schedule: ScheduleLike,
    *,
    correction: CorrectionLike = "adbic",
    solver: SolverLike = "newton",
    previous: Parameters | None = None,
    **settings: Any,
) -> Fit:
    """Fit the pairs of one state. scores (n, columns), labels (n,); arrays or tensors.

    The state is the one with as many columns. `previous` holds the pairs of the state before, for
    a solver that starts from them. Further settings go to the solver, such as `penalty`.
    """
    schedule = Schedule.of(schedule)
    scores = to_numpy(scores)
    check_scores(scores)
    state = schedule.state_with(scores.shape[-1])
    data = checked_scores(scores, labels, schedule, state, f"state {state}")
    kind = get_correction(correction)
    return get_solver(solver, **settings).fit(
        _problem(data, schedule, state, kind, f"state {state}"), previous
    )


def fit(
    stores: StoreLike | Sequence[StoreLike],
    *,
    split: str = "val",
    correction: CorrectionLike = "adbic",
    solver: SolverLike = "newton",
    names: Sequence[str] | None = None,
    progress: Progress = no_progress,
    **settings: Any,
) -> Bank:
    """Fit every state of one or more reference stores and keep the pairs in a bank.

    All stores must have the same group sizes and method. `names` are those of the references
    (default: data set, or folder). Settings go to the solver: `penalty=Penalty(0, 0)`, `seed=1`.
    """
    opened = _opened(stores)
    kind, how = get_correction(correction), get_solver(solver, **settings)
    first = opened[0]
    for store in opened[1:]:
        names_of = (first.name, store.name)
        check_alike(_facts(first), _facts(store), names_of, "a bank holds references of one kind")
    names = _names(opened, names)
    if len(set(names)) < len(names):
        raise TransilError("fit: two references have one name; give each its own (names, --name)")
    if first.schedule.states < 2:
        raise TransilError(f"{first.name}: a schedule of one state has nothing to correct")
    references = tuple(
        _fit_reference(store, name, split, kind, how, part(progress, number, len(opened)))
        for number, (store, name) in enumerate(zip(opened, names, strict=True))
    )
    check_scales(references)
    config = {
        "correction": kind.name,
        "solver": how.name,
        "settings": how.settings(),
        "split": split,
        "sizes": list(first.schedule.sizes),
        "sources": [reference.source for reference in references],
    }
    return Bank(
        correction=kind,
        schedule=Schedule.from_sizes(first.schedule.sizes),
        references=references,
        method=first.method,
        solver=how.name,
        settings=how.settings(),
        score_kind=first.kind,
        provenance={
            "versions": versions(),
            "config_hash": digest(config),
            "split": split,
            "datasets": [store.dataset for store in opened],
        },
    )


def fit_any_schedule(
    stores: StoreLike | Sequence[StoreLike],
    *,
    split: str = "val",
    names: Sequence[str] | None = None,
    progress: Progress = no_progress,
) -> OpenBank:
    """Fit one bank for any schedule on reference stores of one method and as many schedules as can be.

    `names` are those of the references' images (default: data set, or folder); stores of one name
    are models of the same images, which are left out together where errors are told.
    """
    opened = _opened(stores)
    alike = [{k: v for k, v in _facts(store).items() if k != "schedule"} for store in opened]
    for store, facts in zip(opened, alike, strict=True):
        names_of = (opened[0].name, store.name)
        check_alike(alike[0], facts, names_of, "a bank holds references of one kind")
    evidence: list[Evidence] = []
    for number, (store, name) in enumerate(zip(opened, _names(opened, names), strict=True)):
        for state, problem in _problems(store, split, AdBiCCentred()):
            evidence.append(Evidence.of(name, f"{name}--{number}", problem))
            done = part(progress, number, len(opened), f"{name} ({number + 1}), state {state}")
            done((state - 1) / (store.schedule.states - 1), "")
    return OpenBank.of(
        evidence,
        method=opened[0].method,
        score_kind=opened[0].kind,
        provenance={
            "versions": versions(),
            "config_hash": digest([split, *(store.fingerprint() for store in opened)]),
            "split": split,
            "stores": len(opened),
        },
    )


def _opened(stores: StoreLike | Sequence[StoreLike]) -> list[ScoreStore]:
    given = [stores] if isinstance(stores, ScoreStore | str | os.PathLike) else stores
    opened = [as_store(store) for store in given]
    if not opened:
        raise TransilError("fit: no score store was given")
    return opened


def _names(opened: Sequence[ScoreStore], names: Sequence[str] | None) -> Sequence[str]:
    names = [_reference_name(store) for store in opened] if names is None else names
    if len(names) != len(opened):
        raise TransilError(f"fit: {len(names)} names for {len(opened)} stores")
    return names


def _fit_reference(
    store: ScoreStore,
    name: str,
    split: str,
    correction: Correction,
    solver: Solver,
    progress: Progress,
) -> Reference:
    pairs: dict[int, Parameters] = {}
    records, scale = {}, {}
    for state, problem in _problems(store, split, correction):
        told = part(progress, state - 2, store.schedule.states - 1, f"{name}, state {state}")
        fitted = solver.fit(problem, pairs.get(state - 1), told)
        pairs[state], records[state] = fitted.pairs, fitted.record
        scale[state] = score_scale(problem.scores)
    return Reference(name, pairs, records, scale, source=store.fingerprint())


def _problems(
    store: ScoreStore, split: str, correction: Correction
) -> Iterator[tuple[int, Problem]]:
    """What is to be fitted in each state from 2."""
    for state in store.require(split)[1:]:
        data = store.get(split, state)
        where = f"{store.name}, split '{split}', state {state}"
        if store.kind == "logit":
            check_raw(data.scores, where, "a bank is fitted on raw scores", correction.centred)
        yield state, _problem(data, store.schedule, state, correction, where)


def _problem(
    data: StateScores, schedule: Schedule, state: int, correction: Correction, where: str
) -> Problem:
    largest = float(max(-data.scores.min(), data.scores.max()))
    if largest > LARGEST:
        raise TransilError(
            f"{where}: scores up to {largest:.1e} are too large to fit; scale them down"
        )
    there = np.unique(schedule.group_of_column(state)[data.columns])
    gone = sorted(set(range(1, state + 1)) - set(there.tolist()))
    if gone:
        raise TransilError(
            f"{where}: no scores of images of group {', '.join(map(str, gone))}; a correction "
            "is fitted on images of all classes seen so far, which a reference has "
            "(transil train --role reference) and a target has not"
        )
    refuse_predictions(data.scores, data.columns, where)
    return Problem(data.scores, data.columns, schedule, state, correction)


def _facts(store: ScoreStore) -> dict[str, Any]:
    return {
        "schedule": store.schedule.sizes,
        "method": store.method,
        "score kind": store.kind,
    }


def _reference_name(store: ScoreStore) -> str:
    return store.dataset or (store.path.resolve().name if store.path else "reference")

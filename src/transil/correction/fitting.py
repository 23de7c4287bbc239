"""From scores with labels to pairs: one state of arrays, or whole stores into a bank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from transil.arrays import check_finite, check_scores, to_numpy
from transil.correction.alike import check_alike
from transil.correction.bank import Bank, Reference, score_scale
from transil.correction.layers import Correction, Pairs
from transil.correction.objective import Problem
from transil.correction.registry import get_correction, get_solver
from transil.correction.solvers import Fit, Solver, no_progress
from transil.errors import TransilError
from transil.files import digest
from transil.provenance import versions
from transil.schedule import Schedule, ScheduleLike
from transil.scores import ScoreStore

# watch(reference name, state, fraction of that state's fit that is done)
Watch = Callable[[str, int, float], None]


def fit_state(
    scores: Any,
    labels: Any,
    schedule: ScheduleLike,
    *,
    correction: str | Correction = "adbic",
    solver: str | Solver = "newton",
    previous: Pairs | None = None,
    **settings: Any,
) -> Fit:
    """Fit the pairs of one state. scores (n, columns), labels (n,); arrays or tensors.

    The state is the one with as many columns. `previous` holds the pairs of the state before, for
    a solver that starts from them. Further settings go to the solver, such as `penalty`.
    """
    schedule = Schedule.of(schedule)
    scores = to_numpy(scores)
    check_scores(scores)
    if scores.ndim != 2 or not len(scores):
        raise TransilError(f"scores: expected a table with rows, got shape {scores.shape}")
    state = schedule.state_with(scores.shape[1])
    check_finite(scores, f"state {state}")
    columns = schedule.column_of(to_numpy(labels).astype(int), state)
    if len(columns) != len(scores):
        raise TransilError(f"state {state}: {len(scores)} rows of scores, {len(columns)} labels")
    problem = Problem(scores, columns, schedule, state, get_correction(correction))
    return get_solver(solver, **settings).fit(problem, previous)


def fit(
    stores: ScoreStore | Sequence[ScoreStore],
    *,
    split: str = "val",
    correction: str | Correction = "adbic",
    solver: str | Solver = "newton",
    names: Sequence[str] | None = None,
    watch: Watch | None = None,
    **settings: Any,
) -> Bank:
    """Fit every state of one or more reference stores and keep the pairs in a bank.

    All stores must have the same group sizes and method. `names` are those of the references
    (default: data set, or folder). Settings go to the solver: `penalty=Penalty(0, 0)`, `seed=1`.
    """
    stores = [stores] if isinstance(stores, ScoreStore) else list(stores)
    if not stores:
        raise TransilError("fit: no score store was given")
    kind, how = get_correction(correction), get_solver(solver, **settings)
    first = stores[0]
    for store in stores[1:]:
        names_of = (first.name, store.name)
        check_alike(_facts(first), _facts(store), names_of, "a bank holds references of one kind")
    if names is None:
        names = [_reference_name(store) for store in stores]
    if len(names) != len(stores):
        raise TransilError(f"fit: {len(names)} names for {len(stores)} stores")
    references = tuple(
        _fit_reference(store, name, split, kind, how, watch)
        for store, name in zip(stores, names, strict=True)
    )
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
            "datasets": [store.dataset for store in stores],
        },
    )


def _fit_reference(
    store: ScoreStore,
    name: str,
    split: str,
    correction: Correction,
    solver: Solver,
    watch: Watch | None,
) -> Reference:
    pairs: dict[int, Pairs] = {}
    records, scale = {}, {}
    for state in store.require(split)[1:]:
        data = store.get(split, state)
        problem = Problem(data.scores, data.columns, store.schedule, state, correction)
        progress = no_progress if watch is None else _told_to(watch, name, state)
        fitted = solver.fit(problem, pairs.get(state - 1), progress)
        pairs[state], records[state] = fitted.pairs, fitted.record
        scale[state] = score_scale(data.scores)
    return Reference(name, pairs, records, scale, source=store.fingerprint())


def _told_to(watch: Watch, name: str, state: int) -> Callable[[float], None]:
    return lambda fraction: watch(name, state, fraction)


def _facts(store: ScoreStore) -> dict[str, Any]:
    return {
        "schedule": store.schedule.sizes,
        "method": store.method,
        "score kind": store.kind,
    }


def _reference_name(store: ScoreStore) -> str:
    return store.dataset or (store.path.resolve().name if store.path else "reference")

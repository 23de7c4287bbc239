"""Which finished states of a run lack scores: files get lost, or are left behind when a run is moved."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

from transil.engine.run_folder import RunFolder
from transil.errors import DataWarning
from transil.methods.base import Method
from transil.methods.registry import family_of
from transil.scores.store import ScoreStore


def states_to_score(run: RunFolder, method: Method, *, warn: bool = False) -> list[int]:
    """Finished states whose scores can be made again from their checkpoints.

    `warn` of those whose checkpoints are lost, too.
    """
    saved = set(run.saved_states())
    lost = _unscored(run, method)
    gone = ", ".join(str(state) for state in lost if state not in saved)
    if gone and warn:
        warnings.warn(
            f"{run.path}: scores of finished states are missing (of {gone}), and so are their "
            "checkpoints; bring one or the other back, or train again in another folder",
            DataWarning,
            stacklevel=2,
        )
    return [state for state in lost if state in saved]


def _unscored(run: RunFolder, trained: Method) -> list[int]:
    """Finished states of which a split or a method has no scores, by what the folder itself says.

    Those of another run that this one goes on from are that one's.
    """
    finished = run.finished()
    if not finished:
        return []
    config, past = run.config(), run.record().data.past
    elsewhere = len(past.sizes) if past else 0
    states = {*range(elsewhere + 1, finished + 1), *run.saved_states()}
    splits = _splits(run, states, reference=config.data.role == "reference")
    lost: set[int] = set()
    for method in family_of(trained):
        path = run.scores_path(method.name)
        store = ScoreStore.open(path) if (path / "store.json").exists() else None
        lost.update(
            state
            for state, names in splits.items()
            if store is None or not all(store.has(split, state) for split in names)
        )
    return sorted(lost)


def _splits(run: RunFolder, states: Iterable[int], *, reference: bool) -> dict[int, list[str]]:
    """The splits that have images in each of these states."""
    counts = run.label_map().images
    past = {"test", "val"} if reference else {"test"}
    return {
        state: [
            split
            for split, groups in counts.items()
            if any(groups[:state] if split in past else groups[state - 1 : state])
        ]
        for state in states
    }

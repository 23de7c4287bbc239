"""Which finished states of a run lack scores: files get lost, or are left behind when a run is moved."""

from __future__ import annotations

from transil.engine.config import RunConfig
from transil.engine.run_folder import RunFolder
from transil.methods.registry import family_of, get_method
from transil.scores import ScoreStore


def states_to_score(run: RunFolder) -> list[int]:
    """Finished states of which a split or a method has no scores, by what the folder itself says."""
    finished = run.finished()
    if not finished:
        return []
    config = RunConfig.from_dict(run.record()["config"], str(run.path))
    splits = _splits(run, finished, reference=config.data.role == "reference")
    lost: set[int] = set()
    for method in family_of(get_method(config.method, config.settings)):
        path = run.scores_path(method.name)
        store = ScoreStore.open(path) if (path / "store.json").exists() else None
        lost.update(
            state
            for state, names in splits.items()
            if store is None or not all(store.has(split, state) for split in names)
        )
    return sorted(lost)


def _splits(run: RunFolder, finished: int, *, reference: bool) -> dict[int, list[str]]:
    """The splits that have images in each finished state; past classes of another run have none."""
    counts: dict[str, list[int]] = run.label_map()["images"]
    past = {"test", "val"} if reference else {"test"}
    return {
        state: [
            split
            for split, groups in counts.items()
            if any(groups[:state] if split in past else groups[state - 1 : state])
        ]
        for state in range(1, finished + 1)
        if run.state_path(state).exists()
    }

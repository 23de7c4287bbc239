"""One state of a model that another framework trains, recorded at once: what the adapters share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transil.errors import TransilError
from transil.schedule import Schedule
from transil.scores.head import Head
from transil.scores.recorder import SplitFile, finished, last_state, open_store
from transil.scores.store import ScoreStore

if TYPE_CHECKING:
    import torch

Batches = Iterable[tuple[Any, Any]]  # (outputs, labels)


def record_state(
    path: str | os.PathLike[str],
    sizes: Iterable[int],
    state: int,
    splits: Mapping[str, Batches],
    *,
    method: str | None,
    dataset: str | None,
    head: Head | None = None,
) -> ScoreStore:
    """Put the splits of a state into the store in a folder, all of them or none; the store.

    `sizes`: of the groups, as far as they are known; labels and columns are in learning order.
    """
    schedule = Schedule.from_sizes([int(size) for size in sizes])
    store = store_for(path, schedule, schedule.check_state(state), method, dataset)
    parts = {}
    for split, batches in splits.items():
        parts[split] = SplitFile(store, state, split, head or Head())
        for outputs, labels in batches:
            parts[split].add(outputs, labels)
    store.put_files(finished(store, state, parts))
    return store


def store_for(
    path: str | os.PathLike[str],
    schedule: Schedule,
    state: int,
    method: str | None,
    dataset: str | None,
) -> ScoreStore:
    """The store in a folder, to put a state into that follows what is there, or replaces the last."""
    store = open_store(Path(path), schedule, method, dataset)
    if state < (last := last_state(store)):
        raise TransilError(
            f"{store.name}: state {last} is recorded already, and this is state {state}; a model that "
            "is trained anew needs another folder, or delete this one"
        )
    return store


def evaluated(
    network: torch.nn.Module, batches: Iterable[Any], outputs: Callable[[Any], tuple[Any, Any]]
) -> Iterator[tuple[Any, Any]]:
    """`outputs` of each batch, with the network in evaluation mode and as it was afterwards."""
    import torch

    modes = [(module, module.training) for module in network.modules()]
    network.eval()
    try:
        for batch in batches:
            with torch.no_grad():
                made = outputs(batch)
            yield made
    finally:
        for module, mode in modes:
            module.training = mode

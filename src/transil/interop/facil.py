"""Record the scores of an approach of FACIL: one call after each `appr.train(t, ...)`.

    from transil.interop.facil import record
    record("scores/mine", appr, tst_loader, val=val_loader, method="lwf-t")

Nothing of FACIL is imported. Of the approach it takes `model` (a list of outputs, one for each head,
and `task_cls`, the classes of each) and `device`. Labels are in learning order there.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

from transil.interop.states import evaluated, record_state
from transil.scores.store import ScoreStore


def record(
    path: str | os.PathLike[str],
    appr: Any,
    test: Sequence[Iterable[Any]],
    *,
    val: Sequence[Iterable[Any]] | None = None,
    method: str | None = None,
    dataset: str | None = None,
) -> ScoreStore:
    """Put the state that was just learned into the store in a folder; the store.

    `test` and `val` are lists of loaders, one for each task, those still to come included.
    """
    import torch

    def outputs(batch: Any) -> tuple[Any, Any]:
        images, labels = batch
        return torch.cat(appr.model(images.to(appr.device)), dim=1), labels

    state = len(appr.model.task_cls)
    loaders = {"val": val, "test": test}
    return record_state(
        path,
        appr.model.task_cls,
        state,
        {
            split: evaluated(appr.model, chain.from_iterable(tasks[:state]), outputs)
            for split, tasks in loaders.items()
            if tasks is not None
        },
        method=method,
        dataset=dataset,
    )

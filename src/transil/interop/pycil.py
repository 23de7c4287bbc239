"""Record the scores of a learner of PyCIL: one call after each `model.incremental_train(data_manager)`.

    from transil.interop.pycil import record
    record("scores/mine", model, data_manager, method="lwf-t")

Nothing of PyCIL is imported. Of the learner it takes `_network`, `_device`, `_cur_task` and
`test_loader`, of the data manager `nb_tasks` and `get_task_size`. Labels are in learning order there.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from transil.interop.states import evaluated, record_state
from transil.scores.head import Head
from transil.scores.store import ScoreStore


def record(
    path: str | os.PathLike[str],
    model: Any,
    data_manager: Any,
    *,
    val: Iterable[Any] | None = None,
    method: str | None = None,
    dataset: str | None = None,
    columns: int = 1,
) -> ScoreStore:
    """Put the state that was just learned into the store in a folder; the store.

    `val`: a loader of validation images of all classes seen so far, where there is one. `columns`: how
    many outputs each class has, of which the first is its score (4 in PASS).
    """

    def outputs(batch: Any) -> tuple[Any, Any]:
        _, images, labels = batch
        made = model._network(images.to(model._device))
        return (made["logits"] if isinstance(made, Mapping) else made), labels

    loaders = {"val": val, "test": model.test_loader}
    return record_state(
        path,
        [data_manager.get_task_size(task) for task in range(data_manager.nb_tasks)],
        model._cur_task + 1,
        {k: evaluated(model._network, v, outputs) for k, v in loaders.items() if v is not None},
        method=method,
        dataset=dataset,
        head=Head(columns=columns),
    )

"""Record the scores of a model of Mammoth: one call after each `dataset.evaluate(model, dataset)`.

    from transil.interop.mammoth import record
    record("scores/mine", model, dataset, method="lwf-all")

Nothing of Mammoth is imported. Of the model it takes `net`, `device` and the call itself, of the
dataset `test_loaders`, `get_offsets`, `N_TASKS`, `N_CLASSES` and `args.validation`. A network has the
columns of all classes from the start, and labels are in learning order.
"""

from __future__ import annotations

import os
from itertools import chain
from typing import Any

from transil.interop.states import evaluated, record_state
from transil.scores.head import Head
from transil.scores.store import ScoreStore


def record(
    path: str | os.PathLike[str],
    model: Any,
    dataset: Any,
    *,
    method: str | None = None,
    name: str | None = None,
) -> ScoreStore:
    """Put the state that was just learned into the store in a folder; the store.

    The split is "test"; with Mammoth's --validation its loaders hold validation images, and it is
    "val". `name`: that of the data set in the store.
    """

    def outputs(batch: Any) -> tuple[Any, Any]:
        return model(batch[0].to(model.device)), batch[1]

    offsets = [dataset.get_offsets(task) for task in range(dataset.N_TASKS)]
    split = "val" if dataset.args.validation else "test"
    batches = evaluated(model.net, chain.from_iterable(dataset.test_loaders), outputs)
    return record_state(
        path,
        [stop - start for start, stop in offsets],
        len(dataset.test_loaders),
        {split: batches},
        method=method,
        dataset=name,
        head=Head(width=dataset.N_CLASSES),
    )

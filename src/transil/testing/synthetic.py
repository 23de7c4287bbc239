"""Generated scores with the bias of an incremental classifier: for the demo, tests and benchmarks.

No network is trained. Each image has a signal at its true class, confusable neighbours and noise.
A model of state s forgets: the signal of group k fades with its age s - k. And it favours what is
new: the scores of a group are scaled and lifted by how recent it is, which is the bias that BiC
and adBiC remove. Data sets made with different seeds share the shape of the bias, not its exact
size, as references and targets do.
"""

from __future__ import annotations

import numpy as np

from transil.schedule import Schedule
from transil.scores.store import ScoreStore


def biased_scores(
    schedule: Schedule | str = "50/10",
    *,
    seed: int = 0,
    images_per_class: int = 40,
    splits: tuple[str, ...] = ("val", "test"),
    bias: float = 1.0,
    dataset: str | None = None,
) -> ScoreStore:
    """A store of generated scores. `bias` 0 gives a model without bias, 1 a strong one."""
    schedule = Schedule.of(schedule)
    store = ScoreStore(schedule, method="generated", dataset=dataset or f"generated-{seed}")
    # What differs between data sets: how strong the bias is, and how fast classes are forgotten.
    own = np.random.default_rng([seed, 0])
    lift, stretch = own.uniform(1.6, 2.4), own.uniform(0.35, 0.5)
    fade = own.uniform(0.80, 0.86)
    for number, split in enumerate(splits, start=1):
        for state in range(1, schedule.states + 1):
            random = np.random.default_rng([seed, number, state])
            group = schedule.group_of_column(state)
            columns = np.repeat(np.arange(len(group)), images_per_class)
            age = state - group
            scores = random.normal(0.0, 1.0, (len(columns), len(group)))
            rows = np.arange(len(columns))
            scores[rows, columns] += 4.0 * fade ** age[columns]
            neighbour = (columns + random.integers(1, 4, len(columns))) % len(group)
            scores[rows, neighbour] += random.exponential(1.0, len(columns))
            recent = np.exp(-age / 2.0)  # 1 for the newest group, falling with age
            scores = scores * (1.0 + bias * stretch * recent) + bias * lift * recent
            labels = schedule.classes(state)[columns]
            store.put(split, state, scores.astype(np.float32), labels)
    return store

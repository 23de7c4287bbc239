"""Learning rates: pure functions of the settings, the epoch, and the losses so far.

A resumed run needs no state of a scheduler: the losses are in its checkpoint. Epochs count from 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from transil.engine.config import MOST_RATE, TrainConfig

WARM = 4  # a warm-up takes at most a quarter of the epochs: few of them begin at the full rate


def base_rate(train: TrainConfig, state: int) -> float:
    """The learning rate at the start of a state."""
    return train.lr / state if train.later_lr == "by-state" else train.lr


def learning_rate(train: TrainConfig, state: int, epoch: int, losses: Sequence[float]) -> float:
    """The learning rate of an epoch of a state; `losses` are those of the epochs before it."""
    base, epochs = base_rate(train, state), train.epochs_of(state)
    base *= min(1.0, epoch / (min(train.warmup, epochs // WARM) + 1))
    if train.schedule == "milestones":
        passed = sum(epoch > drop for drop in drop_epochs(train, epochs))
        return dropped(base, train.factor, passed)
    if train.schedule == "cosine":
        return base * 0.5 * (1.0 + math.cos(math.pi * (epoch - 1) / epochs))
    if train.schedule == "plateau":
        first = state == 1 and train.first_patience is not None
        patience = train.first_patience if first else train.patience
        return dropped(base, train.factor, plateau_drops(losses[: epoch - 1], patience or 0))
    return base


def dropped(rate: float, factor: float, times: int) -> float:
    """A rate after so many drops; a factor above 1 ends at the largest rate, not in an overflow."""
    try:
        return min(rate * factor**times, MOST_RATE)
    except OverflowError:
        return MOST_RATE


def drop_epochs(train: TrainConfig, epochs: int) -> list[int]:
    """The epochs after which the rate drops; shares below 1 are of all epochs."""
    return [max(1, round(drop * epochs)) if drop < 1 else int(drop) for drop in train.drops]


def plateau_drops(losses: Sequence[float], patience: int, threshold: float = 1e-4) -> int:
    """How often a rate has dropped: each time no loss was better by a share for `patience` epochs.

    The rule of torch's ReduceLROnPlateau with its default threshold, which the released FT code uses.
    """
    best, bad, drops = math.inf, 0, 0
    for loss in losses:
        if loss < best * (1.0 - threshold):
            best, bad = loss, 0
        else:
            bad += 1
        if bad > patience:
            drops, bad = drops + 1, 0
    return drops

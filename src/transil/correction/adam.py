"""`authors` and `paper`: Adam on mini-batches, as released and as written.

The released recipe differs from the paper's text in four ways that change the numbers: it starts
each state from the pairs of the one before, cuts batches inside each group and never shuffles
them, runs 200 epochs instead of 300, and keeps the epoch with the best running top-5 accuracy.
Both are one loop here, with these choices as settings.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np

from transil._common.progress import Progress, no_progress
from transil.correction.objective import Objective, Problem
from transil.correction.parameters import Parameters
from transil.correction.solvers import Fit, FitRecord, Solver
from transil.errors import TransilError

# The epoch whose pairs are kept: the best by running accuracy on the fitting data, or the last.
Keep = Literal["top5", "top1", "last"]


@dataclass(frozen=True)
class Adam(Solver):
    """Adam with the choices in which the released code and the paper differ as settings."""

    name: ClassVar[str] = "adam"
    slow: ClassVar[bool] = True

    epochs: int = 200
    batch_size: int = 128
    learning_rate: float = 1e-3
    warm: bool = True  # start from the pairs of the state before, else from (1, 0)
    shuffle: bool = False  # else batches are cut inside each group, in order, the same each epoch
    keep: Keep = "top5"
    seed: int = 0  # of the shuffling; without effect where nothing is shuffled

    def __post_init__(self) -> None:
        super().__post_init__()
        for setting in ("epochs", "batch_size"):
            if getattr(self, setting) < 1:
                raise TransilError(f"{self.name}: {setting} must be at least 1")
        if self.seed < 0:
            raise TransilError(f"{self.name}: seed must be 0 or more")
        if self.keep not in get_args(Keep):
            raise TransilError(f"{self.name}: keep is one of {', '.join(get_args(Keep))}")
        if not self.learning_rate > 0:
            raise TransilError(f"{self.name}: learning_rate must be above 0")

    def fit(
        self, problem: Problem, previous: Parameters | None = None, progress: Progress = no_progress
    ) -> Fit:
        """Fit one state; with `warm`, pairs that `previous` has already are continued."""
        import torch

        from transil.correction.adam_steps import Steps

        began = time.perf_counter()
        start = self._start(problem, previous if self.warm else None)
        best, kept, kept_epoch = -1.0, start, 0
        with torch.inference_mode():
            steps = Steps(problem, start, self)
            for epoch in range(1, self.epochs + 1):
                hits = sum(steps.step(batch) for batch in steps.batches())
                accuracy = hits / len(problem.scores)
                if not np.isfinite(steps.theta).all():
                    raise TransilError(
                        f"{self.name}, state {problem.state}: the fit diverged in epoch {epoch}; "
                        "are the scores very large? scale them down"
                    )
                if self.keep == "last" or accuracy > best:  # strictly: the first of equals stays
                    best, kept, kept_epoch = accuracy, steps.parameters(), epoch
                progress(epoch / self.epochs, "")
        seconds = time.perf_counter() - began
        there = Objective(problem, self.penalty).expand(kept.vector)
        norm = float(np.linalg.norm(there.gradient))
        return Fit(kept, FitRecord(there.value, norm, self.epochs, seconds, kept=kept_epoch))

    def _start(self, problem: Problem, previous: Parameters | None) -> Parameters:
        start = problem.design.identity()
        # adBiC has one pair more in each state; BiC's single pair belongs to a new group and
        # always starts afresh.
        for name, vector in previous.items() if previous is not None else ():
            if len(vector) < len(start[name]):
                start[name][: len(vector)] = vector
        return start


@dataclass(frozen=True)
class Authors(Adam):
    """Adam exactly as in the released code: warm, group-ordered batches, best top-5 epoch."""

    name: ClassVar[str] = "authors"


@dataclass(frozen=True)
class Paper(Adam):
    """Adam as the paper's text and Algorithm 1 say: from (1, 0), shuffled, the last epoch."""

    name: ClassVar[str] = "paper"

    epochs: int = 300
    warm: bool = False
    shuffle: bool = True
    keep: Keep = "last"

"""One Adam step on one batch of scores, with the gradient in closed form.

It stands apart from `adam` because it needs torch, which takes a second to import and which
nobody who only evaluates or corrects needs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from transil.correction.objective import Problem
from transil.correction.parameters import Parameters

if TYPE_CHECKING:
    from transil.correction.adam import Adam

# The released code fits in single precision; so do we, to keep the same epochs.
Float32Array: TypeAlias = NDArray[np.float32]
DTYPE = np.float32
# torch.optim.Adam's defaults, which both recipes use.
BETA_1, BETA_2, EPSILON = 0.9, 0.999, DTYPE(1e-8)
FRESH_1, FRESH_2 = DTYPE(1.0 - BETA_1), DTYPE(1.0 - BETA_2)


class Buffer:
    """Room for the scores of one batch size, seen by torch and by NumPy."""

    def __init__(self, rows: int, columns: int) -> None:
        self.z = torch.empty(rows, columns)
        self.z_array: Float32Array = self.z.numpy()
        self.mean = np.full(rows, 1.0 / rows, DTYPE)
        self.above = np.empty((rows, columns), np.bool_)
        self.ones = np.ones(columns, DTYPE)


@dataclass(frozen=True)
class Batch:
    """Rows of one step."""

    scores: torch.Tensor  # (n, columns)
    true: NDArray[np.int64]  # (n,), where the score of the true class lies in the flat scores
    true_share: Float32Array  # (m,): the part of the gradient that does not depend on theta
    buffer: Buffer


class Steps:
    """The state of one fit: parameters, moments, and one Adam step on one batch.

    The gradient is closed-form. torch's fused kernels do the work on whole batches, NumPy the
    arithmetic on the few parameters, where a call costs less; both on the same memory.
    """

    def __init__(self, problem: Problem, start: Parameters, settings: Adam) -> None:
        state, schedule = problem.state, problem.schedule
        self.settings = settings
        group = schedule.group_of_column(state) - 1
        self.design = problem.design
        # theta -> [alpha, beta] of every column.
        to_alpha, to_beta = (half[group] for half in np.split(self.design.matrix, 2))
        self.spread = np.vstack([to_alpha, to_beta]).astype(DTYPE)
        offsets = [half[group] for half in np.split(self.design.offset, 2)]
        self.offset = np.concatenate(offsets).astype(DTYPE)
        self.decay = DTYPE(2.0) * settings.penalty.of(self.design).astype(DTYPE)
        self.theta = start.vector.astype(DTYPE)
        self.first = np.zeros_like(self.theta)
        self.second = np.zeros_like(self.theta)
        self.count = 0
        # The rank a true class must reach for the running accuracy; 0 where none is kept.
        self.rank = min({"top1": 1, "top5": 5, "last": 0}[settings.keep], len(group))
        # Rows by the group of their label, in their own order inside it. (The released code
        # takes the group from the file a row came from; labels are the safer witness.)
        order = np.argsort(group[problem.columns], kind="stable")
        self.scores = torch.from_numpy(problem.seen(order).astype(DTYPE))
        self.columns = problem.columns[order]
        # The true class's part of each row's gradient, which no parameter changes.
        true = self.scores.numpy()[np.arange(len(order)), self.columns]
        true_part = to_alpha[self.columns] * true[:, None] + to_beta[self.columns]
        self.true_part = true_part.astype(DTYPE)
        self.random = np.random.default_rng([settings.seed, state])
        self._buffers: dict[int, Buffer] = {}
        self._by_column = np.empty(2 * len(group), DTYPE)
        self._alpha, self._beta = torch.from_numpy(self._by_column).chunk(2)
        self._means = np.empty_like(self._by_column)
        self._score_mean, self._mass_mean = np.split(self._means, 2)
        ends = np.cumsum(np.bincount(group[problem.columns], minlength=state)).tolist()
        self.fixed = None if settings.shuffle else list(self._cut(np.arange(len(order)), ends))

    def batches(self) -> Iterable[Batch]:
        """The batches of one epoch."""
        if self.fixed is not None:
            return self.fixed
        rows = len(self.columns)
        return self._cut(self.random.permutation(rows), [rows])

    def _cut(self, order: NDArray[np.int64], ends: list[int]) -> Iterator[Batch]:
        """The rows in this order, cut into batches; none reaches across one of the ends."""
        scores = self.scores[torch.from_numpy(order)]
        columns, true_part = self.columns[order], self.true_part[order]
        width, size = scores.shape[1], self.settings.batch_size
        for first, end in zip([0, *ends], ends, strict=False):
            for start in range(first, end, size):
                rows = slice(start, min(start + size, end))
                count = rows.stop - start
                if count not in self._buffers:
                    self._buffers[count] = Buffer(count, width)
                buffer = self._buffers[count]
                where = np.arange(0, count * width, width) + columns[rows]
                yield Batch(scores[rows], where, buffer.mean @ true_part[rows], buffer)

    def step(self, batch: Batch) -> int:
        """One Adam step on mean cross-entropy plus penalty; the hits before the step."""
        buffer = batch.buffer
        np.matmul(self.spread, self.theta, out=self._by_column)
        self._by_column += self.offset
        z = torch.addcmul(self._beta, batch.scores, self._alpha, out=buffer.z)
        hits = self._hits(batch) if self.rank else 0
        torch.softmax(z, dim=1, out=z)
        # Means over the batch of p and p * o for each column: the gradient, less the true class.
        np.matmul(buffer.mean, buffer.z_array, out=self._mass_mean)
        z *= batch.scores
        np.matmul(buffer.mean, buffer.z_array, out=self._score_mean)
        gradient = self._means @ self.spread
        gradient -= batch.true_share
        gradient += self.decay * self.theta  # coupled, as weight decay in torch's Adam
        self._adam(gradient)
        return hits

    def _hits(self, batch: Batch) -> int:
        """How many rows have fewer than `rank` scores above that of their true class."""
        buffer = batch.buffer
        true = buffer.z_array.take(batch.true)[:, None]
        np.greater(buffer.z_array, true, out=buffer.above)
        ranks = buffer.above.astype(DTYPE) @ buffer.ones  # faster than a sum of booleans
        return int(np.count_nonzero(ranks < self.rank))

    def _adam(self, gradient: Float32Array) -> None:
        self.count += 1
        self.first += FRESH_1 * (gradient - self.first)
        gradient *= gradient
        self.second += FRESH_2 * (gradient - self.second)
        root = np.sqrt(self.second)
        root *= 1.0 / math.sqrt(1.0 - BETA_2**self.count)
        root += EPSILON
        np.divide(self.first, root, out=root)
        root *= self.settings.learning_rate / (1.0 - BETA_1**self.count)
        self.theta -= root

    def parameters(self) -> Parameters:
        """The current parameters, a copy in float64."""
        return self.design.parameters(self.theta.astype(np.float64))

"""Training batches from tensors that never move: what a captured step can read.

All random numbers of an epoch are drawn on the host and copied into place; a counter on the device
walks through them, batch by batch. Taking a batch is then a fixed sequence of tensor operations, the
same in a CUDA graph and outside one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from transil.data.augment import Normalise, Transform
from transil.data.device import copy_pixels, default_budget, read_ahead
from transil.data.statistics import Statistics
from transil.data.stream import Subset


class Feed:
    """The batches of one state after another, in the same tensors.

    - `capacity`: the most images a state has; `size`: their width and height as stored;
    - `share`: (rank, world): this process takes its share of the rows of each global batch;
    - `budget`: bytes of images kept on the device; with more they are streamed from the map;

    A batch always has `batch_size` rows, or as many as the largest state has; the last of an epoch
    is filled up with the first images of the epoch, which count nothing (`weight` 0).
    """

    def __init__(
        self,
        capacity: int,
        size: int,
        transform: Transform,
        statistics: Statistics,
        *,
        batch_size: int,
        seed: int,
        device: torch.device,
        share: tuple[int, int] = (0, 1),
        budget: int | None = None,
    ) -> None:
        self.transform, self.seed, self.device = transform, seed, device
        self.rank, world = share
        # Rows that count nothing cost as much as others: none more than the largest state needs.
        self.batch_size = batch_size = min(batch_size, world * max(2, -(-capacity // world)))
        self.local = batch_size // world
        self.normalise = Normalise(statistics, device)
        most = -(-capacity // batch_size)
        limit = default_budget(device) if budget is None else budget
        self.resident = capacity * size * size * 3 <= limit
        rows = capacity if self.resident else self.local
        self._pixels = torch.zeros((rows, size, size, 3), dtype=torch.uint8, device=device)
        self._labels = torch.zeros(capacity, dtype=torch.int64, device=device)
        self._counter = torch.zeros(1, dtype=torch.int64, device=device)
        # One row per batch; `_share` is 1 / (images that count in the global batch), else 0.
        self._index = torch.zeros((most, self.local), dtype=torch.int64, device=device)
        self._share = torch.zeros((most, self.local), device=device)
        self._plan: dict[str, torch.Tensor] = {}
        self._subset: Subset | None = None
        self._start = 0
        self._blocks: Iterator[torch.Tensor] | None = None

    def load(self, subset: Subset, state: int) -> None:
        """Take the images of a state."""
        self._subset, self._state = subset, state
        self._labels[: len(subset)] = torch.from_numpy(subset.labels)
        if self.resident:
            copy_pixels(subset, self._pixels)

    def __len__(self) -> int:
        """The number of batches of an epoch."""
        assert self._subset is not None
        return -(-len(self._subset) // self.batch_size)

    def begin(self, epoch: int, start: int = 0) -> None:
        """Draw an epoch, from (seed, state, epoch) alone, and put the counter before batch `start`."""
        assert self._subset is not None
        self._subset.check_open()  # a copy on the device must not outlive its state
        count = len(self._subset)
        random = np.random.default_rng([self.seed, self._state, epoch, 5])
        order = random.permutation(count)
        plan = self.transform.plan(random, count, self._pixels.shape[1])
        places = np.arange(len(self) * self.batch_size)
        counts = (places < count).astype(np.float32).reshape(len(self), -1)
        share = counts / counts.sum(axis=1, keepdims=True)
        index = order[places % count]
        self._write(self._index, self._mine(index))
        self._write(self._share, self._mine(share.reshape(-1)))
        for name, values in plan.items():
            rows = self._mine(values[places % count])
            if name not in self._plan:
                shape = (len(self._index), *rows.shape[1:])
                dtype = torch.from_numpy(rows[:0]).dtype
                self._plan[name] = torch.zeros(shape, dtype=dtype, device=self.device)
            self._write(self._plan[name], rows)
        self._start = start
        self.rewind()
        if not self.resident:
            mine = self._mine(index)[start:].reshape(-1)
            self._blocks = read_ahead(self._subset, mine, self.local, self.device)

    def refill(self) -> None:
        """Before each batch: bring its images where they are streamed. Nothing to do otherwise."""
        if self._blocks is not None:
            self._pixels.copy_(next(self._blocks), non_blocking=True)

    def take(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Images (b, 3, h, w), labels (b,), share (b,): the next batch; tensor operations only.

        The sum of share times loss over the global batch is the mean loss of its images.
        """
        rows = self._index.index_select(0, self._counter)[0]
        plan = {
            name: values.index_select(0, self._counter)[0] for name, values in self._plan.items()
        }
        share = self._share.index_select(0, self._counter)[0]
        pixels = self._pixels
        if self.resident:
            flat = pixels.view(len(pixels), -1)
            pixels = flat.index_select(0, rows).view(-1, *pixels.shape[1:])
        images = self.normalise(self.transform.apply(pixels, plan))
        self._counter += 1
        return images, self._labels.index_select(0, rows), share

    def rewind(self) -> None:
        """Put the counter back to the batch that the epoch was begun at."""
        self._counter.fill_(self._start)

    def _mine(self, rows: Any) -> Any:
        """Rows of all places as (batches, local, ...): those that this process works on."""
        whole = rows.reshape(-1, self.batch_size, *rows.shape[1:])
        return np.ascontiguousarray(whole[:, self.rank * self.local : (self.rank + 1) * self.local])

    @staticmethod
    def _write(into: torch.Tensor, rows: Any) -> None:
        """Copy an array to the front of a tensor; pinned, so that the host does not wait."""
        values = torch.from_numpy(rows)
        if into.is_cuda:
            values = values.pin_memory()
        into[: len(values)].copy_(values, non_blocking=True)

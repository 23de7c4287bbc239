"""Images that stay on the device: batches by index, no worker processes.

A subset that fits the budget is copied to the device once, as uint8. One that does not is read
from its memory map, block by block ahead of the step that needs it, through pinned memory.
"""

from __future__ import annotations

import math
import os
import queue
import threading
from collections.abc import Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from transil.data.augment import AsStored, Normalise, Transform
from transil.data.statistics import Statistics
from transil.data.stream import Subset
from transil.errors import TransilError
from transil.schedule import IntArray

# Batches read ahead when images do not fit the device.
AHEAD = 4


@dataclass(frozen=True)
class Batch:
    """images (b, 3, h, w) float, channels_last; labels (b,); `count` rows are real.

    All batches have the same shape: the last of an epoch is filled up with its first images,
    which `weight` (b,) marks with 0.
    """

    images: torch.Tensor
    labels: torch.Tensor
    weight: torch.Tensor
    count: int


class DeviceImages:
    """A subset on a device, as batches: one epoch at a time, in tensors that keep their places.

    - `seed`: each epoch is drawn from it and the epoch alone: a resumed run sees the same batches;
    - `budget`: bytes of images kept on the device (default: half of what is free there);
    - `capacity`: the most images of those that will take this subset's place (see `load`);
    - `share`: (rank, world): this process takes its share of the rows of each batch.

    All random numbers of an epoch are drawn on the host and copied into place; a counter on the device
    walks through them, batch by batch. `take` is then a fixed sequence of tensor operations, the same
    in a CUDA graph and outside one.
    """

    def __init__(
        self,
        subset: Subset,
        statistics: Statistics,
        *,
        device: torch.device | str = "cpu",
        batch_size: int = 128,
        seed: int = 0,
        budget: int | None = None,
        capacity: int = 0,
        share: tuple[int, int] = (0, 1),
    ) -> None:
        if batch_size < 1:
            raise TransilError(f"batch_size {batch_size}: it must be at least 1")
        if seed < 0:
            raise TransilError(f"seed {seed}: it must be 0 or more")
        if not len(subset):
            raise TransilError("no images to make batches of; check split and state")
        self.device, self.batch_size, self.seed = torch.device(device), batch_size, seed
        self.rank, world = share
        self.local = batch_size // world
        self.normalise = Normalise(statistics, self.device)
        capacity, shape = max(capacity, len(subset)), subset.shape[1:]
        limit = default_budget(self.device) if budget is None else budget
        self.resident = capacity * math.prod(shape) <= limit
        rows = capacity if self.resident else self.local
        self._pixels = torch.zeros((rows, *shape), dtype=torch.uint8, device=self.device)
        self._labels = torch.zeros(capacity, dtype=torch.int64, device=self.device)
        self._counter = torch.zeros(1, dtype=torch.int64, device=self.device)
        # One row per batch; `_share` is 1 / (images that count in the whole batch), else 0.
        most = -(-capacity // batch_size)
        self._index = torch.zeros((most, self.local), dtype=torch.int64, device=self.device)
        self._share = torch.zeros((most, self.local), device=self.device)
        self._plan: dict[str, torch.Tensor] = {}
        self._start = 0
        self._blocks: Generator[torch.Tensor, None, None] | None = None
        self.transform: Transform = AsStored()
        self.load(subset)

    def load(self, subset: Subset) -> None:
        """Take the images of this subset in place of those before."""
        self.subset = subset
        self._labels[: len(subset)] = torch.from_numpy(subset.labels)
        if self.resident:
            copy_pixels(subset, self._pixels)

    def __len__(self) -> int:
        """The number of batches of an epoch."""
        return -(-len(self.subset) // self.batch_size)

    def epoch(
        self, transform: Transform, number: int = 0, *, shuffle: bool = True
    ) -> Iterator[Batch]:
        """The batches of one epoch. Without `shuffle` images come in their own order."""
        self.begin(transform, (number, 4), shuffle=shuffle)
        try:
            for first in range(0, len(self.subset), self.batch_size):
                self.subset.check_open()  # a copy on the device must not outlive its state
                self.refill()
                images, labels, share = self.take()
                count = min(self.batch_size, len(self.subset) - first)
                yield Batch(images, labels, (share > 0).float(), count)
        finally:
            self._stop_reading()

    def begin(
        self, transform: Transform, key: tuple[int, ...], start: int = 0, *, shuffle: bool = True
    ) -> None:
        """Draw an epoch, from the seed and `key` alone, and put the counter before batch `start`."""
        self.subset.check_open()
        count = len(self.subset)
        random = np.random.default_rng([self.seed, *key])
        order = random.permutation(count) if shuffle else np.arange(count)
        plan = transform.plan(random, count, self._pixels.shape[1])
        if transform != self.transform:
            self.transform, self._plan = transform, {}
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
        self._stop_reading()
        if not self.resident:
            mine = self._mine(index)[start:].reshape(-1)
            self._blocks = read_ahead(self.subset, mine, self.local, self.device)

    def refill(self) -> None:
        """Before each batch: bring its images where they are streamed. Nothing to do otherwise."""
        if self._blocks is not None:
            self._pixels.copy_(next(self._blocks), non_blocking=True)

    def take(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Images (b, 3, h, w), labels (b,), share (b,): the next batch; tensor operations only.

        The sum of share times loss over the whole batch is the mean loss of its images.
        """
        rows = self._index.index_select(0, self._counter)[0]
        plan = {
            name: values.index_select(0, self._counter)[0] for name, values in self._plan.items()
        }
        share = self._share.index_select(0, self._counter)[0]
        pixels = self._pixels
        if self.resident:
            # Whole rows of bytes: far faster on a CPU than indexing pixels.
            flat = pixels.view(len(pixels), -1)
            pixels = flat.index_select(0, rows).view(-1, *pixels.shape[1:])
        images = self.normalise(self.transform.apply(pixels, plan))
        self._counter += 1
        return images, self._labels.index_select(0, rows), share

    def rewind(self) -> None:
        """Put the counter back to the batch that the epoch was begun at."""
        self._counter.fill_(self._start)

    def _stop_reading(self) -> None:
        if self._blocks is not None:
            self._blocks.close()
            self._blocks = None

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


def useful_batch(batch_size: int, most: int, world: int) -> int:
    """The batch size, or less: rows that count nothing cost as much as others.

    No more than the largest state, of `most` images, needs, in equal shares for `world` processes.
    """
    return min(batch_size, world * max(2, -(-most // world)))


def copy_pixels(subset: Subset, into: torch.Tensor) -> None:
    """Copy all images of a subset to the front of a tensor, in blocks: never twice in memory."""
    for start in range(0, len(subset), 4096):
        part = torch.from_numpy(subset.read(slice(start, start + 4096)))
        into[start : start + len(part)] = part


def default_budget(device: torch.device) -> int:
    """Half of the memory that is free on a device; on the CPU, of the machine's."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0]) // 2
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (ValueError, OSError, AttributeError):
        return 1 << 30


def read_ahead(
    subset: Subset, rows: IntArray, batch_size: int, device: torch.device
) -> Generator[torch.Tensor, None, None]:
    """Batches from the memory map, read by a thread while the device works on earlier ones."""
    waiting: queue.Queue[torch.Tensor | BaseException | None] = queue.Queue(AHEAD)
    stop = threading.Event()

    def hand_over(item: torch.Tensor | BaseException | None) -> None:
        while not stop.is_set():
            with suppress(queue.Full):
                waiting.put(item, timeout=0.1)
                return

    def read() -> None:
        try:
            for start in range(0, len(rows), batch_size):
                # Sorted rows read the map forwards; the batch is put back in its own order.
                wanted = rows[start : start + batch_size]
                order = np.argsort(wanted)
                batch = torch.empty((len(wanted), *subset.shape[1:]), dtype=torch.uint8,
                                    pin_memory=device.type == "cuda")  # fmt: skip
                batch.numpy()[order] = subset.read(wanted[order])
                hand_over(batch)
                if stop.is_set():
                    return
            hand_over(None)
        except BaseException as error:  # told in the thread that asked for the batch
            hand_over(error)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    try:
        while (item := waiting.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item.to(device, non_blocking=True)
    finally:
        stop.set()
        thread.join()

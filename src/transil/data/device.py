"""Images that stay on the device: batches by index, no worker processes.

A subset that fits the budget is copied to the device once, as uint8. One that does not is read
from its memory map, block by block ahead of the step that needs it, through pinned memory.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from transil.data.augment import Normalise, Transform
from transil.data.statistics import Statistics
from transil.data.stream import Subset
from transil.errors import TransilError
from transil.schedule import IntArray

# Bytes of images made in one go, on a CPU (what its cache holds) and on a GPU.
TOGETHER = {False: 1 << 21, True: 1 << 26}
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
    """A subset on a device, as batches.

    `budget` bounds the bytes kept on the device (default: half of what is free there). Each epoch
    is drawn from (seed, epoch) alone: a resumed run sees the same batches.
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
    ) -> None:
        if batch_size < 1:
            raise TransilError(f"batch_size {batch_size}: it must be at least 1")
        if seed < 0:
            raise TransilError(f"seed {seed}: it must be 0 or more")
        if not len(subset):
            raise TransilError("no images to make batches of; check split and state")
        self.subset = subset
        self.device = torch.device(device)
        self.batch_size, self.seed = batch_size, seed
        self.normalise = Normalise(statistics, self.device)
        self._labels = torch.from_numpy(subset.labels).to(self.device)
        self.resident = subset.nbytes <= (default_budget(self.device) if budget is None else budget)
        self._resident = self._copy() if self.resident else None

    def __len__(self) -> int:
        """The number of batches of an epoch."""
        return -(-len(self.subset) // self.batch_size)

    def epoch(
        self, transform: Transform, number: int = 0, *, shuffle: bool = True
    ) -> Iterator[Batch]:
        """The batches of one epoch. Without `shuffle` images come in their own order."""
        order, plan = self.plan(transform, number, shuffle=shuffle)
        places = self._filled(order)
        drawn = {k: torch.from_numpy(v[places]).to(self.device) for k, v in plan.items()}
        index = torch.from_numpy(order[places]).to(self.device)
        labels = self._labels[index]
        weight = (torch.arange(len(places), device=self.device) < len(order)).float()
        # Several batches are made together: on a GPU, starting an operation costs more than
        # doing it on a few hundred small images.
        together = self._together(transform) * self.batch_size
        for first, pixels in zip(
            range(0, len(places), together),
            self._pixels(order[places], index, together),
            strict=True,
        ):
            part = slice(first, first + together)
            made = self.normalise(transform.apply(pixels, {k: v[part] for k, v in drawn.items()}))
            for start in range(first, min(first + together, len(places)), self.batch_size):
                self.subset.check_open()  # a copy on the device must not outlive its state
                rows = slice(start, start + self.batch_size)
                count = min(self.batch_size, len(order) - start)
                images = made[start - first : start - first + self.batch_size]
                yield Batch(images, labels[rows], weight[rows], count)

    def plan(
        self, transform: Transform, number: int, *, shuffle: bool = True
    ) -> tuple[IntArray, dict[str, Any]]:
        """The order of an epoch, and the random numbers of each place in it."""
        random = np.random.default_rng([self.seed, number, 4])
        count = len(self.subset)
        order = random.permutation(count) if shuffle else np.arange(count)
        return order, transform.plan(random, count, self.subset.shape[1])

    def _filled(self, order: IntArray) -> IntArray:
        """Places 0..n-1 and again from 0, up to a whole number of batches."""
        return np.arange(len(self) * self.batch_size) % len(order)

    def _together(self, transform: Transform) -> int:
        """How many batches are made at once."""
        side = max(transform.output(self.subset.shape[1]), self.subset.shape[1])
        batch_bytes = 4 * 3 * side * side * self.batch_size  # as float32
        return max(1, TOGETHER[self.device.type == "cuda"] // batch_bytes)

    def _pixels(self, rows: IntArray, index: torch.Tensor, size: int) -> Iterator[torch.Tensor]:
        """The uint8 images on the device, `size` at a time."""
        if self._resident is not None:
            flat = self._resident.view(len(self._resident), -1)
            for part in torch.split(index, size):
                # Whole rows of bytes: far faster on a CPU than indexing pixels.
                yield flat.index_select(0, part).view(-1, *self.subset.shape[1:])
        else:
            yield from read_ahead(self.subset, rows, size, self.device)

    def _copy(self) -> torch.Tensor:
        """All images on the device, copied in blocks: never twice in memory on the way."""
        pixels = torch.empty(self.subset.shape, dtype=torch.uint8, device=self.device)
        copy_pixels(self.subset, pixels)
        return pixels


def copy_pixels(subset: Subset, into: torch.Tensor) -> None:
    """Copy all images of a subset to the front of a tensor, in blocks."""
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
) -> Iterator[torch.Tensor]:
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

"""Several runs at once in one process: on a GPU, each on a stream of its own."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Generator, Sequence
from typing import TypeAlias

import torch

from transil.engine.step import give_back_memory

# A run of `training`: its device first, then pauses.
Run: TypeAlias = Generator[torch.device | None, None, None]


def train_together(runs: Sequence[Run]) -> None:
    """Drive several runs of `training` in turn, until all are over.

    Small networks leave most of a GPU idle; two runs side by side use it better.
    """
    lanes = [Lane(run) for run in runs]
    before = torch.backends.cudnn.benchmark
    # cuDNN tries its kernels for each shape once; shapes never change here.
    torch.backends.cudnn.benchmark = True
    try:
        while lanes:
            ready = [lane for lane in lanes if lane.ready()]
            if not ready:
                time.sleep(0.0005)
            for lane in ready:
                if not lane.go_on():
                    lanes.remove(lane)
    finally:
        torch.backends.cudnn.benchmark = before
        for lane in lanes:
            lane.run.close()


class Lane:
    """A run on a stream of its device. The host is at most two pauses ahead of the device."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.stream: torch.cuda.Stream | None = None
        self.begun = False
        self.pauses: deque[torch.cuda.Event] = deque()

    def ready(self) -> bool:
        """Whether the device has done what was launched before the last pause."""
        while self.pauses and self.pauses[0].query():  # type: ignore[no-untyped-call]
            self.pauses.popleft()
        return len(self.pauses) < 2

    def go_on(self) -> bool:
        """Run up to the next pause; False when the run is over."""
        if not self.begun:  # a run first says which device it works on
            self.begun = True
            device = next(self.run, None)
            if device is not None and device.type == "cuda":
                self.stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
            return device is not None
        if self.stream is None:
            return next(self.run, _END) is not _END
        with torch.cuda.stream(self.stream):
            if next(self.run, _END) is _END:
                give_back_memory()
                return False
            self.pauses.append(self.stream.record_event())
        return True


_END = object()

"""Several runs at once in one process: on a GPU, each on a stream of its own."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TypeAlias

import torch

from transil.engine.step import give_back_memory

# A run of `training`: its device first, then pauses.
Run: TypeAlias = Generator[torch.device | None, None, None]


def train_together(runs: Sequence[Run]) -> None:
    """Drive several runs of `training` in turn, until all are over.

    Small networks leave most of a GPU idle; two runs side by side use it better.
    """

    def over(_: Run, error: Exception | None) -> None:
        if error is not None:
            raise error

    drive(iter(runs), len(runs), over)


def drive(
    runs: Iterator[Run], together: int, over: Callable[[Run, Exception | None], None]
) -> None:
    """Drive `together` runs in turn, each of which another one follows when it is over.

    `over` hears of each run that has ended, and of the error that has ended it.
    """
    lanes: list[Lane] = []
    before = torch.backends.cudnn.benchmark
    # cuDNN tries its kernels for each shape once; shapes never change here.
    torch.backends.cudnn.benchmark = True
    try:
        more = True
        while more or lanes:
            while more and len(lanes) < together:
                run = next(runs, None)
                more = run is not None
                lanes += [] if run is None else [Lane(run)]
            ready = [lane for lane in lanes if lane.ready()]
            if lanes and not ready:
                time.sleep(0.0005)
            for lane in ready:
                error = None
                try:
                    if lane.go_on():
                        continue
                except Exception as failed:  # of this run alone
                    error = failed
                lanes.remove(lane)
                over(lane.run, error)
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

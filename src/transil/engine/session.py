"""One start of a run: what is logged, when it is saved, what is told."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from transil.data.stream import State
from transil.engine.checkpoint import Checkpoint
from transil.engine.learner import Learner
from transil.engine.run_folder import TIMES, RunFolder
from transil.engine.tensorboard import Board
from transil.engine.workers import Workers
from transil.errors import TransilError


@dataclass(frozen=True)
class Progress:
    """Where a run is: epochs count from 1, `images` are those seen since it was started."""

    state: int
    states: int
    epoch: int
    epochs: int
    loss: float | None  # of the last epoch; None where the state has none yet
    images: int
    seconds: float
    share: float  # of the whole run
    within: bool = False  # told in the middle of the epoch after `epoch`


Tell = Callable[[Progress], None]


# Seconds between two words on an epoch under way.
TELL = 0.2
# In the middle of epochs, processes agree on saving so often within `checkpoint_minutes`, and after
# so many pauses at the latest.
ASK, MOST_PAUSES = 8, 64


class Reading:
    """The sums of an epoch, on their way from the device."""

    def __init__(self, epoch: int, rate: float, sums: torch.Tensor) -> None:
        self.epoch, self.rate = epoch, rate
        self._values = sums
        self._event: torch.cuda.Event | None = None
        if sums.is_cuda:
            self._values = torch.empty(sums.shape, pin_memory=True)
            self._values.copy_(sums, non_blocking=True)
            self._event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._event.record()

    def values(self) -> list[float]:
        """The sums; waits for the epoch to be over."""
        if self._event is not None:
            self._event.synchronize()
        values: list[float] = self._values.tolist()
        return values


class Session:
    """One start of a run: what it logs, when it saves, what it tells."""

    def __init__(
        self, run: RunFolder, workers: Workers, board: Board, epochs: int, tell: Tell | None
    ) -> None:
        self.run, self.workers, self.board, self.tell = run, workers, board, tell
        self.epochs = epochs
        self.images = 0
        self.started = self.saved = time.monotonic()
        self.spent: dict[str, float] = {}
        self.told = self.asked = self.started
        self.wait = self.waited = 1  # pauses until the processes agree again

    def enter(self, learner: Learner, state: State, done: int, batches: int) -> None:
        """A state begins, of which `done` epochs and `batches` of the next are done already."""
        self.state, self.config = state, learner.config
        self.states = len(learner.stream)
        self.device = learner.device
        self.before = learner.config.train.total_epochs(state.number - 1)
        self.batch_size = learner.batch_size
        self.images -= batches * self.batch_size
        self.state_images = -batches * self.batch_size
        self.spent, self._marked = {}, time.monotonic()
        self.at: tuple[int, float] | None = None
        self.loss: float | None = None
        self._tell(done)

    def begin(self, epoch: int, rate: float) -> None:
        """An epoch begins."""
        self.at = epoch, rate

    def mark(self, what: str) -> None:
        """The seconds since the last mark were spent on `what`."""
        now = time.monotonic()
        self.spent[what] = round(now - self._marked, 3)
        self._marked = now

    def note(self, reading: Reading) -> float:
        """Log an epoch; its loss. One that is not a number ends the run."""
        count = len(self.state.train)
        total, right, last = reading.values()
        loss = total / count
        number = self.state.number
        if not math.isfinite(total):
            raise self.not_a_number("the loss is", reading.epoch, reading.rate)
        line = {
            "state": number,
            "epoch": reading.epoch,
            "lr": reading.rate,
            "loss": loss,
            "accuracy": right / count,
        }
        if self.workers.main:
            self.run.log(line)
            self.board.add(line, self.before + reading.epoch)
        self.images += count
        self.state_images += count
        self.loss = loss
        self._tell(reading.epoch)
        return last if self.config.train.plateau_on == "last-batch" else loss

    def not_a_number(self, what: str, epoch: int, rate: float) -> TransilError:
        """The error for a run that has diverged."""
        kept = "the last good checkpoint is kept, " if self.run.has_checkpoint() else ""
        return TransilError(
            f"{self.run.path}: {what} not a number in state {self.state.number}, epoch "
            f"{epoch}, at learning rate {rate:g}; {kept}lower train.lr, or look at "
            "the method's settings, and begin in another folder"
        )

    def check(self, learner: Learner) -> None:
        """Before anything is saved: the last step of a finite epoch may have ruined the weights."""
        if self.at is not None and not learner.is_finite():
            raise self.not_a_number("the weights are", *self.at)

    def _tell(self, epoch: int, batches: int = 0) -> None:
        self.told = time.monotonic()
        if self.tell is not None and self.workers.main:
            number, more = self.state.number, batches * self.batch_size
            done = self.before + epoch + more / len(self.state.train)
            self.tell(Progress(
                number, self.states, epoch, self.config.train.epochs_of(number), self.loss,
                self.images + more, self.told - self.started, done / self.epochs, batches > 0,
            ))  # fmt: skip

    def paused(self, batches: int) -> bool:
        """After so many batches of an epoch: tell it; whether it is time to save."""
        assert self.at is not None
        now = time.monotonic()
        if now - self.told > TELL:
            self._tell(self.at[0] - 1, batches)
        self.wait -= 1
        if self.wait:
            return False
        # Processes save together. To agree they wait for each other, so not at each pause.
        pace = (now - self.asked) / self.waited
        between = 60.0 * self.config.engine.checkpoint_minutes / ASK
        self.waited = min(MOST_PAUSES, max(1, int(between / max(pace, 1e-6))))
        self.wait = self.waited = self.workers.told(self.waited)
        self.asked = now
        return self.checkpoint_due()

    def checkpoint_due(self) -> bool:
        """Whether it is time to save in the middle of a state; the same in all processes."""
        minutes = (time.monotonic() - self.saved) / 60.0
        return self.workers.told(minutes >= self.config.engine.checkpoint_minutes)

    def begin_after(self, checkpoint: Checkpoint) -> None:
        """The last state of another run is the one that this run goes on from."""
        if self.workers.main:
            checkpoint.save(self.run.state_path(checkpoint.state))

    def save(self, checkpoint: Checkpoint) -> None:
        """Save in the middle of a state."""
        if self.workers.main:
            self.run.save(checkpoint)
        self.saved = time.monotonic()

    def commit(self, checkpoint: Checkpoint) -> None:
        """A state is finished."""
        self.saved = time.monotonic()
        if not self.workers.main:
            return
        self.run.commit(checkpoint)
        self.mark("save")
        line: dict[str, Any] = {
            "state": checkpoint.state,
            "seconds": round(sum(self.spent.values()), 3),
            "spent": self.spent,
            "images_per_second": round(self.state_images / max(self.spent["train"], 1e-9)),
        }
        on_gpu = self.device.type == "cuda"
        line["device"] = torch.cuda.get_device_name(self.device) if on_gpu else self.device.type
        if on_gpu:
            line["gpu_gigabytes"] = round(torch.cuda.max_memory_reserved(self.device) / 1e9, 3)
        self.run.log(line, TIMES)

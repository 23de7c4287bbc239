"""One start of a run: what is logged, when it is saved, what is shown."""

from __future__ import annotations

import math
import time
from typing import Any

import torch

from transil._common.progress import Progress
from transil.data.stream import State
from transil.engine.checkpoint import Checkpoint
from transil.engine.learner import Learner
from transil.engine.run_folder import TIMES, RunFolder
from transil.errors import TransilError
from transil.interop.loggers import Loggers

# Seconds between two words on an epoch under way.
SHOW = 0.2
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
    """One start of a run: what it logs, when it saves, what it shows."""

    def __init__(
        self, run: RunFolder, learner: Learner, loggers: Loggers, progress: Progress
    ) -> None:
        self.run, self.learner, self.loggers, self.progress = run, learner, loggers, progress
        self.workers, self.config = learner.workers, learner.config
        self.states = len(learner.stream)
        self.images = self.state_images = 0  # seen since this start, and in this state
        self.started = self.saved = self.shown = self.asked = time.monotonic()
        self.wait = self.waited = 1  # pauses until the processes agree again
        self.state: State | None = None
        self.at: tuple[int, float] | None = None  # the epoch that has begun, and its learning rate
        self.loss: float | None = None  # of the last epoch of this state
        self.spent: dict[str, float] = {}  # seconds of this state
        self.marked = self.started

    def enter(self, state: State, done: int, batches: int) -> None:
        """A state begins, of which `done` epochs and `batches` of the next are done already."""
        self.state, self.at, self.loss = state, None, None
        self.state_images = -batches * self.learner.batch_size
        self.images += self.state_images
        self.spent, self.marked = {}, time.monotonic()
        self.show(done)

    def begin(self, epoch: int, rate: float) -> None:
        """An epoch begins."""
        self.at = epoch, rate

    def mark(self, what: str) -> None:
        """The seconds since the last mark were spent on `what`."""
        now = time.monotonic()
        self.spent[what] = round(now - self.marked, 3)
        self.marked = now

    def read(self, reading: Reading) -> float:
        """Log an epoch; its loss. One that is not a number ends the run."""
        assert self.state is not None
        count = len(self.state.train)
        total, right, last = reading.values()
        loss = total / count
        if not math.isfinite(total):
            raise self.not_a_number("the loss is", reading.epoch, reading.rate)
        line = {
            "state": self.state.number,
            "epoch": reading.epoch,
            "lr": reading.rate,
            "loss": loss,
            "accuracy": right / count,
        }
        if self.workers.main:
            self.run.log(line)
            before = self.config.train.total_epochs(self.state.number - 1)
            self.loggers.log(line, before + reading.epoch)
        self.images += count
        self.state_images += count
        self.loss = loss
        self.show(reading.epoch)
        return last if self.config.train.plateau_on == "last-batch" else loss

    def not_a_number(self, what: str, epoch: int, rate: float) -> TransilError:
        """The error for a run that has diverged."""
        assert self.state is not None
        kept = "the last good checkpoint is kept, " if self.run.has_checkpoint() else ""
        return TransilError(
            f"{self.run.path}: {what} not a number in state {self.state.number}, epoch "
            f"{epoch}, at learning rate {rate:g}; {kept}lower train.lr, or look at "
            "the method's settings, and begin in another folder"
        )

    def check(self) -> None:
        """Before anything is saved: the last step of a finite epoch may have ruined the weights."""
        if self.at is not None and not self.learner.is_finite():
            raise self.not_a_number("the weights are", *self.at)

    def show(self, epoch: int, batches: int = 0) -> None:
        """Say where the run is: after an epoch of a state, and some batches of the next."""
        assert self.state is not None
        self.shown = time.monotonic()
        if not self.workers.main:
            return
        train, number = self.config.train, self.state.number
        more = batches * self.learner.batch_size
        done = train.total_epochs(number - 1) + epoch + more / len(self.state.train)
        text = f"state {number}/{self.states}, epoch {epoch}/{train.epochs_of(number)}"
        if self.loss is not None:
            text += f", loss {self.loss:.4f}"
        if self.loss is not None or batches:
            seconds = max(self.shown - self.started, 1e-9)
            text += f", {(self.images + more) / seconds:,.0f} images/s"
        self.progress(done / train.total_epochs(self.states), text)

    def paused(self, batches: int) -> bool:
        """After so many batches of an epoch: say it; whether it is time to save."""
        assert self.at is not None
        now = time.monotonic()
        if now - self.shown > SHOW:
            self.show(self.at[0] - 1, batches)
        self.wait -= 1
        if self.wait:
            return False
        # Processes save together. To agree they wait for each other, so not at each pause.
        pace = (now - self.asked) / self.waited
        between = 60.0 * self.config.engine.checkpoint_minutes / ASK
        self.waited = min(MOST_PAUSES, max(1, int(between / max(pace, 1e-6))))
        self.wait = self.waited = self.workers.agree(self.waited)
        self.asked = now
        return self.checkpoint_due()

    def checkpoint_due(self) -> bool:
        """Whether it is time to save in the middle of a state; the same in all processes."""
        minutes = (time.monotonic() - self.saved) / 60.0
        return self.workers.agree(minutes >= self.config.engine.checkpoint_minutes)

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
        device = self.learner.device
        on_gpu = device.type == "cuda"
        line["device"] = torch.cuda.get_device_name(device) if on_gpu else device.type
        if on_gpu:
            line["gpu_gigabytes"] = round(torch.cuda.max_memory_reserved(device) / 1e9, 3)
        self.run.log(line, TIMES)
        self.show(checkpoint.epoch)

"""Training, from the first state to the last: the loop to read first."""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from typing import TypeAlias

import torch

from transil.data.images import Images
from transil.data.stream import State
from transil.engine.checkpoint import Checkpoint
from transil.engine.config import RunConfig
from transil.engine.learner import Learner
from transil.engine.rates import learning_rate
from transil.engine.run_folder import RunFolder
from transil.engine.session import Reading, Session, Tell
from transil.engine.setup import completed, find_device, make_stream, open_run_images
from transil.engine.tensorboard import Board
from transil.engine.workers import Workers

# A run of `training`: its device first, then pauses.
Run: TypeAlias = Generator[torch.device | None, None, None]


def train(
    config: RunConfig,
    folder: str | os.PathLike[str],
    *,
    images: Images | None = None,
    tell: Tell | None = None,
) -> RunFolder:
    """Train a run in a folder, or continue it there; what is finished is not done again."""
    train_together([training(config, folder, images=images, tell=tell)])
    return RunFolder(folder)


def train_together(runs: Sequence[Run]) -> None:
    """Drive several runs of `training` at once: on a GPU, each on a stream of its own.

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
                return False
            self.pauses.append(self.stream.record_event())
        return True


_END = object()


def training(
    config: RunConfig,
    folder: str | os.PathLike[str],
    *,
    images: Images | None = None,
    tell: Tell | None = None,
) -> Run:
    """A run as an iterator that pauses every few steps, for `train_together`.

    It first gives the device it works on, then None at each pause.
    """
    workers = Workers(find_device(config.engine.device))
    images = images if images is not None else open_run_images(config)
    config = completed(config, images, workers.device)
    workers.check_batch(config.train.batch_size)
    stream = make_stream(config, images)
    run = RunFolder(folder)
    facts = {"name": images.name, "fingerprint": images.fingerprint, "pixels": images.size}
    yield workers.device
    with contextlib.ExitStack() as stack:
        stack.callback(workers.leave)
        if config.engine.threads is not None:
            stack.callback(torch.set_num_threads, torch.get_num_threads())
            torch.set_num_threads(config.engine.threads)
        if workers.main:
            stack.enter_context(run.opened(config, facts))
            stream.save_label_map(run.path / "label-map.json")
        finished, current = workers.told(run.restore() if workers.main else (None, None))
        first = finished.state + 1 if finished else 1
        if first > len(stream):
            return
        learner = Learner(config, stream, workers)
        board = stack.enter_context(Board(run.path, config.engine.tensorboard and workers.main))
        if finished:
            learner.load(finished.tensors)
        if workers.main:
            run.cut_log(first, current.epoch if current else 0)
        session = Session(run, workers, board, config.train.total_epochs(len(stream)), tell)
        for number in range(first, len(stream) + 1):
            state = stream.enter(number)
            losses = list(current.losses) if current else []
            session.enter(learner, state, len(losses))
            learner.begin(state)
            if current is not None:  # interrupted in the middle of this state
                learner.load(current.tensors)
                current = None
            session.mark("begin")
            yield from epochs(learner, state, losses, session)
            session.mark("train")
            learner.end()
            write_scores(learner, state, session)
            session.mark("score")
            session.commit(Checkpoint(number, len(losses), learner.tensors(), losses))
            yield None


def epochs(learner: Learner, state: State, losses: list[float], session: Session) -> Iterator[None]:
    """The epochs of a state that are still to do; the loss of each is added to `losses`.

    The host is one epoch ahead of the device: an epoch's sums are read while the next one runs,
    so that the device never waits, and the host waits for it at most once per epoch.
    """
    train = learner.config.train
    pending: deque[Reading] = deque()

    def read(most: int) -> None:
        while len(pending) > most:
            reading = pending.popleft()
            losses.append(session.note(reading))

    for epoch in range(len(losses) + 1, train.epochs_of(state.number) + 1):
        learner.feed.begin(epoch)
        if train.schedule == "plateau":
            read(0)  # the rate depends on the loss just seen
        rate = learning_rate(train, state.number, epoch, losses)
        yield from learner.epoch(rate)
        pending.append(Reading(epoch, rate, learner.sums()))
        read(1)
        if session.checkpoint_due():
            read(0)
            session.check(learner)
            session.save(Checkpoint(state.number, epoch, learner.tensors(momentum=True), losses))
    read(0)
    session.check(learner)


def write_scores(learner: Learner, state: State, session: Session) -> None:
    """Scores of a state's images of all splits, for every method of the family.

    Those of training images are of the new classes alone: what a control without memory may use.
    """
    learner.workers.told(None)  # all processes have finished the state
    schedule, name = learner.stream.schedule, learner.stream.name
    splits = {"train": state.train, "val": state.val, "test": state.test}
    for split, subset in splits.items():
        if not len(subset):
            continue
        augmented = split == "val" and learner.config.train.augment_val
        for method, scores in learner.scores_of(subset, augmented=augmented).items():
            if session.workers.main:
                store = session.run.store(method, schedule, name)
                store.put(split, state.number, scores.numpy(), subset.labels)

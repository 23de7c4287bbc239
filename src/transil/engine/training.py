"""Training, from the first state to the last: the loop to read first."""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Iterator

import torch

from transil.arrays import probabilities
from transil.data.images import Images
from transil.data.stream import State
from transil.engine.checkpoint import Checkpoint
from transil.engine.config import RunConfig
from transil.engine.lanes import Run, train_together
from transil.engine.learner import Learner
from transil.engine.rates import learning_rate
from transil.engine.run_folder import RunFolder
from transil.engine.session import Reading, Session, Tell
from transil.engine.setup import completed, find_device, make_stream, open_run_images
from transil.engine.tensorboard import Board
from transil.engine.workers import Workers
from transil.errors import TransilError


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

        def enter() -> tuple[Checkpoint | None, Checkpoint | None]:
            stack.enter_context(run.opened(config, facts))
            stream.save_label_map(run.path / "label-map.json")
            return run.restore()

        finished, current = workers.first(enter)
        first = finished.state + 1 if finished else 1
        if first > len(stream):
            return
        learner = Learner(config, stream, workers)
        done = config.train.total_epochs(first - 1) + (current.epoch if current else 0)
        wanted = config.engine.tensorboard and workers.main
        board = stack.enter_context(Board(run.path, wanted, done))
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
                found = probabilities(scores)
                if found is not None:
                    raise TransilError(
                        f"method '{method}': its scores are {found} (state {state.number}, split "
                        f"'{split}'); `scores` must give raw ones, before softmax or sigmoid"
                    )
                store = session.run.store(method, schedule, name)
                store.put(split, state.number, scores.numpy(), subset.labels)

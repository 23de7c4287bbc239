"""Training, from the first state to the last: the loop to read first.

From the command to the loss: `cli/train.py`, this file, `learner.py` (all that a run keeps in memory),
`step.py` (one training step), the method's file, `methods/losses.py`. Beside it: `lanes.py` drives
several runs at once, `session.py` logs, saves and shows.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections import deque
from collections.abc import Iterator
from functools import partial

import torch

from transil._common.arrays import probabilities
from transil._common.progress import Progress, no_progress
from transil._common.settings import flatten
from transil.data.images import Images
from transil.data.stream import State
from transil.engine.checkpoint import Checkpoint
from transil.engine.config import RunConfig
from transil.engine.lanes import Run, train_together
from transil.engine.learner import Learner
from transil.engine.past import find_past, take_over
from transil.engine.rates import learning_rate
from transil.engine.run_folder import LABEL_MAP, RunFolder
from transil.engine.scored import states_to_score
from transil.engine.session import Reading, Session
from transil.engine.setup import completed, find_device, make_stream, open_run_images
from transil.engine.workers import Workers
from transil.errors import DataWarning, TransilError
from transil.interop.loggers import Begun, Loggers
from transil.methods.registry import get_method


def train(
    config: RunConfig,
    folder: str | os.PathLike[str],
    *,
    images: Images | None = None,
    progress: Progress = no_progress,
) -> RunFolder:
    """Train a run in a folder, or continue it there; what is finished is not done again."""
    train_together([training(config, folder, images=images, progress=progress)])
    return RunFolder(folder)


def training(
    config: RunConfig,
    folder: str | os.PathLike[str],
    *,
    images: Images | None = None,
    progress: Progress = no_progress,
) -> Run:
    """A run as an iterator that pauses every few steps, for `train_together`.

    It first gives the device it works on, then None at each pause.
    """
    workers = Workers(find_device(config.engine.device))
    run = RunFolder(folder)
    images = images if images is not None else open_run_images(config)
    past = find_past(config, run)
    images = past.known(images) if past else images
    method = get_method(config.method, config.settings)
    config = completed(config, method, images, workers.device)
    workers.check_batch(config.train.batch_size)
    stream = past.stream(config.data, images) if past else make_stream(config, images)
    facts = {**images.facts, **({"past": past.to_json()} if past else {})}
    yield workers.device
    with contextlib.ExitStack() as stack:
        stack.callback(workers.leave)
        if config.engine.threads is not None:
            stack.callback(torch.set_num_threads, torch.get_num_threads())
            torch.set_num_threads(config.engine.threads)

        def enter() -> tuple[Checkpoint | None, Checkpoint | None, list[int]]:
            stack.enter_context(run.opened(config, facts))
            if not run.is_archived():
                stream.save_label_map(run.path / LABEL_MAP)
            return *run.restore(), states_to_score(run, method, warn=True)

        finished, current, unscored = workers.first(enter)
        first = finished.state + 1 if finished else stream.current + 1
        if first > len(stream) and not unscored:
            return
        learner = Learner(config, method, stream, workers)
        if workers.main:
            run.cut_log(first, current.epoch if current else 0)
        begun = Begun(run.path, flatten(config.to_dict()), run.lines())
        loggers = stack.enter_context(Loggers(config.engine.logs if workers.main else (), begun))
        session = Session(run, learner, loggers, progress)
        yield from score_again(unscored, session)
        if finished:
            learner.load(finished.tensors, run.state_path(finished.state))
        elif past:
            session.begin_after(take_over(learner, run))
        for number in range(first, len(stream) + 1):
            state = stream.enter(number)
            losses, batches = (list(current.losses), current.batches) if current else ([], 0)
            session.enter(state, len(losses), batches)
            learner.begin(state)
            if current is not None:  # interrupted in the middle of this state
                learner.load(current.tensors, run.current_path)
                current = None
            session.mark("begin")
            yield from epochs(state, losses, batches, session)
            session.mark("train")
            learner.end()
            write_scores(state, session)
            session.mark("score")
            session.commit(Checkpoint(number, len(losses), learner.tensors(), losses))
            yield None


def score_again(states: list[int], session: Session) -> Iterator[None]:
    """Make scores of finished states that are lost, by their checkpoints."""
    run, learner, workers = session.run, session.learner, session.workers
    if states and workers.main:
        these = ", ".join(map(str, states))
        warnings.warn(
            f"{run.path}: scores of finished states are missing (of {these}); they are made again",
            DataWarning,
            stacklevel=2,
        )
    for number in states:
        path = run.state_path(number)
        left = workers.first(partial(Checkpoint.load, path))
        learner.revisit(learner.stream.enter(number), left.tensors, path)
        write_scores(learner.state, session)
        yield None


def epochs(state: State, losses: list[float], start: int, session: Session) -> Iterator[None]:
    """The epochs of a state that are still to do; the loss of each is added to `losses`.

    Of the first of them, `start` batches are done already.
    The host is one epoch ahead of the device: an epoch's sums are read while the next one runs,
    so that the device never waits, and the host waits for it at most once per epoch.
    """
    learner, train = session.learner, session.config.train
    pending: deque[Reading] = deque()

    def read(most: int) -> None:
        while len(pending) > most:
            losses.append(session.read(pending.popleft()))

    def save(epoch: int, batches: int = 0) -> None:
        read(0)
        session.check()
        tensors = learner.tensors(momentum=True, sums=batches > 0)
        session.save(Checkpoint(state.number, epoch, tensors, losses, batches))

    for epoch in range(len(losses) + 1, train.epochs_of(state.number) + 1):
        learner.draw(epoch, start)
        if train.schedule == "plateau":
            read(0)  # the rate depends on the loss just seen
        rate = learning_rate(train, state.number, epoch, losses)
        session.begin(epoch, rate)
        for batches in learner.epoch(rate, start):
            yield None
            if batches < len(learner.feed) and session.paused(batches):
                save(epoch - 1, batches)
        start = 0
        pending.append(Reading(epoch, rate, learner.sums()))
        read(1)
        if session.checkpoint_due():
            save(epoch)
    read(0)
    session.check()


def write_scores(state: State, session: Session) -> None:
    """Scores of a state's images of all splits, for every method of the family.

    Those of training images are of the new classes alone: what a control without memory may use.
    """
    learner = session.learner
    session.workers.agree(None)  # all processes have finished the state
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

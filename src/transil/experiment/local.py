"""The local executor: some processes, each with one or more runs side by side on its GPU.

A run that fails does not stop the others. A process that dies is replaced, and its runs go on from
their checkpoints.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

import torch

from transil._common.progress import Progress, no_progress
from transil._common.unforeseen import unforeseen
from transil.engine.lanes import Run, drive
from transil.engine.run_folder import RunFolder
from transil.engine.training import training
from transil.errors import TransilError
from transil.experiment.children import die_with, spared
from transil.experiment.plan import Task, device_count, with_engine
from transil.experiment.results import Failure

# How often a run is tried whose process died.
TRIES = 3


def run_local(
    tasks: Sequence[Task],
    *,
    processes: int | None = None,
    together: int | None = None,
    progress: Progress = no_progress,
) -> list[Failure]:
    """Do all tasks that are not done; what failed.

    `processes`: by default one per GPU, or one per CPU core; 0 works in this process. `together`:
    runs side by side in each, by default two on a GPU and one on a CPU.
    """
    left = [task for task in tasks if task.status != "done"]
    gpus = device_count()
    if processes is None:
        processes = gpus or len(os.sched_getaffinity(0))
    together = together or (2 if gpus else 1)
    book = Book(tasks, progress)
    if not left:
        return []
    if processes == 0:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the images; told when the plan was made
            work(iter([*left, None]).__next__, book.hear, together)
        return book.failures
    return Pool(left, min(processes, len(left)), together, book).run()


def work(
    take: Callable[[], Task | None], say: Callable[[str, str, Any], None], together: int
) -> None:
    """Take tasks and run up to `together` of them side by side, until there are no more."""
    names: dict[Run, str] = {}

    def runs() -> Iterator[Run]:
        while (task := take()) is not None:
            run = training(task.config, task.folder, progress=_now_and_then(task, say))
            names[run] = task.name
            yield run

    def over(run: Run, error: Exception | None) -> None:
        if error is None:
            say("done", names[run], None)
        else:
            what = str(error) if isinstance(error, TransilError) else unforeseen(error)
            say("failed", names[run], what)

    drive(runs(), together, over)


def _now_and_then(task: Task, say: Callable[[str, str, Any], None]) -> Progress:
    last = [0.0]

    def progress(share: float, text: str) -> None:
        now = time.monotonic()
        if now - last[0] > 0.3:  # a screen needs no more
            last[0] = now
            say("progress", task.name, (share, text))

    return progress


@dataclass
class Book:
    """Keeps account of all tasks."""

    tasks: Sequence[Task]
    progress: Progress = no_progress
    shares: dict[str, float] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.shares = {t.name: float(t.status == "done") for t in self.tasks}
        self.total = sum(t.images for t in self.tasks)

    def hear(self, kind: str, name: str, what: Any) -> None:
        """Something was said of a task."""
        text = name
        if kind == "progress":
            self.shares[name], text = what[0], f"{name}: {what[1]}"
        elif kind == "done":
            self.shares[name] = 1.0
        elif kind == "failed":
            self.failures.append(self.failure(name, what))
            text = f"{name} failed"
        done = sum(self.shares[t.name] * t.images for t in self.tasks)
        finished = sum(share == 1.0 for share in self.shares.values())
        self.progress(done / max(1, self.total), f"{finished}/{len(self.tasks)} runs; {text}")

    def failure(self, name: str, what: str) -> Failure:
        """With the tail of the run's log."""
        task = next(t for t in self.tasks if t.name == name)
        try:
            lines = RunFolder(task.folder).lines()[-3:]
        except TransilError:
            lines = []
        return Failure(name, what, "\n".join(str(line) for line in lines))


class Pool:
    """Worker processes that ask for tasks over a pipe."""

    def __init__(self, tasks: Iterable[Task], processes: int, together: int, book: Book) -> None:
        self.waiting = deque(tasks)
        self.together, self.book = together, book
        self.processes = processes
        self.tries: dict[str, int] = {}
        self.given: dict[Connection, list[Task]] = {}
        self.people: dict[Connection, Any] = {}

    def run(self) -> list[Failure]:
        """Until all tasks are done or have failed."""
        try:
            for number in range(self.processes):
                self._hire(number)
            while self.people:
                for connection in list(wait(list(self.people))):
                    assert isinstance(connection, Connection)
                    self._serve(connection)
        finally:
            for process, _ in self.people.values():
                process.terminate()
            for process, _ in self.people.values():
                process.join()
        return self.book.failures

    def _hire(self, number: int) -> None:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        share = max(1, len(os.sched_getaffinity(0)) // self.processes)
        process = context.Process(
            target=_worker, args=(theirs, number, self.together, share, os.getpid()), daemon=True
        )
        with spared():
            process.start()
        theirs.close()
        self.people[ours], self.given[ours] = (process, number), []

    def _serve(self, connection: Connection) -> None:
        try:
            kind, name, what = connection.recv()
        except (EOFError, ConnectionResetError):
            self._gone(connection)
            return
        if kind == "want":
            task = self.waiting.popleft() if self.waiting else None
            if task is not None:
                self.given[connection].append(task)
            connection.send(task)
        else:
            if kind in ("done", "failed"):
                mine = self.given[connection]
                self.given[connection] = [task for task in mine if task.name != name]
            self.book.hear(kind, name, what)

    def _gone(self, connection: Connection) -> None:
        """A process has ended: with nothing left to do, or in the middle of its runs."""
        process, number = self.people.pop(connection)
        process.join()
        for task in self.given.pop(connection):
            self.tries[task.name] = self.tries.get(task.name, 1) + 1
            if self.tries[task.name] > TRIES:
                died = f"its process died {TRIES} times (exit code {process.exitcode})"
                self.book.hear("failed", task.name, died)
            else:
                self.waiting.append(task)
        if self.waiting:
            self._hire(number)


def _worker(connection: Connection, number: int, together: int, share: int, parent: int) -> None:
    die_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    warnings.simplefilter("ignore")  # about the images; told when the plan was made
    torch.set_num_threads(share)
    gpus = device_count()

    def take() -> Task | None:
        connection.send(("want", "", None))
        task: Task | None = connection.recv()
        if task is not None and gpus and task.config.engine.device == "auto":
            task = with_engine(task, device=f"cuda:{number % gpus}")
        return task

    if gpus:
        torch.cuda.set_device(number % gpus)
    work(take, lambda *words: connection.send(words), together)

"""Fits that are kept in the results folder, and made again only when scores or settings change."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from functools import cached_property
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType
from weakref import WeakKeyDictionary

import numpy as np

from transil._common.files import digest, plain_name, remove_left
from transil.correction.bank import Bank
from transil.correction.fitting import fit
from transil.correction.objective import Penalty
from transil.correction.registry import get_correction, get_solver
from transil.correction.solvers import Solver
from transil.correction.transfers import merge
from transil.errors import TransilError
from transil.experiment.children import die_with, spared
from transil.scores.store import ScoreStore

# The name of the split that `joined` makes.
FIT = "fit"

# So many slow fits are worth the seconds that it takes to start processes.
FEWEST = 4

# Processes side by side have one thread each; libraries read this when they are loaded.
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def read_candidate(text: str) -> Solver:
    """A solver, with a penalty where one is named: 'newton', 'newton:0.001', 'newton:0.0025,0.0525'.

    One number is for alpha and beta, two are for one each.
    """
    name, colon, rest = text.partition(":")
    solver = get_solver(name)
    if not colon:
        return solver
    try:
        numbers = [float(word) for word in rest.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) not in (1, 2):
        raise TransilError(
            f"'{text}': a penalty is one number or two, as in newton:0.001 or newton:0.0025,0.0525"
        )
    return replace(solver, penalty=Penalty(numbers[0], numbers[-1]))


def joined(store: ScoreStore, splits: Sequence[str], name: str) -> ScoreStore:
    """A store whose split 'fit' holds the rows of several splits."""
    made = ScoreStore(store.schedule, method=store.method, dataset=name, kind=store.kind)
    for state in store.require(splits[0]):
        parts = [store.get(split, state) for split in splits]
        made.put(
            FIT,
            state,
            np.concatenate([part.scores for part in parts]) if len(parts) > 1 else parts[0].scores,
            np.concatenate([part.labels for part in parts]),
        )
    return made


@dataclass(frozen=True, eq=False)
class Job:
    """One fit: of one data set's scores (split 'fit'), in one way."""

    folder: Path
    name: str
    store: ScoreStore
    source: str  # the store's fingerprint
    correction: str
    candidate: str

    @cached_property
    def path(self) -> Path:
        """The file that keeps it; its name says what it was made from."""
        states = self.store.schedule.states
        kind = get_correction(self.correction)
        designs = [
            outline.follows.tolist()
            for state in range(2, states + 1)
            if (outline := kind.outline(self.store.schedule, state))
        ]
        code = digest([self.source, kind.centred, designs])[:12]
        of = f"{self.name}-{self.store.method}-s{states}-{self.correction}-{self.candidate}"
        return self.folder / f"{plain_name(of).lstrip('-')}-{code}.json"

    def kept(self) -> Bank | None:
        """From the file, where there is one of the same scores and settings."""
        try:
            bank = Bank.load(self.path) if self.path.exists() else None
        except TransilError:  # damaged: made again
            return None
        how = read_candidate(self.candidate)
        if bank is None or bank.settings != how.settings():
            return None
        made = [(r.name, r.source) for r in bank.references], bank.correction.name, bank.solver
        wanted = [(self.name, self.source)], self.correction, how.name
        return bank if made == wanted else None

    def bank(self) -> Bank:
        """The fit as a bank of one reference; made where it is not kept."""
        bank = self.kept()
        if bank is None:
            how = read_candidate(self.candidate)
            bank = fit(
                self.store, split=FIT, names=[self.name], correction=self.correction, solver=how
            )
            bank.save(self.path)
        return bank


class Fits:
    """Makes fits and keeps them in a folder; many slow ones in several processes.

    Those are started anew, so that a script that has several must ask `if __name__ == "__main__"`.
    """

    def __init__(self, folder: Path, processes: int = 1) -> None:
        self.folder, self.processes = folder, processes
        self._sources: WeakKeyDictionary[ScoreStore, str] = WeakKeyDictionary()
        self._pool: ProcessPoolExecutor | None = None
        self._workers: set[BaseProcess] = set()
        self._settings = contextlib.ExitStack()  # of the environment, while there is a pool

    def bank(self, stores: Mapping[str, ScoreStore], correction: str, candidate: str) -> Bank:
        """The pairs of all data sets together."""
        return merge([job.bank() for job in self.jobs(stores, [(correction, candidate)])])

    def jobs(self, stores: Mapping[str, ScoreStore], ways: Iterable[tuple[str, str]]) -> list[Job]:
        """Every data set in every way (correction, candidate), each once."""
        made = []
        each = list(dict.fromkeys(ways))
        for name, store in stores.items():
            if store not in self._sources:
                self._sources[store] = store.fingerprint()
            made += [Job(self.folder, name, store, self._sources[store], *way) for way in each]
        return made

    def ahead(self, jobs: Iterable[Job]) -> None:
        """Make slow fits that will be asked for, where there are enough of them for processes."""
        slow = [job for job in jobs if read_candidate(job.candidate).slow and job.kept() is None]
        if self.processes < 2 or len(slow) < FEWEST:
            return
        try:
            waiting = self._begin(slow)
            for future in as_completed(waiting):
                future.result()
        except BrokenProcessPool:  # one was killed: the rest is made one by one, the next anew
            self._end()
        except TransilError:  # will be said again when that fit is asked for
            for future in waiting:
                future.cancel()

    def _begin(self, jobs: Iterable[Job]) -> list[Future[None]]:
        if self._pool is not None:
            return [self._pool.submit(_make, job) for job in jobs]
        others = set(multiprocessing.active_children())
        self._settings.enter_context(_one_thread())
        self._pool = ProcessPoolExecutor(
            self.processes, multiprocessing.get_context("spawn"),
            initializer=_prepare, initargs=(os.getpid(),),
        )  # fmt: skip
        with spared():  # they are started when they have something to do
            made = self._begin(jobs)
        self._workers = set(multiprocessing.active_children()) - others
        return made

    def _end(self, *, at_once: bool = False) -> None:
        if self._pool is not None:
            if at_once:  # nobody waits for fits that are under way
                self._pool.shutdown(wait=False, cancel_futures=True)
                for process in self._workers:
                    process.terminate()
            self._pool.shutdown()
            if at_once:
                remove_left(self.folder)
        self._pool = None
        self._settings.close()

    def __enter__(self) -> Fits:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self._end(at_once=kind is not None)


def _make(job: Job) -> None:
    job.bank()


def _prepare(parent: int) -> None:
    die_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value

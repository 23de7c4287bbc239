"""`run`: plan, train, study, report; what is done already is not done again."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from transil._common.files import locked, told
from transil._common.progress import Progress, no_progress
from transil.errors import TransilError
from transil.experiment.local import run_local
from transil.experiment.plan import Plan
from transil.experiment.results import Failure, Results
from transil.experiment.studies import study

# execute(a plan, progress): what failed
Execute = Callable[[Plan, Progress], list[Failure]]


def local_executor(processes: int | None = None, together: int | None = None) -> Execute:
    """Runs on this machine (see `run_local`)."""
    return lambda plan, progress: run_local(
        plan.tasks, processes=processes, together=together, progress=progress
    )


def nothing_trained(plan: Plan, _progress: Progress) -> list[Failure]:
    """An executor for a look at what is finished; an error where nothing is."""
    if not any(task.trained for task in plan.tasks):
        raise TransilError(f"{plan.folder}: no run of {plan.experiment.name} is finished here yet")
    return []


def run_experiment(
    plan: Plan,
    *,
    execute: Execute | None = None,
    progress: Progress = no_progress,
    processes: int | None = None,
) -> Results:
    """Train what is missing, study all scores, and write results.json to the plan's folder.

    `processes` is for the studies (see `study`); training has its own, in `execute`.
    """
    with alone_in(plan.folder):
        failures = [_here(f, plan.folder) for f in (execute or local_executor())(plan, progress)]
        results = study(plan, progress, processes=processes)
        known = {failure.what for failure in failures}
        others = [_here(f, plan.folder) for f in results.failures if f.what not in known]
        results = replace(results, failures=[*failures, *others])
        results.save(plan.folder)
        return results


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Make a results folder and keep other processes from working in it."""
    with told(f"cannot write {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
    busy = f"{folder}: another process is working on this experiment; wait for it, or stop it"
    with locked(folder / ".experiment.lock", busy):
        yield


def _here(failure: Failure, folder: Path) -> Failure:
    """A failure with paths as the results folder sees them: results say nothing of the machine."""
    inside = f"{folder}{os.sep}"
    return replace(
        failure,
        reason=failure.reason.replace(inside, ""),
        log=failure.log.replace(inside, ""),
    )


def load_results(folders: Sequence[str | os.PathLike[str]]) -> list[Results]:
    """The results of finished experiments, from files alone."""
    if not folders:
        raise TransilError("no results folder is given")
    return [Results.load(Path(folder)) for folder in folders]

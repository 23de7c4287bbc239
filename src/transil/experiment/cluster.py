"""The Ray executor: one Ray task per run, on a cluster or on a Ray that is started here.

The results folder must be one that all machines see. A run whose worker dies is tried again by Ray
and goes on from its checkpoint; progress is read from the run folders.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from transil.engine.run_folder import LOG, RunFolder
from transil.errors import TransilError, missing, reason
from transil.experiment.local import TRIES, Book, Tell
from transil.experiment.plan import Plan, Task
from transil.experiment.results import Failure

# Seconds between two looks at the run folders.
LOOK = 1.0


def ray_executor(
    address: str | None = None, *, gpus_per_run: float = 0.5, cpus_per_run: float = 1.0
) -> Any:
    """An executor on the Ray cluster at `address`; without one, a local Ray is started.

    GPUs are asked for where the cluster has any.
    """

    def execute(plan: Plan, tell: Tell | None) -> list[Failure]:
        ray = _ray()
        started = not ray.is_initialized()
        if started:
            _start(ray, address)
        try:
            return _execute(ray, plan, tell, gpus_per_run, cpus_per_run)
        finally:
            if started:
                ray.shutdown()

    return execute


def _execute(
    ray: Any, plan: Plan, tell: Tell | None, gpus_per_run: float, cpus_per_run: float
) -> list[Failure]:
    book = Book(plan.tasks, tell)
    gpus = gpus_per_run if ray.cluster_resources().get("GPU") else 0.0
    remote = ray.remote(num_gpus=gpus, num_cpus=cpus_per_run, max_retries=TRIES - 1)(run_task)
    waiting = {remote.remote(task): task for task in plan.tasks if task.status != "done"}
    while waiting:
        ready, _ = ray.wait(list(waiting), timeout=LOOK)
        for reference in ready:
            task = waiting.pop(reference)
            try:
                message = ray.get(reference)
            except ray.exceptions.RayError as error:
                message = f"Ray gave it up: {reason(error)}"
            book.hear("failed" if message else "done", task.name, message)
        for task in waiting.values():
            share = _share(task)
            if share > book.shares[task.name]:
                book.hear("progress", task.name, (share, f"{100 * share:.0f} %"))
    return book.failures


def run_task(task: Task) -> str | None:
    """Train one run on a worker; what went wrong, if anything."""
    import warnings

    from transil.engine.training import train

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            train(task.config, Path(task.folder))
        except TransilError as error:
            return str(error)
    return None


def _share(task: Task) -> float:
    """How much of a run is done, by its log."""
    run = RunFolder(task.folder)
    if not (run.path / LOG).exists():
        return 0.0
    try:
        return len(run.lines()) / task.config.train.total_epochs(task.states)
    except TransilError:  # on its way through the network
        return 0.0


def _start(ray: Any, address: str | None) -> None:
    begun = time.monotonic()
    try:
        if address is not None:
            ray.init(address=address, log_to_driver=False, logging_level="error")
        else:
            ray.init(
                log_to_driver=False, logging_level="error", include_dashboard=False,
                _node_ip_address="127.0.0.1",
            )  # fmt: skip
    except (ConnectionError, OSError, RuntimeError, ValueError) as error:
        seconds = time.monotonic() - begun
        raise TransilError(
            f"no Ray at {address or 'this machine'} after {seconds:.0f} s ({reason(error)}); "
            "check the address, or start one with: ray start --head"
        ) from None


def _ray() -> Any:
    try:
        import ray
    except ModuleNotFoundError:
        raise missing("the executor 'ray' needs", "ray") from None
    return ray

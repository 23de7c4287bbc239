"""The Ray executor: one Ray task per run, on a cluster or on a Ray that is started here.

The results folder must be one that all machines see. A run whose worker dies is tried again by Ray
and goes on from its checkpoint; progress is read from the run folders.

Whoever reaches a Ray can run any code in it. One that is started here listens on the loopback
interface alone, and asks for a token that is drawn anew each time.
"""

from __future__ import annotations

import contextlib
import importlib
import ipaddress
import os
import secrets
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from transil._common.progress import Progress
from transil._common.unforeseen import unforeseen
from transil.engine.run_folder import LOG, RunFolder
from transil.errors import TransilError, missing, reason
from transil.experiment.local import TRIES, Book
from transil.experiment.plan import Plan, Task
from transil.experiment.results import Failure

# Seconds between two looks at the run folders.
LOOK = 1.0

# Ray's own names. Without "clusters", which Ray means for other systems than Linux, it takes the
# loopback address as this machine's, whatever address it is given.
AUTH_MODE, AUTH_TOKEN, CLUSTERS = (
    "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
)  # fmt: skip


def ray_executor(
    address: str | None = None, *, gpus_per_run: float = 0.5, cpus_per_run: float = 1.0
) -> Any:
    """An executor on the Ray cluster at `address`; without one, a local Ray is started.

    GPUs are asked for where the cluster has any.
    """

    def execute(plan: Plan, progress: Progress) -> list[Failure]:
        ray = _ray()
        with contextlib.ExitStack() as stack:
            if not ray.is_initialized():
                if address is None:
                    stack.enter_context(_closed_to_others(ray))
                stack.callback(ray.shutdown)
                _start(ray, address)
            return _execute(ray, plan, progress, gpus_per_run, cpus_per_run)

    return execute


def _execute(
    ray: Any, plan: Plan, progress: Progress, gpus_per_run: float, cpus_per_run: float
) -> list[Failure]:
    book = Book(plan.tasks, progress)
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
        except Exception as error:
            return unforeseen(error)
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
    # 'local': without it, $RAY_ADDRESS would be gone to.
    options = {} if address else {"include_dashboard": False}
    try:
        ray.init(address or "local", log_to_driver=False, logging_level="error", **options)
    except (ConnectionError, OSError, RuntimeError, ValueError) as error:
        seconds = time.monotonic() - begun
        raise TransilError(
            f"no Ray at {address or 'this machine'} after {seconds:.0f} s ({reason(error)}); "
            "check the address, or start one with: ray start --head"
        ) from None
    if not address:
        _check_closed(ray)


@contextlib.contextmanager
def _closed_to_others(ray: Any) -> Iterator[None]:
    """While a Ray of our own runs: settings that its processes read when they are started."""
    constants = ray._private.ray_constants  # read from the environment when Ray was imported
    clusters = getattr(constants, "ENABLE_RAY_CLUSTER", None)
    before = {name: os.environ.pop(name, None) for name in (AUTH_MODE, AUTH_TOKEN, CLUSTERS)}
    # Without a mode, Ray asks for tokens and takes ours.
    os.environ.update({AUTH_TOKEN: secrets.token_hex(32), CLUSTERS: "0"})
    constants.ENABLE_RAY_CLUSTER = False
    _read_again()
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = clusters
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        _read_again()


def _read_again() -> None:
    """Make Ray forget the token, and whether there is one, that it has read in this process."""
    with contextlib.suppress(ImportError, AttributeError):  # of another version: it reads once
        compiled: Any = importlib.import_module("ray._raylet")
        compiled.Config.initialize("")
        compiled.AuthenticationTokenLoader.instance().reset_cache()


def _check_closed(ray: Any) -> None:
    """Say so where a version of Ray does not keep to what we ask of it."""
    own = ipaddress.ip_address(ray.util.get_node_ip_address()).is_loopback
    if not own or os.environ.get(AUTH_MODE) != "token":
        warnings.warn(
            f"this Ray ({ray.__version__}) can be reached from other machines or without a token, "
            "and whoever reaches it can run code in it; use it where the network is trusted",
            stacklevel=2,
        )


def _ray() -> Any:
    try:
        import ray
    except ModuleNotFoundError:
        raise missing("the executor 'ray' needs", "ray") from None
    return ray

"""Runs command lines of `transil`, each in a forked child of its own, within limits.

One process imports everything once (two seconds) and then forks for every case: a child may crash,
hang or eat memory and harms nobody, and costs a few hundredths of a second. Orders come as lines of
JSON on standard input, answers go out as lines of JSON.
"""

from __future__ import annotations

import gc
import io
import json
import os
import resource
import signal
import sys
import time
import traceback
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

# Above what the process has when it forks: a case that needs more is a finding.
MEGABYTES = 1024
SECONDS = 10  # of processor time
WALL = 40.0  # of a clock: a command that waits for ever uses no processor time
LARGEST = 64 << 20  # bytes of one file


def import_everything() -> None:
    """All that commands import when they need it, so that no child pays for it."""
    import matplotlib.figure
    import PIL.Image
    import pyarrow.csv
    import pyarrow.parquet
    import safetensors.torch
    import torch
    import yaml

    import transil.engine.model
    import transil.engine.training
    import transil.experiment.running
    import transil.report.page
    from transil.cli import main

    PIL.Image.init()
    del matplotlib, pyarrow, safetensors, torch, yaml, transil
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        for words in (["--help"], ["methods"], ["recipes"], ["bank", "list"], ["data", "list"]):
            main(words)


def _keep_commands() -> None:
    """Have the commands built once: that takes ten times as long as most cases."""
    import typer

    from transil.cli.app import app

    built = typer.main.get_command(app)
    typer.main.get_command = lambda _: built


def serve() -> None:
    """Read orders until nobody gives any."""
    answers = os.fdopen(os.dup(1), "w")
    import_everything()
    _keep_commands()
    gc.collect()
    gc.freeze()  # a collection in a child would copy all pages
    for line in sys.stdin:
        order = json.loads(line)
        answers.write(json.dumps(_run(order)) + "\n")
        answers.flush()


def _run(order: dict[str, Any]) -> dict[str, Any]:
    child = os.fork()
    if child == 0:
        _child(order)
    end = time.monotonic() + order.get("wall", WALL)
    pause = 0.001
    while True:
        found, status, used = os.wait4(child, os.WNOHANG)
        if found:
            break
        if time.monotonic() > end:
            _kill(child)
            _, _, used = os.wait4(child, 0)
            return {"code": None, "why": f"did not end within {order.get('wall', WALL):g} s"}
        time.sleep(pause)
        pause = min(0.02, pause * 1.5)
    _kill(child)  # what it may have left running
    code = os.waitstatus_to_exitcode(status)
    why = f"killed by {signal.Signals(-code).name}" if code < 0 else ""
    return {"code": code, "why": why, "cpu": used.ru_utime + used.ru_stime}


def _kill(child: int) -> None:
    """End the child's whole group."""
    try:
        os.killpg(child, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def _child(order: dict[str, Any]) -> None:
    """Never returns."""
    code = 1
    try:
        os.setpgid(0, 0)
        os.environ.update(order.get("env", {}))
        os.chdir(order["folder"])
        _streams(order)
        _limits(order)
        from transil.cli import main

        try:
            code = main(order["words"])
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else 1
        if sys.stdout is not None:
            sys.stdout.flush()
    except BaseException:
        traceback.print_exc()
        if sys.stderr is not None:
            sys.stderr.flush()
        code = 1
    finally:
        os._exit(code)


def _streams(order: dict[str, Any]) -> None:
    """Files in place of the three streams; a closed one is None, as in a new Python process."""
    closed = order.get("closed", [])
    nothing = os.open(os.devnull, os.O_RDONLY)
    out, err = (
        os.open(order[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC) for name in ("out", "err")
    )
    for number, handle in enumerate((nothing, out, err)):
        os.dup2(handle, number)
    for handle in (nothing, out, err):
        os.close(handle)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", closefd=False, encoding="utf-8")  # noqa: SIM115
    sys.stderr = open(2, "w", closefd=False, encoding="utf-8", errors="backslashreplace", buffering=1)  # noqa: SIM115
    for number in closed:
        os.close(number)
        setattr(sys, ("stdin", "stdout", "stderr")[number], None)


def _limits(order: dict[str, Any]) -> None:
    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    most = now + (order.get("megabytes", MEGABYTES) << 20)
    seconds = order.get("seconds", SECONDS)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST, LARGEST))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    serve()

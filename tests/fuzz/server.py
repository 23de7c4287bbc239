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
from functools import cache
from typing import Any

# Above what the process has when it forks: a case that needs more is a finding.
MEGABYTES = 1024
SECONDS = 10  # of processor time
IDLE = 8.0  # of a clock, without any work done: it waits for ever
WALL = 120.0  # of a clock
LOOK = 0.02  # how often is looked
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

    typer.main.get_command = cache(typer.main.get_command)
    typer.main.get_command(app)


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
    begun = moved = time.monotonic()
    pause, worked = 0.001, 0
    while True:
        found, status, used = os.wait4(child, os.WNOHANG)
        if found:
            break
        now = time.monotonic()
        if pause >= LOOK and (work := _work(child)) != worked:
            worked, moved = work, now
        if now - moved > IDLE or now - begun > WALL:
            _kill(child)
            os.wait4(child, 0)
            return {"code": None, "why": f"had not ended after {now - begun:.0f} s"}
        time.sleep(pause)
        pause = min(LOOK, pause * 1.5)
    _kill(child)  # what it may have left running
    code = os.waitstatus_to_exitcode(status)
    why = f"killed by {signal.Signals(-code).name}" if code < 0 else ""
    return {"code": code, "why": why, "cpu": used.ru_utime + used.ru_stime}


def _work(child: int) -> int:
    """The processor time that a process has used, in the kernel's ticks."""
    with open(f"/proc/{child}/stat") as file:
        words = file.read().rpartition(")")[2].split()
    return int(words[11]) + int(words[12])


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
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)
    for number in closed:
        os.close(number)
        setattr(sys, ("stdin", "stdout", "stderr")[number], None)


def _limits(order: dict[str, Any]) -> None:
    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    most = now + (order.get("megabytes", MEGABYTES) << 20)
    seconds = order.get("seconds", SECONDS)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 2))
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST, LARGEST))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    serve()

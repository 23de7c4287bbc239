"""How each run was made, from what its own folder says: commit, versions, device, seconds."""

from __future__ import annotations

from typing import Any

from transil.engine.run_folder import TIMES, RunFolder, measured
from transil.errors import TransilError
from transil.experiment.plan import Task


def run_facts(task: Task) -> dict[str, Any]:
    """What is known of a run; folders of older versions do not say everything."""
    run = RunFolder(task.folder)
    try:
        versions = dict(run.record().versions)
    except TransilError:  # the scores may be studied all the same
        versions = {}
    lines = run.lines(TIMES)
    devices = [str(line["device"]) for line in lines if line.get("device")]
    return {
        "run": task.name,
        "dataset": task.dataset,
        "method": task.method,
        "states": task.states,
        "fraction": task.fraction,
        "seed": task.seed,
        "commit": versions.pop("commit", None),
        "versions": versions,
        # Of every line: a run that went on elsewhere was on several devices.
        "device": ", ".join(dict.fromkeys(devices)) or None,
        "seconds": round(sum(measured(lines, "seconds")), 3) if lines else None,
        "gpu_gigabytes": max(measured(lines, "gpu_gigabytes"), default=None),
    }

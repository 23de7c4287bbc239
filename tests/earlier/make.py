"""Makes the files of this folder, apart from itself: see README.md."""

from __future__ import annotations

import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from transil.cli import main
from transil.engine import RunConfig, resolve, train
from transil.plugins import add_plugin

HERE = Path(__file__).parent
calls: list[int] = []  # of `stop`


def interrupted() -> RunConfig:
    """The settings of the run that was interrupted."""
    settings = {
        "data": {"path": "formula:strokes?classes=4&train=4&test=3&size=16", "states": 2},
        "net": {"body": "dot"},
        "train": {"epochs": 2, "batch_size": 6, "pad": 1},
        "engine": {"device": "cpu", "fuse": True, "checkpoint_minutes": 0},
    }
    return resolve(method="ft", recipe="ft-tiny", overrides=[settings])


def stop(*_: Any) -> None:
    """After the checkpoint in the middle of the second state."""
    calls.append(1)
    if len(calls) == 6:
        raise KeyboardInterrupt


def make(folder: Path) -> None:
    """An experiment in `results`, converted images, and a run that was interrupted."""
    add_plugin(str(HERE / "dot.py"))
    main(["run", str(HERE / "recipe.yaml"), "-o", str(folder / "results")])
    results = folder / "results"
    for path in results.iterdir():
        if path.is_dir() and path.name not in ("runs", "banks", "fits"):
            shutil.rmtree(path)
        elif path.is_file() and path.name != "results.json":
            path.unlink()
    images = "formula:noise?classes=2&train=1&test=1&size=16"
    main(["data", "convert", images, str(folder / "converted")])
    with suppress(KeyboardInterrupt):
        train(interrupted(), folder / "interrupted", tell=stop)  # type: ignore[call-arg]
    for lock in folder.rglob(".*.lock"):
        lock.unlink()


if __name__ == "__main__":
    make(Path(sys.argv[1]))

"""What several test files share."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import re
import shutil
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from transil import Bank, Schedule, ScoreStore, TransilError, fit
from transil.cli import main
from transil.correction.layers import Correction
from transil.correction.objective import Problem
from transil.testing import biased_scores

UNEQUAL = [50, 10, 5, 1, 34]


def unequal_store(seed: int = 0, **options: Any) -> ScoreStore:
    """A small store with groups of very different sizes."""
    return biased_scores("50,10,5,1,34", seed=seed, images_per_class=4, **options)


def unequal_bank(
    seeds: tuple[int, ...] = (1, 2, 3), correction: str = "adbic", **settings: Any
) -> Bank:
    """A bank of stores like that."""
    stores = [unequal_store(seed, splits=("val",)) for seed in seeds]
    return fit(stores, correction=correction, **settings)


def random_problem(
    correction: Correction, sizes: list[int], rows: int = 60, seed: int = 0, scale: float = 2.0
) -> Problem:
    """A fitting problem with signal, noise and a lifted newest group."""
    random = np.random.default_rng(seed)
    schedule = Schedule.from_sizes(sizes)
    columns = random.integers(0, sum(sizes), rows)
    scores = random.normal(0.0, scale, (rows, sum(sizes)))
    scores[np.arange(rows), columns] += scale
    scores[:, schedule.group_columns(len(sizes))] += scale
    return Problem(scores, columns, schedule, len(sizes), correction)


def run_transil(*words: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The real command line, in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "transil", *map(str, words)],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=120,
    )


def run_here(*words: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The same in this process, without the seconds that a new one takes."""
    out, err = io.StringIO(), io.StringIO()
    terminate = signal.getsignal(signal.SIGTERM)
    with (
        contextlib.chdir(cwd),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        warnings.catch_warnings(),  # puts `showwarning` back, too
    ):
        warnings.simplefilter("default")
        code = main([str(word) for word in words])
    signal.signal(signal.SIGTERM, terminate)
    return subprocess.CompletedProcess(list(words), code, out.getvalue(), err.getvalue())


def ok(*words: str | Path, cwd: Path | None = None) -> str:
    """Run a command that must succeed; its stdout."""
    done = run_transil(*words, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


def ok_here(*words: str | Path, cwd: Path | None = None) -> str:
    """As `ok`, in this process."""
    done = run_here(*words, cwd=cwd or Path.cwd())
    assert done.returncode == 0, done.stderr
    return done.stdout


def refused(work: Path, *words: str, says: str = "") -> None:
    """A command is refused in one line, and changes nothing."""
    before = {path: path.lstat().st_mtime_ns for path in work.rglob("*")}
    done = run_here(*words, cwd=work)
    assert done.returncode == 2, (words, done.stdout)
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert len(done.stderr) < 2100
    assert says in done.stderr
    assert {path: path.lstat().st_mtime_ns for path in work.rglob("*")} == before


def told(work: Path, says: str, call: Callable[..., Any], *given: Any) -> None:
    """The same for a call of the library, which takes less time."""
    before = {path: path.lstat().st_mtime_ns for path in work.rglob("*")}
    with pytest.raises(TransilError) as error:
        call(*given)
    assert says in str(error.value)
    assert len(str(error.value)) < 1000
    assert {path: path.lstat().st_mtime_ns for path in work.rglob("*")} == before


def ship(
    folder: Path,
    name: str,
    classes: int = 100,
    references: tuple[str, ...] = ("tiny-a", "tiny-b", "mini-imagenet"),
) -> Bank:
    """A bank of generated scores, saved under a name such as lwf-s10-adbic-newton."""
    method, rest = name.split("-s")
    states, correction, solver = rest.split("-")
    stores = []
    for seed, reference in enumerate(references):
        store = biased_scores(
            f"{classes}/{states}", seed=seed, images_per_class=4, splits=("val",), dataset=reference
        )
        store.method = method
        stores.append(store)
    few: dict[str, Any] = {} if solver == "newton" else {"epochs": 1}
    bank = fit(stores, correction=correction, solver=solver, **few)
    bank.save(folder / f"{name}.json")
    return bank


def refused_here(*words: str | Path, says: str, cwd: Path) -> None:
    """Run a command that must be refused in one line that says this, with nothing on stdout."""
    done = run_here(*words, cwd=cwd)
    assert done.returncode == 2, done.stdout
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    assert says in done.stderr


# A window has a least width, a frame in it has not: a page is looked at in a frame.
FRAME = """<!DOCTYPE html><meta charset="utf-8"><body style="margin:0">
<script>addEventListener("message",function(e){document.body.dataset.seen=e.data})</script>
<iframe src="probed.html" style="border:0;width:WIDTHpx;height:900px"></iframe></body>"""


def probed(text: str, probe: str, width: int, dark: bool, folder: Path) -> list[str]:
    """What a script that is put into a page posts of it, in a real browser; a picture in shot.png.

    The test is skipped where no Chromium is installed.
    """
    names = ("chromium", "chromium-browser", "google-chrome")
    browser = next((path for name in names if (path := shutil.which(name))), None)
    if browser is None:
        pytest.skip(f"no Chromium here ({', '.join(names)})")
    (folder / "probed.html").write_text(text.replace("</body>", f"{probe}</body>"))
    (folder / "frame.html").write_text(FRAME.replace("WIDTH", str(width)))
    done = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
         "--enable-logging=stderr", "--v=0", f"--user-data-dir={folder / 'profile'}",
         f"--blink-settings=preferredColorScheme={0 if dark else 1}",  # 0 is dark
         "--window-size=1300,900", "--virtual-time-budget=2000", "--dump-dom",
         f"--screenshot={folder / 'shot.png'}", (folder / "frame.html").as_uri()],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert "CONSOLE" not in done.stderr  # no error of a script, nothing that could not be loaded
    seen = re.search(r'data-seen="([^"]*)"', done.stdout)
    assert seen is not None, done.stderr[-2000:]
    return seen[1].split(";")


def tool_named(name: str) -> ModuleType:
    """A script of tools/ as a module; processes of its own find its functions by its name."""
    path = Path(__file__).resolve().parents[1] / "tools" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module

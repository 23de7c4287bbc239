"""Kill a run at random moments, resume it each time, and compare its end with a run left alone.

    OMP_NUM_THREADS=1 python benchmarks/kill.py [--moments 10] [--seed 0]     # about 1 minute

Every start is `transil train` on the CPU in a process of its own, ended by SIGKILL after a random
time: while it starts, trains, saves or scores. A run that ends before all moments are used up is
compared, and another one begins. Exit code 1 where any file differs, those with times apart.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

DATA = "formula:strokes?classes=10&train=60&test=10&size=16"
WORDS = ["--data", DATA, "--recipe", "lwf-tiny", "--states", "5", "--device", "cpu",
         "train.epochs=5", "engine.checkpoint_minutes=0"]  # fmt: skip


def start(folder: Path) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-m", "transil", "train", "-o", str(folder), *WORDS]
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def at_work(process: subprocess.Popen[bytes], folder: Path) -> None:
    """Wait until it touches the log: that is when an epoch is done, or when a run goes on."""
    log = folder / "log.jsonl"
    before = log.stat().st_mtime_ns if log.exists() else 0
    while process.poll() is None and (log.stat().st_mtime_ns if log.exists() else 0) == before:
        time.sleep(0.001)


def ended(process: subprocess.Popen[bytes], seconds: float | None) -> bool:
    """Wait for its end, or kill it after so many seconds; an error of its own ends everything."""
    try:
        said = process.communicate(timeout=seconds)[1].decode()
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return False
    if process.returncode:
        sys.exit(f"the run ended with code {process.returncode}: {said}")
    return True


def reached(folder: Path) -> str:
    """The last epoch of the log; a line that the kill cut off does not count."""
    log = folder / "log.jsonl"
    lines = log.read_text().split("\n")[:-1] if log.exists() else []
    if not lines:
        return "before the first epoch"
    last = json.loads(lines[-1])
    return f"state {last['state']}, epoch {last['epoch']}"


def contents(folder: Path) -> dict[str, bytes]:
    """All files of a run but its times and locks."""
    left_out = ("times.jsonl", ".lock")
    paths = (p for p in folder.rglob("*") if p.is_file() and not p.name.endswith(left_out))
    return {str(p.relative_to(folder)): p.read_bytes() for p in paths}


def differences(folder: Path, whole: Path) -> list[str]:
    """The names of files that are not the same in both, or only in one."""
    one, other = contents(folder), contents(whole)
    return sorted(n for n in {*one, *other} if one.get(n) != other.get(n))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--moments", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    draw = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as name:
        whole, number, kills, wrong = Path(name) / "whole", 1, 0, 0
        begun, process = time.monotonic(), start(whole)
        at_work(process, whole)
        starting = time.monotonic() - begun
        ended(process, None)
        working = time.monotonic() - begun - starting
        print(f"left alone: {starting:.1f} s until the first epoch is logged, then {working:.1f} s")
        while True:
            run = Path(name) / f"run-{number}"
            begun, process, wait = time.monotonic(), start(run), None
            if kills < options.moments:
                # Most kills divide the work evenly, on the average; some come before it begins.
                early = draw.random() < 0.2
                wait = draw.uniform(0, starting if early else 2 * working / options.moments)
                if not early:
                    at_work(process, run)
            if not ended(process, wait):
                kills += 1
                seconds = time.monotonic() - begun
                print(f"kill {kills:2}: run {number}, after {seconds:.2f} s, {reached(run)}")
                continue
            differing = differences(run, whole)
            wrong += bool(differing)
            print(
                f"run {number}: {'differs: ' + ', '.join(differing) if differing else 'same bytes'}"
            )
            if kills == options.moments:
                break
            number += 1
    print(f"killed {kills} times, runs compared: {number}, different: {wrong}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()

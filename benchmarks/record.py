"""Recording 1,000,000 x 100 float32 scores in batches of 128: time beside np.save, and memory.

    python benchmarks/record.py [--rows 1000000]             # or: make bench

The yardstick is `np.save` of the same scores: at once, from memory, as it is and with `os.fsync`; and
batch by batch into an open file, as a loop would that has no recorder. A recorder checks the scores,
sums the file (SHA-256) and returns when the disk has it; the sum is measured alone, too. Memory is what
the process holds beyond the scores that it is given (RssAnon of /proc), so Linux only. All take turns,
in new files, and medians are shown.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from correct import anonymous_memory
from transil import ScoreRecorder

COLUMNS, BATCH, REPEATS = 100, 128, 7


def save(folder: Path, scores: np.ndarray[Any, Any], durable: bool) -> None:
    with open(folder / "scores.npy", "wb") as file:
        np.save(file, scores)
        file.flush()
        if durable:
            os.fsync(file.fileno())


def record(folder: Path, scores: np.ndarray[Any, Any], labels: np.ndarray[Any, Any]) -> int:
    """Record the scores as one split of one state; peak growth of anonymous memory."""
    before, peak = anonymous_memory(), 0
    recorder = ScoreRecorder(folder / "store", [COLUMNS])
    for number, start in enumerate(range(0, len(scores), BATCH)):
        recorder.add("test", scores[start : start + BATCH], labels[start : start + BATCH])
        if number % 1000 == 0:
            peak = max(peak, anonymous_memory() - before)
    recorder.next_state()
    return max(peak, anonymous_memory() - before)


def save_batches(folder: Path, scores: np.ndarray[Any, Any]) -> None:
    with open(folder / "scores.npy", "wb") as file:
        for start in range(0, len(scores), BATCH):
            np.save(file, scores[start : start + BATCH])
        file.flush()
        os.fsync(file.fileno())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=1_000_000)
    rows = parser.parse_args().rows
    random = np.random.default_rng(0)
    scores = random.standard_normal((rows, COLUMNS), np.float32)
    labels = random.integers(0, COLUMNS, rows)
    peaks = []
    with tempfile.TemporaryDirectory() as name:
        work: dict[str, Callable[[Path], object]] = {
            "np.save": lambda folder: save(folder, scores, durable=False),
            "np.save, os.fsync": lambda folder: save(folder, scores, durable=True),
            "np.save of batches, os.fsync": lambda folder: save_batches(folder, scores),
            "SHA-256 in memory": lambda _: hashlib.sha256(scores.data).hexdigest(),
            "ScoreRecorder": lambda folder: peaks.append(record(folder, scores, labels)),
        }
        times: dict[str, list[float]] = {what: [] for what in work}
        for _ in range(REPEATS):  # in turn, so that all see the same machine
            for what, call in work.items():
                folder = Path(name) / "work"
                folder.mkdir()
                began = time.perf_counter()
                call(folder)
                times[what].append(time.perf_counter() - began)
                shutil.rmtree(folder)
    median = {what: sorted(t)[len(t) // 2] for what, t in times.items()}
    print(f"{rows:,} x {COLUMNS} float32, {scores.nbytes / 1e6:.0f} MB, batches of {BATCH}")
    for what, value in median.items():
        print(f"{what:<30}{value:8.3f} s ({min(times[what]):.2f} to {max(times[what]):.2f})")
    for yardstick in list(work)[:3]:
        ratio = median["ScoreRecorder"] / median[yardstick]
        print(f"ScoreRecorder over '{yardstick}': {ratio:.2f} (goal: 1.5)")
    print(f"memory beyond the scores given: {max(peaks) / 1e6:.1f} MB")


if __name__ == "__main__":
    main()

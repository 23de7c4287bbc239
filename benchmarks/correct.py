"""Correcting 1,000,000 x 100 float32 scores from a memory map; ratios and peak memory.

    python benchmarks/correct.py             # or: make bench

The yardstick is the plain expression `scores * 1.0 + 0.0` over the same mapped file, once with
the result left in memory and once saved with `np.save`. Ours reads the map and writes a file.
Memory is what the process holds beyond the mapped file (RssAnon of /proc), so Linux only. Then the
scores of a single image, as a model in use has them.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from transil import Bank, fit
from transil.adaptation.score_files import correct_file
from transil.testing import biased_scores

ROWS, COLUMNS, REPEATS, CALLS = 1_000_000, 100, 7, 500


def anonymous_memory() -> int:
    """Bytes of this process that are backed by no file."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("no RssAnon in /proc/self/status")


def plain(source: Path) -> np.ndarray[Any, Any]:
    scores = np.load(source, mmap_mode="r")
    return np.asarray(scores * 1.0 + 0.0)


def plain_and_save(source: Path, target: Path) -> None:
    np.save(target, plain(source))


def peak_of_correcting(folder: Path) -> int:
    """Peak growth of anonymous memory while a file is corrected, sampled at every block."""
    code = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
from correct import anonymous_memory, correct_file
from transil import load_bank
folder = Path({str(folder)!r})
bank = load_bank(folder / "bank.json")
before, peak = anonymous_memory(), 0
def sample(share, text):
    global peak
    peak = max(peak, anonymous_memory() - before)
correct_file(folder / "scores.npy", folder / "out.npy", bank, progress=sample)
print(peak)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return int(done.stdout)


def one_image(bank: Bank) -> None:
    """Microseconds for one row, medians of rounds in turn."""
    row = np.random.default_rng(0).standard_normal((1, COLUMNS), np.float32)
    tensor, layer = torch.from_numpy(row), bank.layer(bank.schedule.states)
    work: dict[str, Callable[[], object]] = {
        "scores * 1.0 + 0.0, NumPy": lambda: row * 1.0 + 0.0,
        "bank.correct, NumPy": lambda: bank.correct(row),
        "bank.correct, torch": lambda: bank.correct(tensor),
        "bank.layer(state), torch": lambda: layer(tensor),
    }
    times: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(REPEATS):
        for name, call in work.items():
            began = time.perf_counter()
            for _ in range(CALLS):
                call()
            times[name].append((time.perf_counter() - began) / CALLS)
    print("one image:")
    for name, found in times.items():
        print(f"{name:<34}{1e6 * sorted(found)[REPEATS // 2]:8.1f} microseconds")


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source, target = folder / "scores.npy", folder / "out.npy"
        scores = np.lib.format.open_memmap(
            source, mode="w+", dtype=np.float32, shape=(ROWS, COLUMNS)
        )
        random = np.random.default_rng(0)
        for start in range(0, ROWS, 10_000):
            scores[start : start + 10_000] = random.standard_normal((10_000, COLUMNS), np.float32)
        scores.flush()
        del scores
        bank: Bank = fit(biased_scores("100/10", images_per_class=10, splits=("val",)))
        bank.save(folder / "bank.json")
        work: dict[str, Callable[[], object]] = {
            "scores * 1.0 + 0.0, in memory": lambda: plain(source),
            "scores * 1.0 + 0.0, np.save": lambda: plain_and_save(source, target),
            "bank.correct, in memory": lambda: bank.correct(np.load(source, mmap_mode="r")),
            "correct_file (map to file)": lambda: correct_file(source, target, bank),
        }
        times: dict[str, list[float]] = {name: [] for name in work}
        for _ in range(REPEATS):  # in turn, so that all see the same machine
            for name, call in work.items():
                target.unlink(missing_ok=True)
                began = time.perf_counter()
                call()
                times[name].append(time.perf_counter() - began)
        median = {name: sorted(t)[len(t) // 2] for name, t in times.items()}
        print(f"{ROWS:,} x {COLUMNS} float32, {ROWS * COLUMNS * 4 / 1e6:.0f} MB, one thread")
        for name, value in median.items():
            spread = f"({min(times[name]):.2f} to {max(times[name]):.2f})"
            print(f"{name:<34}{value:8.3f} s {spread}")
        names = list(work)
        for ours, yardstick in ((names[2], names[0]), (names[3], names[1]), (names[3], names[0])):
            ratio = median[yardstick] / median[ours]
            print(f"speed of '{ours}' over '{yardstick}': {ratio:.2f} (goal: 0.50)")
        peak = peak_of_correcting(folder)
        print(f"memory above the mapped file while correcting: {peak / 1e6:.1f} MB (goal: 200 MB)")
        one_image(bank)


if __name__ == "__main__":
    main()

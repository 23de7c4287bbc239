"""What adaptation costs, as ratios measured side by side.

    python benchmarks/adapt.py [--rows 100000] [--classes 1000]

Scores are a memory map of float32. Fitting a Corrector (bank, its measurement, shifts of all classes for
a uniform prior) is compared with a plain pass of `np.exp` over them, block by block; `transform` with
`bank.correct`; memory is the peak of what Python and NumPy hold while fitting, above the map.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from transil import Corrector, load_bank

BLOCK = 1 << 17


def some_scores(path: Path, rows: int, classes: int) -> Any:
    """A memory map of scores with a bias to the newest tenth of the classes."""
    scores = np.lib.format.open_memmap(path, "w+", np.float32, (rows, classes))
    random = np.random.default_rng(0)
    for start in range(0, rows, 10_000):
        stop = min(rows, start + 10_000)
        block = random.standard_normal((stop - start, classes), dtype=np.float32)
        block[np.arange(stop - start), random.integers(0, classes, stop - start)] += 6.0
        block[:, -classes // 10 :] += 2.0
        scores[start:stop] = block
    scores.flush()
    return np.load(path, mmap_mode="r")


def exp_pass(scores: Any) -> float:
    """np.exp of all scores, in blocks that stay in the cache."""
    rows = max(1, BLOCK // scores.shape[1])
    buffer = np.empty((rows, scores.shape[1]), dtype=np.float32)
    total = 0.0
    for start in range(0, len(scores), rows):
        block = scores[start : start + rows]
        total += float(np.exp(block, out=buffer[: len(block)])[0, 0])
    return total


def seconds(act: Callable[[], object], times: int = 3) -> float:
    """The shortest of some runs."""
    found = []
    for _ in range(times):
        start = time.perf_counter()
        act()
        found.append(time.perf_counter() - start)
    return min(found)


def main() -> None:
    """Print a line for each figure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--classes", type=int, default=1_000)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # generated scores are far from any bank's references
    with tempfile.TemporaryDirectory() as folder:
        scores = some_scores(Path(folder) / "scores.npy", options.rows, options.classes)
        schedule = [options.classes // 10] * 10
        bank = load_bank("lucir", schedule=schedule)
        corrector = Corrector(schedule, bank=bank, prior="uniform")
        plain = seconds(lambda: exp_pass(scores))
        fit = seconds(lambda: corrector.fit(scores), 2)
        print(f"{options.rows:,} x {options.classes:,} float32: one pass of np.exp {plain:.2f} s; "
              f"fit {fit / plain:.1f} such passes")  # fmt: skip
        tracemalloc.start()
        corrector.fit(scores)
        print(
            f"memory while fitting: {tracemalloc.get_traced_memory()[1] / 1e6:.0f} MB above the map"
        )
        tracemalloc.stop()
        some = np.array(scores[:10_000])
        ready = bank.like(some, 10)
        ratio = seconds(lambda: corrector.transform(some)) / seconds(
            lambda: ready.correct(some, 10)
        )
        print(f"transform: {ratio:.2f} times bank.correct, 10,000 rows")
        one = some[:1, :100].copy()
        small = Corrector("100/10", bank="none", prior="uniform").fit(some[:, :100])
        alone = seconds(lambda: [small.transform(one) for _ in range(20)], 500) / 20
        print(f"one image of 100 classes: {1e6 * alone:.0f} microseconds")


if __name__ == "__main__":
    main()

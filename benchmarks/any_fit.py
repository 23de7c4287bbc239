"""A bank for any schedule: the time and memory of its fit, and of making one of a schedule.

    python benchmarks/any_fit.py [--stores 100] [--rows 50]

Stores of 100 classes in 5, 10 and 20 equal groups and in unequal ones, made from formulas, `--rows`
validation images a class. Memory is the peak of the whole process above what it held before.
"""

from __future__ import annotations

import argparse
import resource
import time
import warnings

from transil.correction.fitting import fit_any_schedule
from transil.errors import ScheduleWarning
from transil.schedule import Schedule
from transil.testing import biased_scores

SCHEDULES = ("100/5", "100/10", "100/20", "50,10,10,10,10,10", "30,20,15,10,10,5,5,5")


def peak() -> float:
    """MB, of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Print a line for each figure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--stores", type=int, default=100)
    parser.add_argument("--rows", type=int, default=50)
    options = parser.parse_args()
    stores = [
        biased_scores(
            SCHEDULES[seed % len(SCHEDULES)],
            seed=seed,
            images_per_class=options.rows,
            splits=("val",),
        )
        for seed in range(options.stores)
    ]
    states = sum(store.schedule.states - 1 for store in stores)
    before, start = peak(), time.perf_counter()
    bank = fit_any_schedule(stores, names=[f"set{seed % 10}" for seed in range(len(stores))])
    seconds = time.perf_counter() - start
    print(f"fit of {len(stores)} stores, {states} states, {100 * options.rows:,} rows: "
          f"{seconds:.1f} s, {peak() - before:,.0f} MB more")  # fmt: skip
    schedule = Schedule.equal(2000, 200)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ScheduleWarning)  # far from all that was seen
        bank.for_schedule(schedule)
    print(f"bank of 200 states and 2,000 classes: {time.perf_counter() - start:.3f} s")


if __name__ == "__main__":
    main()

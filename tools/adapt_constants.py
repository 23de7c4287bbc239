"""What the constants of adaptation rest on: how models of every method look once they are calibrated.

    python tools/adapt_constants.py RUNS... -o results/adaptation

RUNS are folders of runs of `tools/any_schedule.py` (SET--SCHEDULE--METHOD). For each state after the
first of each finished model, corrected by the bank for any schedule and shifted to a uniform prior,
which is true of the test images:

- `spread`: how far scores spread across classes in units of log-odds, once they are calibrated: divided
  by the temperature at which the mean confidence is the accuracy. (`SPREAD`)
- `groups`, `classes`: deviation of the shifts, in the same units: of means of groups, and of classes
  within theirs. (`Spread`)
- `left`: what is left of old classes, which takes no label. (`LEAST_LEFT`)

Writes constants.json, the lowest, the middle and the highest of each over all states, and prints it as a
table.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from transil import ScoreStore, TransilError, load_bank
from transil._common.arrays import Float64Array
from transil._common.files import write_json
from transil.adaptation.columns import Columns, Corrected, temperature_of
from transil.adaptation.left import left_of, softmax
from transil.adaptation.matching import match
from transil.correction.scales import score_scale

NAMES = ("spread", "groups", "classes", "left")
HALVINGS = 12
COLDEST, WARMEST = 0.02, 50.0


def calibrated(scores: Float64Array, columns: Any) -> tuple[float, Float64Array]:
    """The temperature at which confidence is accuracy, and the shifts to a uniform prior there.

    The higher it is, the lower the confidence; the accuracy hardly changes.
    """
    low, high = np.log(COLDEST), np.log(WARMEST)
    even = np.full(scores.shape[1], 1.0 / scores.shape[1])
    for _ in range(HALVINGS):
        temperature = float(np.exp((low + high) / 2))
        shifts = match(scores / temperature, even).shifts
        shares = softmax(scores / temperature + shifts)
        sure = shares.max(axis=1).mean() > (shares.argmax(axis=1) == columns).mean()
        low, high = (np.log(temperature), high) if sure else (low, np.log(temperature))
    return temperature, shifts


def found_in(store: ScoreStore) -> Iterator[tuple[float, ...]]:
    """A row of each state: spread, groups, classes, left."""
    schedule = store.schedule
    bank = load_bank(store.method, schedule=schedule)
    for state in range(2, schedule.states + 1):
        data = store.get("test", state)
        scores = np.asarray(data.scores, dtype=np.float64)
        columns = Columns.of(bank.like(scores, state), state)
        corrected = np.asarray(columns.correct(scores))
        temperature, shifts = calibrated(corrected, data.columns)
        group = schedule.group_of_column(state) - 1
        means = np.bincount(group, weights=shifts) / np.bincount(group)
        seen = Corrected(scores, columns, temperature_of(corrected))
        left = left_of(softmax(seen[:]), schedule.seen[state - 2])
        yield (
            score_scale(corrected) / temperature,
            float(means.std()),
            float((shifts - means[group]).std()),
            np.nan if left is None else left,
        )


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", type=Path, nargs="+", help="folders of runs")
    parser.add_argument("-o", "--output", type=Path, required=True, help="for constants.json")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of banks far from scores: what is measured here tells it
    rows: dict[tuple[str, str], list[tuple[float, ...]]] = defaultdict(list)
    try:
        for folder in options.runs:
            for path in sorted(folder.glob("*/scores/*/store.json")):
                store = ScoreStore.open(path.parent)
                if len(store.states("test")) == store.schedule.states:
                    rows[path.parts[-4].split("--")[0], path.parent.name] += found_in(store)
        if not rows:
            raise TransilError(f"{options.runs[0]}: no finished run (SET--SCHEDULE--METHOD/scores)")
    except TransilError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    table = {
        f"{images} {method}": {
            name: [round(float(q), 3) for q in np.nanquantile(values, (0.0, 0.5, 1.0))]
            for name, values in zip(NAMES, np.array(found).T, strict=True)
        }
        for (images, method), found in sorted(rows.items())
    }
    options.output.mkdir(parents=True, exist_ok=True)
    write_json(options.output / "constants.json", table)
    print("| models | " + " | ".join(NAMES) + " |\n|---|" + "---|" * len(NAMES))
    for name, of in table.items():
        print(
            f"| {name} | "
            + " | ".join("{:.2f}, {:.2f}, {:.2f}".format(*of[n]) for n in NAMES)
            + " |"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())

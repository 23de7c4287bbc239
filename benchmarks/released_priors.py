"""Priors on the scores that the paper's authors released, five splits each.

    python benchmarks/released_priors.py RELEASED [--splits 5]

RELEASED is the folder of LUCIR's scores (logits_lucir_s10). One half of the test images of each class is
thinned to the traffic and adapted to, the other is judged. Means over splits of the average incremental
accuracy, in %.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

from transil.adaptation.traffic import Traffic
from transil.adaptation.trial import BANK, RAW, trial
from transil.interop import dkt

WAYS = (
    "none",
    "none+ledger",
    "uniform",
    "remembered",
    "known",
    "none+newest",
    "none+ledger+newest",
)
TRAFFIC = {
    "1:1": Traffic(1),
    "10:1": Traffic(10),
    "100:1": Traffic(100),
    "newest half": Traffic(newest=0.5),
    "1:1, 300 images": Traffic(1, most=300),
    "10:1, 300 images": Traffic(10, most=300),
    "100:1, 300 images": Traffic(100, most=300),
}


def means(folder: Path, splits: int, bank: str | None) -> dict[str, dict[str, float]]:
    """Accuracy in %, by traffic and way to correct."""
    store = dkt.import_scores(folder)
    found = {}
    for name, traffic in TRAFFIC.items():
        trials = [
            trial(store, replace(traffic, seed=seed), WAYS, method="lucir", bank=bank)
            for seed in range(splits)
        ]
        found[name] = {
            way: 100 * float(np.mean([one.columns[way].average for one in trials]))
            for way in (RAW, BANK, *WAYS)
        }
    return found


def main() -> None:
    """Print a row for each traffic."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("released", type=Path)
    parser.add_argument("--splits", type=int, default=5)
    options = parser.parse_args()
    for bank in (None, "lucir-s10"):
        print("bank for any schedule" if bank is None else bank)
        for name, of in means(options.released, options.splits, bank).items():
            print(
                f"  {name:18}",
                "  ".join(f"{way} {value:.1f}" for way, value in of.items()),
                flush=True,
            )


if __name__ == "__main__":
    main()

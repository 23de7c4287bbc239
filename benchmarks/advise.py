"""How good the estimates of `transil advise` are, on the scores that the paper's authors released.

    python benchmarks/advise.py RELEASED [--splits 3]

RELEASED is the folder of LUCIR's scores (logits_lucir_s10). First, for each state: from which share of
the newest group on uncorrected scores are better, and what that group pays, as estimated without a label
and as labels tell. Then what a share that is estimated is worth beside one that is known: average
incremental accuracy in %, states 2 to 10. The images to adapt to, the labelled ones of the newest group,
those from before it existed and the judged ones are all different.
"""

from __future__ import annotations

import argparse
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from transil import Corrector, ScoreStore
from transil.adaptation import advise
from transil.adaptation.traffic import Traffic
from transil.interop import dkt

METHOD = "lucir"
TRAFFIC = {
    "as the classes": Traffic(),
    "newest group is half": Traffic(newest=0.5),
    "newest group ten times rarer": Traffic(newest_times=0.1),
}


def turning_points(store: ScoreStore) -> None:
    """Print a row for each state."""
    print("state: uncorrected is better from a newest share of (estimated, labels); it pays (both)")
    for state in range(2, store.schedule.states + 1):
        data = store.get("test", state)
        scores = np.asarray(data.scores)
        found = advise(scores, store.schedule, state=state, method=METHOD)
        new = data.columns >= store.schedule.group_columns(state).start
        raw = scores.argmax(axis=1) == data.columns
        corrected = found.corrector.predict(scores) == data.labels
        pays = float(raw[new].mean() - corrected[new].mean())
        gains = float(corrected[~new].mean() - raw[~new].mean())
        risk: Any = found.risk
        print(f"| {state} | {risk.even:.2f} | {gains / (gains + pays):.2f} "
              f"| {100 * (risk.before - risk.after):.0f} | {100 * pays:.0f} |")  # fmt: skip


def estimated(store: ScoreStore, traffic: Traffic, labelled: int) -> dict[str, float]:
    """Accuracy in % of raw scores, the bank, and the bank with a share known and estimated."""
    found = defaultdict(list)
    for state in range(2, store.schedule.states + 1):
        data = store.get("test", state)
        scores, cut = np.asarray(data.scores), traffic.cut(data.columns, store.schedule, state)
        start, random = store.schedule.group_columns(state).start, np.random.default_rng(state)
        new, weight = data.columns >= start, cut.weight
        # A half of the images to adapt to is set aside: old ones are from before, new ones labelled.
        rows = random.permutation(cut.adapt)
        old, newest = rows[~new[rows]], rows[new[rows]]
        traffic_rows, before = np.concatenate([old[1::2], newest[1::2]]), old[::2]
        left = random.permutation(np.setdiff1d(np.flatnonzero(new & (weight == 0)), traffic_rows))
        both = np.concatenate([traffic_rows, left[:labelled]])
        labels = np.where(np.arange(len(both)) < len(traffic_rows), -1, data.labels[both])
        told = advise(scores[both], store.schedule, state=state, method=METHOD,
                      newest_labels=labels, before=scores[before])  # fmt: skip
        seen = scores[traffic_rows]
        ways = {
            "bank": Corrector(store.schedule, method=METHOD).fit(seen, state=state),
            "share known": Corrector(
                store.schedule, method=METHOD, newest=float(cut.shares[start:].sum())
            ).fit(seen, state=state),
            "share estimated": told.corrector,
        }
        found["raw"].append(float(weight @ (scores.argmax(axis=1) == data.columns)))
        for name, corrector in ways.items():
            found[name].append(float(weight @ (corrector.predict(scores) == data.labels)))
    return {name: 100 * float(np.mean(values)) for name, values in found.items()}


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("released", type=Path)
    parser.add_argument("--splits", type=int, default=3)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    store = dkt.import_scores(options.released)
    turning_points(store)
    for labelled in (50, 200):
        for name, traffic in TRAFFIC.items():
            draws = [
                estimated(store, Traffic(**{**vars(traffic), "seed": seed}), labelled)
                for seed in range(options.splits)
            ]
            means = {way: np.mean([draw[way] for draw in draws]) for way in draws[0]}
            print(
                f"| {name} | {labelled} | " + " | ".join(f"{v:.1f}" for v in means.values()) + " |"
            )


if __name__ == "__main__":
    main()

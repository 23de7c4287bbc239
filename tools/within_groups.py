"""How well models tell the classes of one group apart, where the group is known.

    python tools/within_groups.py STORE ... [--split test]

The mean over groups and states 2..S of the accuracy among a group's own classes, in percent. No
correction of groups changes it much: what it lacks is forgotten, not biased.
"""

from __future__ import annotations

import argparse

import numpy as np

from transil import ScoreStore


def within_groups(store: ScoreStore, split: str) -> float:
    """Between 0 and 1."""
    states = []
    for state in store.require(split)[1:]:
        data, group = store.get(split, state), store.schedule.group_of_column(state)
        groups = []
        for k in range(1, state + 1):
            columns = np.flatnonzero(group == k)
            rows = np.isin(data.columns, columns)
            best = columns[data.scores[rows][:, columns].argmax(axis=1)]
            groups.append((best == data.columns[rows]).mean())
        states.append(np.mean(groups))
    return float(np.mean(states))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stores", nargs="+")
    parser.add_argument("--split", default="test")
    options = parser.parse_args()
    for path in options.stores:
        print(f"{path}: {100 * within_groups(ScoreStore.open(path), options.split):.2f} %")


if __name__ == "__main__":
    main()

"""Try other ways to remember class frequencies, on references.

    python tools/adapt_variants.py RUNS... -o results/adaptation [--sets tiny-a] [--page PAGE]

RUNS are folders of runs of `tools/any_schedule.py` (SET--SCHEDULE--METHOD). Each way gives shares of
classes, which a Corrector is told as if they were known; one half of the test images is adapted to, the
other judged (`transil.adaptation.traffic`). Writes variants.md, the gain over the bank in points of
average incremental accuracy, means over models and three draws, and prints it; `--page` puts it into a
page, too, as `adapt_study.py` does.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from adapt_study import SEEDS, opened, pipes, stores_of, write_page

from transil import Corrector, ScoreStore, TransilError
from transil._common.arrays import Float64Array, FloatArray
from transil._common.files import atomic_file
from transil.adaptation.columns import Corrected
from transil.adaptation.corrector import LEAST_ROWS
from transil.adaptation.left import softmax
from transil.adaptation.priors import Situation
from transil.adaptation.traffic import Cut, Traffic
from transil.schedule import IntArray
from transil.scores.data_files import StateScores

TRAFFIC = (
    *(Traffic(ratio) for ratio in (1, 10, 100)),
    *(Traffic(ratio, most=300) for ratio in (1, 10, 100)),
    Traffic(10, over="groups"),
    Traffic(newest=0.5),
    Traffic(newest_times=0.1),
)
STEPS = 200


@dataclass(frozen=True, eq=False)
class Seen:
    """What a state showed: of how many images, the shares that corrected scores predict.

    `likely`: those shares with the newest group as common as it is most likely.
    """

    rows: int
    predicted: Float64Array
    likely: Float64Array


def seen_in(scores: FloatArray, base: Corrector, start: int) -> Seen:
    """From scores (n, columns) of the traffic; the newest classes begin at `start`."""
    powers = softmax(Corrected(scores, base.columns_, base.temperature_)[:])
    if start == 0:
        return Seen(len(scores), powers.mean(axis=0), powers.mean(axis=0))
    fair = 1 - start / powers.shape[1]
    newest = powers[:, start:].sum(axis=1)
    share = float(newest.mean())
    for _ in range(STEPS):  # the likelihood of a mixture of two: its steps never lower it
        there = newest * share / fair
        there /= there + (1 - newest) * (1 - share) / (1 - fair)
        share = float(there.mean())
    new = powers[:, start:] / np.maximum(newest, 1e-300)[:, None] * there[:, None]
    old = powers[:, :start] / np.maximum(1 - newest, 1e-300)[:, None] * (1 - there)[:, None]
    return Seen(len(scores), powers.mean(axis=0), np.concatenate([old, new], axis=1).mean(axis=0))


Way = Callable[
    [list[Seen], IntArray], Float64Array
]  # states so far, the group of each column from 0


def within(shares: Float64Array, group: IntArray) -> Float64Array:
    """The share of each class within its group."""
    return np.asarray(shares / np.bincount(group, weights=shares)[group])


def of_groups(shares: Float64Array, group: IntArray) -> Float64Array:
    """The share of the group of each class."""
    return np.asarray(np.bincount(group, weights=shares)[group])


def first(
    states: list[Seen], group: IntArray, pseudo: float = 0.0, likely: bool = False
) -> Float64Array:
    """Within groups as when they were new; `pseudo` images of each class are added."""
    parts = []
    for k, seen in enumerate(states):
        new = (seen.likely if likely else seen.predicted)[group[: len(seen.predicted)] == k]
        counts = seen.rows * new + pseudo
        parts.append(counts / counts.sum())
    return np.concatenate(parts)


def every(states: list[Seen], group: IntArray, fade: float) -> Float64Array:
    """Within groups as in all states since they were new; each later one counts `fade` as much."""
    total = np.zeros(len(group))
    for number, seen in enumerate(states):
        known = len(seen.predicted)
        age = number - group[:known]
        total[:known] += fade**age * within(seen.predicted, group[:known])
    return within(total, group)


def chained(states: list[Seen], group: IntArray) -> Float64Array:
    """Groups before the newest keep the ratios that they had when each was new."""
    shares = np.ones(1)
    for k, seen in enumerate(states):
        new = float(seen.predicted[group[: len(seen.predicted)] == k].sum())
        shares = np.append(shares * (1 - new), new) if k else shares
    return np.asarray(shares[group])


def halfway(states: list[Seen], group: IntArray) -> Float64Array:
    """Half-way between the groups as predicted and by their number of classes."""
    sizes = np.bincount(group)[group] / len(group)
    return np.asarray(np.sqrt(of_groups(states[-1].predicted, group) * sizes))


def as_predicted(states: list[Seen], group: IntArray) -> Float64Array:
    """Groups as predicted now."""
    return of_groups(states[-1].predicted, group)


def drawn(noise: float) -> Way:
    """As first recorded, drawn towards equal shares within groups; what a ledger does with `NOISE`."""

    def way(states: list[Seen], group: IntArray) -> Float64Array:
        shares = first(states, group)
        return as_predicted(states, group) * Situation(group, shares).drawn(shares, noise)

    return way


WAYS: Mapping[str, Way] = {
    "first state": lambda s, g: as_predicted(s, g) * first(s, g),
    **{f"drawn, {noise:g}": drawn(noise) for noise in (0.025, 0.05, 0.1, 0.2)},
    "first, +0.5": lambda s, g: as_predicted(s, g) * first(s, g, 0.5),
    "first, +1": lambda s, g: as_predicted(s, g) * first(s, g, 1.0),
    "first, +2": lambda s, g: as_predicted(s, g) * first(s, g, 2.0),
    "first, +4": lambda s, g: as_predicted(s, g) * first(s, g, 4.0),
    "every state": lambda s, g: as_predicted(s, g) * every(s, g, 1.0),
    "every, fading": lambda s, g: as_predicted(s, g) * every(s, g, 0.5),
    "groups chained": lambda s, g: chained(s, g) * first(s, g),
    "groups half-way": lambda s, g: halfway(s, g) * first(s, g),
    "likely newest": lambda s, g: of_groups(s[-1].likely, g) * first(s, g),
    "likely records": lambda s, g: as_predicted(s, g) * first(s, g, likely=True),
}


def gains(store: ScoreStore, traffic: Traffic) -> dict[str, float]:
    """Average incremental accuracy over that of the bank, by way; states with too few images aside."""
    schedule, found = store.schedule, defaultdict(list)
    states: list[Seen] = []
    for state in store.require("test"):
        data = store.get("test", state)
        cut = traffic.cut(data.columns, schedule, state)
        adapt = data.scores[cut.adapt]
        if len(adapt) < LEAST_ROWS:
            continue
        base = Corrector(schedule, method=store.method, prior="predicted").fit(adapt, state=state)
        group = schedule.group_of_column(state) - 1
        states.append(seen_in(adapt, base, schedule.group_columns(state).start))
        if state > 1:
            bank = right(base, data, cut)
            for name, way in WAYS.items():
                made = Corrector(schedule, method=store.method, prior=way(states, group))
                found[name].append(right(made.fit(adapt, state=state), data, cut) - bank)
    return {name: float(np.mean(values)) for name, values in found.items()}


def right(made: Corrector, data: StateScores, cut: Cut) -> float:
    """The share of judged images that is right, each with its weight."""
    hits = made.transform(data.scores[cut.judged]).argmax(axis=1) == data.columns[cut.judged]
    return float(cut.weight[cut.judged] @ hits)


def tried(folders: list[Path], sets: list[str]) -> Iterator[tuple[str, str, dict[str, float]]]:
    """Method, traffic, gains of each model and draw."""
    for folder in folders:
        for name, kind, method, place in stores_of(folder):
            if name not in sets or method == "ft":  # there the default abstains
                continue
            store = opened(place)
            for traffic in TRAFFIC:
                for seed in SEEDS:
                    yield (
                        f"{name}--{kind}--{method}",
                        traffic.name,
                        gains(store, replace(traffic, seed=seed)),
                    )


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", type=Path, help="folders of runs")
    parser.add_argument("-o", "--output", type=Path, required=True, help="where variants.md goes")
    parser.add_argument("--sets", default="tiny-a", type=lambda text: text.split(","))
    parser.add_argument("--page", type=Path, help="a page whose table 'variants' is written, too")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    by_traffic: dict[str, list[dict[str, float]]] = defaultdict(list)
    models = set()
    try:
        for model, traffic, found in tried(options.runs, options.sets):
            models.add(model)
            by_traffic[traffic].append(found)
    except TransilError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if not models:
        print(f"error: no finished run of {', '.join(options.sets)}", file=sys.stderr)
        return 2
    lines = [["way", *by_traffic]]
    for way in WAYS:
        cells = [
            f"{100 * np.mean([one[way] for one in some]):+.1f}" for some in by_traffic.values()
        ]
        lines.append([way, *cells])
    text = (
        "# Ways to remember class frequencies\n\nMade by `tools/adapt_variants.py`. Points of average "
        f"incremental accuracy over the bank, states 2 to S, {len(SEEDS)} draws of "
        f"{', '.join(sorted(models))}.\n\n{pipes(lines)}\n"
    )
    if options.page is not None:
        write_page(options.page, {"variants": pipes(lines)})
    options.output.mkdir(parents=True, exist_ok=True)
    with atomic_file(options.output / "variants.md") as file:
        file.write(text.encode())
    print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())

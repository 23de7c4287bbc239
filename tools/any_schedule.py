"""Train references of many schedules, and keep what a bank for any schedule is fitted on.

    python tools/any_schedule.py tiny-a=DATA tiny-b=DATA mini-imagenet=DATA -o runs/any-schedule \
        --keep results/any-schedule [--methods lwf,lucir] [--kinds shrink,grow] [train.epochs=4]

Each schedule is learned by two of the sets, in turn. Of each run the pairs of every state, the
Hessian of their fit, facts of the scores that need no label, and hits on test images are kept, a
few kilobytes each; scores and checkpoints stay in the folder of runs. It resumes by itself.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save

from transil import ScoreStore, TransilError
from transil.arrays import Float64Array
from transil.correction import Newton
from transil.correction.affine import correct_groups
from transil.correction.objective import Objective, Problem
from transil.correction.parameters import Parameters
from transil.correction.registry import get_correction
from transil.correction.scales import score_scale
from transil.data.opening import open_images
from transil.engine import resolve
from transil.engine.setup import completed, find_device, make_stream
from transil.experiment.local import run_local
from transil.experiment.plan import Task
from transil.files import atomic_file
from transil.methods.registry import METHODS, get_method
from transil.settings import read_overrides

KINDS = {
    "first50": [50] + [10] * 5,
    "shrink": [30, 20, 15, 10, 10, 5, 5, 5],
    "grow": [5, 5, 10, 10, 15, 25, 30],
    "rand37": [12, 5, 5, 8, 3, 4],
    "rand100": [7, 16, 3, 11, 22, 5, 9, 14, 2, 11],
    "ones": [20, 1, 2, 10, 1, 5, 2, 15, 1, 3],
    "saw": [25, 5, 25, 5, 20, 5, 15],
    "first40": [40] + [5] * 12,
    **{f"e{states}": [100 // states] * states for states in (2, 4, 10, 25, 5, 20)},
}
# Shorter than the recipes of whole experiments: so many models are wanted here.
SLOW = {"lr": 0.1, "warmup": 2, "weight_decay": 5e-4}
DROPS = {"schedule": "milestones", "drops": [0.5, 0.75], "factor": 0.1}
TRAIN: dict[str, dict[str, Any]] = {
    "lwf": {"epochs": 20},
    "lwf-t": {"epochs": 12, "first_epochs": 30, "schedule": "cosine", **SLOW},
    "lwf-all": {"epochs": 12, "first_epochs": 30, "schedule": "cosine", **SLOW},
    "lucir": {"epochs": 16, "first_epochs": 24, **DROPS, **SLOW},
    "ft": {"epochs": 10, "first_epochs": 24, "later_lr": "by-state", **DROPS, **SLOW},
}
CORRECTIONS = ("bic", "adbic", "adbic-centred")


def tasks_of(options: argparse.Namespace, sets: dict[str, str]) -> list[Task]:
    """Every run, the first turn of all schedules before the second."""
    images = {name: open_images(path) for name, path in sets.items()}
    names, tasks = list(sets), []
    for turn in range(min(2, len(names))):
        for number, (kind, sizes) in enumerate(KINDS.items()):
            name = names[(number + turn) % len(names)]
            for method in options.methods if kind in options.kinds else ():
                data = {"path": sets[name], "sizes": sizes, "order": f"seed:{number}",
                        "role": "reference", "val_per_class": 50}  # fmt: skip
                over = {"data": data, "net": {"body": options.body}, "train": TRAIN[method]}
                config = resolve(
                    method=method,
                    recipe=f"{method}-32",
                    overrides=[over, read_overrides(options.settings)],
                )
                made = get_method(config.method, config.settings)
                device = find_device(config.engine.device)
                config = completed(config, made, images[name], device)
                counts = make_stream(config, images[name]).counts()["train"]
                epochs = config.train.epochs_of
                seen = sum(n * epochs(s) for s, n in enumerate(counts, start=1))
                folder = options.output / f"{name}--{kind}--{method}"
                tasks.append(Task(name, method, len(sizes), 1.0, 0, config, folder, seen))
    return tasks


def kept_of(store: ScoreStore) -> Iterator[tuple[str, NDArray[Any]]]:
    """What is kept of a store, as STATE/NAME and an array with an entry for each group."""
    schedule = store.schedule
    yield "sizes", np.array(schedule.sizes)
    for state in range(2, schedule.states + 1):
        val, test = store.get("val", state), store.get("test", state)
        group = schedule.group_of_column(state) - 1
        true, scores = group[test.columns], np.asarray(test.scores, dtype=np.float64)
        yield f"{state}/count", np.bincount(true, minlength=state)
        yield f"{state}/hits/raw", hits(scores, test.columns, true, state)
        for name in CORRECTIONS:
            kind = get_correction(name)
            problem = Problem(val.scores, val.columns, schedule, state, kind)
            pairs = Newton().fit(problem).pairs
            full = kind.spread(pairs, problem.facts)
            z = correct_groups(scores, full.alpha, full.beta, schedule, state, centred=kind.centred)
            yield f"{state}/{name}/alpha", pairs.alpha
            yield f"{state}/{name}/beta", pairs.beta
            yield f"{state}/hits/{name}", hits(z, test.columns, true, state)
            if name != "bic":
                yield f"{state}/{name}/hessian", hessian(problem, pairs)
        yield from ((f"{state}/{name}", value) for name, value in facts(scores, group).items())
        yield f"{state}/scale", np.array([score_scale(val.scores), score_scale(test.scores)])


def hits(
    scores: Float64Array, columns: NDArray[np.int64], true: NDArray[np.int64], state: int
) -> NDArray[Any]:
    """How many images of each group are recognised, (state,)."""
    return np.bincount(true[scores.argmax(axis=1) == columns], minlength=state)


def hessian(problem: Problem, pairs: Parameters) -> NDArray[np.float32]:
    """The lower triangle of the Hessian of [alpha, beta], row by row."""
    made = Objective(problem, Newton().penalty.at_least(Newton().ridge)).expand(pairs.vector)
    return made.hessian[np.tril_indices(len(made.hessian))].astype(np.float32)


def facts(scores: Float64Array, group: NDArray[np.int64]) -> dict[str, Float64Array]:
    """What scores (n, columns) say of each group without labels, around the mean of each row."""
    sizes = np.bincount(group)
    starts = np.cumsum(sizes) - sizes
    means = scores.mean(axis=1, keepdims=True)
    around = scores - means
    mean = np.add.reduceat(around, starts, axis=1).mean(axis=0) / sizes
    square = np.add.reduceat(around**2, starts, axis=1).mean(axis=0) / sizes
    return {
        "share": np.bincount(group[scores.argmax(axis=1)], minlength=len(sizes)) / len(scores),
        "mean": mean,
        "std": np.sqrt(np.maximum(square - mean**2, 0.0)),
        "max": np.maximum.reduceat(around, starts, axis=1).mean(axis=0),
        "rowmean": np.array([means.mean(), means.std()]),
    }


def keep(folder: Path, runs: Path) -> None:
    """Add every finished run that is not there yet to the file of its method."""
    for method in METHODS.names():
        path = folder / f"{method}.safetensors"
        there = load_file(path) if path.exists() else {}
        known = {key.split("/")[0] for key in there}
        for found in sorted(runs.glob(f"*/scores/{method}/store.json")):
            run, _ = found.parts[-4].rsplit("--", 1)
            store = ScoreStore.open(found.parent)
            if run not in known and len(store.states("test")) == store.schedule.states:
                there |= {f"{run}/{key}": np.asarray(value) for key, value in kept_of(store)}
                print(f"{method}: {run}", flush=True)
        if there:
            with atomic_file(path) as file:
                file.write(save(there))


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("words", nargs="+", metavar="NAME=DATA | setting=value")
    parser.add_argument("-o", "--output", type=Path, required=True, help="the folder of runs")
    parser.add_argument("--keep", type=Path, help="the folder of what is kept")
    parser.add_argument("--methods", type=lambda text: text.split(","), default=list(TRAIN))
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=list(KINDS))
    parser.add_argument("--body", default="resnet18-32")
    parser.add_argument("--processes", type=int)
    parser.add_argument("--together", type=int)
    options = parser.parse_intermixed_args()
    settings = [word for word in options.words if "." in word.partition("=")[0]]
    sets = dict(word.split("=", 1) for word in options.words if word not in settings)
    options.settings = settings
    try:
        failed = run_local(
            tasks_of(options, sets),
            processes=options.processes,
            together=options.together,
            progress=lambda share, text: print(f"{100 * share:5.1f} % {text}", flush=True),
        )
        for failure in failed:
            print(f"{failure.what}: {failure.reason}", file=sys.stderr)
        if options.keep:
            keep(options.keep, options.output)
    except TransilError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

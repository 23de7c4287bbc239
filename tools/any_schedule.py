"""Train the references of the recipe `any-schedule`, and keep what its banks are fitted on.

    python tools/any_schedule.py tiny-a=DATA tiny-b=DATA mini-imagenet=DATA -o runs/any-schedule \
        --keep results/any-schedule [--methods lwf,lucir] [--kinds shrink,grow] [data.val_per_class=20]

Trains as `transil run any-schedule` does. Of each run the pairs of every state, the Hessian of their
fit, facts of the scores that need no label, and hits on test images are kept, a few kilobytes each;
scores and checkpoints stay in the folder of runs. It resumes by itself.
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
from transil._common.arrays import Float64Array
from transil._common.files import atomic_file
from transil._common.settings import merge, read_overrides
from transil.correction import Newton
from transil.correction.affine import correct_groups
from transil.correction.objective import Objective, Problem
from transil.correction.parameters import Parameters
from transil.correction.registry import get_correction
from transil.correction.scales import score_scale
from transil.experiment.local import run_local
from transil.experiment.schedules import Schedules, load_any, plan_references
from transil.methods.registry import METHODS

CORRECTIONS = ("bic", "adbic", "adbic-centred")


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
    for name in ("methods", "kinds"):
        parser.add_argument(f"--{name}", type=lambda text: text.split(","))
    parser.add_argument("--body")
    parser.add_argument("--processes", type=int)
    parser.add_argument("--together", type=int)
    options = parser.parse_intermixed_args()
    settings = [word for word in options.words if "." in word.partition("=")[0]]
    sets = dict(word.split("=", 1) for word in options.words if word not in settings)
    over: dict[str, Any] = {
        "references": list(sets),
        "sets": {name: {"path": path} for name, path in sets.items()},
    }
    if options.methods:
        over["methods"] = options.methods
    if options.body:
        over["net"] = {"body": options.body}
    try:
        recipe = load_any("any-schedule", merge(over, read_overrides(settings)))
        assert isinstance(recipe, Schedules)
        tasks = plan_references(recipe, options.output).tasks
        kinds = options.kinds or recipe.schedules
        failed = run_local(
            [task for task in tasks if task.name.split("--")[1] in kinds],
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

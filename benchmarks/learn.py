"""Whether full recipes learn what they should: accuracies against goals, several runs at once.

    python benchmarks/learn.py path/to/cifar100 [--methods lwf,lucir,ft] [--seed 0]
    python benchmarks/learn.py 'formula:strokes?classes=20&train=60' --kind tiny    # a trial on a CPU

Goals are those of CIFAR-100 in ten states at 32 px, 450 training images of each class: test accuracy
of the first state, and the mean of states 2 to 10.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from transil import evaluate
from transil.engine import RunFolder, resolve, train_together, training
from transil.engine.recipes import default_recipe
from transil.engine.setup import open_run_images

# First state, mean of the others, in per cent; one point less is as good (seeds differ by that).
GOALS = {
    "lwf": (83.3, 45.5), "lucir": (90.1, 29.6), "ft": (83.9, 18.5), "ft+": (83.9, 22.2),
    "siw": (83.9, 21.7), "joint": (73.5, None),
}  # fmt: skip
NOISE = 1.0


def wanted() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data")
    parser.add_argument("--methods", type=lambda text: text.split(","), default=["lwf", "lucir"])
    parser.add_argument("--kind", help="of recipe: 32, 224 or tiny; by default, by size of images")
    parser.add_argument("--states", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="keep the runs in this folder; they resume there")
    return parser.parse_args()


def show(run: RunFolder, name: str, goals: bool) -> None:
    """A line for each method of a finished run."""
    for path in sorted((run.path / "scores").iterdir()):
        result = evaluate(path)
        first, rest = 100 * result.states[0].accuracy, 100 * result.average_incremental_accuracy
        bars = GOALS.get(path.name, (None, None)) if goals else (None, None)
        judged = [
            "" if bar is None else f" (goal {bar}: {'met' if value >= bar - NOISE else 'missed'})"
            for value, bar in zip((first, rest), bars, strict=True)
        ]
        mean = f"{rest:6.2f}{judged[1]}" if len(result.states) > 1 else ""
        print(f"{name:14} {path.name:6} first {first:6.2f}{judged[0]}  mean {mean}", flush=True)


def main() -> None:
    options = wanted()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        runs, images = {}, None
        for method in options.methods:
            recipe = f"{method}-{options.kind}" if options.kind else default_recipe(method, 32)
            over = {
                "data": {"path": options.data, "states": options.states},
                "seed": options.seed,
            }
            config = resolve(method=method, recipe=recipe, overrides=[over])
            images = images or open_run_images(config)
            runs[method] = training(config, folder / method, images=images)
        start = time.perf_counter()
        train_together(list(runs.values()))
        print(f"{len(runs)} runs at once, {time.perf_counter() - start:.1f} s", flush=True)
        for name in runs:
            show(RunFolder(folder / name), name, goals=options.states == 10 and not options.kind)


if __name__ == "__main__":
    main()

"""One whole training alone, then two side by side: what a user waits for.

    python benchmarks/runs.py [--method lwf] [--states 10] [--images 450] [--recipe lwf-32]

Unlike `train.py`, which measures epochs only, this counts all: kernels chosen, states entered, graphs
captured, scores, checkpoints. Each starts in a process of its own. The images are noise, 100 classes of
CIFAR-100's size.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch

from transil.data import Images, ImageSplit
from transil.engine import RunConfig, resolve, train_together, training
from transil.engine.setup import find_device

CLASSES = 100


def noise(per_class: int) -> Images:
    random = np.random.default_rng(0)

    def split(count: int) -> ImageSplit:
        pixels = random.integers(0, 256, (count * CLASSES, 32, 32, 3), dtype=np.uint8)
        return ImageSplit(pixels, np.arange(count * CLASSES) % CLASSES)

    parts = {"train": split(per_class), "val": split(50), "test": split(100)}
    return Images("noise", tuple(str(i) for i in range(CLASSES)), parts, "noise")


def seconds(config: RunConfig, per_class: int, runs: int) -> float:
    """Wall clock of `runs` trainings at once in a new process, from nothing to the last score."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_train, config, per_class, runs).result()


def _train(config: RunConfig, per_class: int, runs: int) -> float:
    images = noise(per_class)
    torch.zeros(1, device=find_device(config.engine.device))  # the driver starts
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        train_together(
            [training(config, Path(folder) / str(i), images=images) for i in range(runs)]
        )
        return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--method", default="lwf")
    parser.add_argument("--recipe", help="default: METHOD-32")
    parser.add_argument("--states", type=int, default=10)
    parser.add_argument("--images", type=int, default=450, help="for training, of each class")
    options = parser.parse_args()
    config = resolve(
        method=options.method,
        recipe=options.recipe or f"{options.method}-32",
        overrides=[{"data": {"states": options.states, "order": "label"}}],
    )
    epochs = config.train.total_epochs(options.states)
    steps = epochs * options.images * CLASSES // options.states
    where = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    print(
        f"{where}, torch {torch.__version__}, {config.method}, {steps:,} images a run", flush=True
    )
    one = seconds(config, options.images, 1)
    print(f"one  {one:7.1f} s  {steps / one:9,.0f} images/s", flush=True)
    two = seconds(config, options.images, 2)
    print(
        f"two  {two:7.1f} s  {2 * steps / two:9,.0f} images/s, {2 * one / two:.3f}x one (goal 1.25)"
    )


if __name__ == "__main__":
    main()

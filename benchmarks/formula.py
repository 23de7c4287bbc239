"""Images from formulas: how fast they are made, and how well a small network tells the classes.

    OMP_NUM_THREADS=1 python benchmarks/formula.py              # images a second on one core
    OMP_NUM_THREADS=1 python benchmarks/formula.py --train      # and accuracies; about 8 minutes

Training: a network of four convolutions on 100 images a class without flips, accuracy on 50 (of 10
classes) or 10 (of 100 classes) images a class of the split "test".
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch
from torch import nn

from transil.data.formula import FAMILIES, make_images

IMAGES, REPEATS = 4096, 3
SEEDS = (0, 1, 2)
EPOCHS, BATCH, RATE = 25, 50, 3e-3


def speed(family: str, size: int = 32) -> float:
    """Images a second, the best of a few runs; classes are drawn before."""
    classes, numbers = np.arange(IMAGES) % 100, np.arange(IMAGES)
    make_images(family, classes[:1], numbers[:1], seed=0, split="train", size=size, count=100)
    took = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        make_images(family, classes, numbers, seed=0, split="train", size=size, count=100)
        took.append(time.perf_counter() - start)
    return IMAGES / min(took)


def draws(family: str, seed: int, split: str, count: int, each: int) -> tuple[torch.Tensor, ...]:
    """Images in -1..1, and their classes."""
    classes, numbers = np.repeat(np.arange(count), each), np.tile(np.arange(each), count)
    images = make_images(family, classes, numbers, seed=seed, split=split, count=count)
    pixels = torch.from_numpy(images).permute(0, 3, 1, 2).float() / 127.5 - 1.0
    return pixels.contiguous(), torch.from_numpy(classes)


def network(count: int) -> nn.Module:
    """Four convolutions, the first three halved by pooling, and the mean of the last."""
    layers: list[nn.Module] = []
    before = 3
    for number, width in enumerate((16, 32, 64, 128)):
        layers += [nn.Conv2d(before, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)]
        layers += [nn.ReLU(), *([nn.MaxPool2d(2)] if number < 3 else [])]
        before = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, count))


def accuracy(family: str, seed: int, count: int, epochs: int, tested: int) -> float:
    """Of a network trained on 100 images a class, on other images of the classes."""
    torch.manual_seed(seed)
    images, labels = draws(family, seed, "train", count, 100)
    model = network(count)
    steps = epochs * -(-len(images) // BATCH)
    optimiser = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=steps)
    for _ in range(epochs):
        for batch in torch.split(torch.randperm(len(images)), BATCH):
            optimiser.zero_grad()
            loss = nn.functional.cross_entropy(model(images[batch]), labels[batch])
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            schedule.step()
    model.eval()
    images, labels = draws(family, seed, "test", count, tested)
    with torch.no_grad():
        return float((model(images).argmax(dim=1) == labels).float().mean())


def main() -> None:
    parser = argparse.ArgumentParser(description="Images from formulas: speed and accuracies")
    parser.add_argument("--train", action="store_true", help="train networks as well")
    options = parser.parse_args()
    for family in FAMILIES:
        print(f"{family:8s} {speed(family):8,.0f} images/s at 32 px", flush=True)
    if not options.train:
        return
    for family in FAMILIES:
        start = time.perf_counter()
        few = [accuracy(family, seed, 10, EPOCHS, tested=50) for seed in SEEDS]
        each = (time.perf_counter() - start) / len(SEEDS)
        start = time.perf_counter()
        many = accuracy(family, SEEDS[0], 100, EPOCHS // 3, tested=10)
        took = time.perf_counter() - start
        shown = ", ".join(f"{100 * a:.1f} %" for a in few)
        print(
            f"{family:8s} 10 classes: {shown} ({each:.0f} s each); "
            f"100 classes: {100 * many:.1f} % ({took:.0f} s)",
            flush=True,
        )


if __name__ == "__main__":
    main()

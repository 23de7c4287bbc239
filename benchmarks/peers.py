"""Training on a CPU beside Avalanche and FACIL: one thread, the same network, batch and images.

    pip install -c constraints.txt '.[avalanche,train]'
    PYTHONPATH=FACIL/src OMP_NUM_THREADS=1 python benchmarks/peers.py [--bodies convnet,resnet32]

Plain fine-tuning on images of 32 px in memory, cropped, mirrored and normalised, batch 128, float32:
this engine; Avalanche's `Naive` and FACIL's `finetuning`, each with its own loop, a DataLoader and
torchvision's transforms of single images, as their examples have it; and a bare loop over one batch
that lies ready in channels_last, the limit. A peer that cannot be imported is left out. All take turns,
and seconds are those of the processor, so that other work on the machine counts little.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.nn import functional

from transil.data import ClassStream, Images, ImageSplit
from transil.engine import resolve
from transil.engine.learner import Learner
from transil.engine.setup import completed
from transil.engine.workers import Workers
from transil.methods.registry import get_method
from transil.nets.bodies import BODIES

BATCH, CLASSES, GOAL = 128, 10, 2.0
COUNTS = {"convnet": 4096, "resnet32": 384}  # images of an epoch: some seconds each
LR, MOMENTUM = 0.01, 0.9
# torchvision misses these beside a CPU build of torch; what is defined goes with the library.
LIBRARY: Any = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]


class Network(nn.Module):
    """A body of ours, a mean over places, and a last layer."""

    head_var = "fc"

    def __init__(self, body: str) -> None:
        super().__init__()
        self.body = BODIES.find(body)()
        self.fc = nn.Linear(self.body.width, CLASSES)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.fc(self.body(images).mean(dim=(2, 3)))
        return made


class Pictures(torch.utils.data.Dataset[Any]):
    """Images as the peers' own sets give them: one by one, through torchvision."""

    def __init__(self, split: ImageSplit) -> None:
        from torchvision import transforms

        self.images, self.targets = split.pixels, split.labels.tolist()
        self.transform = transforms.Compose(
            [
                transforms.RandomCrop(32, padding=4),
                transforms.RandomHorizontalFlip(),
                transforms.ToTensor(),
                transforms.Normalize([0.5] * 3, [0.5] * 3),
            ]
        )

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, row: int) -> tuple[Any, int]:
        return self.transform(Image.fromarray(self.images[row])), self.targets[row]


def engine(body: str, images: Images) -> Callable[[], object]:
    config = resolve(
        method="ft",
        recipe="ft-32",
        overrides=[{
            "data": {"states": 1, "order": "label"},
            "net": {"body": body},
            "engine": {"device": "cpu", "threads": 1},
            "train": {"batch_size": BATCH, "precision": "float32"},
        }],
    )  # fmt: skip
    workers = Workers(torch.device("cpu"))
    method = get_method(config.method, config.settings)
    config = completed(config, method, images, workers.device)
    stream = ClassStream(images, 1, order="label")
    learner = Learner(config, method, stream, workers)
    learner.begin(stream.enter(1))
    numbers: Iterator[int] = iter(range(1, 1000))

    def epoch() -> None:
        learner.draw(next(numbers))
        for _ in learner.epoch(LR):
            pass

    return epoch


def avalanche(body: str, images: Images) -> Callable[[], object]:
    from avalanche.benchmarks import nc_benchmark
    from avalanche.training import Naive
    from avalanche.training.plugins import EvaluationPlugin

    data = Pictures(images.splits["train"])
    experience = nc_benchmark(data, data, 1, task_labels=False).train_stream[0]
    model = Network(body)
    strategy = Naive(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), LR, MOMENTUM),
        criterion=nn.CrossEntropyLoss(),
        train_mb_size=BATCH,
        train_epochs=1,
        evaluator=EvaluationPlugin(),
    )
    return lambda: strategy.train(experience, eval_streams=[])


def facil(body: str, images: Images) -> Callable[[], object]:
    from approach.finetuning import Appr
    from datasets.exemplars_dataset import ExemplarsDataset
    from networks.network import LLL_Net

    net = LLL_Net(Network(body), remove_existing_head=True)
    net.add_head(CLASSES)
    loader = torch.utils.data.DataLoader(Pictures(images.splits["train"]), BATCH, shuffle=True)
    appr = Appr(
        net, "cpu", lr=LR, momentum=MOMENTUM, exemplars_dataset=ExemplarsDataset(None, None)
    )
    appr.optimizer = appr._get_optimizer()
    return lambda: appr.train_epoch(0, loader)


def bare(body: str, images: Images) -> Callable[[], object]:
    model: Any = Network(body).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = torch.optim.SGD(model.parameters(), LR, MOMENTUM)
    batch = torch.randn(BATCH, 3, 32, 32).to(memory_format=torch.channels_last)
    labels = torch.arange(BATCH) % CLASSES

    def epoch() -> None:
        for _ in range(len(images.splits["train"]) // BATCH):
            optimizer.zero_grad()
            loss: Any = functional.cross_entropy(model(batch), labels)
            loss.backward()
            optimizer.step()

    return epoch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--bodies", default=",".join(COUNTS))
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for name in ("nms", "qnms"):
        LIBRARY.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    for body in args.bodies.split(","):
        count, random = COUNTS[body], np.random.default_rng(0)
        pixels = random.integers(0, 256, (count, 32, 32, 3), dtype=np.uint8)
        split = ImageSplit(pixels, np.arange(count) % CLASSES)
        names = tuple(str(i) for i in range(CLASSES))
        images = Images("noise", names, {"train": split, "val": split}, "x")
        work: dict[str, Callable[[], object]] = {}
        times: dict[str, list[float]] = {}
        for make in (engine, avalanche, facil, bare):
            try:
                work[make.__name__] = make(body, images)
            except ImportError as error:
                print(f"{make.__name__} is left out: {error}")
        for name, epoch in work.items():
            epoch()  # the first one is slower
            times[name] = []
        for _ in range(args.rounds):  # in turn, so that all see the same machine
            for name, epoch in work.items():
                began = time.process_time()
                epoch()
                times[name].append(time.process_time() - began)
        best = {name: min(seconds) for name, seconds in times.items()}
        print(f"{body}, batch {BATCH}, {count:,} images an epoch, images/s (best of {args.rounds})")
        for name, seconds in best.items():
            ratio = seconds / best["engine"]
            goal = f", goal {GOAL:g}" if name in ("avalanche", "facil") else ""
            print(f"{name:<10}{count / seconds:8,.0f}  ours is {ratio:.2f}x{goal}", flush=True)


if __name__ == "__main__":
    main()

"""How fast batches come: device-resident images against a per-image PIL DataLoader.

    python benchmarks/data.py                # CPU: the ratio; on a machine with a GPU: images/s there

32 px, pad-crop-flip and normalisation, batch 128. The yardstick is the usual way: a DataLoader
over encoded images that decodes, pads, crops, flips and normalises each one with PIL and NumPy.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps

from transil.data import ClassStream, Images, ImageSplit
from transil.data.augment import PadCropFlip, RandomResizedCrop, Transform
from transil.data.device import DeviceImages

COUNT, BATCH = 20_000, 128


class PerImage(torch.utils.data.Dataset[Any]):
    """Encoded images, decoded and augmented one by one."""

    def __init__(self, pixels: Any, labels: Any) -> None:
        self.labels = labels
        self.files = []
        for image in pixels:
            out = io.BytesIO()
            Image.fromarray(image).save(out, format="PNG")
            self.files.append(out.getvalue())
        self.mean = np.array([0.5, 0.5, 0.5], np.float32)
        self.std = np.array([0.25, 0.25, 0.25], np.float32)

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        image = Image.open(io.BytesIO(self.files[index])).convert("RGB")
        image = ImageOps.expand(image, 4)
        left, top = (int(torch.randint(0, 9, ())) for _ in range(2))
        image = image.crop((left, top, left + 32, top + 32))
        if torch.rand(()) < 0.5:
            image = ImageOps.mirror(image)
        array = (np.asarray(image, np.float32) / 255 - self.mean) / self.std
        return torch.from_numpy(array.transpose(2, 0, 1).copy()), int(self.labels[index])


def synthetic(count: int, size: int) -> Images:
    random = np.random.default_rng(0)
    small = random.integers(0, 256, (count, size // 4, size // 4, 3), dtype=np.uint8)
    pixels = small.repeat(4, axis=1).repeat(4, axis=2)
    labels = np.arange(count) % 10
    return Images("synthetic", tuple("0123456789"), {"train": ImageSplit(pixels, labels)}, "x")


def rate(epoch: Callable[[], int], seconds: float, device: str) -> float:
    """Images per second, over at least some seconds after a first epoch to warm up."""
    epoch()
    done, began = 0, time.perf_counter()
    while (passed := time.perf_counter() - began) < seconds:
        done += epoch()
        if device == "cuda":
            torch.cuda.synchronize()
    return done / passed


def batches(feed: DeviceImages, transform: Transform) -> int:
    return sum(batch.count for batch in feed.epoch(transform, 0))


def main() -> None:
    stream = ClassStream(synthetic(COUNT, 32), states=1)
    train, statistics = stream.enter(1).train, stream.statistics
    print(f"{COUNT:,} images of 32 px, batch {BATCH}, pad-crop-flip, normalised")
    slow = 0.0
    for workers in (0, 2):
        loader = torch.utils.data.DataLoader(
            PerImage(train.read()[:5000], train.labels), BATCH, shuffle=True, num_workers=workers
        )
        got = rate(lambda loader=loader: sum(len(y) for _, y in loader), 4, "cpu")  # type: ignore[misc]
        print(
            f"per-image PIL DataLoader, {workers} workers       {got:12,.0f} images/s", flush=True
        )
        slow = max(slow, got)
    for device in ["cpu"] + ["cuda"] * torch.cuda.is_available():
        for budget, name in ((None, "resident"), (0, "streamed")):
            feed = DeviceImages(train, statistics, device=device, batch_size=BATCH, budget=budget)
            got = rate(lambda feed=feed: batches(feed, PadCropFlip()), 4, device)  # type: ignore[misc]
            print(
                f"{name} on {device}                     {got:12,.0f} images/s {got / slow:7.1f}x",
                flush=True,
            )
    if torch.cuda.is_available():
        feed = DeviceImages(train, statistics, device="cuda", batch_size=512)
        got = rate(lambda: batches(feed, PadCropFlip()), 4, "cuda")
        print(f"resident on cuda, batch 512          {got:12,.0f} images/s", flush=True)
        stream = ClassStream(synthetic(2_000, 256), states=1)
        big = DeviceImages(stream.enter(1).train, statistics, device="cuda", batch_size=BATCH)
        got = rate(lambda: batches(big, RandomResizedCrop(224)), 4, "cuda")
        print(f"224 px from 256, random resized crop  {got:12,.0f} images/s", flush=True)


if __name__ == "__main__":
    main()

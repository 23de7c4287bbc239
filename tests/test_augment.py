"""Device augmentation against straightforward per-image references, and batches that repeat."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from image_files import images_in_memory
from transil import TransilError
from transil.data import ClassStream, Images, ImageSplit, Statistics, Subset
from transil.data.augment import (
    AsStored,
    CentreCrop,
    Normalise,
    PadCropFlip,
    RandomResizedCrop,
    Transform,
)
from transil.data.device import DeviceImages
from transil.errors import LeakError

DEVICES = ["cpu", pytest.param("cuda", marks=[
    pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
])]  # fmt: skip
PLAIN = Statistics((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))


def smooth_images(count: int, size: int, seed: int = 0) -> Any:
    """Natural-looking images: random at a quarter of the size, scaled up."""
    random = np.random.default_rng(seed)
    small = random.integers(0, 256, (count, size // 4, size // 4, 3), dtype=np.uint8)
    return np.stack([np.asarray(Image.fromarray(x).resize((size, size), 3)) for x in small])


def on(device: str, plan: dict[str, Any]) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(values).to(device) for name, values in plan.items()}


@pytest.mark.parametrize("device", DEVICES)
def test_pad_crop_flip_is_exact(device: str) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (40, 32, 32, 3), dtype=np.uint8)
    transform = PadCropFlip(pad=4)
    plan = transform.plan(np.random.default_rng(1), 40, 32)
    got = transform.apply(torch.from_numpy(pixels).to(device), on(device, plan)).cpu().numpy()
    for i in range(40):
        padded = np.pad(pixels[i], ((4, 4), (4, 4), (0, 0)))
        top, left = plan["corner"][i]
        crop = padded[top : top + 32, left : left + 32]
        np.testing.assert_array_equal(got[i], crop[:, ::-1] if plan["flip"][i] else crop)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("stored", "size"), [(64, 32), (48, 64), (256, 224)])
def test_random_resized_crop_is_pillows(device: str, stored: int, size: int) -> None:
    pixels = smooth_images(12, stored)
    transform = RandomResizedCrop(size)
    plan = transform.plan(np.random.default_rng(1), 12, stored)
    got = transform.apply(torch.from_numpy(pixels).to(device), on(device, plan)).cpu().numpy()
    for i in range(12):
        box = tuple(plan["box"][i].astype(int).tolist())
        expected = (
            Image.fromarray(pixels[i]).crop(box).resize((size, size), Image.Resampling.BILINEAR)
        )
        if plan["flip"][i]:
            expected = expected.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        difference = np.abs(got[i] - np.asarray(expected, dtype=np.float32))
        assert difference.mean() < 2.0  # grey levels
        if device == "cpu":
            assert difference.max() < 2.0


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("stored", [32, 256, 300])
def test_centre_crop_is_pillows(device: str, stored: int) -> None:
    pixels = smooth_images(3, stored) if stored % 4 == 0 else smooth_images(3, 304)[:, :300, :300]
    got = CentreCrop(224, 256).apply(torch.from_numpy(np.array(pixels)).to(device), {})
    for i in range(3):
        whole = Image.fromarray(pixels[i]).resize((256, 256), Image.Resampling.BILINEAR)
        expected = np.asarray(whole.crop((16, 16, 240, 240)), dtype=np.float32)
        assert np.abs(got[i].float().cpu().numpy() - expected).mean() < 2.0


def _torchvision_box(random: np.random.Generator, size: int) -> tuple[int, int, int, int]:
    """A box as torchvision's RandomResizedCrop draws it, one image at a time."""
    for _ in range(10):
        area = size * size * random.uniform(0.08, 1.0)
        aspect = np.exp(random.uniform(np.log(3 / 4), np.log(4 / 3)))
        width, height = round(np.sqrt(area * aspect)), round(np.sqrt(area / aspect))
        if 0 < width <= size and 0 < height <= size:
            top = int(random.integers(0, size - height + 1))
            left = int(random.integers(0, size - width + 1))
            return left, top, left + width, top + height
    return 0, 0, size, size


def test_distribution_of_boxes_and_flips() -> None:
    count, size = 20_000, 64
    plan = RandomResizedCrop(32).plan(np.random.default_rng(0), count, size)
    random = np.random.default_rng(1)
    reference = np.array([_torchvision_box(random, size) for _ in range(count)])
    ours = plan["box"]
    assert ours.min() >= 0
    assert ours.max() <= size

    def features(box: Any) -> Any:
        width, height = box[:, 2] - box[:, 0], box[:, 3] - box[:, 1]
        return np.stack(
            [width, height, width * height, np.log(width / height), box[:, 0], box[:, 1]]
        )

    for a, b in zip(features(ours), features(reference), strict=True):
        spread = np.std(b)
        assert abs(np.mean(a) - np.mean(b)) < 4 * spread * np.sqrt(2 / count)
        quantiles = np.linspace(0.05, 0.95, 10)
        gap = np.abs(np.quantile(a, quantiles) - np.quantile(b, quantiles))
        assert gap.max() <= max(0.05 * spread, 1.0)
    assert plan["flip"].mean() == pytest.approx(0.5, abs=0.02)


def test_distribution_of_padded_crops() -> None:
    plan = PadCropFlip(4).plan(np.random.default_rng(0), 20_000, 32)
    for axis in (0, 1):
        share = np.bincount(plan["corner"][:, axis], minlength=9) / 20_000
        np.testing.assert_allclose(share, 1 / 9, atol=0.012)
    assert plan["flip"].mean() == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("device", DEVICES)
def test_normalisation(device: str) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (5, 8, 8, 3), dtype=np.uint8)
    statistics = Statistics((0.5, 0.4, 0.3), (0.2, 0.25, 0.3))
    out = Normalise(statistics, device)(torch.from_numpy(pixels).to(device))
    expected = (pixels / 255 - np.array(statistics.mean)) / np.array(statistics.std)
    np.testing.assert_allclose(out.cpu().numpy(), expected.transpose(0, 3, 1, 2), atol=1e-5)
    assert out.is_contiguous(memory_format=torch.channels_last)


# -- batches -----------------------------------------------------------------------------------


def _subset(count: int = 50, size: int = 8) -> Subset:
    random = np.random.default_rng(0)
    data = random.integers(0, 256, (count, size, size, 3), dtype=np.uint8)
    labels = np.arange(count) % 5
    images = Images("x", tuple("abcde"), {"train": ImageSplit(data, labels)}, "x")
    return ClassStream(images, states=1, order="label").enter(1).train


def _epoch(feed: DeviceImages, transform: Transform, number: int, **options: Any) -> list[Any]:
    return [
        (b.images.cpu().numpy(), b.labels.cpu().numpy(), b.weight.cpu().numpy(), b.count)
        for b in feed.epoch(transform, number, **options)
    ]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("transform", [PadCropFlip(2), RandomResizedCrop(6), AsStored()], ids=str)
def test_batches_repeat_and_do_not_depend_on_where_images_lie(
    device: str, transform: Transform
) -> None:
    subset = _subset()
    resident = DeviceImages(subset, PLAIN, device=device, batch_size=16, seed=3)
    streamed = DeviceImages(subset, PLAIN, device=device, batch_size=16, seed=3, budget=0)
    assert resident.resident
    assert not streamed.resident
    for number in (0, 7):
        first, second = _epoch(resident, transform, number), _epoch(streamed, transform, number)
        again = _epoch(
            DeviceImages(subset, PLAIN, device=device, batch_size=16, seed=3), transform, number
        )
        assert len(first) == len(second) == len(resident) == 4
        for a, b, c in zip(first, second, again, strict=True):
            for x, y, z in zip(a, b, c, strict=True):
                np.testing.assert_array_equal(x, y)
                np.testing.assert_array_equal(x, z)
    if not isinstance(transform, AsStored):
        other = _epoch(resident, transform, 1)
        assert any(
            (a[0] != b[0]).any() for a, b in zip(_epoch(resident, transform, 0), other, strict=True)
        )


def test_shapes_are_fixed_and_every_image_comes_once() -> None:
    subset = _subset(50)
    feed = DeviceImages(subset, PLAIN, batch_size=16)
    batches = _epoch(feed, AsStored(), 0)
    assert {b[0].shape for b in batches} == {(16, 3, 8, 8)}
    assert [b[3] for b in batches] == [16, 16, 16, 2]
    assert [b[2].sum() for b in batches] == [16, 16, 16, 2]
    real = np.concatenate([b[0][b[2] == 1] for b in batches])
    expected = subset.read().transpose(0, 3, 1, 2) / np.float32(255)
    np.testing.assert_allclose(_sorted(real), _sorted(expected), atol=1e-6)


def _sorted(images: Any) -> Any:
    rows = images.reshape(len(images), -1)
    return rows[np.lexsort(rows.T)]


def test_labels_stay_with_their_images() -> None:
    images = images_in_memory(classes=10, train=6)
    subset = ClassStream(images, states=2, order="seed:1").enter(2).train
    feed = DeviceImages(subset, PLAIN, batch_size=7)
    stream_order = ClassStream(images, states=2, order="seed:1").order
    for batch in feed.epoch(AsStored(), 3):
        original = (batch.images[:, 1, 0, 0] * 255).round().long().numpy()
        np.testing.assert_array_equal(stream_order[batch.labels.numpy()], original)


def test_without_shuffling_images_come_in_order() -> None:
    subset = _subset(20)
    batches = _epoch(DeviceImages(subset, PLAIN, batch_size=8), AsStored(), 0, shuffle=False)
    labels = np.concatenate([b[1] for b in batches])[:20]
    np.testing.assert_array_equal(labels, subset.labels)


def test_an_abandoned_epoch_ends_its_thread() -> None:
    import threading

    feed = DeviceImages(_subset(50), PLAIN, batch_size=4, budget=0)
    before = threading.active_count()
    batches = feed.epoch(AsStored(), 0)
    next(batches)
    batches.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before


@pytest.mark.parametrize("budget", [0, None])
def test_a_feed_closes_with_its_state(budget: int | None) -> None:
    stream = ClassStream(images_in_memory(), states=5)
    feed = DeviceImages(stream.enter(1).train, PLAIN, batch_size=4, budget=budget)
    begun = feed.epoch(AsStored(), 0)
    next(begun)
    stream.enter(2)
    for batches in (begun, feed.epoch(AsStored(), 0)):
        with pytest.raises(LeakError, match="images of state 1 were asked for in state 2"):
            for _ in range(3):
                next(batches)


def test_mistakes_are_told() -> None:
    with pytest.raises(TransilError, match="batch_size 0"):
        DeviceImages(_subset(), PLAIN, batch_size=0)
    with pytest.raises(TransilError, match="seed -1"):
        DeviceImages(_subset(), PLAIN, seed=-1)
    for make in (
        lambda: PadCropFlip(-1),
        lambda: CentreCrop(300, 256),
        lambda: RandomResizedCrop(0),
        lambda: RandomResizedCrop(32, scale=(2.0, 3.0)),
    ):
        with pytest.raises(TransilError, match="makes no sense"):
            make()
    empty = ClassStream(images_in_memory(), states=5).enter(1).val
    with pytest.raises(TransilError, match="no images to make batches of"):
        DeviceImages(empty, PLAIN)

"""The kernels of our own against torch's operations, on a GPU."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from transil import kernels
from transil.data import ClassStream, Images, ImageSplit
from transil.data.augment import PadCropFlip
from transil.data.feed import Feed
from transil.engine.halves import Halves
from transil.nets import build_net
from transil.nets.norms import fuse, normalised, normalised_twice

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
    pytest.mark.skipif(
        torch.cuda.is_available() and not kernels.available(torch.device("cuda")),
        reason="no Triton that works",
    ),
]

# Batch, channels, size: of a ResNet-18, narrow, and such that do not fill a tile.
SHAPES = [(128, 64, 32), (128, 512, 4), (16, 16, 9), (2, 20, 5), (3, 72, 1)]


def random_maps(shape: tuple[int, int, int], dtype: torch.dtype, seed: int) -> torch.Tensor:
    made = torch.Generator("cuda").manual_seed(seed)
    batch, channels, size = shape
    x = torch.randn(batch, channels, size, size, device="cuda", generator=made)
    level = torch.randn(channels, 1, 1, device="cuda", generator=made)
    return (3 * x + 10 * level).to(dtype).to(memory_format=torch.channels_last)


def two_norms(channels: int) -> tuple[nn.BatchNorm2d, nn.BatchNorm2d]:
    """A layer with weights and statistics as they may be, and the same with kernels."""
    torch.manual_seed(1)
    plain = nn.BatchNorm2d(channels)
    with torch.no_grad():
        plain.weight.uniform_(-1.0, 2.0)
        plain.bias.normal_()
        plain.running_mean.normal_()  # type: ignore[union-attr]
        plain.running_var.uniform_(0.5, 2.0)  # type: ignore[union-attr]
    plain = plain.cuda()
    fused = copy.deepcopy(plain)
    fuse(fused)
    return plain, fused


def apart(found: torch.Tensor, expected: torch.Tensor) -> float:
    """The relative difference of two tensors."""
    found, expected = found.detach().double(), expected.detach().double()
    difference = (found - expected).norm()
    return float(difference / expected.norm().clamp(min=1e-9))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize("added", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
def test_normalisation(
    shape: tuple[int, int, int], added: bool, relu: bool, dtype: torch.dtype
) -> None:
    """Values, gradients and statistics, where the result is used once or twice.

    Both are measured by what float64 gives: rounding differs, its size must not.
    """
    plain, fused = two_norms(shape[1])
    exact = copy.deepcopy(plain).double()
    for twice in (False, True):
        found = {}
        for name, norm, kind in (
            ("exact", exact, torch.float64), ("plain", plain, dtype), ("fused", fused, dtype),
        ):  # fmt: skip
            layer = copy.deepcopy(norm)
            maps = [random_maps(shape, dtype, seed).to(kind) for seed in range(4)]
            x, add = (t.requires_grad_() for t in maps[:2])
            y, again = normalised_twice(layer, x, add if added else None, relu=relu)
            loss = (y * maps[2]).sum() + ((again * maps[3]).sum() if twice else 0.0)
            loss.backward()  # type: ignore[no-untyped-call]
            gradients = [p.grad for p in (x, layer.weight, layer.bias) if p.grad is not None]
            if added and add.grad is not None:
                gradients.append(add.grad)
            found[name] = [y, *gradients, *layer.buffers()]
        assert len(found["fused"]) == len(found["plain"]) == len(found["exact"]) == 7 + added
        for number, truth in enumerate(found["exact"]):
            assert found["fused"][number].dtype == found["plain"][number].dtype
            errors = [apart(found[name][number], truth) for name in ("plain", "fused")]
            # Where an input of ReLU rounds to the other side of 0, one gradient of many is lost.
            flips = 5 / x.numel() ** 0.5 if relu and x.numel() > 1e6 else 0.0
            assert errors[1] <= 3 * errors[0] + 5e-6 + flips, (number, errors)


@pytest.mark.parametrize("added", [True, False])
def test_a_frozen_network_uses_its_statistics(added: bool) -> None:
    results = []
    for norm in two_norms(64):
        norm.eval().requires_grad_(False)
        x, add = (random_maps((8, 64, 7), torch.float32, seed) for seed in (0, 1))
        with torch.no_grad():
            results.append(normalised(norm, x, add if added else None))
        assert norm.num_batches_tracked == 0
    assert apart(results[1], results[0]) < 1e-6


@pytest.mark.parametrize("added", [True, False])
def test_a_nan_is_not_lost(added: bool) -> None:
    """Else a network that has diverged looks healthy."""
    _, norm = two_norms(64)
    x, add = (random_maps((8, 64, 7), torch.bfloat16, seed) for seed in (0, 1))
    x[0, 5, 3, 3] = torch.nan
    x.requires_grad_()
    y = normalised(norm, x, add if added else None)
    assert y[:, 5].isnan().all()
    assert not y[:, 6].isnan().any()
    y.sum().backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    assert x.grad[:, 5].isnan().all()
    assert not x.grad[:, 6].isnan().any()


def test_a_fixed_layer_passes_gradients_on() -> None:
    _, norm = two_norms(64)
    norm.eval().requires_grad_(False)
    x = random_maps((8, 64, 7), torch.float32, 0).requires_grad_()
    normalised(norm, x).sum().backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    assert x.grad.any()


@pytest.mark.parametrize(
    "unusual", [{"affine": False}, {"momentum": None}, {"track_running_stats": False}]
)
def test_unusual_layers_keep_to_their_modules(unusual: dict[str, Any]) -> None:
    norm = nn.BatchNorm2d(64, **unusual).cuda()
    fuse(norm)
    x = random_maps((8, 64, 7), torch.float32, 0)
    torch.testing.assert_close(normalised(norm, x), copy.deepcopy(norm)(x).relu())


@pytest.mark.parametrize(("size", "pad", "flip"), [(12, 2, True), (16, 4, False), (32, 4, True)])
def test_crops_are_those_of_the_transform(size: int, pad: int, flip: bool) -> None:
    random = np.random.default_rng(0)
    split = ImageSplit(
        random.integers(0, 256, (50, size, size, 3), dtype=np.uint8), np.arange(50) % 2
    )
    images = Images("noise", ("a", "b"), {"train": split, "val": split}, "x")
    taken: list[list[Any]] = []
    for fused in (None, torch.float32):
        stream = ClassStream(images, 1, order="label")
        feed = Feed(
            50, size, PadCropFlip(pad, flip=flip), stream.statistics,
            batch_size=16, seed=3, device=torch.device("cuda"), fused=fused,
        )  # fmt: skip
        feed.load(stream.enter(1).train, 1)
        feed.begin(2)
        taken.append([feed.take() for _ in range(len(feed))])
    for plain, made in zip(*taken, strict=True):
        assert made[0].stride() == plain[0].stride()
        torch.testing.assert_close(made[0], plain[0], rtol=1e-6, atol=1e-6)
        assert torch.equal(made[1], plain[1])
        assert torch.equal(made[2], plain[2])


@pytest.mark.parametrize("shape", [(64, 3, 3, 3), (128, 64, 1, 1), (70, 16, 3, 3)])
def test_updates_are_those_of_sgd(shape: tuple[int, ...]) -> None:
    from transil.kernels.sgd import sgd

    torch.manual_seed(0)
    start = torch.randn(shape, device="cuda").to(memory_format=torch.channels_last)
    weight, buffer, half = start.clone(), torch.zeros_like(start), start.bfloat16()
    expected = nn.Parameter(start.clone())
    optimiser = torch.optim.SGD([expected], lr=0.1, momentum=0.9, weight_decay=5e-4)
    rate = torch.tensor(0.1, device="cuda")
    for step in range(4):
        gradient = torch.randn(shape, device="cuda", dtype=torch.bfloat16)
        if step % 2:  # in another order in memory
            gradient = gradient.to(memory_format=torch.channels_last)
        expected.grad = gradient.float().to(memory_format=torch.channels_last)
        optimiser.step()
        sgd(weight, half, gradient, buffer, rate, momentum=0.9, decay=5e-4)
    torch.testing.assert_close(weight, expected.data, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(
        buffer, optimiser.state[expected]["momentum_buffer"], rtol=1e-5, atol=1e-6
    )
    assert torch.equal(half, weight.bfloat16())


@pytest.mark.parametrize("body", ["resnet18-32", "resnet18-224", "resnet32"])
@pytest.mark.parametrize("last_relu", [True, False])
def test_a_network_learns_the_same(body: str, last_relu: bool) -> None:
    """Scores and all gradients of a network in float32, with its modules and with kernels."""
    gradients = []
    torch.manual_seed(0)
    images = torch.randn(4, 3, 64, 64, device="cuda").to(memory_format=torch.channels_last)
    for kernel in (False, True):
        net: Any = build_net(body, "linear", 10, last_relu=last_relu)
        net.to("cuda", memory_format=torch.channels_last)
        if kernel:
            fuse(net)
        # Without cuDNN, maps are not in channels_last format, and no kernel is used.
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
            out = net(images)
            conv, norm, *_ = net.body.stem
            assert ("_Normalise" in str(normalised(norm, conv(images)).grad_fn)) == kernel
            out.scores.square().sum().backward()
        gradients.append([out.scores, *(p.grad for p in net.parameters())])
    for number, (plain, found) in enumerate(zip(*gradients, strict=True)):
        # An input of ReLU that rounds to the other side of 0 moves all gradients before it.
        assert apart(found, plain) < (0.1 if number else 1e-4)


def test_halves_have_the_gradients_of_autocast() -> None:
    images = torch.randn(64, 3, 32, 32, device="cuda").to(memory_format=torch.channels_last)
    gradients = []
    for halved in (False, True):
        net: Any = build_net("resnet18-32", "linear", 10)
        net.to("cuda", memory_format=torch.channels_last)
        halves = Halves(net, torch.bfloat16)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            out = (halves if halved else net)(images)
        out.scores.square().sum().backward()
        weights: Any = halves.copies if halved else halves.weights
        gradients.append([weight.grad for weight in weights.values()])
    for expected, found in zip(*gradients, strict=True):
        assert found.dtype == torch.bfloat16
        assert apart(found, expected) < 3e-2

"""Images from formulas: the same bytes whatever else is asked for, distinct classes, learnable."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from transil.data import formula
from transil.data.formula import FAMILIES, make_images
from transil.data.formula.hashing import Draws, key_of, keys_of
from transil.data.formula.radial import Radial
from transil.errors import TransilError

each_family = pytest.mark.parametrize("family", list(FAMILIES))


def _some(
    family: str,
    classes: int = 5,
    each: int = 4,
    seed: int = 0,
    split: str = "train",
    size: int = 32,
) -> NDArray[np.uint8]:
    """The first images of the first of ten classes."""
    which, numbers = np.repeat(np.arange(classes), each), np.tile(np.arange(each), classes)
    return make_images(family, which, numbers, seed=seed, split=split, size=size, count=10)


@each_family
def test_an_image_depends_on_nothing_but_its_own_address(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    which, numbers = rng.integers(0, 20, 300), rng.integers(0, 10**9, 300)
    images = make_images(family, which, numbers, seed=3, split="train", count=20)
    order = rng.permutation(300)
    shuffled = make_images(family, which[order], numbers[order], seed=3, split="train", count=20)
    np.testing.assert_array_equal(shuffled, images[order])
    # Alone, in other blocks, and as a part of a larger set.
    for one in (0, 131, 299):
        alone = make_images(family, which[[one]], numbers[[one]], seed=3, split="train", count=20)
        np.testing.assert_array_equal(alone[0], images[one])
    monkeypatch.setattr(formula, "BLOCK_PIXELS", 7 * 32 * 32)
    again = make_images(family, list(which), list(numbers), seed=3, split="train", count=41)
    np.testing.assert_array_equal(again, images)


@each_family
def test_repeated_draws_are_equal_and_longer_ones_begin_with_the_shorter(family: str) -> None:
    found = FAMILIES[family]
    long = found.draw_classes(300, seed=5)
    for count in (1, 7, 256, 300):
        np.testing.assert_array_equal(found.draw_classes(count, seed=5), long[:count])
    assert not np.isin(found.draw_classes(20, seed=6), long).any()


@each_family
def test_seeds_splits_classes_and_numbers_give_other_images(family: str) -> None:
    images = _some(family)
    assert len(np.unique(images.reshape(len(images), -1), axis=0)) == len(images)
    for other in (_some(family, seed=1), _some(family, split="test"), _some(family, seed=-1)):
        same = (images.reshape(len(images), 1, -1) == other.reshape(1, len(other), -1)).all(axis=2)
        assert not same.any()


@each_family
def test_a_thousand_classes_are_apart(family: str) -> None:
    found = FAMILIES[family]
    for seed in (0, 1):
        marks = found.signature(found.draw_classes(1000, seed))
        square = (marks**2).sum(axis=1)
        gaps = square[:, None] + square - 2.0 * marks @ marks.T
        np.fill_diagonal(gaps, np.inf)
        assert np.sqrt(gaps.min()) >= found.apart - 1e-6


def test_where_there_is_no_room_the_farthest_draw_is_taken() -> None:
    class Crowded(Radial):
        apart = 100.0

    crowded = Crowded()
    assert len(np.unique(crowded.draw_classes(30, seed=0), axis=0)) == 30
    free = crowded.propose(Draws(keys_of(key_of("free"), np.arange(30))))

    def least(classes: NDArray[np.float64]) -> float:
        marks = crowded.signature(classes)
        return min(float(np.linalg.norm(a - b)) for a, b in combinations(marks, 2))

    assert least(crowded.draw_classes(30, seed=0)) > 2.0 * least(free)


@each_family
@pytest.mark.parametrize("size", [16, 17, 33, 64, 224])
def test_every_size_gives_rgb_bytes(family: str, size: int) -> None:
    images = _some(family, classes=2, each=2, size=size)
    assert images.shape == (4, size, size, 3)
    assert images.dtype == np.uint8
    assert (images.reshape(4, -1).std(axis=1) > 2.0).all()


@each_family
def test_a_larger_picture_shows_the_same(family: str) -> None:
    small, large = _some(family).astype(float), _some(family, size=64).astype(float)
    halved = large.reshape(-1, 32, 2, 32, 2, 3).mean(axis=(2, 4))
    small, halved = small.reshape(20, -1), halved.reshape(20, -1)
    match = np.corrcoef(small, halved)[:20, 20:]
    # Noise of pixels differs, and the dust of fractals falls elsewhere.
    assert (match.argmax(axis=1) == np.arange(20)).all()


def test_no_images_are_an_empty_array() -> None:
    assert make_images("noise", [], [], seed=0, split="train", count=3).shape == (0, 32, 32, 3)


def _statistics(family: str) -> dict[str, float]:
    """Brightness, contrast, and how fast the picture changes from pixel to pixel."""
    grey = _some(family, classes=10, each=20).mean(axis=3)
    centre, edge = grey[:, 8:24, 8:24], grey.copy()
    edge[:, 8:24, 8:24] = np.nan
    return {
        "brightness": float(grey.mean()),
        "contrast": float(grey.std(axis=(1, 2)).mean()),
        "busy centre": float((centre.std(axis=(1, 2)) / np.nanstd(edge, axis=(1, 2))).mean()),
    }


def test_families_differ_as_domains_do() -> None:
    found = {family: _statistics(family) for family in FAMILIES}
    assert len(found) >= 4
    for one, other in combinations(found, 2):
        ratios = [found[one][k] / found[other][k] for k in found[one]]
        assert max(max(r, 1.0 / r) for r in ratios) > 1.15, (one, other, found)


def test_bad_requests_are_told() -> None:
    def ask(family: str = "noise", which: tuple[int, ...] = (0,), size: int = 32) -> None:
        make_images(family, which, [0], seed=0, split="train", size=size, count=3)

    with pytest.raises(TransilError, match="'fractals' is unknown; did you mean 'fractal'"):
        ask("fractals")
    with pytest.raises(TransilError, match="the set has classes 0 to 2"):
        ask(which=(3,))
    with pytest.raises(TransilError, match="the set has classes 0 to 2"):
        ask(which=(-1,))
    with pytest.raises(TransilError, match="two lists of one length"):
        ask(which=(0, 1))
    with pytest.raises(TransilError, match="16 to 256 pixels"):
        ask(size=8)
    with pytest.raises(TransilError, match="counted from 0"):
        make_images("noise", [0], [-1], seed=0, split="train", count=3)


# Bounds of five standard errors: a sound generator fails one in a million of such checks, and the
# numbers are the same in every run.
def _uniform_enough(cells: NDArray[np.int64], kinds: int) -> bool:
    """Whether a chi-squared statistic lies within five standard deviations of its mean."""
    expected = cells.size / kinds
    statistic = float(((np.bincount(cells.ravel(), minlength=kinds) - expected) ** 2).sum())
    return abs(statistic / expected - (kinds - 1)) < 5.0 * float(np.sqrt(2.0 * (kinds - 1)))


def test_hashed_numbers_are_uniform_and_independent() -> None:
    # Neighbouring classes and numbers, as they are in use: the hardest keys.
    rows = np.arange(4096)
    random = Draws(keys_of(key_of("images", "test", 0, "train"), rows // 64, rows % 64))
    u = random.uniform(64)
    assert u.min() >= 0.0
    assert u.max() < 1.0
    cells = (u * 64).astype(np.int64)
    assert _uniform_enough(cells, 64)
    assert _uniform_enough(cells[:, 1:] * 64 + cells[:, :-1], 4096)  # draw to draw
    assert _uniform_enough(cells[1:] * 64 + cells[:-1], 4096)  # image to image
    assert _uniform_enough(cells[64:] * 64 + cells[:-64], 4096)  # class to class
    bulk = random.bulk(66)
    assert bulk.shape == (4096, 66)
    assert _uniform_enough(bulk.astype(np.int64) >> 8, 256)
    assert _uniform_enough(bulk.astype(np.int64) & 255, 256)


@pytest.mark.parametrize("kind", ["normal", "bulk_normal"])
def test_normal_numbers_have_the_moments_of_the_normal_law(kind: str) -> None:
    random = Draws(keys_of(key_of(kind), np.arange(1000)))
    drawn = getattr(random, kind)(200).astype(np.float64)
    error = 5.0 / np.sqrt(drawn.size)
    assert abs(drawn.mean()) < error
    assert abs((drawn**2).mean() - 1.0) < error * np.sqrt(2.0) + 1e-3
    assert abs((drawn**3).mean()) < error * np.sqrt(15.0)
    # The table ends at 3.7 standard deviations, which takes a hundredth of the fourth moment.
    assert abs((drawn**4).mean() - 3.0) < error * np.sqrt(96.0) + 0.03


def test_draws_go_on_and_bulk_draws_do_not_move_the_others() -> None:
    keys = keys_of(key_of("stream"), np.arange(3))
    whole, parts = Draws(keys).uniform(10), Draws(keys)
    first = parts.uniform(4)
    parts.bulk(100)
    np.testing.assert_array_equal(np.concatenate([first, parts.uniform(6)], axis=1), whole)


def test_keys_tell_words_and_numbers_apart_and_know_numpy_integers() -> None:
    keys = [key_of("a", 1), key_of("a", 2), key_of("a1"), key_of("a", "1"), key_of("a", -1)]
    assert len(set(keys)) == len(keys)
    seed: Any = np.int64(1)
    assert key_of("a", seed) == keys[0]


@each_family
def test_a_small_network_learns_the_classes_but_not_all(family: str) -> None:
    def draw(split: str, each: int) -> tuple[torch.Tensor, torch.Tensor]:
        images = torch.from_numpy(_some(family, 10, each, split=split)).permute(0, 3, 1, 2)
        return images.float() / 127.5 - 1.0, torch.arange(10).repeat_interleave(each)

    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for before, width in ((3, 16), (16, 32), (32, 64)):
        layers += [nn.Conv2d(before, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
        layers += [nn.MaxPool2d(2)]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(256, 10))
    images, labels = draw("train", 60)
    epochs, batch = 11, 30
    optimiser = torch.optim.AdamW(model.parameters(), weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, 5e-3, total_steps=epochs * len(images) // batch
    )
    for _ in range(epochs):
        for chosen in torch.split(torch.randperm(len(images)), batch):
            optimiser.zero_grad()
            loss = nn.functional.cross_entropy(model(images[chosen]), labels[chosen])
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            schedule.step()
    model.eval()
    images, labels = draw("test", 50)
    with torch.no_grad():
        accuracy = float((model(images).argmax(dim=1) == labels).float().mean())
    assert 0.45 < accuracy < 0.99, accuracy

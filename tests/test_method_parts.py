"""Parts that a method may have beside its loss: a price on weights, weights that do not learn."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from test_methods import DATA, learner, run_state, settings
from transil.data import ClassStream, Images, open_images
from transil.engine import resolve
from transil.engine.learner import Learner
from transil.engine.setup import completed, make_stream
from transil.engine.workers import Workers
from transil.methods import METHODS, Context, get_method


@pytest.fixture(scope="module")
def images() -> Images:
    return open_images(DATA)


@contextmanager
def registered(like: str, **parts: Any) -> Iterator[None]:
    """A method 'made', like another one, with some parts of its own."""
    kind = type("Made", (METHODS.find(like),), {"name": "made", "family": (), **parts})
    before = dict(METHODS._things)
    METHODS.register(dataclass(frozen=True)(kind))
    try:
        yield
    finally:
        METHODS._things = before


def made_learner(images: Images, like: str) -> tuple[Learner, ClassStream]:
    data = settings(like).to_dict()["data"]
    over = {"data": data, "train": {"lr": 0.05, "schedule": "constant", "batch_size": 8}}
    workers = Workers(torch.device("cpu"))
    config = resolve(method="made", recipe=f"{like}-tiny", overrides=[over])
    made = get_method(config.method, config.settings)
    config = completed(config, made, images, workers.device)
    stream = make_stream(config, images)
    return Learner(config, made, stream, workers), stream


def moved(one: Learner, stream: ClassStream) -> float:
    """How far the body's weights go in a second state."""
    run_state(one, stream, 1)
    before = [p.detach().clone() for p in one.net.body.parameters()]
    run_state(one, stream, 2)
    steps = zip(one.net.body.parameters(), before, strict=True)
    return sum(float((p.detach() - old).norm()) for p, old in steps)


def test_a_penalty_holds_weights(images: Images) -> None:
    """A price of strength k on the first body weight's square pulls it towards zero."""
    found = []
    for strength in (0.0, 1.0):

        def penalty(_: Any, net: Any, __: Any, strength: float = strength) -> torch.Tensor:
            weight: torch.Tensor = next(net.body.parameters())
            return strength * weight.square().sum()

        def after_step(_: Any, net: Any, __: Any) -> None:
            assert all(p.grad is not None for p in net.parameters())

        with registered("ft", penalty=penalty, after_step=after_step):
            one, stream = made_learner(images, "ft")
            one.begin(stream.enter(1))
            weight = next(iter(one.net.body.parameters()))
            expected = strength * float(weight.detach().square().sum())
            one.draw(1)
            one.feed.refill()
            one._step()()
            share = float(one._sums[0]) / one.batch_size
            found.append((share - expected, float(weight.detach().norm())))
    assert found[0][0] == pytest.approx(found[1][0], abs=1e-4)  # the price is part of the loss
    assert found[1][1] < 0.95 * found[0][1]


@pytest.mark.parametrize("like", ["ft", "lwf"])
def test_weights_can_be_frozen_from_a_state_on(like: str, images: Images) -> None:
    def begin(self: Any, net: Any, context: Context) -> None:
        METHODS.find(like).begin(self, net, context)
        net.body.requires_grad_(context.number == 1)

    with registered(like, begin=begin):
        assert moved(*made_learner(images, like)) == 0.0
    assert moved(*learner(like, images)) > 0.0

"""Mistakes in a method from outside: one line that names the method and says what to do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from transil import ScoreStore
from transil.correction.registry import CORRECTIONS
from transil.data import Images, open_images
from transil.engine import resolve, train
from transil.errors import TransilError
from transil.methods import METHODS, Method
from transil.methods.lwf import Lwf
from transil.nets import build_net

DATA = "formula:strokes?classes=4&train=6&test=2&size=16"


@pytest.fixture(scope="module")
def images() -> Images:
    return open_images(DATA)


@pytest.fixture(autouse=True)
def _forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is forgotten afterwards."""
    for registry in (METHODS, CORRECTIONS):
        monkeypatch.setattr(registry, "_things", dict(registry._things))


def mine(**members: Any) -> type[Method]:
    """LwF, but for these members."""
    made = type("Mine", (Lwf,), {"name": "mine", "family": ("mine",), **members})
    return METHODS.register(dataclass(frozen=True)(made))


def trained(images: Images, folder: Path) -> ScoreStore:
    over = {
        "data": {"path": DATA, "states": 2},
        "train": {"epochs": 1},
        "engine": {"device": "cpu"},
    }
    config = resolve(method="mine", recipe="lwf-tiny", overrides=[over])
    return ScoreStore.open(train(config, folder / "run", images=images).scores_path("mine"))


def kept(value: Callable[[Any], Any]) -> dict[str, Any]:
    return {"begin": lambda *given: given[-1].keep("w", value(given[-1]))}


def scored(change: Callable[[torch.Tensor], Any]) -> dict[str, Any]:
    return {"scores": lambda *given: change(given[1].scores)}


@pytest.mark.parametrize(
    ("members", "says"),
    [
        (kept(lambda _: 0.5), r"context\.keep\('w', \.\.\.\) takes a tensor, not float"),
        (
            kept(lambda c: torch.zeros(2 * c.number)),
            r"shape was \(2,\) and is \(4,\) now.*; keep rows of all classes from the start",
        ),
        ({"head": "mlp"}, "head 'mlp' is unknown; there are: linear, cosine"),
        ({"loss": lambda *given: torch.zeros(len(given[3]))}, "its loss has no gradient"),
        (scored(lambda s: s[:, :1]), r"must give one column per class.*\(10, 4\), not \(10, 1\)"),
        (scored(lambda s: s.sum(1)), r"of shape \(10, 4\), not \(10,\)"),
        (scored(lambda s: s.tolist()), r"of shape \(10, 4\), not list"),
    ],
)
def test_is_told(members: dict[str, Any], says: str, images: Images, tmp_path: Path) -> None:
    mine(**members)
    with pytest.raises(TransilError, match=rf"^method 'mine': .*{says}") as raised:
        trained(images, tmp_path)
    assert "\n" not in str(raised.value)


def test_scores_may_have_a_gradient_and_the_seen_columns_alone(
    images: Images, tmp_path: Path
) -> None:
    one = torch.ones(1, requires_grad=True)
    mine(scores=lambda _, outputs, context: (outputs.scores * one)[:, context.seen])
    store = trained(images, tmp_path)
    assert [store.get("test", state).scores.shape for state in (1, 2)] == [(4, 2), (8, 4)]


@pytest.mark.parametrize("name", ["a/b", "my method", "", "..", "-x", None, "a\n"])
def test_a_name_that_is_no_file_name(name: Any) -> None:
    with pytest.raises(TransilError, match=r"method: Mine has the name .*letters, digits and"):
        mine(name=name)
    with pytest.raises(TransilError, match="correction: Mine has the name "):
        CORRECTIONS.register(type("Mine", (CORRECTIONS.find("bic"),), {"name": name}))


def test_a_network_with_an_unknown_head() -> None:
    with pytest.raises(TransilError, match="head 'mlp' is unknown"):
        build_net("convnet", "mlp", 4)

"""The adapters of PyCIL, FACIL and Mammoth, on doubles of what they touch of each.

The doubles have the names, shapes and signatures of the frameworks' own objects, and no more. How the
adapters do on the real code is in docs/frameworks.md.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from transil import ScoreStore, TransilError, evaluate
from transil.interop import facil, mammoth, pycil

SIZES = [3, 2, 4]
CLASSES = sum(SIZES)


class Scores(torch.nn.Module):
    """A network whose image is its score: it gives back the columns it has so far."""

    def __init__(self, columns: int, each: int = 1) -> None:
        super().__init__()
        self.columns, self.each = columns, each
        self.frozen = torch.nn.BatchNorm1d(1).eval()  # must stay so, whatever the rest does

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        assert not self.training
        assert not torch.is_grad_enabled()
        made = torch.full((len(images), self.each * self.columns), 9.0)
        made[:, :: self.each] = images[:, : self.columns]
        return made


def images(first: int, stop: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Images of the classes from `first` to `stop`, five of each, and labels in learning order."""
    labels = torch.arange(first, stop).repeat_interleave(5)
    generator = torch.Generator().manual_seed(seed + 100 * first)
    return torch.randn(len(labels), CLASSES, generator=generator), labels


def batches(*parts: torch.Tensor) -> list[tuple[torch.Tensor, ...]]:
    return list(zip(*(torch.split(part, 4) for part in parts), strict=True))


def of_task(task: int, seed: int = 0) -> list[tuple[torch.Tensor, ...]]:
    return batches(*images(sum(SIZES[:task]), sum(SIZES[: task + 1]), seed))


def all_seen(state: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The test images of a state."""
    parts = [images(sum(SIZES[:task]), sum(SIZES[: task + 1])) for task in range(state)]
    pictures, labels = (torch.cat(both) for both in zip(*parts, strict=True))
    return pictures, labels


def pycil_state(folder: Path, state: int, **more: Any) -> ScoreStore:
    seen = sum(SIZES[:state])
    pictures, labels = all_seen(state)
    network = Scores(seen, more.pop("each", 1))
    model = SimpleNamespace(
        _network=lambda x: {"logits": network(x), "features": None},
        _device=torch.device("cpu"),
        _cur_task=state - 1,
        test_loader=batches(torch.arange(len(labels)), pictures, labels),
    )
    model._network = _Called(network, model._network)
    manager = SimpleNamespace(nb_tasks=len(SIZES), get_task_size=lambda task: SIZES[task])
    return pycil.record(folder, model, manager, method="lwf-t", **more)


class _Called(torch.nn.Module):
    """A module that gives what a function makes of its network."""

    def __init__(self, network: torch.nn.Module, made: Callable[[Any], Any]) -> None:
        super().__init__()
        self.network, self.made = network, made

    def forward(self, pictures: torch.Tensor) -> Any:
        return self.made(pictures)


def facil_state(folder: Path, state: int, **more: Any) -> ScoreStore:
    network = Scores(sum(SIZES[:state]))
    model = _Called(network, lambda x: list(torch.split(network(x), SIZES[:state], dim=1)))
    model.task_cls = torch.tensor(SIZES[:state])
    appr = SimpleNamespace(model=model, device="cpu")
    return facil.record(folder, appr, [of_task(t) for t in range(3)], method="lwf-t", **more)


def mammoth_state(folder: Path, state: int, validation: int | None = None) -> ScoreStore:
    network = Scores(CLASSES)
    starts = np.cumsum([0, *SIZES]).tolist()
    dataset = SimpleNamespace(
        N_TASKS=len(SIZES),
        N_CLASSES=CLASSES,
        args=SimpleNamespace(validation=validation),
        get_offsets=lambda task: (starts[task], starts[task + 1]),
        test_loaders=[[(*batch, "not augmented") for batch in of_task(t)] for t in range(state)],
    )
    model: Any = _Called(network, network)
    model.net, model.device = network, torch.device("cpu")
    return mammoth.record(folder, model, dataset, method="lwf-all", name="half")


RECORD: dict[str, Callable[..., ScoreStore]] = {
    "pycil": pycil_state,
    "facil": facil_state,
    "mammoth": mammoth_state,
}


@pytest.fixture(params=RECORD)
def record(request: pytest.FixtureRequest) -> Callable[..., ScoreStore]:
    return RECORD[request.param]


def test_states_are_recorded_as_the_framework_has_them(
    tmp_path: Path, record: Callable[..., ScoreStore]
) -> None:
    for state in (1, 2, 3):
        store = record(tmp_path, state)
    assert ScoreStore.open(tmp_path).fingerprint() == store.fingerprint()
    assert store.schedule.sizes == tuple(SIZES)
    assert store.states("test") == (1, 2, 3)
    for state, metrics in enumerate(evaluate(store).states, start=1):
        pictures, labels = all_seen(state)
        scores = pictures[:, : sum(SIZES[:state])]
        np.testing.assert_array_equal(store.get("test", state).scores, scores)
        np.testing.assert_array_equal(store.get("test", state).labels, labels)
        assert metrics.accuracy == pytest.approx(float((scores.argmax(1) == labels).float().mean()))


def test_a_model_trained_anew_does_not_mix_with_another(
    tmp_path: Path, record: Callable[..., ScoreStore]
) -> None:
    record(tmp_path, 1)
    record(tmp_path, 2)
    before = record(tmp_path, 2).fingerprint()  # the last one may come again, as after a resumption
    with pytest.raises(TransilError, match="state 2 is recorded already, and this is state 1"):
        record(tmp_path, 1)
    assert ScoreStore.open(tmp_path).fingerprint() == before


def one_task(network: torch.nn.Module, task: int = 0) -> tuple[Any, Any]:
    """A learner and a data manager of PyCIL with three classes."""
    pictures, labels = images(0, 3)
    loader = batches(torch.arange(len(labels)), pictures, labels)
    model = SimpleNamespace(_network=network, _device="cpu", _cur_task=task, test_loader=loader)
    return model, SimpleNamespace(nb_tasks=1, get_task_size=[3].__getitem__)


def test_networks_stay_as_they_were(tmp_path: Path) -> None:
    network = Scores(3).train()
    network.frozen.eval()
    pycil.record(tmp_path, *one_task(network))
    assert network.training
    assert not network.frozen.training


def test_validation_images_are_a_split_of_their_own(tmp_path: Path) -> None:
    pictures, labels = images(0, 3, seed=1)
    val = batches(torch.arange(len(labels)), pictures, labels)
    stores = [
        pycil_state(tmp_path / "pycil", 1, val=val),
        facil_state(tmp_path / "facil", 1, val=[of_task(t, seed=1) for t in range(3)]),
        mammoth_state(tmp_path / "mammoth", 1, validation=10),
    ]
    assert [store.splits for store in stores] == [("test", "val"), ("test", "val"), ("val",)]
    for store in stores[:2]:
        np.testing.assert_array_equal(store.get("val", 1).scores, pictures[:, :3])


def test_several_columns_for_each_class_are_told(tmp_path: Path) -> None:
    with pytest.raises(TransilError, match=r"4 columns for each class.*\(columns=4\)"):
        pycil_state(tmp_path / "a", 1, each=4)
    assert list(ScoreStore.open(tmp_path / "a")) == []
    right = pycil_state(tmp_path / "b", 1, each=4, columns=4)
    assert right.fingerprint() == pycil_state(tmp_path / "c", 1).fingerprint()


def test_called_before_the_state_is_learned(tmp_path: Path) -> None:
    with pytest.raises(TransilError, match="state 0 does not exist"):
        pycil.record(tmp_path, *one_task(Scores(3), task=-1))
    assert not (tmp_path / "store.json").exists()

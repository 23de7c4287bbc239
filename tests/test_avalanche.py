"""The plugin for Avalanche: on a double of a strategy, and on Avalanche's own LwF where it is installed.

Where it is not, a class of the same name stands in for the base of plugins, which has no more than
empty hooks. `pip install -c constraints.txt '.[avalanche]'` brings the real one.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from transil import Corrector, Schedule, ScoreStore, TransilError, evaluate, fit
from transil.errors import DataWarning
from transil.testing import biased_scores

ORDER = [[4, 1, 6], [0, 7], [3, 2, 5]]  # sorted within a group, as the plugin takes them
SCHEDULE = Schedule.of([sorted(group) for group in ORDER])


@pytest.fixture
def plugin_class(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The plugin above a base class with no hooks, so that these tests run without Avalanche."""

    class SupervisedPlugin:
        def __init_subclass__(cls, supports_distributed: bool = False) -> None:
            pass

    made = ModuleType("avalanche.training.plugins")
    made.SupervisedPlugin = SupervisedPlugin  # type: ignore[attr-defined]
    for name in ("avalanche", "avalanche.training"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, made.__name__, made)
    monkeypatch.delitem(sys.modules, "transil.interop.avalanche", raising=False)
    yield importlib.import_module("transil.interop.avalanche").TransilPlugin
    sys.modules.pop("transil.interop.avalanche", None)


class Stream(list[Any]):
    """Experiences, and what the stream is called."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name


class Strategy:
    """What the plugin touches of a strategy, and the order in which Avalanche calls its hooks.

    An image is the row of scores that the model gives for it; columns stand by label, and the head
    grows while later experiences are evaluated, as Avalanche's does.
    """

    def __init__(self, plugin: Any, store: ScoreStore, whole: bool = False) -> None:
        self.plugin, self.store, self.whole = plugin, store, whole
        self.clock = SimpleNamespace(train_exp_counter=0)
        self.hits: list[float] = []

    def stream(self, name: str) -> Stream:
        made = Stream(name)
        for number, group in enumerate(ORDER, start=1):
            one = SimpleNamespace(classes_in_this_experience=set(group), number=number)
            one.origin_stream = made
            made.append(one)
        return made

    def train(self, state: int, during: Sequence[Any] = ()) -> None:
        self.state, self.experience = state, self.stream("train")[state - 1]
        self.plugin.before_training_exp(self)
        for one in during:
            self.eval([one])
        self.plugin.after_training_exp(self)
        self.clock.train_exp_counter += 1

    def eval(self, experiences: Sequence[Any]) -> None:
        self.current_eval_stream, self.hits = experiences, []
        self.plugin.before_eval(self)
        for self.experience in experiences:
            self.plugin.before_eval_exp(self)
            self.make_eval_dataloader()
            for batch in self.dataloader:
                self.mbatch = batch
                self._unpack_minibatch()
                self.mb_output = self.forward()
                self.plugin.after_eval_forward(self)
                self.hits += (self.mb_output.argmax(1) == self.mb_y).tolist()
        self.plugin.after_eval(self)

    def eval_dataset_adaptation(self) -> None:
        pass

    def make_eval_dataloader(self) -> None:
        split = {"valid": "val"}.get(self.experience.origin_stream.name, "test")
        state = max(self.state, self.experience.number)
        data = self.store.get(split, state)
        rows = np.isin(data.labels, ORDER[self.experience.number - 1])
        columns = torch.tensor(SCHEDULE.classes(self.state))
        scores = torch.full((int(rows.sum()), 8), -1000.0)
        if self.experience.number <= self.state:
            scores[:, columns] = torch.tensor(data.scores[rows])
        else:  # of classes the model has not seen
            scores[:, columns] = 1.0
        self.dataloader = list(
            zip(
                torch.split(scores, 16),
                torch.split(torch.tensor(data.labels[rows]), 16),
                strict=True,
            )
        )

    def _unpack_minibatch(self) -> None:
        self.mb_x, self.mb_y = self.mbatch

    def forward(self) -> torch.Tensor:
        seen = [label for group in ORDER[: self.experience.number] for label in group]
        learned = [label for group in ORDER[: self.state] for label in group]
        made: torch.Tensor = self.mb_x if self.whole else self.mb_x[:, : max(seen + learned) + 1]
        return made


def biased(seed: int = 0) -> ScoreStore:
    """Scores of an incremental model whose classes are learned in ORDER."""
    made = biased_scores("3,2,3", images_per_class=20, seed=seed)
    pairs = {
        split: {
            s: (data.scores.astype(np.float32), SCHEDULE.classes(3)[data.columns])
            for s in made.states(split)
            for data in [made.get(split, s)]
        }
        for split in made.splits
    }
    return ScoreStore.from_arrays(pairs, SCHEDULE, method="lwf-all")


def rows_of(store: ScoreStore, split: str, state: int) -> set[tuple[Any, ...]]:
    data = store.get(split, state)
    return {(label, *row) for label, row in zip(data.labels, data.scores.tolist(), strict=True)}


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("parts", ["whole stream", "learned", "one by one"])
def test_every_experience_is_recorded(
    tmp_path: Path, plugin_class: Any, parts: str, whole: bool
) -> None:
    store, plugin = biased(), plugin_class(tmp_path, method="lwf-all")
    strategy = Strategy(plugin, store, whole)
    for state in (1, 2, 3):
        strategy.train(state, during=strategy.stream("test")[:state])  # nothing of this is recorded
        assert state not in {s for _, s in ScoreStore.open(tmp_path)}
        for stream in ("valid", "test", "test"):  # evaluated again, it is recorded again
            experiences = strategy.stream(stream)
            if parts == "one by one":
                for one in experiences:
                    strategy.eval([one])
            else:
                strategy.eval(experiences if parts == "whole stream" else experiences[:state])
    found = ScoreStore.open(tmp_path)
    assert found.schedule == SCHEDULE
    assert list(found) == list(store)
    for split, state in store:
        assert rows_of(found, split, state) == rows_of(store, split, state)


@pytest.mark.parametrize("measured", [True, False])
def test_corrected_in_the_loop_is_what_evaluate_says(
    tmp_path: Path, plugin_class: Any, measured: bool
) -> None:
    store = biased()
    bank: Any = "lwf-all-any" if measured else fit(biased(seed=1))
    strategy = Strategy(plugin_class(tmp_path, bank=bank, method="lwf-all"), store)
    said = []
    with pytest.warns() if measured else nullcontext():  # of so few classes
        for state in (1, 2, 3):
            strategy.train(state)
            strategy.eval(strategy.stream("test")[:state])
            said.append(np.mean(strategy.hits))
        wanted = evaluate(ScoreStore.open(tmp_path), bank)
    assert said == pytest.approx([metrics.accuracy for metrics in wanted.states])
    raw = evaluate(ScoreStore.open(tmp_path))
    assert rows_of(ScoreStore.open(tmp_path), "test", 3) == rows_of(store, "test", 3)
    assert said[2] > raw.states[2].accuracy  # the correction did something


def test_correctors(tmp_path: Path, plugin_class: Any) -> None:
    store, bank = biased(), fit(biased(seed=1))
    scores = store.get("test", 2).scores
    fitted = Corrector(SCHEDULE, bank=bank, prior="uniform").fit(scores, state=2)
    wanted = np.mean(fitted.predict(scores) == store.get("test", 2).labels)
    for corrector in (fitted, Corrector(bank=bank, prior="uniform")):
        strategy = Strategy(plugin_class(corrector=corrector), store)
        for state in (1, 2):
            strategy.train(state)
            strategy.eval(strategy.stream("test")[:state])
        assert np.mean(strategy.hits) == pytest.approx(wanted)
    strategy = Strategy(plugin_class(corrector=fitted), store)
    for state in (1, 2, 3):
        strategy.train(state)
    with pytest.raises(TransilError, match="corrector is of state 2, and the model in state 3"):
        strategy.eval(strategy.stream("test"))


def test_classes_to_come_never_win(plugin_class: Any) -> None:
    strategy = Strategy(plugin_class(bank=fit(biased(seed=1))), biased(), whole=True)
    for state in (1, 2):
        strategy.train(state)
    to_come = list(ORDER[2])
    forward = strategy.forward

    def tempted() -> torch.Tensor:
        made = forward().clone()
        made[:, to_come] = 1e6
        return made

    strategy.forward = tempted  # type: ignore[method-assign]
    strategy.eval(strategy.stream("test")[:2])
    assert np.mean(strategy.hits) > 0.5


@pytest.mark.parametrize(
    ("calls", "says"),
    [
        ([2], "state 1: train the experiences of the stream in turn"),
        ([1, 1], "state 2: train the experiences of the stream in turn"),
    ],
)
def test_experiences_out_of_turn(plugin_class: Any, calls: list[int], says: str) -> None:
    strategy = Strategy(plugin_class(), biased())
    with pytest.raises(TransilError, match=says):
        for state in calls:
            strategy.train(state)


def test_mistakes(tmp_path: Path, plugin_class: Any) -> None:
    with pytest.raises(TransilError, match="a bank or a corrector, not both"):
        plugin_class(bank="lwf-all-any", corrector=Corrector())
    store = biased()
    strategy = Strategy(plugin_class(tmp_path, method="lwf-all"), store)
    for state in (1, 2):
        strategy.train(state)
        strategy.eval(strategy.stream("test")[:state])
    with pytest.raises(TransilError, match="state 2 is recorded already, and this is state 1"):
        Strategy(plugin_class(tmp_path, method="lwf-all"), store).train(1)  # before it is trained
    strategy.eval(strategy.stream("test")[:1])
    with pytest.warns(DataWarning, match=r"groups \[1\] alone were evaluated"):
        strategy.train(3)
    strategy.eval(strategy.stream("test"))
    assert ScoreStore.open(tmp_path).states("test") == (1, 2, 3)
    other = Strategy(
        plugin_class(bank=replace(fit(biased(seed=1)), method="lwf-t"), method="lwf-all"), store
    )
    for state in (1, 2):
        other.train(state)
    with pytest.raises(TransilError, match="scores are from 'lwf-all', the bank is for 'lwf-t'"):
        other.eval(other.stream("test")[:2])


def test_without_avalanche_the_message_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "avalanche", None)
    monkeypatch.delitem(sys.modules, "transil.interop.avalanche", raising=False)
    with pytest.raises(TransilError, match="pip install avalanche-lib"):
        importlib.import_module("transil.interop.avalanche")


REAL = """
import sys, warnings
warnings.simplefilter("ignore")
import torch
library = torch.library.Library("torchvision", "DEF")
for name in ("nms", "qnms"):
    library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
from avalanche.benchmarks import nc_benchmark
from avalanche.evaluation.metrics import accuracy_metrics
from avalanche.models import IncrementalClassifier
from avalanche.training import LwF
from avalanche.training.plugins import EvaluationPlugin
from transil import ScoreStore, evaluate
from transil.interop.avalanche import TransilPlugin
torch.manual_seed(0)
labels = torch.arange(12).repeat_interleave(40)
images = torch.eye(12)[labels] + 0.7 * torch.randn(480, 12)
data = torch.utils.data.TensorDataset(images, labels)
data.targets = labels.tolist()
order = torch.randperm(12).tolist()
benchmark = nc_benchmark(data, data, 3, task_labels=False, fixed_class_order=order)
for number, bank in enumerate((None, "lwf-all-any")):
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(12, 32), torch.nn.ReLU(), IncrementalClassifier(32))
    folder = f"{sys.argv[1]}/{number}"
    strategy = LwF(
        model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
        criterion=torch.nn.CrossEntropyLoss(), alpha=3.0, temperature=2.0, train_mb_size=20,
        eval_mb_size=32, train_epochs=3, plugins=[TransilPlugin(folder, method="lwf-all", bank=bank)],
        evaluator=EvaluationPlugin(accuracy_metrics(stream=True)), eval_every=0,
    )
    said = []
    for state, experience in enumerate(benchmark.train_stream, start=1):
        strategy.train(experience, eval_streams=[benchmark.test_stream])
        found = strategy.eval(benchmark.test_stream[:state])
        said += [value for key, value in found.items() if "Stream/eval_phase/test" in key]
    wanted = [metrics.accuracy for metrics in evaluate(folder, bank).states]
    print(said, wanted)
    assert max(abs(a - b) for a, b in zip(said, wanted)) < 1e-6, (said, wanted)
prints = {ScoreStore.open(f"{sys.argv[1]}/{n}").fingerprint() for n in (0, 1)}
assert len(prints) == 1, "correcting in evaluation changed the training"
"""


@pytest.mark.skipif(find_spec("avalanche") is None, reason="avalanche-lib is not installed")
def test_avalanche_itself(tmp_path: Path) -> None:
    """Its own metrics are those of the recorded scores, raw and corrected."""
    environment = {**os.environ, "WANDB_MODE": "disabled"}
    words = [sys.executable, "-c", REAL, str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]

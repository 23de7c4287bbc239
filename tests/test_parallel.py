"""One run on two processes learns what it learns on one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import distributed

from transil import ScoreStore
from transil.cli.app import run
from transil.engine import RunFolder
from transil.engine.workers import SharedBatchNorm, Workers
from transil.errors import TransilError

DATA = "formula:strokes?classes=6&train=22&test=6&size=16"


def words(method: str, output: Path, *settings: str) -> list[str]:
    return ["train", "--data", DATA, "--recipe", f"{method}-tiny", "--states", "3",
            "-o", str(output), "train.epochs=3", *settings]  # fmt: skip


def torchrun(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
         "-m", "transil", *command],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip


@pytest.mark.parametrize("method", ["ft", "lucir"])
def test_two_processes_give_the_losses_of_one(tmp_path: Path, method: str) -> None:
    assert run(words(method, tmp_path / "one")) == 0
    # The images do not fit: each process reads its share of a batch from the memory map.
    streamed = ["engine.image_gigabytes=0"] if method == "lucir" else []
    done = torchrun(*words(method, tmp_path / "two", *streamed))
    assert done.returncode == 0, done.stderr
    one, two = (RunFolder(tmp_path / name) for name in ("one", "two"))
    for key in ("loss", "accuracy"):
        np.testing.assert_allclose(
            [line[key] for line in two.lines()], [line[key] for line in one.lines()], rtol=1e-4
        )
    stores = [ScoreStore.open(folder.path) for folder in (one, two)]
    for split, state in stores[0]:
        a, b = (store.get(split, state) for store in stores)
        np.testing.assert_allclose(b.scores, a.scores, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(("mean", "spread"), [(0.0, 1.0), (10.0, 0.1), (50.0, 0.01), (300.0, 1.0)])
def test_shared_statistics_are_those_of_one_process(
    mean: float, spread: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where means are far from zero."""
    monkeypatch.setattr(distributed, "get_world_size", lambda: 1)
    monkeypatch.setattr(distributed, "all_reduce", lambda _: None)
    torch.manual_seed(0)
    x = (mean + spread * torch.randn(16, 4, 8, 8)).requires_grad_()
    shared, own = SharedBatchNorm(4), torch.nn.BatchNorm2d(4)
    slopes = []
    for norm in (shared, own):
        norm.weight.data[:] = torch.tensor([1.0, 2.0, -1.0, 0.5])
        weights = torch.linspace(0.5, 2.0, x.numel()).reshape(x.shape)
        (slope,) = torch.autograd.grad((norm(x) * weights).sum(), x)
        slopes.append(slope)
    torch.testing.assert_close(shared(x), own(x), rtol=1e-3, atol=2e-3)
    torch.testing.assert_close(slopes[0] * spread, slopes[1] * spread, rtol=1e-2, atol=2e-3)
    torch.testing.assert_close(shared.running_var, own.running_var)


@pytest.mark.parametrize("main", [True, False])
def test_a_refusal_of_the_main_process_ends_all(
    main: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There it is told; the others leave without a word of their own."""

    def refuse() -> int:
        raise TransilError("refused")

    said: list[tuple[object, bool]] = []

    def agree(_: Workers, value: tuple[object, bool]) -> tuple[object, bool]:
        said.append(value)
        return None, True

    workers = Workers(torch.device("cpu"))
    monkeypatch.setattr(Workers, "alone", False)
    monkeypatch.setattr(Workers, "main", main)
    monkeypatch.setattr(Workers, "agree", agree)
    with pytest.raises(TransilError if main else SystemExit, match="refused" if main else "2"):
        workers.first(refuse)
    assert said == [(None, main)]
    monkeypatch.setattr(Workers, "agree", lambda *_: (7, False))
    assert workers.first(lambda: 7) == 7


def test_a_batch_that_cannot_be_shared_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = Workers.__init__

    def two(self: Workers, device: torch.device) -> None:
        alone(self, device)
        self.world = 2

    monkeypatch.setattr(Workers, "__init__", two)
    assert run(words("ft", tmp_path / "run", "train.batch_size=15")) == 2
    assert "batch_size 15 cannot be shared by 2 processes" in capsys.readouterr().err
    assert not (tmp_path / "run" / "run.json").exists()

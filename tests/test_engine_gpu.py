"""The engine on a GPU: the captured step learns what the eager one learns."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from transil import ScoreStore
from transil.engine import (
    RunFolder,
    after,
    learner,
    load_model,
    resolve,
    train,
    train_together,
    training,
)

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]

DATA = {"path": "formula:strokes?classes=6&train=40&test=10&size=16", "states": 3}
METHODS = ["ft", "lwf", "lwf-t", "lwf-all", "lucir", "joint"]


def settings(method: str, body: str = "convnet", **over: Any) -> Any:
    engine = {"device": "cuda", **over}
    train_over = {"epochs": 4}
    return resolve(
        recipe=f"{method}-tiny",
        overrides=[{"data": DATA, "engine": engine, "train": train_over, "net": {"body": body}}],
    )


def losses(run: RunFolder) -> list[float]:
    return [line["loss"] for line in run.lines()]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("body", ["convnet", "resnet32"])
def test_graph_and_eager_give_the_same_losses(tmp_path: Path, method: str, body: str) -> None:
    captured = losses(train(settings(method, body), tmp_path / "graph"))
    eager = losses(train(settings(method, body, graph=False), tmp_path / "eager"))
    assert np.isfinite(captured).all()
    # The same kernels on the same numbers; what differs is the order of atomic additions.
    np.testing.assert_allclose(captured, eager, rtol=2e-2, atol=2e-3)
    # Before differences can grow, in the first epochs of the first state, they are far smaller.
    np.testing.assert_allclose(captured[:2], eager[:2], rtol=2e-3)


@pytest.mark.filterwarnings("ignore:TensorFloat32")  # float32 here, so that losses can be compared
def test_a_compiled_network_gives_the_same_losses(tmp_path: Path) -> None:
    plain = losses(train(settings("lwf"), tmp_path / "plain"))
    compiled = losses(train(settings("lwf", compile=True), tmp_path / "compiled"))
    np.testing.assert_allclose(compiled, plain, rtol=5e-2, atol=5e-3)


def test_streamed_images_give_the_same_losses(tmp_path: Path) -> None:
    resident = losses(train(settings("lwf"), tmp_path / "resident"))
    streamed = losses(train(settings("lwf", image_gigabytes=0.0), tmp_path / "streamed"))
    np.testing.assert_allclose(resident, streamed, rtol=2e-2, atol=2e-3)


@pytest.mark.parametrize("body", ["convnet", "resnet32"])
def test_runs_side_by_side_equal_single_ones(tmp_path: Path, body: str) -> None:
    configs = {m: settings(m, body) for m in ("lwf", "lucir")}
    single = {m: losses(train(config, tmp_path / m)) for m, config in configs.items()}
    train_together([training(configs[m], tmp_path / f"{m}-too") for m in single])
    for method, expected in single.items():
        together = losses(RunFolder(tmp_path / f"{method}-too"))
        np.testing.assert_allclose(together, expected, rtol=2e-2, atol=2e-3)


def test_streamed_runs_side_by_side(tmp_path: Path) -> None:
    """A thread of one run allocates pinned memory while the step of the other is captured."""
    config = settings("ft", image_gigabytes=0.0)
    single = losses(train(config, tmp_path / "one"))
    names = ("a", "b", "c")
    train_together([training(config, tmp_path / name) for name in names])
    for name in names:
        together = losses(RunFolder(tmp_path / name))
        np.testing.assert_allclose(together, single, rtol=2e-2, atol=2e-3)


def test_a_gpu_can_be_named(tmp_path: Path) -> None:
    last = f"cuda:{torch.cuda.device_count() - 1}"
    run = train(settings("ft", device=last), tmp_path / "named")
    np.testing.assert_allclose(
        losses(run), losses(train(settings("ft"), tmp_path / "first")), rtol=2e-2, atol=2e-3
    )


@pytest.mark.parametrize("pause", [1, 32])
@pytest.mark.parametrize("body", ["convnet", "resnet32"])
def test_a_gpu_run_continues_where_it_stopped(
    tmp_path: Path, body: str, pause: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two epochs, and in the middle of one."""
    monkeypatch.setattr(learner, "PAUSE", pause)
    config = settings("lucir", body, checkpoint_minutes=0)
    whole = losses(train(config, tmp_path / "whole"))
    part = training(config, tmp_path / "part")
    with torch.cuda.stream(torch.cuda.Stream()):  # type: ignore[no-untyped-call]
        for _ in range(7):
            next(part)
        part.close()
    resumed = losses(train(config, tmp_path / "part"))
    np.testing.assert_allclose(resumed, whole, rtol=2e-2, atol=2e-3)


@pytest.mark.parametrize("method", METHODS[:-1])
def test_a_gpu_run_learns_more_classes(tmp_path: Path, method: str) -> None:
    begun = train(settings(method), tmp_path / "begun")
    more = {"path": "formula:radial?classes=4&train=40&test=10&size=16"}
    run = train(after(begun.path, [{"data": more}]), tmp_path / "more")
    assert np.isfinite(losses(run)).all()
    assert ScoreStore.open(run.path).schedule.sizes == (2, 2, 2, 4)


def test_runs_one_after_the_other_need_no_more_memory_than_one(tmp_path: Path) -> None:
    held = []
    for name in ("a", "b", "c", "d"):
        train(settings("lwf"), tmp_path / name)
        held.append(torch.cuda.memory_reserved())
    assert held[-1] <= 1.1 * held[0] + 2**21


def test_cpu_and_gpu_agree_in_float32(tmp_path: Path) -> None:
    runs = {}
    for device in ("cpu", "cuda"):
        config = resolve(
            recipe="lwf-tiny",
            overrides=[{"data": DATA, "engine": {"device": device},
                        "train": {"epochs": 2, "precision": "float32"}}],
        )  # fmt: skip
        runs[device] = train(config, tmp_path / device)
    np.testing.assert_allclose(losses(runs["cpu"]), losses(runs["cuda"]), rtol=5e-2, atol=5e-3)
    store = ScoreStore.open(runs["cuda"].scores_path("lwf"))
    assert store.require("test") == (1, 2, 3)


@pytest.mark.parametrize(("trained", "method"), [("ft", "siw"), ("lucir", "lucir")])
def test_a_model_scores_the_same_on_both_devices(tmp_path: Path, trained: str, method: str) -> None:
    run = train(settings(trained), tmp_path / "run")
    pixels = np.random.default_rng(0).integers(0, 256, (64, 16, 16, 3), dtype=np.uint8)
    scores = load_model(run.path, method=method, device="cuda")(pixels)
    assert scores.is_cuda
    expected = load_model(run.path, method=method)(pixels)
    # cuDNN may convolve in TF32; SIW's scores are in the tens or hundreds.
    close = 0.01 * float(expected.abs().max())
    torch.testing.assert_close(scores.cpu(), expected, rtol=0.0, atol=close)
    agree = (scores.cpu().argmax(1) == expected.argmax(1)).float().mean()
    assert agree >= 0.95


def test_two_processes_on_a_gpu_give_the_losses_of_one(tmp_path: Path) -> None:
    """With torch's SyncBatchNorm. Over gloo, since NCCL wants a GPU for each process."""
    train(settings("lucir"), tmp_path / "one")
    words = [f"data.path={DATA['path']}", f"data.states={DATA['states']}", "train.epochs=4",
             "--recipe", "lucir-tiny", "-o", str(tmp_path / "two"), "--device", "cuda"]  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
         "-m", "transil", "train", *words],
        capture_output=True, text=True, timeout=200,
        env={**os.environ, "TRANSIL_BACKEND": "gloo"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    one, two = (losses(RunFolder(tmp_path / name)) for name in ("one", "two"))
    np.testing.assert_allclose(two, one, rtol=2e-2, atol=2e-3)

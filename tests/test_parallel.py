"""One run on two processes learns what it learns on one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from transil import ScoreStore
from transil.cli.app import run
from transil.engine import RunFolder

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


def test_a_batch_that_cannot_be_shared_is_told(tmp_path: Path) -> None:
    done = torchrun(*words("ft", tmp_path / "run", "train.batch_size=15"))
    assert done.returncode != 0
    assert "batch_size 15 cannot be shared by 2 processes" in done.stderr
    assert not (tmp_path / "run" / "run.json").exists()

"""The examples run that no other test runs; those of frameworks need the frameworks."""

from __future__ import annotations

import re
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file

from support import ok_here
from transil import Schedule, ScoreStore, plugins
from transil.methods import METHODS

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
IMAGES = "formula:strokes?classes=6&train=20&test=5&size=16"


def moved(folder: Path, strength: float) -> float:
    """How far EWC's body goes from state 1 to state 2."""
    ok_here("--import", EXAMPLES / "ewc.py", "train", "--data", IMAGES, "--method", "ewc",
            "--recipe", "ft-tiny", "--states", "2", "-o", folder, "train.epochs=1", "train.lr=0.05",
            f"settings.strength={strength}")  # fmt: skip
    assert ScoreStore.open(folder).require("test") == (1, 2)
    one, two = (load_file(folder / f"checkpoints/state-0{n}.safetensors") for n in (1, 2))
    names = [name for name in one if name.startswith("net.body.") and name.endswith(".weight")]
    assert names
    return float(sum((one[name] - two[name]).square().sum() for name in names))


def test_ewc_trains_and_its_price_holds_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRANSIL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv(plugins.ENVIRONMENT, "")
    METHODS.names()  # those of entry points are found before the copy
    monkeypatch.setattr(METHODS, "_things", dict(METHODS._things))
    assert moved(tmp_path / "held", 100.0) < moved(tmp_path / "free", 0.0)


def small_timm() -> tuple[SimpleNamespace, list[str]]:
    """A double of timm with its one function."""
    made: list[str] = []

    def create_model(name: str, *, pretrained: bool, num_classes: int) -> torch.nn.Module:
        assert (pretrained, num_classes) == (False, 0)
        made.append(name)
        body = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(4), torch.nn.Flatten())
        body.num_features = 48  # type: ignore[assignment]
        return body

    return SimpleNamespace(create_model=create_model), made


@pytest.fixture
def example(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    def run(*words: str) -> str:
        monkeypatch.setenv("TRANSIL_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(sys, "argv", ["timm_features.py", str(tmp_path / "out"), *words])
        runpy.run_path(str(EXAMPLES / "timm_features.py"), run_name="__main__")
        return capsys.readouterr().out

    return run


def test_own_loop_is_recorded_corrected_and_folded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, example: Callable[..., str]
) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)  # as if it were not installed
    printed = example("--epochs", "2")
    assert printed.startswith("timm is not installed")
    store = ScoreStore.open(tmp_path / "out/scores")
    assert store.schedule == Schedule.from_sizes([16, 8, 8, 8])
    assert store.require("test") == (1, 2, 3, 4)
    (raw, corrected) = re.findall(r"accuracy [\d.]+%, predicted as newest ([\d.]+)%", printed)
    assert float(corrected) < float(raw)
    difference = re.search(r"largest difference (\S+)", printed)
    assert difference is not None
    assert float(difference[1]) < 1e-3
    saved = load_file(tmp_path / "out/model.safetensors")
    assert saved["head.weight"].shape == (40, 64)
    assert torch.isfinite(saved["head.bias"]).all()


def test_own_loop_with_a_body_of_timm(
    monkeypatch: pytest.MonkeyPatch, example: Callable[..., str], tmp_path: Path
) -> None:
    timm, made = small_timm()
    monkeypatch.setitem(sys.modules, "timm", timm)
    assert example("--epochs", "1", "--body", "resnet34").startswith("raw: ")
    assert made == ["resnet34"]
    assert load_file(tmp_path / "out/model.safetensors")["head.weight"].shape == (40, 48)


def test_the_table_has_all_examples() -> None:
    text = (EXAMPLES / "README.md").read_text()
    found = {
        path.relative_to(EXAMPLES).as_posix()
        for path in EXAMPLES.rglob("*.*")
        if path.suffix in (".py", ".yaml")
    }
    assert set(re.findall(r"\]\(([\w/]+\.(?:py|yaml))\)", text)) == found - {"frameworks/common.py"}

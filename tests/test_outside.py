"""Bodies from outside and weights from files, through the command line and the library."""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import outside_bodies
from support import ok_here, run_here
from transil import ScoreStore, TransilError
from transil.engine import load_model, recipe_names, resolve, train, training
from transil.engine.recipes import default_recipe
from transil.engine.setup import completed, find_device, make_stream, open_run_images
from transil.errors import DataWarning
from transil.methods import get_method
from transil.nets import build_net
from transil.nets.outside import load_weights

DATA = "formula:strokes?classes=4&train=12&test=4&size=24"
MAPS, VECTORS = "outside_bodies:maps", "outside_bodies:vectors"


@pytest.fixture(autouse=True)
def named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TRANSIL_IMPORT", "outside_bodies")
    monkeypatch.setenv("TRANSIL_CACHE", str(tmp_path / "cache"))


def config_of(recipe: str = "ft-tiny", /, **net: Any) -> Any:
    over = {"data": {"path": DATA, "states": 2}, "train": {"epochs": 2}, "net": net}
    return resolve(recipe=recipe, overrides=[over, {"engine": {"checkpoint_minutes": 0}}])


def words(output: Path, body: str, *more: str, recipe: str = "lwf-tiny") -> list[str]:
    return ["train", "--data", DATA, "--recipe", recipe, "--states", "2", "-o", str(output),
            "train.epochs=1", f"net.body={body}", *more]  # fmt: skip


def refused(work: Path, *given: str, says: str) -> None:
    """In one line, behind what a training has said of its images; nothing of a run is written."""
    there = {path for path in work.rglob("*") if path.is_file() and path.parent.name != "cache"}
    done = run_here(*given, cwd=work)
    lines = done.stderr.splitlines()
    assert done.returncode == 2
    assert [line for line in lines if line.startswith("error: ")] == lines[-1:]
    assert says in lines[-1]
    assert "Traceback" not in done.stderr
    assert {path for path in work.glob("run/*") if path.is_file()} <= there


def checkpoint(run: Path, state: int = 2) -> dict[str, torch.Tensor]:
    return load_file(run / "checkpoints" / f"state-{state:02d}.safetensors")


@pytest.fixture
def weights(tmp_path: Path) -> str:
    torch.manual_seed(1)
    made = outside_bodies.maps()
    save_file(made.state_dict(), tmp_path / "w.safetensors")
    return str(tmp_path / "w.safetensors")


def test_image_size_and_colours_are_the_bodys(tmp_path: Path) -> None:
    ok_here(*words(tmp_path / "run", MAPS, recipe="lucir-tiny"), cwd=tmp_path)
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    wanted = {"mean": [0.5, 0.4, 0.3], "std": [0.2, 0.2, 0.25]}
    assert record["data"]["pixels"] == record["config"]["data"]["size"] == 16
    assert record["config"]["net"]["colours"] == wanted
    assert json.loads((tmp_path / "run" / "label-map.json").read_text())["colours"] == wanted
    model = load_model(tmp_path / "run")
    stream = make_stream(model.config, open_run_images(model.config))
    for state in (1, 2):
        images = stream.enter(state).test.read()
    expected = ScoreStore.open(tmp_path / "run").get("test", 2).scores
    np.testing.assert_allclose(model(images).numpy(), expected, rtol=1e-4, atol=1e-4)
    # LUCIR's features take both signs: the last ReLU is gone, the first one is not.
    features = model.net(torch.randn(8, 3, 16, 16)).features
    assert features.min() < 0 < features.max()
    assert isinstance(model.net.body.get_submodule("2"), torch.nn.ReLU)


@pytest.mark.parametrize("net", [{"body": MAPS}, {"body": VECTORS, "frozen": True}])
def test_a_resumed_run_is_the_same_bytes(net: dict[str, Any], tmp_path: Path) -> None:
    config = config_of("lwf-tiny", **net)
    train(config, tmp_path / "whole")
    for pauses in (2, 3, 3, 50):
        part = training(config, tmp_path / "parts")
        list(itertools.islice(part, pauses))
        part.close()

    def contents(run: Path) -> dict[str, bytes]:
        files = (p for p in run.rglob("*") if p.is_file() and p.suffix != ".lock")
        return {str(p.relative_to(run)): p.read_bytes() for p in files if p.name != "times.jsonl"}

    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")


def test_a_frozen_body_stays_and_a_tuned_one_moves(weights: str, tmp_path: Path) -> None:
    begun = load_file(weights)
    for name, net in {
        "frozen": {"frozen": True},
        "tuned": {},
        "held": {},
    }.items():
        config = config_of(body=MAPS, weights=weights, **net)
        lr = {"body_lr": 0.0} if name == "held" else {}
        train(
            resolve(recipe="ft-tiny", overrides=[config.to_dict(), {"train": lr}]), tmp_path / name
        )
        left = checkpoint(tmp_path / name)
        same = {key: torch.equal(left[f"net.body.{key}"], value) for key, value in begun.items()}
        moved = {
            "frozen": set(),
            "tuned": set(same),
            "held": {k for k in same if "running" in k or "num" in k},
        }
        assert {key for key in same if not same[key]} == moved[name]
        assert not torch.equal(
            left["net.head.weight"], checkpoint(tmp_path / name, 1)["net.head.weight"]
        )


def test_a_rate_of_its_own_that_is_the_same_changes_nothing(tmp_path: Path) -> None:
    config = config_of(body=MAPS)
    train(config, tmp_path / "one")
    lr = {"train": {"body_lr": config.train.lr}}
    train(resolve(recipe="ft-tiny", overrides=[config.to_dict(), lr]), tmp_path / "two")
    one, two = checkpoint(tmp_path / "one"), checkpoint(tmp_path / "two")
    assert all(torch.equal(one[key], two[key]) for key in one)


def test_weights_may_move_but_not_change(weights: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    ok_here(*words(run, MAPS, f"net.weights={weights}"), cwd=tmp_path)
    digest = json.loads((run / "run.json").read_text())["config"]["net"]["weights_digest"]
    assert len(digest) == 64
    moved = tmp_path / "moved.safetensors"
    shutil.copy(weights, moved)
    ok_here(*words(run, MAPS, f"net.weights={moved}"), cwd=tmp_path)
    save_file({k: v + 1 for k, v in load_file(weights).items()}, moved)
    refused(tmp_path, *words(run, MAPS, f"net.weights={moved}"), says="begun with net.weights")
    # A run that goes on needs no weights: it has its own.
    Path(weights).unlink()
    more = "formula:noise?classes=2&train=8&test=4&size=16"
    ok_here(
        "train", "--data", more, "--after", str(run), "-o", str(tmp_path / "next"), cwd=tmp_path
    )
    assert load_model(tmp_path / "next").schedule.sizes == (2, 2, 2)


def test_names_before_those_of_the_tensors(weights: str, tmp_path: Path) -> None:
    """A checkpoint of ours, and a group in a file of torch; a classifier is told and left out."""
    expected, body = load_file(weights), outside_bodies.maps()
    ours, theirs = tmp_path / "a.safetensors", tmp_path / "b.pt"
    save_file({f"net.body.{k}": v for k, v in expected.items()}, ours)
    torch.save({"state_dict": {**expected, "fc.bias": torch.zeros(3)}, "epoch": 3}, theirs)
    for path, told in ((ours, contextlib.nullcontext()),
                       (theirs, pytest.warns(DataWarning, match=r"1 tensors .*fc\.bias"))):  # fmt: skip
        for value in body.state_dict().values():
            value.zero_()
        with told:
            load_weights(body, str(path))
        assert all(torch.equal(v, expected[k]) for k, v in body.state_dict().items())
    refused(
        tmp_path,
        *words(tmp_path / "run", MAPS, f"net.weights={theirs}"),
        says="with --allow-pickle",
    )
    ok_here(*words(tmp_path / "run", MAPS, f"net.weights={theirs}", "--allow-pickle"), cwd=tmp_path)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda w: {k: v for k, v in w.items() if k != "3.bias"}, "('3.bias' is missing)"),
        (lambda _: {"x": torch.zeros(2)}, "('0.weight' is missing)"),
        (lambda w: {**w, "3.bias": torch.zeros(5)}, "('3.bias' is (5,), not (12,))"),
        (lambda w: {**w, "3.bias": torch.full((12,), torch.nan)}, "'3.bias' holds values that are not"),
    ],
)  # fmt: skip
def test_weights_of_another_body(change: Any, says: str, weights: str, tmp_path: Path) -> None:
    save_file(change(load_file(weights)), weights)
    refused(tmp_path, *words(tmp_path / "run", MAPS, f"net.weights={weights}"), says=says)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("os:abort", "name its module before the command: transil --import os"),
        ("outside_bodies:none", "module outside_bodies has no function 'none'"),
        ("outside_bodies:tensor", "it gives a Tensor, no torch module"),
        ("outside_bodies:raising", "cannot be made (RuntimeError: no such file)"),
        ("outside_bodies:rows", "features (b, width) or maps (b, width, h, w), not (2, 3, 50176)"),
        ("outside_bodies:dropping", "it draws random numbers in training (dropout?)"),
        ("outside_bodies:shared_relu", "the last ReLU cannot be taken off"),
        ("outside_bodies:colourless", "outside_bodies:colourless: mean and std need"),
    ],
)
def test_bodies_that_cannot_be_used(body: str, says: str, tmp_path: Path) -> None:
    """Each in one line, before anything is written."""
    refused(tmp_path, *words(tmp_path / "run", body, "data.size=24"), says=says)


def test_images_of_another_size(tmp_path: Path) -> None:
    body = "outside_bodies:fixed"
    refused(tmp_path, *words(tmp_path / "run", body, "data.size=16"), says="images of 16 px")
    ok_here(
        *words(tmp_path / "run", "outside_bodies:shared_relu", "net.last_relu=true"), cwd=tmp_path
    )


def test_a_file_of_weights_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "w.safetensors").write_bytes(b"cut")
    bad = f"net.weights={tmp_path / 'w.safetensors'}"
    refused(tmp_path, *words(tmp_path / "run", "convnet", bad), says="no safetensors file")
    bad = f"net.weights={tmp_path / 'nowhere.safetensors'}"
    refused(tmp_path, *words(tmp_path / "run", "convnet", bad), says="nowhere.safetensors")


def test_a_setting_without_its_group(tmp_path: Path) -> None:
    refused(
        tmp_path, *words(tmp_path / "run", MAPS, f"body={MAPS}"), says="did you mean 'net.body'?"
    )


def test_our_own_bodies_take_weights_of_a_run(tmp_path: Path) -> None:
    """Trained on one set, tuned on another; the recipe is then the one for that."""
    train(config_of(), tmp_path / "big")
    state = tmp_path / "big" / "checkpoints" / "state-02.safetensors"
    net = build_net("convnet", "linear", 5, weights=str(state))
    left = load_file(state)
    assert all(torch.equal(v, left[f"net.body.{k}"]) for k, v in net.body.state_dict().items())
    for method in ("ft", "siw", "lwf", "lwf-t", "lwf-all", "lucir", "joint"):
        recipe = default_recipe(method, 32, finetune=True)
        assert recipe in recipe_names()
        config = resolve(method=method, overrides=[{"net": {"weights": str(state)}}])
        assert config == resolve(
            method=method, recipe=recipe, overrides=[{"net": {"weights": str(state)}}]
        )
        assert config.train.body_lr is not None


def test_a_run_of_an_earlier_version_goes_on(tmp_path: Path) -> None:
    train(config_of(), tmp_path / "run")
    path = tmp_path / "run" / "run.json"
    record = json.loads(path.read_text())
    new = {"net": ("weights", "weights_digest", "frozen", "colours"), "train": ("body_lr",),
           "engine": ("log", "allow_pickle")}  # fmt: skip
    for part, names in new.items():
        for name in names:
            del record["config"][part][name]
    path.write_text(json.dumps(record))
    assert load_model(tmp_path / "run").state == 2
    train(config_of(), tmp_path / "run")


# -- timm --------------------------------------------------------------------------------------


def import_timm() -> None:
    """torchvision's operators are not there in every build of torch; timm calls none of them."""
    pytest.importorskip("timm", exc_type=ImportError) if _has_operators() else None


def _has_operators() -> bool:
    if not hasattr(torch.ops.torchvision, "nms"):
        library: Any = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        outside_bodies._library = library  # type: ignore[attr-defined]
    return True


@pytest.mark.parametrize(("name", "method"), [("resnet10t", "lucir"), ("test_vit", "lwf")])
def test_networks_of_timm(name: str, method: str, tmp_path: Path) -> None:
    import_timm()
    import timm

    theirs = timm.create_model(name, num_classes=7)
    weights = str(tmp_path / "theirs.safetensors")
    save_file(theirs.state_dict(), weights)
    config = resolve(
        method=method,
        overrides=[
            {"data": {"path": DATA, "states": 2}, "train": {"epochs": 1}},
            {"net": {"body": f"timm:{name}", "weights": weights}},
            {"data": {"size": 64} if name == "resnet10t" else {}},
        ],
    )
    with pytest.warns(DataWarning, match="left out"):
        run = train(config, tmp_path / "run")
    assert run.finished() == 2
    done = run.config()
    assert done.net.colours is not None
    assert done.net.colours.mean == tuple(theirs.pretrained_cfg["mean"])
    if name == "test_vit":
        assert done.data.size == theirs.pretrained_cfg["input_size"][-1]
    with pytest.raises(TransilError, match="no such model"):
        wrong = resolve(recipe="ft-tiny", overrides=[{"net": {"body": "timm:resnet"}}])
        made = get_method("ft")
        completed(wrong, made, open_run_images(config), find_device("cpu"))


def test_without_timm_its_name_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transil.nets.outside.find_spec", lambda _: None)
    says = "net.body=timm:resnet18 needs timm; run: pip install timm"
    refused(tmp_path, *words(tmp_path / "run", "timm:resnet18"), says=says)

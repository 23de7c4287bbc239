"""Trained models on new images: the scores are those of the run, through files and the command."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from support import refused_here, run_here
from transil import Corrector, ScoreStore, TransilError, fit
from transil.engine import RunFolder, load_model, resolve, train
from transil.engine.checkpoint import Checkpoint
from transil.engine.setup import make_stream, open_run_images
from transil.testing import biased_scores

IMAGES = "formula:strokes?classes=6&train=12&test=4&size=16"


@pytest.fixture(scope="module", params=["ft", "lucir", "lwf"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    config = resolve(
        recipe=f"{request.param}-tiny",
        overrides=[{"data": {"path": IMAGES, "states": 3}, "train": {"epochs": 1}}],
    )
    return train(config, tmp_path_factory.mktemp("runs") / request.param)


def pixels_of(run: RunFolder, state: int) -> np.ndarray:
    """The test images of a state, in the order of its scores."""
    config = load_model(run.path, 1).config
    stream = make_stream(config, open_run_images(config))
    for number in range(1, state + 1):
        images = stream.enter(number).test
    return images.read()


def test_scores_are_those_of_the_run(run: RunFolder) -> None:
    for folder in sorted((run.path / "scores").iterdir()):
        store = ScoreStore.open(folder)
        for state in (1, 2, 3):
            model = load_model(run.path, state, method=store.method)
            assert len(model.class_names) == 2 * state
            assert not any(p.requires_grad for p in model.parameters())
            found = model(pixels_of(run, state))
            expected = store.get("test", state).scores
            np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-4)
    assert load_model(run.path).state == 3


def test_a_run_that_does_not_know_its_colours(run: RunFolder) -> None:
    """As early versions wrote them: the images tell."""
    path = run.path / "label-map.json"
    before = path.read_text()
    pixels = pixels_of(run, 2)
    expected = load_model(run.path, 2)(pixels)
    known = json.loads(before)
    del known["colours"]
    try:
        path.write_text(json.dumps(known))
        torch.testing.assert_close(load_model(run.path, 2)(pixels), expected)
    finally:
        path.write_text(before)


def test_a_model_does_not_change(run: RunFolder) -> None:
    """A network around it may be trained and cast; its statistics and precision stay."""
    model, pixels = load_model(run.path, 2), pixels_of(run, 2)
    before = model(pixels)
    around = torch.nn.ModuleList([model]).train()
    torch.testing.assert_close(model(pixels), before)
    torch.testing.assert_close(model(pixels), before)  # no statistics were moved by the first
    for move in (around.half, lambda: around.to("meta")):
        with pytest.raises(TransilError, match="give load_model the device"):
            move()


@pytest.mark.parametrize("broken", ["labels", "colours", "pixels", "net"])
def test_damaged_files_are_told(run: RunFolder, tmp_path: Path, broken: str) -> None:
    folder = Path(shutil.copytree(run.path, tmp_path / "run"))
    name = "run.json" if broken == "pixels" else "label-map.json"
    data = json.loads((folder / name).read_text())
    if broken == "labels":
        data["labels"].pop()
    elif broken == "colours":
        del data["colours"]["std"]
    elif broken == "pixels":
        del data["data"]["pixels"]
    else:
        path = RunFolder(folder).state_path(3)
        found = Checkpoint.load(path)
        found.tensors.pop(next(k for k in found.tensors if k.startswith("net.")))
        found.save(path)
    (folder / name).write_text(json.dumps(data))
    with pytest.raises(TransilError, match=r"damaged|not the network of this run"):
        load_model(folder)


def test_predict(run: RunFolder, tmp_path: Path) -> None:
    (tmp_path / "photos" / "more").mkdir(parents=True)
    pixels = pixels_of(run, 3)
    files = ["photos/b.png", "photos/more/a.png"]
    for file, image in zip(files, pixels, strict=False):
        Image.fromarray(image).save(tmp_path / file)
    model = load_model(run.path)
    done = run_here("predict", run.path, "photos", "--json", "--top", "2", cwd=tmp_path)
    found = json.loads(done.stdout)["images"]
    assert [row["image"] for row in found] == files
    scores = model(pixels[:2])
    best = [model.class_names[i] for i in scores.argmax(1)]
    assert [row["classes"][0]["class"] for row in found] == best
    assert [len(row["classes"]) for row in found] == [2, 2]
    written = run_here("predict", run.path, "photos", "--top", "2", "-o", "x.json", cwd=tmp_path)
    assert written.stdout == "x.json: 2 images\n"
    assert (tmp_path / "x.json").read_text() == done.stdout
    for wrong, says in ((["-o", files[0]], "are written to .csv or .json files"),
                        (["--csv", "-o", "x.json"], "not that of --csv")):  # fmt: skip
        refused = run_here("predict", run.path, "photos", *wrong, cwd=tmp_path)
        assert refused.returncode == 2
        assert says in refused.stderr
    bank = fit(biased_scores("6/3", images_per_class=20))
    bank.save(tmp_path / "bank.json")
    words: list[str | Path] = ["predict", run.path, *files, "--bank", "bank.json", "--csv"]
    done = run_here(*words, cwd=tmp_path)
    assert "its scores are from" in done.stderr  # of another method
    assert run_here(*words, "--any-method", cwd=tmp_path).returncode == 0
    data = bank.to_json() | {"method": model.method.name}
    (tmp_path / "bank.json").write_text(json.dumps(data))
    rows = list(csv.DictReader(run_here(*words, cwd=tmp_path).stdout.splitlines()))
    assert run_here(*words, "-o", "x.csv", cwd=tmp_path).returncode == 0
    assert list(csv.DictReader((tmp_path / "x.csv").read_text().splitlines())) == rows
    corrected = bank.correct(scores, 3)
    assert "2 rows do not tell the scale" in run_here(*words, "--rescale", cwd=tmp_path).stderr
    half = run_here(*words, "--strength", "0.5", cwd=tmp_path).stdout.splitlines()
    expected = float(bank.correct(scores, 3, strength=0.5)[0].max())
    assert float(next(csv.DictReader(half))["score"]) == pytest.approx(expected, abs=1e-3)
    assert len(rows) == 6
    assert float(rows[0]["score"]) == pytest.approx(float(corrected[0].max()), abs=1e-3)
    assert best[0] in run_here("predict", run.path, files[0], cwd=tmp_path).stdout


def test_predict_by_what_advise_wrote(run: RunFolder, tmp_path: Path) -> None:
    model = load_model(run.path)
    pixels = pixels_of(run, 3)
    traffic = torch.as_tensor(model(pixels)).repeat(8, 1)
    sizes = list(model.schedule.sizes)
    fitted = Corrector(sizes, bank="none", prior="uniform").fit(traffic)
    fitted.save(tmp_path / "mine.json")
    Image.fromarray(pixels[0]).save(tmp_path / "a.png")
    words: list[str | Path] = ["predict", run.path, "a.png", "--bank", "mine.json", "--json"]
    done = run_here(*words, cwd=tmp_path)
    corrected = fitted.transform(traffic[:1])
    (row,) = json.loads(done.stdout)["images"]
    assert row["classes"][0]["class"] == model.class_names[int(corrected.argmax())]
    assert row["classes"][0]["score"] == pytest.approx(float(corrected.max()), abs=1e-3)
    for more, says in (
        (["--rescale"], "leave out --rescale"),
        (["--state", "2"], "is for state 3"),
    ):
        refused_here(*words, *more, says=says, cwd=tmp_path)
    other = Corrector(sizes, method="siw", bank="none", prior="uniform").fit(traffic)
    other.save(tmp_path / "mine.json")
    refused_here(*words, says="this corrector is for 'siw'", cwd=tmp_path)
    assert run_here(*words, "--any-method", cwd=tmp_path).returncode == 0


def test_mistakes(run: RunFolder, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.png").write_text("no image")
    for words, says in (
        ([run.path, "text.png"], "text.png: cannot be decoded"),
        ([run.path, "empty"], "empty: no images in this folder"),
        (
            [run.path, "text.png", "--state", "7"],
            "state 7 does not exist; this schedule has the",
        ),
        ([run.path, "text.png", "--method", "icarl"], "not 'icarl'"),
        (["empty", "text.png"], "empty: not the folder of a training"),
        ([run.path, "text.png", "--device", "foo"], "device is 'foo'"),
        ([run.path, "text.png", "--rescale"], "--rescale goes with --bank"),
        ([run.path, "text.png", "--strength", "1"], "--strength goes with --bank"),
    ):
        done = run_here("predict", *words, cwd=tmp_path)
        assert done.returncode == 2
        assert says in done.stderr
    for state, says in ((0, "state 0 does not exist"), ("2", "a state is a whole number")):
        with pytest.raises(TransilError, match=says):
            load_model(run.path, state)  # type: ignore[arg-type]
    with pytest.raises(TransilError, match="device is 'tpu'; write auto"):
        load_model(run.path, device="tpu")
    with pytest.raises(TransilError, match=r"expected uint8 of shape \(n, 16, 16, 3\), not"):
        load_model(run.path)(torch.zeros(1, 3, 16, 16))

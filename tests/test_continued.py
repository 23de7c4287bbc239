"""A run that goes on from another one: new classes, none of the old images."""

from __future__ import annotations

import shutil
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from test_train_faults import contents
from transil import ScoreStore, TransilError, evaluate
from transil.cli.app import run as main
from transil.data import Images, ImageSplit, open_images
from transil.engine import RunConfig, RunFolder, load_model, resolve, train, training
from transil.engine.past import after, find_past
from transil.errors import LeakError

ALL = "formula:strokes?classes=6&train=12&test=5&size=16"
METHODS = ["ft", "lwf", "lwf-t", "lwf-all", "lucir", "anchored"]


pytestmark = pytest.mark.usefixtures("outside")


@pytest.fixture(scope="module")
def images() -> Images:
    return open_images(ALL)


def some(images: Images, labels: list[int], test: list[int] | None = None) -> Images:
    """Only these classes, as a data set of its own; `test` names those that have test images."""
    splits = {}
    for name, split in images.splits.items():
        wanted = test if test is not None and name == "test" else labels
        rows = np.flatnonzero(np.isin(split.labels, wanted))
        listed = sorted({*labels, *(test or [])})
        splits[name] = ImageSplit(split.pixels[rows], np.searchsorted(listed, split.labels[rows]))
    names = tuple(images.class_names[i] for i in sorted({*labels, *(test or [])}))
    return replace(images, class_names=names, splits=splits, fingerprint=f"{labels}{test}")


def settings(method: str, **data: Any) -> RunConfig:
    recipe = "ft-tiny" if method == "anchored" else f"{method}-tiny"
    over = {
        "data": {"path": ALL, "order": "label", **data},
        "train": {"epochs": 3, "batch_size": 8},
        "engine": {"device": "cpu", "checkpoint_minutes": 0},
    }
    return resolve(method=method, recipe=recipe, overrides=[over])


def begin(folder: Path, images: Images, method: str = "lucir") -> RunFolder:
    """A run that has learned four classes in two states."""
    return train(settings(method, states=2), folder, images=some(images, [0, 1, 2, 3]))


@pytest.fixture(scope="module")
def january(images: Images, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return begin(tmp_path_factory.mktemp("january") / "run", images).path


LABEL = {"data": {"order": "label"}}


@pytest.mark.parametrize("method", METHODS)
def test_a_model_learns_more_classes(method: str, images: Images, tmp_path: Path) -> None:
    begun = begin(tmp_path / "january", images, method)
    before = contents(begun.path)
    run = train(after(begun.path, [LABEL]), tmp_path / "february", images=some(images, [4, 5]))
    assert contents(begun.path) == before
    store = ScoreStore.open(run.path)
    assert store.schedule.sizes == (2, 2, 2)
    assert store.require("test") == (1, 2, 3)
    old = ScoreStore.open(begun.path).get("test", 2)
    assert np.array_equal(store.get("test", 2).scores, old.scores)
    assert set(store.get("test", 3).labels) == {4, 5}  # no others are at hand
    model = load_model(run.path)
    assert model.class_names == images.class_names
    assert evaluate(run.path).absent
    # And once more, after a run that has itself begun after another.
    again = train(after(run.path, [LABEL]), tmp_path / "march", images=renamed(images))
    assert ScoreStore.open(again.path).schedule.sizes == (2, 2, 2, 6)


def renamed(images: Images) -> Images:
    return replace(images, class_names=tuple(f"new {n}" for n in images.class_names))


def test_it_learns_what_a_run_of_all_states_learns(
    january: Path, images: Images, tmp_path: Path
) -> None:
    """LUCIR draws nothing for new classes, so that nothing depends on how many were foreseen."""
    whole = train(settings("lucir", states=3), tmp_path / "whole", images=images)
    parts = some(images, [4, 5], test=[0, 1, 2, 3, 4, 5])  # test images of old classes are welcome
    run = train(after(january, [LABEL]), tmp_path / "parts", images=parts)
    for split in ("val", "test"):
        expected, found = (ScoreStore.open(r.path).get(split, 3) for r in (whole, run))
        assert np.array_equal(expected.labels, found.labels)
        np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-4, atol=1e-4)


def test_it_is_resumed_without_the_run_it_went_on_from(
    january: Path, images: Images, tmp_path: Path
) -> None:
    new = some(images, [4, 5])
    old = Path(shutil.copytree(january, tmp_path / "january"))
    config = after(old, [LABEL])
    train(config, tmp_path / "whole", images=new)
    part = training(config, tmp_path / "part", images=new)
    list(islice(part, 3))
    part.close()
    shutil.rmtree(old)
    train(replace(config, after="elsewhere"), tmp_path / "part", images=new)
    assert contents(tmp_path / "part") == contents(tmp_path / "whole")


def test_a_damaged_record_is_told(january: Path, images: Images, tmp_path: Path) -> None:
    config = after(january, [LABEL])
    run = train(config, tmp_path / "run", images=some(images, [4, 5]))
    record = run.path / "run.json"
    record.write_text(record.read_text().replace('"class_names"', '"names"'))
    with pytest.raises(TransilError, match="damaged record: data.past.class_names is missing"):
        train(config, run.path, images=some(images, [4, 5]))


def test_past_images_stay_closed(january: Path, images: Images, tmp_path: Path) -> None:
    past = find_past(after(january), RunFolder(tmp_path))
    assert past is not None
    stream = past.stream(after(january, [LABEL]).data, past.known(images))
    with pytest.raises(LeakError):
        stream.enter(1)
    state = stream.enter(3)
    assert set(state.train.labels) == set(state.val.labels) == {4, 5}
    assert set(state.test.labels) == set(range(6))
    assert stream.counts()["train"][:2] == [0, 0]


@pytest.mark.parametrize(
    ("over", "message"),
    [
        ({"method": "lwf"}, "was trained with method=lucir, not lwf"),
        ({"net": {"body": "resnet32"}}, "was trained with net.body=convnet, not resnet32"),
        ({"data": {"role": "reference"}}, "train it in one run, without --after"),
        ({"data": {"order": [1, 0]}}, "not labels"),
        ({"data": {"sizes": [2, 1], "states": None}}, "7 classes, .* only 6"),
    ],
)
def test_what_cannot_go_on(
    over: dict[str, Any], message: str, january: Path, images: Images, tmp_path: Path
) -> None:
    with pytest.raises(TransilError, match=message):
        train(after(january, [over]), tmp_path / "run", images=some(images, [4, 5]))
    assert not (tmp_path / "run").exists()


def test_on_the_command_line(
    january: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = Path(shutil.copytree(january, tmp_path / "january"))
    words = ["train", "--data", ALL, "--after", str(old), "-o", str(tmp_path / "run")]
    assert main([*words, "train.epochs=1", "data.order=label"]) == 0
    assert "state         1      2      3" in capsys.readouterr().out
    shutil.rmtree(old)
    assert main([*words, "train.epochs=1", "data.order=label"]) == 0  # it needs the other no more
    assert main([*words, "train.epochs=2"]) == 2
    assert "begun with train.epochs=1, now it is 2" in capsys.readouterr().err
    refusals = {
        "all its classes have been learned before": [
            *words[:3], "--after", str(tmp_path / "run"), "-o", str(tmp_path / "again"),
        ],
        "--after takes method and recipe of that run": [*words, "--method", "lwf"],
        "not the folder of a training": [
            *words[:4], str(tmp_path), "-o", str(tmp_path / "again"),
        ],
    }  # fmt: skip
    for message, refused in refusals.items():
        assert main(refused) == 2
        assert message in capsys.readouterr().err

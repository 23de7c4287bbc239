"""One small, valid file or folder of every format that a command reads."""

from __future__ import annotations

import csv
import json
import os
import shutil
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

import image_files
from report_results import made_up
from support import run_here
from test_interop import (
    _numpy_arrays,
    write_numpy_folder,
    write_released_bank,
    write_released_layout,
)
from transil import Corrector, Ledger, ScoreStore, fit
from transil.correction.fitting import fit_any_schedule
from transil.data.cache import cached_images, convert
from transil.data.sources.folder import FolderSource
from transil.experiment.plan import make_plan
from transil.experiment.recipe import load_experiment
from transil.experiment.running import local_executor, run_experiment
from transil.testing import biased_scores

SCHEDULE = "4,2,2"
DATA = "formula:strokes?classes=4&train=20&test=4&size=16"

TRAINING = """\
# A training of a second.
method: ft
data: {path: "formula:strokes?classes=4&train=20&test=4&size=16", states: 2, order: "seed:0"}
net: {body: convnet}
train:
  epochs: 1
  batch_size: 8
  lr: 0.1
  momentum: 0.9
  schedule: milestones
  drops: [0.5]
  augment: crop-flip
seed: 0
engine: {device: cpu, threads: 1}
"""

EXPERIMENT = """\
references: [radial]
targets: [strokes]
methods: [lwf]
states: [2]
corrections: [adbic]
solvers: [newton]
transfer: [mean]
kind: tiny
sets:
  radial: {path: "formula:radial?classes=4&train=20&test=4&size=16"}
  strokes: {path: "formula:strokes?classes=4&train=20&test=4&size=16"}
fit_on: [val]
seeds: [0]
train: {epochs: 1}
resamples: 100
limits:
  - Made for tests.
"""

SCHEDULES = """\
references: [radial, noise]
methods: [lwf]
schedules: {even: [2, 2], first: [2, 1, 1]}
kind: tiny
data: {val_per_class: 2}
sets:
  radial: {path: "formula:radial?classes=4&train=20&test=4&size=16"}
  noise: {path: "formula:noise?classes=4&train=20&test=4&size=16"}
train: {epochs: 1}
per_method: {lwf: {train: {lr: 0.1}}}
"""


def build(folder: Path) -> Path:
    """All seeds, once; `folder` must not be there."""
    torch.set_num_threads(1)
    making = folder.with_name(folder.name + ".making")
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir(parents=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRANSIL_CACHE", str(making / "decoded"))
        _scores(making)
        _any_schedule(making)
        _images(making)
        _trainings(making)
    os.rename(making, folder)
    return folder


def _scores(folder: Path) -> None:
    store, second, third = (
        biased_scores(SCHEDULE, seed=seed, images_per_class=8, dataset=name)
        for seed, name in enumerate(("one", "two", "three"), start=1)
    )
    store.save(folder / "store")
    second.save(folder / "store2")
    fit(store).save(folder / "bank.json")
    fit([second, third]).save(folder / "both.json")
    fit(biased_scores("2,2", images_per_class=8)).save(folder / "pair.json")
    write_numpy_folder(store, folder / "numpy")
    write_released_layout(
        biased_scores(SCHEDULE, seed=1, images_per_class=8, splits=("val",)), folder / "dkt"
    )
    write_released_bank(folder / "released", 3)
    arrays: dict[str, Any] = _numpy_arrays(store)
    np.savez(folder / "arrays.npz", **arrays)
    torch.save(
        {name: torch.from_numpy(np.array(a)) for name, a in arrays.items()}, folder / "arrays.pt"
    )
    scores = np.array(store.get("test", 3).scores, dtype=np.float32)
    np.save(folder / "scores.npy", scores)
    np.savez(folder / "scores.npz", scores=scores)
    torch.save(torch.from_numpy(scores), folder / "scores.pt")
    save_file({"scores": scores}, folder / "scores.safetensors")
    names = [f"class{i}" for i in range(scores.shape[1])]
    for name, delimiter in (("scores.csv", ","), ("scores.tsv", "\t")):
        with open(folder / name, "w", newline="") as file:
            rows = csv.writer(file, delimiter=delimiter)
            rows.writerow(["image", *names])
            rows.writerows([f"{i}.png", *map(repr, r)] for i, r in enumerate(scores.tolist()))
    _parquet(folder, scores, names)
    _adaptation(folder)
    _tables(store, folder / "tables")
    (folder / "order.json").write_text(json.dumps([2, 0, 1, 3, 5, 4, 7, 6]))
    (folder / "small.json").write_text(json.dumps([[1], [0]]))
    (folder / "schedule.json").write_text(json.dumps([[0, 1, 2, 3], [4, 5], [6, 7]]))


def _any_schedule(folder: Path) -> None:
    """Banks for any schedule, of one method and of several, and what is made from them."""
    store, other, third = (
        biased_scores(sizes, seed=seed, images_per_class=8, dataset=name)
        for seed, (sizes, name) in enumerate(
            ((SCHEDULE, "one"), ("2,3,3", "two"), ("2,2", "three")), start=1
        )
    )
    other.save(folder / "store3")
    curve = fit_any_schedule([store, other, third])
    curve.save(folder / "curve.json")
    generic = replace(curve, method=None, methods=("lwf", "lucir"), expected="a little")
    generic.save(folder / "generic.json")
    made = curve.for_schedule(SCHEDULE)
    made.save(folder / "made.json")
    made.like(np.load(folder / "scores.npy"), 3).save(folder / "measured.json")
    pairs = biased_scores("2,2", images_per_class=20).get("test", 2).scores
    curve.for_schedule("2,2").like(pairs, 2).save(folder / "pair-any.json")
    # Rows enough in each state to measure them.
    biased_scores(SCHEDULE, seed=4, images_per_class=16).save(folder / "large")


def _adaptation(folder: Path) -> None:
    """What `advise` and the ledger read and write: two thirds of 192 rows have no label."""
    store = biased_scores(SCHEDULE, seed=1, images_per_class=24, splits=("test",))
    made = store.get("test", 3)
    np.save(folder / "traffic.npy", made.scores)
    np.save(folder / "newest.npy", np.where(made.labels >= 6, made.labels, -1))
    np.save(folder / "earlier.npy", np.array(made.scores)[:72])
    (folder / "shares.json").write_text(json.dumps({str(c): 1 + c for c in range(8)}))
    ledger = Ledger(folder / "ledger.json", SCHEDULE, "lwf-t")
    corrector = Corrector(SCHEDULE, method="lwf-t", prior="uniform")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # eight classes are fewer than references had
        for state in (1, 2):
            ledger.record(state, store.get("test", state).scores)
        corrector.fit(made.scores).save(folder / "mine.json")
    weight = np.random.default_rng(0).normal(size=(8, 5)).astype(np.float32)
    save_file({"weight": weight, "bias": weight[:, 0].copy()}, folder / "head.safetensors")
    np.savez(folder / "head.npz", weight=weight, eta=np.ones(1, np.float32))
    torch.save({"fc.weight": torch.from_numpy(weight)}, folder / "head.pt")


def _parquet(folder: Path, scores: Any, names: list[str]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyarrow import feather

    wide = {"image": [f"{i}.png" for i in range(len(scores))]}
    wide |= {name: scores[:, i] for i, name in enumerate(names)}
    pq.write_table(pa.table(wide), folder / "scores.parquet")
    feather.write_feather(pa.table(wide), str(folder / "scores.feather"))
    with pa.ipc.new_stream(str(folder / "scores.arrow"), pa.table(wide).schema) as stream:
        stream.write_table(pa.table(wide))
    pq.write_table(
        pa.table({"image": wide["image"], "logits": scores.tolist()}), folder / "listed.parquet"
    )


def _tables(store: ScoreStore, folder: Path) -> None:
    """The scores and labels of each state in one table."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq
    from pyarrow import feather

    folder.mkdir()
    for state in store.states("test"):
        data = store.get("test", state)
        made = {"image": [f"{i}.png" for i in range(len(data.labels))], "label": data.labels}
        made |= {f"class{i}": np.ascontiguousarray(c) for i, c in enumerate(data.scores.T)}
        name = str(folder / f"scores_test_{state}")
        if state == 1:
            pyarrow.csv.write_csv(pa.table(made), f"{name}.csv")
        elif state == 2:
            pq.write_table(pa.table(made), f"{name}.parquet")
        else:
            feather.write_feather(pa.table(made), f"{name}.feather")


def _images(folder: Path) -> None:
    image_files.make_folder(folder / "images", classes=2)
    image_files.picture(5).save(folder / "photo.png")
    image_files.make_parquet(folder / "shards", shards=1)
    image_files.make_cifar(folder / "cifar", 10, "python")
    image_files.make_cifar(folder / "cifar-100", 100, "python")
    image_files.make_cifar(folder / "binary", 100, "binary")
    os.rename(image_files.make_archive(folder / "cifar-100"), folder / "cifar-100.tar.gz")
    shutil.rmtree(folder / "cifar-100")
    pixels = np.random.default_rng(3).integers(0, 256, (8, 8, 8, 3), dtype=np.uint8)
    labels = np.arange(8) % 2
    np.savez(
        folder / "images.npz",
        x_train=pixels,
        y_train=labels,
        x_test=pixels[::-1] // 2,
        y_test=labels,
        class_names=np.array(["cat", "dog"]),
    )
    lists = {
        split: sorted((folder / "images" / split).rglob("*.png")) for split in ("train", "test")
    }
    shutil.copytree(folder / "images", folder / "lists")
    for split, paths in lists.items():
        lines = [
            f"{p.relative_to(folder / 'images')} {int(p.parent.name == 'class1')}" for p in paths
        ]
        (folder / "lists" / f"{split}.lst").write_text("\n".join(lines) + "\n")
    (folder / "names.txt").write_text("class1\nclass0\n")
    (folder / "names.json").write_text(json.dumps({"one": ["class1"], "both": ["Class 1"]}))
    image_files.make_places(folder / "places", ["attic", "bazaar-outdoor"], "data_256")
    source = FolderSource(folder / "images")
    convert(source, folder / "converted", size=8, rule="crop")
    cached_images(source, size=8, rule="crop", cache_dir=folder / "kept")


def _trainings(folder: Path) -> None:
    (folder / "training.yaml").write_text(TRAINING)
    (folder / "experiment.yaml").write_text(EXPERIMENT)
    (folder / "schedules.yaml").write_text(SCHEDULES)
    made = made_up(targets=("strokes",), methods=("lwf",), states=(2,), name="tried")
    (folder / "results").mkdir()
    made.save(folder / "results")
    (folder / "results" / "reading.md").write_text(
        "## What it says\n\n- *little*, [here](x.html)\n"
    )
    done = run_here(
        "train",
        "--data",
        DATA,
        "--recipe",
        "ft-tiny",
        "--states",
        "2",
        "--device",
        "cpu",
        "-o",
        "run",
        "train.epochs=1",
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    experiment = load_experiment(str(folder / "experiment.yaml"))
    run_experiment(make_plan(experiment, folder / "done"), execute=local_executor(0), processes=1)

"""Files that transil wrote, altered in every place: one line says file and key, or no harm is done."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest
import torch

from report_results import made_up
from support import run_here
from transil import ScoreStore, TransilError
from transil._common.settings import plain
from transil._common.typed import Between, build, read_record
from transil.data.entries import Entry, EntrySplit, Meta
from transil.engine import RunConfig
from transil.engine.checkpoint import Checkpoint
from transil.engine.recipes import load_recipe
from transil.engine.run_folder import RunFolder
from transil.experiment.recipe import load_experiment
from transil.experiment.results import Asked, Choice, Results
from transil.report import parts, write_markdown, write_report

Document = dict[str, Any]


def nested(depth: int) -> list[Any]:
    made: list[Any] = []
    for _ in range(depth):
        made = [made]
    return made


GONE = object()
JUNK: list[Any] = [
    None, [], {}, "x", "7", True, -1, 0, 1.5, 2**63, 10**400, 1e300, [[1]], {"a": None}, ["x", "x"],
    "\ud800", "$\\x\0<b>|`", nested(20), nested(600), GONE,
]  # fmt: skip
# Of whole files; JSON's 1e999 is infinite, other infinities it does not know.
TEXTS = [b"", b"{", b"[]", b"3", b"\xff{}", b"[" * 10_000, b'{"a": 1, "a": 2}', b"9" * 5_000]


def ways(data: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to each value in a document; of a list its first and last item."""
    if way:
        yield way
    if isinstance(data, dict):
        for key in data:
            yield from ways(data[key], (*way, key))
    elif isinstance(data, list) and data:
        for number in sorted({0, len(data) - 1}):
            yield from ways(data[number], (*way, number))


def altered(data: Any, way: tuple[Any, ...], junk: Any) -> Any:
    data = place = copy.deepcopy(data)
    for key in way[:-1]:
        place = place[key]
    if junk is GONE:
        del place[way[-1]]
    else:
        place[way[-1]] = junk
    return data


def tried(read: Callable[[], Any], where: str) -> Any:
    """What is read, or None where it is refused in one line that names the file."""
    try:
        return read()
    except TransilError as error:
        text = str(error)
    assert where in text
    assert "\n" not in text
    assert len(text) < 700
    return None


# -- one of each format ------------------------------------------------------------------------


def results_of(folder: Path) -> Results:
    results = made_up(states=(3,), targets=("cifar100",), methods=("lwf",))
    choice = Choice("lwf", 3, 0, "adbic", "newton", {"x": 0.5}, {"x": 0.4}, {"cifar100": 0.3})
    facts = {
        "recipe": {
            "name": "x", "references": ["x"], "targets": ["cifar100", "b"], "methods": ["lwf"],
            "states": [3], "corrections": ["adbic"], "solvers": ["newton"], "joint": True,
            "solvers_of": {"adbic": ["newton"]}, "transfer": ["mean", "oracle"],
            "train_fraction": [1.0, 0.5], "seeds": [0, 1], "ablation": True, "own_bound": True,
        },
        "runs": [{"run": "a", "seed": 0, "seconds": 3.5, "commit": "abc", "device": "x",
                  "gpu_gigabytes": 1.5, "versions": {"torch": "2"}}],
        "data_sets": {"b": {"classes": ["x"], "size": 32, "images": {"train": 5}}},
        "classes_in_common": {"a and b": ["cat"]}, "same_names": {"a and b": ["dog"]},
        "references_of": {"b": ["x"]}, "versions": {"numpy": "2"}, "limits": ["small"],
        "solvers": ["newton"], "pixels": [32], "epochs": {"lwf": "3"}, "differs": "in all",
    }  # fmt: skip
    results = replace(results, choices=[choice], facts=facts)
    results.save(folder)
    return results


def text_of(folder: Path, name: str, data: Document) -> Path:
    (folder / name).write_text(json.dumps(data))
    return folder / name


def record_of(folder: Path) -> Path:
    past = {"sizes": [2, 2], "class_names": list("abcd"),
            "colours": {"mean": [0.5] * 3, "std": [0.25] * 3}}  # fmt: skip
    data = {"name": "set", "fingerprint": "0" * 64, "pixels": 16, "past": past}
    return text_of(
        folder, "run.json",
        {"format": "transil-run", "version": 1, "config": RunConfig(method="ft").to_dict(),
         "data": data, "versions": {"torch": "2"}},
    )  # fmt: skip


def label_map_of(folder: Path) -> Path:
    labels = [{"label": i, "class": str(i), "original": i, "group": 1} for i in range(3)]
    return text_of(
        folder, "label-map.json",
        {"format": "transil-label-map", "version": 1, "dataset": "set", "labels": labels,
         "schedule": {"sizes": [2, 1]}, "images": {"train": [2, 1]},
         "colours": {"mean": [0.5] * 3, "std": [0.25] * 3}},
    )  # fmt: skip


def meta_of(folder: Path) -> Path:
    split = EntrySplit((2, 4, 4, 3), 96, "0" * 64, "0" * 64)
    meta = Meta("set", ("a", "b"), "0" * 64, {"train": split}, (), 0)
    made = plain({**vars(meta), "splits": {"train": vars(split)}})
    return text_of(folder, "meta.json", {"format": "transil-images", "version": 1, **made})


def store_of(folder: Path) -> Path:
    scores = {"test": [(np.eye(2), [0, 1]), (np.eye(3), [0, 1, 2])], "val": [(np.eye(2), [0, 1])]}
    ScoreStore.from_arrays(scores, [2, 1], method="ft").save(folder)
    return folder / "store.json"


def run_of(folder: Path) -> tuple[Any, ...]:
    run = RunFolder(folder)
    return run.record(), run.config()


FORMATS: dict[str, tuple[Callable[[Path], Path], Callable[[Path], Any]]] = {
    "record": (record_of, run_of),
    "label map": (label_map_of, lambda folder: RunFolder(folder).label_map()),
    "store": (store_of, ScoreStore.open),
    "entry": (meta_of, Entry.read),
}


@pytest.mark.parametrize("name", FORMATS)
def test_every_place_of_a_file_may_be_junk(name: str, tmp_path: Path) -> None:
    make, read = FORMATS[name]
    path = make(tmp_path)
    good = json.loads(path.read_text())
    assert read(tmp_path) is not None
    refused, rng = 0, random.Random(0)
    for way in ways(good):
        for junk in rng.sample(JUNK, 8):
            path.write_text(json.dumps(altered(good, way, junk)))
            refused += tried(lambda: read(tmp_path), str(path)) is None
    assert refused > 40
    for raw in TEXTS:
        path.write_bytes(raw)
        assert tried(lambda: read(tmp_path), str(path)) is None


def test_every_fact_of_a_checkpoint_may_be_junk(tmp_path: Path) -> None:
    from safetensors.torch import save

    path = tmp_path / "current.safetensors"
    Checkpoint(2, 3, {"x": torch.ones(2)}, [0.5, 0.25], 1).save(path)
    good = {"state": 2, "epoch": 3, "losses": [0.5, 0.25], "batches": 1}
    assert Checkpoint.load(path).losses == [0.5, 0.25]

    def refused(text: str) -> bool:
        path.write_bytes(save({"x": torch.ones(2)}, {"transil": text}))
        return tried(lambda: Checkpoint.load(path), str(path)) is None

    for way in ways(good):
        for junk in JUNK:
            refused(json.dumps(altered(good, way, junk)))
    assert all(refused(raw.decode(errors="replace")) for raw in TEXTS)
    assert refused('{"state": 1e999, "epoch": 1, "losses": []}')
    assert not refused('{"state": 1, "epoch": 1, "losses": []}')  # of an early version


@pytest.mark.parametrize(("recipe", "read"), [("lwf-32", load_recipe), ("demo", load_experiment)])
def test_every_place_of_a_recipe_may_be_junk(
    recipe: str, read: Callable[[str], Any], tmp_path: Path
) -> None:
    from importlib import resources

    from transil._common.yaml_files import read_yaml
    from transil.engine import resolve

    package = "transil.recipes" if read is load_recipe else "transil.experiment.recipes"
    text = resources.files(package).joinpath(f"{recipe}.yaml").read_text()
    good, _ = read_yaml(text, recipe)
    path = tmp_path / "own.yaml"
    look = read if read is not load_recipe else lambda name: resolve(recipe=name)
    rng = random.Random(0)
    for way in ways(good):
        for junk in rng.sample(JUNK, 3):
            path.write_text(json.dumps(altered(good, way, junk)))  # JSON is YAML
            tried(lambda: look(str(path)), "")


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "_pictures", lambda _: ([], "not drawn here"))


@pytest.mark.usefixtures("undrawn")
def test_every_place_of_results_may_be_junk(tmp_path: Path) -> None:
    results_of(tmp_path)
    path, passed = tmp_path / "results.json", []
    good = json.loads(path.read_text())
    rng = random.Random(0)
    for way in ways(good):
        for junk in rng.sample(JUNK, 3):
            path.write_text(json.dumps(altered(good, way, junk)))
            results = tried(lambda: Results.load(tmp_path), str(path))
            passed += [results] if results is not None else []
    assert len(passed) > 100
    for results in rng.sample(passed, 25):
        if tried(partial(write_report, results, tmp_path / "report"), "") is not None:
            write_markdown(results, tmp_path / "report" / "page.md")
    for raw in TEXTS:
        path.write_bytes(raw)
        assert tried(lambda: Results.load(tmp_path), str(path)) is None


def test_figures_of_extreme_numbers_are_drawn(tmp_path: Path) -> None:
    """The largest values that may stand in results: matplotlib takes them."""
    results_of(tmp_path)
    good = json.loads((tmp_path / "results.json").read_text())
    for cell in good["cells"]:
        cell |= {"average": 1, "gain": -1.0, "low": -1, "high": 1} if cell["gain"] else {}
    for detail in good["details"]:
        detail |= {"mean_score": [1e38, -1e38, 0], "score_deviation": [1e38, 0, 0]}
    for pair in good["pairs"]:
        pair |= {"alpha": [[1e38] * 3] * 5, "beta": [[-1e38, 1e38, 0]] * 5}
    (tmp_path / "results.json").write_text(json.dumps(good))
    write_report(Results.load(tmp_path), tmp_path / "report")
    assert len(list((tmp_path / "report" / "figures").glob("*.png"))) > 4


@pytest.mark.parametrize(
    ("way", "junk", "says"),
    [
        (("cells", 3, "setting", "states"), "5", "cells[3].setting.states is '5', but must be a whole"),
        (("cells", 3, "average"), "0.5", "cells[3].average is '0.5', but must be a number"),
        (("cells", 3, "average"), -0.1, "cells[3].average is -0.1; it must be 0 to 1"),
        (("cells", 3, "gain"), 10**400, "cells[3].gain is inf; it must be a finite number"),
        (("cells", 3, "run"), None, "cells[3].run is None, but must be a text"),
        (("cells", 3, "run"), GONE, "cells[3].run is missing"),
        (("cells", 3), [1], "cells[3] is [1], but must be an object"),
        (("cells",), GONE, "cells is missing"),
        (("name",), nested(200), "name is [[[[[[[...]]]]]]], but must be a text"),
        (("details", 0, "mean_score"), [1.0], "details[0]: mean_score has 1 entries, for 3 states"),
        (("details", 0, "group_accuracy"), [[]] * 3, "details[0]: group_accuracy[0] has 0 entries,"),
        (("pairs", 0, "alpha"), [[1.0]], "pairs[0]: alpha has 1 entries, for 5 references"),
        (("ablations", 0, "draws"), [], "ablations[0]: draws has 0 entries, for 4 counts"),
        (("choices", 0, "raw"), {}, "choices[0]: left_out and raw are of other references"),
        (("facts", "recipe", "states"), ["x"], "facts.recipe.states[0] is 'x', but must be a whole"),
        (("facts", "recipe", "seeds"), list(range(99_999)), "facts.recipe: it asks for 399,996"),
        (("facts", "runs"), nested(40), "facts is nested too deep"),
        (("facts", "x"), "\ud800", "facts.x is '\\ud800', but must be a text without halves"),
        (("version",), True, "format version True, but this transil reads version 1"),
    ],
)  # fmt: skip
def test_report_tells_file_and_key(
    tmp_path: Path, way: tuple[Any, ...], junk: Any, says: str
) -> None:
    results_of(tmp_path)
    path = tmp_path / "results.json"
    path.write_text(json.dumps(altered(json.loads(path.read_text()), way, junk)))
    before = sorted(tmp_path.rglob("*"))
    done = run_here("report", ".", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("error: results.json: ")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before


def test_results_of_early_versions_are_read(tmp_path: Path) -> None:
    results = results_of(tmp_path)
    path = tmp_path / "results.json"
    early = json.loads(path.read_text())
    del early["choices"]
    early["cells"][0]["something-newer"] = 3  # of a later version: left out
    path.write_text(json.dumps(early))
    assert Results.load(tmp_path) == replace(results, choices=[])
    assert Asked.of({"recipe": {"targets": ["a"]}}) == Asked(targets=["a"])


def test_types_are_read_exactly() -> None:
    """Whatever a dataclass may declare; numbers of NumPy are not those of a file."""
    share = Annotated[float, Between(0, 1)]
    good: list[tuple[Any, Any, Any]] = [
        (tuple[int, str], [1, "a"], (1, "a")),
        (dict[str, tuple[share, ...]], {"a": [0, 1.0]}, {"a": (0.0, 1.0)}),
        (int | list[str] | None, ["a"], ["a"]),
        (float, 3, 3.0),
        (Any, {"a": [1, None]}, {"a": [1, None]}),
    ]
    for hint, value, made in good:
        assert read_record(value, hint, "x") == made
    bad: list[tuple[Any, Any]] = [
        (tuple[int, str], [1]), (list[int], "12"), (list[int], {"0": 1}), (int, True), (int, 1.0),
        (float, "1"), (float, np.float32(1)), (float, True), (share, 1.5), (dict[str, int], [1]),
        (int | None, "x"), (Any, float("nan")), (Any, [float("inf")]), (int, 2**63), (bool, 1),
        (str, b"x"), (Any, 10**400),
    ]  # fmt: skip
    for hint, value in bad:
        with pytest.raises(TransilError, match="x: "):
            read_record(value, hint, "x")


def test_a_field_may_be_called_as_python_calls_something(tmp_path: Path) -> None:
    label_map_of(tmp_path)
    assert RunFolder(tmp_path).label_map().class_names == ("0", "1", "2")


def test_settings_are_read_as_people_write_them() -> None:
    config = build(RunConfig, {"train": {"lr": "1e-3", "drops": ["0.5"]}}, "x")
    assert (config.train.lr, config.train.drops) == (1e-3, (0.5,))
    with pytest.raises(TransilError, match=r"x, line 7: train.lr is 'fast', but must be a number"):
        build(RunConfig, {"train": {"lr": "fast"}}, "x", {"train.lr": 7})
    with pytest.raises(TransilError, match=r"x: settings.a is nan; it must be a finite number"):
        build(RunConfig, {"settings": {"a": float("nan")}}, "x")

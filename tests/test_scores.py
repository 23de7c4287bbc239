from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from support import UNEQUAL, unequal_store
from transil import ScoreStore, TransilError, evaluate
from transil._common.files import atomic_file, read_json, write_json
from transil.correction.scales import measured_scales
from transil.errors import DataWarning


def _files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_round_trip_through_a_folder(tmp_path: Path) -> None:
    store = unequal_store()
    store.save(tmp_path / "s")
    again = ScoreStore.open(tmp_path / "s")
    assert again.schedule.sizes == tuple(UNEQUAL)
    assert (again.method, again.dataset, again.kind) == ("generated", "generated-0", "logit")
    assert again.splits == ("test", "val")
    assert again.states("val") == (1, 2, 3, 4, 5)
    for split, state in store:
        a, b = store.get(split, state), again.get(split, state)
        np.testing.assert_array_equal(a.scores, b.scores)
        np.testing.assert_array_equal(a.labels, b.labels)
        np.testing.assert_array_equal(a.columns, b.columns)
    assert store.fingerprint() == again.fingerprint()


def test_the_same_store_gives_the_same_bytes(tmp_path: Path) -> None:
    unequal_store().save(tmp_path / "a")
    unequal_store().save(tmp_path / "b")
    assert _files(tmp_path / "a") == _files(tmp_path / "b")


def test_reading_is_lazy_and_mapped(tmp_path: Path) -> None:
    unequal_store().save(tmp_path)
    (
        tmp_path / json.loads((tmp_path / "store.json").read_text())["splits"]["val"]["2"]["file"]
    ).unlink()
    store = ScoreStore.open(tmp_path)  # a file is missed only when it is asked for
    scores = store.get("val", 1).scores
    assert not scores.flags.owndata
    assert not scores.flags.writeable
    with pytest.raises(TransilError, match="cannot read .*val-02.*No such file"):
        store.get("val", 2)


def test_float16_halves_the_files_and_keeps_the_labels(tmp_path: Path) -> None:
    full = unequal_store().save(tmp_path / "full")
    half = unequal_store().save(tmp_path / "half", dtype="float16")
    assert half.get("test", 5).scores.dtype == np.float16
    np.testing.assert_allclose(
        half.get("test", 5).scores, full.get("test", 5).scores, rtol=1e-3, atol=1e-3
    )
    np.testing.assert_array_equal(half.get("test", 5).labels, full.get("test", 5).labels)
    with pytest.raises(TransilError, match="too large for float16"):
        ScoreStore.from_arrays({"test": [([[1e6, 0.0]], [0])]}, [2]).save(tmp_path / "x", "float16")


def test_lists_tensors_and_class_labels(tmp_path: Path) -> None:
    scores = torch.tensor([[1.0, 2.0], [0.5, 0.1]], dtype=torch.bfloat16)
    store = ScoreStore.from_arrays(
        {"test": {1: (scores, torch.tensor([30.0, 7.0]))}}, [[7, 30], [1]], method="x"
    )
    assert store.get("test", 1).scores.dtype == np.float32
    assert store.get("test", 1).labels.tolist() == [30, 7]
    assert store.get("test", 1).columns.tolist() == [1, 0]
    again = store.save(tmp_path)
    assert ScoreStore.open(tmp_path).schedule.groups == ((7, 30), (1,))
    assert again.get("test", 1).columns.tolist() == [1, 0]


def test_a_store_on_disk_grows_state_by_state(tmp_path: Path) -> None:
    store = ScoreStore.create(tmp_path, [2, 2], method="m")
    store.put("test", 1, np.zeros((3, 2)), [0, 1, 1])
    assert ScoreStore.open(tmp_path).states("test") == (1,)
    store.put("test", 2, np.zeros((3, 4)), [0, 3, 2])
    store.put("test", 1, np.ones((3, 2)), [0, 1, 1])  # replaced: the old file goes
    again = ScoreStore.open(tmp_path)
    assert again.states("test") == (1, 2)
    assert again.get("test", 1).scores.min() == 1.0
    assert len(list(tmp_path.glob("*.safetensors"))) == 2


def test_saving_over_a_store_replaces_it(tmp_path: Path) -> None:
    unequal_store(seed=0).save(tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    unequal_store(seed=1, splits=("test",)).save(tmp_path)
    assert ScoreStore.open(tmp_path).splits == ("test",)
    assert len(list(tmp_path.glob("*.safetensors"))) == 5
    assert (tmp_path / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("state", "scores", "labels", "words"),
    [
        (2, np.zeros((2, 3)), [0, 1], "split 'val', state 2: 3 columns, but state 2 has 4"),
        (1, np.zeros((2, 4)), [0, 1], "keep the 2 columns of the classes seen so far"),
        (1, np.zeros((2, 2)), [0, 2], "state 1: label 2 in row 1 is not one of the 2 classes"),
        (1, np.zeros((2, 2)), [0, 0.5], "label 0.5 in row 1 is not a whole number"),
        (1, np.zeros((2, 2)), ["a", "b"], "labels must be whole numbers"),
        (1, np.zeros((2, 2)), [0], "2 rows of scores but labels of shape"),
        (1, np.zeros((0, 2)), [], "no rows"),
        (1, np.zeros(2), [0, 1], "must be a table"),
        (1, np.zeros((2, 2), dtype=int), [0, 1], "floating-point scores"),
        (1, np.array([[0, 1], [np.inf, 0]]), [0, 1], "score inf in row 1, column 0"),
        (3, np.zeros((2, 2)), [0, 1], "states 1 to 2"),
    ],
)
def test_bad_arrays_are_told(state: int, scores: Any, labels: Any, words: str) -> None:
    with pytest.raises(TransilError, match=words):
        ScoreStore.from_arrays({"val": {state: (scores, labels)}}, [2, 2])


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ([(np.zeros((1, 2)), [0])], "expected {split:.*, not list"),
        ({"val": [np.zeros((1, 2))]}, "split 'val', state 1: expected a pair"),
        ({"val": (np.zeros((1, 2)), [0])}, "split 'val', state 1: expected a pair"),
        ({"val": {2: (np.zeros((1, 2)), [0], 1)}}, "split 'val', state 2: expected a pair"),
    ],
)
def test_arrays_are_pairs_by_split(arrays: Any, words: str) -> None:
    with pytest.raises(TransilError, match=words):
        ScoreStore.from_arrays(arrays, [2])


def test_missing_states_and_splits_are_told() -> None:
    store = ScoreStore.from_arrays({"val": {1: (np.zeros((1, 2)), [0])}}, [2, 2])
    with pytest.raises(TransilError, match=r"lacks state 2; the schedule has 2 states"):
        store.require("val")
    with pytest.raises(TransilError, match=r"no split 'test' \(there are: val 1\)"):
        store.require("test")
    with pytest.raises(TransilError, match=r"no scores of split 'val', state 2"):
        store.get("val", 2)


def test_an_unfinished_store_is_evaluated_as_far_as_it_goes() -> None:
    whole = unequal_store()
    begun = ScoreStore.from_arrays({}, whole.schedule)
    for state in (1, 2, 3):
        data = whole.get("test", state)
        begun.put("test", state, data.scores, data.labels)
    with pytest.warns(DataWarning, match="has the states 1 to 3 of 5, and no others are judged"):
        found = evaluate(begun)
    assert [s.accuracy for s in found.states] == [s.accuracy for s in evaluate(whole).states[:3]]
    assert sorted(measured_scales(begun)) == [2, 3]
    with pytest.raises(TransilError, match="no split 'tset'"):
        measured_scales(begun, "tset")
    gap = ScoreStore.from_arrays({"test": {3: (data.scores, data.labels)}}, whole.schedule)
    with pytest.raises(TransilError, match="lacks state 1"):
        evaluate(gap)


def test_a_manifest_cannot_point_out_of_its_folder(tmp_path: Path) -> None:
    unequal_store().save(tmp_path)
    manifest = read_json(tmp_path / "store.json")
    manifest["splits"]["val"]["1"]["file"] = "../outside.safetensors"
    write_json(tmp_path / "store.json", manifest)
    with pytest.raises(TransilError, match="damaged manifest"):
        ScoreStore.open(tmp_path)


# -- writes that are whole or not there --------------------------------------------------------


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt), atomic_file(path) as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert _files(tmp_path) == {"file": b"old"}


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    path = tmp_path / "bank.json"
    write_json(path, {"a": 1})
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(TransilError, match=r"cannot write .*bank.json: No space left on device"):
        write_json(path, {"a": 2})
    assert read_json(path) == {"a": 1}
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("moment", range(1, 13))
def test_a_store_survives_being_killed_while_it_is_replaced(tmp_path: Path, moment: int) -> None:
    # SIGKILL at the n-th rename of overwriting a store: the old one must still be whole.
    unequal_store(seed=0).save(tmp_path)
    before = ScoreStore.open(tmp_path).fingerprint()
    script = f"""
import os, signal
real, count = os.replace, 0
def replace(a, b):
    global count
    count += 1
    if count == {moment}:
        os.kill(os.getpid(), signal.SIGKILL)
    real(a, b)
os.replace = replace
from support import unequal_store
unequal_store(seed=1).save({str(tmp_path)!r})
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=Path(__file__).parent, timeout=60)
    store = ScoreStore.open(tmp_path)
    scores = [store.get(split, state).scores.sum() for split, state in store]
    assert len(scores) == 10
    if moment <= 11:  # ten data files and the manifest
        assert done.returncode == -9
        assert store.fingerprint() == before
    else:
        assert done.returncode == 0
        assert store.fingerprint() == unequal_store(seed=1).fingerprint()


def test_devices_are_not_replaced(tmp_path: Path) -> None:
    with pytest.raises(TransilError, match="a device or pipe"):
        write_json("/dev/null", {})
    assert Path("/dev/null").is_char_device()
    with pytest.raises(TransilError, match="it is a folder"):
        write_json(tmp_path, {})

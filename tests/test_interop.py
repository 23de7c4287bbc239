"""Scores and banks from other people's files."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from support import UNEQUAL, unequal_store
from transil import ScoreStore, TransilError, evaluate, fit
from transil.adaptation.score_files import correct_file
from transil.interop import dkt
from transil.scores import array_files
from transil.scores import folders as score_folders
from transil.scores.array_files import load_named, load_safely
from transil.testing import biased_scores


def write_released_layout(store: ScoreStore, folder: Path, swap: int = 0) -> Path:
    """`store` as the authors would have written it; `swap` rows move to another group's file."""
    folder.mkdir(parents=True)
    for split, state in store:
        name = {"val": "val", "test": "tst"}[split]
        data = store.get(split, state)
        file_of = store.schedule.group_of_column(state)[data.columns] - 1
        if state > 1:
            file_of[:swap] = state - 1
        for u in range(state):
            rows = file_of == u
            scores = torch.from_numpy(np.array(data.scores[rows]))
            labels = torch.from_numpy(data.labels[rows]).float()
            torch.save(scores, folder / f"logits_{name}_{state - 1}_{u}.ckpt")
            torch.save(labels, folder / f"labels_{name}_{state - 1}_{u}.ckpt")
    return folder


def write_released_bank(folder: Path, states: int) -> Path:
    """Parameters as the authors would have written them: alpha_k = 1 + k / 10 + t, beta_k = k."""
    folder.mkdir(parents=True)
    for t in range(states):
        layers = {}
        for k in range(t + 1):
            layers[f"bias_layers.{k}.alpha"] = torch.tensor([1 + k / 10 + t], dtype=torch.float64)
            layers[f"bias_layers.{k}.beta"] = torch.tensor([float(k)], dtype=torch.float64)
        torch.save(layers, folder / f"bic_model_{t}.ckpt")
    return folder


class Malicious:
    """A pickle that makes a file when it is loaded carelessly."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.mark),)


def write_malicious(path: Path, mark: Path, style: str) -> None:
    if style == "torch":
        torch.save({"scores": Malicious(mark)}, path)
    else:
        path.write_bytes(pickle.dumps(Malicious(mark), protocol=2))


# -- the authors' layout -----------------------------------------------------------------------


@pytest.mark.parametrize("inner", ["", "logits"])
def test_released_layout_with_unequal_groups(tmp_path: Path, inner: str) -> None:
    store = unequal_store()
    write_released_layout(store, tmp_path / "logits_siw_s5" / inner)
    read = dkt.import_scores(tmp_path / "logits_siw_s5")
    assert read.method == "siw"
    assert read.schedule.sizes == tuple(UNEQUAL)
    for split, state in store:
        np.testing.assert_array_equal(read.get(split, state).scores, store.get(split, state).scores)
        np.testing.assert_array_equal(read.get(split, state).labels, store.get(split, state).labels)


def test_labels_tell_the_group_not_the_file(tmp_path: Path) -> None:
    store = unequal_store()
    read = dkt.import_scores(write_released_layout(store, tmp_path / "x", swap=7))
    for split, state in store:
        a, b = store.get(split, state), read.get(split, state)
        order_a, order_b = (np.lexsort(d.scores.T) for d in (a, b))
        np.testing.assert_array_equal(a.scores[order_a], b.scores[order_b])
        np.testing.assert_array_equal(a.labels[order_a], b.labels[order_b])


def test_released_layout_mistakes(tmp_path: Path) -> None:
    folder = write_released_layout(unequal_store(splits=("val",)), tmp_path / "x")
    (folder / "labels_val_3_1.ckpt").rename(tmp_path / "away")
    with pytest.raises(TransilError, match=r"labels_val_3_1.ckpt is missing"):
        dkt.import_scores(folder)
    (tmp_path / "away").rename(folder / "labels_val_3_1.ckpt")
    for name in ("logits_val_2_0.ckpt", "logits_val_2_1.ckpt", "logits_val_2_2.ckpt"):
        (folder / name).rename(tmp_path / name)
    with pytest.raises(TransilError, match=r"logits_val_2_0.ckpt is missing"):
        dkt.import_scores(folder)
    (tmp_path / "empty").mkdir()
    with pytest.raises(TransilError, match=r"no files logits_"):
        dkt.import_scores(tmp_path / "empty")
    with pytest.raises(TransilError, match=r"no such folder"):
        dkt.import_scores(tmp_path / "nowhere")
    torch.save(torch.zeros(3, 9), folder / "logits_val_2_0.ckpt")
    for u in (1, 2):
        (tmp_path / f"logits_val_2_{u}.ckpt").rename(folder / f"logits_val_2_{u}.ckpt")
    with pytest.raises(
        TransilError, match=r"logits_val_2_1.ckpt: 65 columns, but group 0 .* has 9"
    ):
        dkt.import_scores(folder)


def test_released_parameters(tmp_path: Path) -> None:
    folder = write_released_bank(tmp_path / "bic_models_lwf_s5", 5)
    bank = dkt.import_bank(folder)
    assert (bank.method, bank.correction.name) == ("lwf", "adbic")
    assert bank.schedule.sizes == (20,) * 5
    assert bank.applied(3).alpha.tolist() == pytest.approx([3.0, 3.1, 3.2])
    assert bank.applied(3).beta.tolist() == [0.0, 1.0, 2.0]
    single = dkt.import_bank(folder, correction="bic", classes=50, method="x")
    assert single.applied(3).alpha.tolist() == pytest.approx([1.0, 1.0, 3.2])
    unequal = dkt.import_bank(folder, schedule=unequal_store().schedule)
    assert unequal.schedule.sizes == tuple(UNEQUAL)


def test_released_parameter_mistakes(tmp_path: Path) -> None:
    folder = write_released_bank(tmp_path / "b", 4)
    torch.save({"bias_layers.0.alpha": torch.ones(1)}, folder / "bic_model_2.ckpt")
    with pytest.raises(TransilError, match=r"bic_model_2.ckpt: expected 'bias_layers.0.alpha'"):
        dkt.import_bank(folder)
    (folder / "bic_model_2.ckpt").unlink()
    with pytest.raises(TransilError, match="without a gap, but the states found are 0, 1, 3"):
        dkt.import_bank(folder)


# -- safe reading ------------------------------------------------------------------------------


@pytest.mark.parametrize("style", ["torch", "pickle"])
def test_a_malicious_pickle_is_not_executed(tmp_path: Path, style: str) -> None:
    path, mark = tmp_path / "x.ckpt", tmp_path / "mark"
    write_malicious(path, mark, style)
    with pytest.raises(TransilError, match="refused, it is not a file of plain tensors"):
        load_safely(path)
    assert not mark.exists()
    with pytest.raises(TransilError, match="not a plain .npy file"):
        array_files.load_array(path)
    assert not mark.exists()


def test_damaged_torch_files(tmp_path: Path) -> None:
    path = tmp_path / "x.ckpt"
    torch.save(torch.zeros(1000), path)
    path.write_bytes(path.read_bytes()[:600])
    with pytest.raises(TransilError, match=r"x\.ckpt: (cut short|refused)"):
        load_named(path)
    path.write_bytes(b"")
    with pytest.raises(TransilError, match=r"x\.ckpt: (cut short|refused)"):
        load_named(path)
    torch.save([torch.zeros(1)], path)
    with pytest.raises(TransilError, match="expected one tensor, found list"):
        load_named(path)
    with pytest.raises(TransilError, match="cannot read .*nothing"):
        load_named(tmp_path / "nothing.ckpt")


# -- NumPy files -------------------------------------------------------------------------------


def _numpy_arrays(store: ScoreStore) -> dict[str, Any]:
    arrays: dict[str, Any] = {}
    for split, state in store:
        arrays[f"scores_{split}_{state}"] = np.array(store.get(split, state).scores)
        arrays[f"labels_{split}_{state}"] = store.get(split, state).labels
    return arrays


def write_numpy_folder(store: ScoreStore, folder: Path) -> Path:
    folder.mkdir(parents=True)
    for name, array in _numpy_arrays(store).items():
        np.save(folder / f"{name}.npy", array)
    return folder


@pytest.mark.parametrize("form", ["folder", "npz", "tensors", "pt"])
@pytest.mark.parametrize("with_schedule", [True, False])
def test_numpy_files(tmp_path: Path, form: str, with_schedule: bool) -> None:
    store = unequal_store()
    path = tmp_path / f"x.{form}"
    tensors = {name: torch.from_numpy(array) for name, array in _numpy_arrays(store).items()}
    if form == "folder":
        path = write_numpy_folder(store, tmp_path / "x")
    elif form == "npz":
        np.savez_compressed(path, **_numpy_arrays(store))
    elif form == "pt":
        torch.save(tensors, path)
    else:
        path.mkdir()
        for name, tensor in tensors.items():
            torch.save(tensor, path / f"{name}.pt")
    assert score_folders.is_ours(path)
    schedule = store.schedule if with_schedule else None
    read = score_folders.import_scores(path, score_folders.Facts(schedule, "generated"))
    assert read.fingerprint() == store.fingerprint()


def test_tensors_that_are_no_scores(tmp_path: Path) -> None:
    torch.save([torch.zeros(1)], tmp_path / "list.pt")
    with pytest.raises(TransilError, match="list.pt: expected one tensor, found list"):
        score_folders.import_scores(tmp_path / "list.pt")
    torch.save({"scores_val_1": [[1.0], [1.0, 2.0]]}, tmp_path / "ragged.pt")
    with pytest.raises(TransilError, match="scores_val_1 is a list; expected a tensor"):
        score_folders.import_scores(tmp_path / "ragged.pt")
    folder = write_numpy_folder(unequal_store(), tmp_path / "x")
    torch.save(torch.zeros(1, 50), folder / "scores_val_1.pt")
    with pytest.raises(TransilError, match="scores_val_1 is there twice"):
        score_folders.import_scores(folder)
    assert not score_folders.is_ours(tmp_path)


def test_numpy_mistakes(tmp_path: Path) -> None:
    folder = write_numpy_folder(unequal_store(splits=("val",)), tmp_path / "x")
    (folder / "labels_val_2.npy").rename(tmp_path / "labels")
    with pytest.raises(TransilError, match="labels_val_2 is missing beside scores_val_2"):
        score_folders.import_scores(folder)
    (folder / "scores_val_2.npy").unlink()
    with pytest.raises(TransilError, match=r"group sizes cannot be read off .*--schedule"):
        score_folders.import_scores(folder)
    with pytest.raises(TransilError, match="no arrays scores_SPLIT_STATE"):
        score_folders.import_scores(tmp_path)
    np.save(tmp_path / "one.npy", np.zeros(3))
    with pytest.raises(TransilError, match="one.npy: not a file of several arrays"):
        score_folders.import_scores(tmp_path / "one.npy")
    (tmp_path / "no.npz").write_bytes(b"PK\x03\x04 not really")
    with pytest.raises(TransilError, match="not an .npz file"):
        score_folders.import_scores(tmp_path / "no.npz")
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(TransilError, match="not a plain .npy file"):
        array_files.load_array(tmp_path / "objects.npy")
    np.savez(tmp_path / "many.npz", scores_val_1=np.zeros(100))
    with pytest.raises(TransilError, match="not a plain .npy file"):
        array_files.load_array(tmp_path / "many.npz")
    damaged = bytearray((tmp_path / "many.npz").read_bytes())
    damaged[200] ^= 255
    (tmp_path / "many.npz").write_bytes(bytes(damaged))
    with pytest.raises(TransilError, match=r"many.npz: a damaged .npz file"):
        score_folders.import_scores(tmp_path / "many.npz")


# -- one file in, one file out -----------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_correct_a_file_in_blocks(
    tmp_path: Path, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transil.adaptation.score_files.BLOCK", 700)  # seven rows at a time
    bank = fit(unequal_store(1, splits=("val",)))
    scores = np.array(unequal_store(2).get("test", 5).scores).astype(dtype)
    np.save(tmp_path / "in.npy", scores)
    seen: list[float] = []
    done = correct_file(
        tmp_path / "in.npy",
        tmp_path / "out.npy",
        bank,
        progress=lambda share, _: seen.append(share),
    )
    assert done == (5, len(scores))
    out = np.load(tmp_path / "out.npy")
    assert out.dtype == scores.dtype
    np.testing.assert_array_equal(out, bank.correct(scores, 5))
    assert seen == sorted(seen)
    assert seen[-1] == 1.0


def test_correct_fortran_order_and_torch_files(tmp_path: Path) -> None:
    bank = fit(unequal_store(1, splits=("val",)))
    scores = np.array(unequal_store(2).get("test", 3).scores)
    expected = bank.correct(scores, 3)
    np.save(tmp_path / "in.npy", np.asfortranarray(scores))
    correct_file(tmp_path / "in.npy", tmp_path / "out.npy", bank, 3)
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), expected)
    torch.save(torch.from_numpy(scores), tmp_path / "in.pt")
    correct_file(tmp_path / "in.pt", tmp_path / "out.pt", bank, 3)
    np.testing.assert_array_equal(load_named(tmp_path / "out.pt").numpy(), expected)
    with pytest.raises(TransilError, match="unknown kind of file"):
        correct_file(tmp_path / "in.txt", tmp_path / "out.npy", bank, 3)


def test_correcting_a_file_onto_itself(tmp_path: Path) -> None:
    bank = fit(unequal_store(1, splits=("val",)))
    scores = np.array(unequal_store(2).get("test", 3).scores)
    np.save(tmp_path / "x.npy", scores)
    correct_file(tmp_path / "x.npy", tmp_path / "x.npy", bank, 3)
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), bank.correct(scores, 3))


def test_numpy_scores_are_of_the_kind_that_is_said(tmp_path: Path) -> None:
    store = biased_scores("12/3", images_per_class=4)
    arrays: dict[str, Any] = {}
    for split, state in store:
        data = store.get(split, state)
        arrays[f"scores_{split}_{state}"] = data.scores
        arrays[f"labels_{split}_{state}"] = data.labels
        for name in ("scores", "labels"):
            np.save(tmp_path / f"{name}_{split}_{state}.npy", arrays[f"{name}_{split}_{state}"])
    np.savez(tmp_path / "all.npz", **arrays)
    bank = fit(store)
    for source in (tmp_path, tmp_path / "all.npz"):
        read = score_folders.import_scores(source)
        assert read.kind == "logit"
        assert evaluate(read, bank).last_accuracy == evaluate(store, bank).last_accuracy
        assert (
            score_folders.import_scores(source, score_folders.Facts(kind="cosine")).kind == "cosine"
        )

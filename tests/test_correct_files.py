"""`transil correct` on files with columns in another order, or with several arrays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
import torch
from pyarrow import parquet
from safetensors.torch import save_file

from support import ok_here, run_here
from transil import Bank, fit, load_bank
from transil.adaptation.score_files import correct_file
from transil.testing import biased_scores

ORDER = [3, 0, 11, 5, 1, 2, 10, 4, 6, 9, 8, 7]


@pytest.fixture
def bank(tmp_path: Path) -> Bank:
    made = fit([biased_scores("12/3", seed=seed) for seed in (1, 2)])
    made.save(tmp_path / "bank.json")
    return made


@pytest.fixture
def scores() -> Any:
    return np.array(biased_scores("12/3", seed=9, images_per_class=10).get("test", 3).scores)


def read(path: Path) -> Any:
    if path.suffix == ".csv":
        return np.loadtxt(path, delimiter=",")
    return np.load(path) if path.suffix == ".npy" else torch.load(path).numpy()


@pytest.mark.parametrize(
    ("given", "made"), [("npy", "npy"), ("npy", "pt"), ("pt", "pt"), ("csv", "csv")]
)
@pytest.mark.parametrize("more", [(), ("--rescale",)])
def test_columns_in_another_order(
    bank: Bank, scores: Any, tmp_path: Path, given: str, made: str, more: tuple[str, ...]
) -> None:
    mine = np.empty_like(scores)
    mine[:, ORDER] = scores
    np.save(tmp_path / "in.npy", mine)
    torch.save(torch.from_numpy(mine), tmp_path / "in.pt")
    np.savetxt(tmp_path / "in.csv", mine, delimiter=",")
    (tmp_path / "order.json").write_text(json.dumps(ORDER))
    expected = bank.correct(scores, 3, rescale=bool(more))
    for order in ("order.json", ",".join(map(str, ORDER))):
        words = ("correct", f"in.{given}", "--bank", "bank.json", "--order", order, *more)
        ok_here(*words, "-o", f"out.{made}", cwd=tmp_path)
        found = read(tmp_path / f"out.{made}")
        np.testing.assert_allclose(found[:, ORDER], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("order", "says"),
    [
        ("3,0,x", "--order '3,0,x': give columns from 0, as 3,0,2,1, or a .json file of them"),
        ("3,0", "order: it names 2 columns, but the scores have 12; name each once, from 0"),
        ("none.json", "none.json"),
        ("wrong.json", "wrong.json: expected a list of columns, whole numbers from 0"),
    ],
)
def test_an_order_that_is_none(
    bank: Bank, scores: Any, tmp_path: Path, order: str, says: str
) -> None:
    (tmp_path / "wrong.json").write_text('{"order": [1.5]}')
    np.save(tmp_path / "in.npy", scores)
    words = ("correct", "in.npy", "--bank", "bank.json", "-o", "out.npy", "--order", order)
    done = run_here(*words, cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert says in done.stderr
    assert not (tmp_path / "out.npy").exists()


def test_a_head_with_masked_classes_to_come_is_told_with_its_state(
    bank: Bank, scores: Any, tmp_path: Path
) -> None:
    scores[:, 8:] = -np.inf
    np.save(tmp_path / "in.npy", scores)
    done = run_here("correct", "in.npy", "--bank", "bank.json", "-o", "out.npy", cwd=tmp_path)
    assert done.returncode == 2
    assert "in.npy: 8 of the 12 columns hold scores" in done.stderr
    assert "likely in state 2; keep the first 8 columns" in done.stderr


def write_named(folder: Path, kind: str, scores: Any) -> None:
    """The scores beside labels, in a file that holds both."""
    tensors = {"labels": torch.zeros(len(scores)), "logits": torch.from_numpy(scores)}
    if kind == "npz":
        np.savez(folder / "in.npz", labels=np.zeros(len(scores)), logits=scores)
    elif kind == "safetensors":
        save_file(tensors, folder / "in.safetensors")
    else:
        torch.save({**tensors, "epoch": 3}, folder / "in.pt")


@pytest.mark.parametrize("kind", ["npz", "pt", "safetensors"])
def test_one_of_several_arrays(bank: Bank, scores: Any, tmp_path: Path, kind: str) -> None:
    write_named(tmp_path, kind, scores)
    words = ("correct", f"in.{kind}", "--bank", "bank.json", "-o")
    for made in ("out.npy", "out.pt"):
        ok_here(*words, made, "--key", "logits", cwd=tmp_path)
        found = read(tmp_path / made)
        np.testing.assert_allclose(found, bank.correct(scores, 3), rtol=1e-5, atol=1e-5)
    shape = " x ".join(map(str, scores.shape))
    for more, says in (
        ((), f"in.{kind}: it holds labels ({len(scores)}), logits ({shape}); say which are the "
             "scores: --key logits"),
        (("--key", "logit"), f"in.{kind}: no array 'logit' in it; did you mean 'logits'"),
        (("--key", "labels"), f"in.{kind}: expected a table (rows, columns), found shape"),
    ):  # fmt: skip
        done = run_here(*words, "no.npy", *more, cwd=tmp_path)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert says in done.stderr


def test_the_only_array_need_not_be_named(bank: Bank, scores: Any, tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", scores)
    torch.save({"x": torch.from_numpy(scores)}, tmp_path / "in.pt")
    np.save(tmp_path / "in.npy", scores)
    (tmp_path / "in.safetensors").write_bytes(b"none")
    for kind in ("npz", "pt"):
        ok_here("correct", f"in.{kind}", "--bank", "bank.json", "-o", "out.npy", cwd=tmp_path)
        np.testing.assert_array_equal(read(tmp_path / "out.npy"), bank.correct(scores, 3))
    for words, says in (
        (("in.npy", "--key", "x"), "in.npy: it holds one array, without a name; leave out --key x"),
        (("in.safetensors",), "in.safetensors: cut short or no safetensors file"),
    ):
        done = run_here("correct", *words, "--bank", "bank.json", "-o", "no.npy", cwd=tmp_path)
        assert says in done.stderr


@pytest.mark.parametrize("form", ["list_", "large_list", "fixed"])
def test_lists_in_one_column_of_parquet(bank: Bank, scores: Any, tmp_path: Path, form: str) -> None:
    number = pyarrow.float32()
    kind = pyarrow.list_(number, 12) if form == "fixed" else getattr(pyarrow, form)(number)
    lists = pyarrow.array(scores.tolist(), kind)
    table = pyarrow.table({"id": np.arange(len(scores)), "logits": lists})
    parquet.write_table(table, tmp_path / "in.parquet", row_group_size=50)
    words = ("correct", "in.parquet", "--bank", "bank.json", "-o", "out.parquet")
    ok_here(*words, "--key", "logits", cwd=tmp_path)
    found = parquet.read_table(tmp_path / "out.parquet")
    assert found.schema.field("logits").type == kind
    assert found.column("id").equals(table.column("id"))
    made = np.array(found.column("logits").to_pylist(), dtype=np.float32)
    np.testing.assert_array_equal(made, bank.correct(scores, 3))
    for more, says in (
        ((), "1 columns of numbers, but a model has 4, 8, 12 classes; 'logits' holds lists: where"),
        (("--key", "id"), "no column 'id' of lists of numbers; "),
        (("--key", "logits", "--state", "2"), "lists of 12 scores, but a model has 8 classes"),
    ):
        done = run_here(*words, *more, cwd=tmp_path)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert f"in.parquet: {says}" in done.stderr


def test_lists_that_are_no_scores(bank: Bank, scores: Any, tmp_path: Path) -> None:
    lists = scores.tolist()
    words = ("--bank", "bank.json", "--key", "logits", "-o")
    for wrong, says in (
        ([*lists[:5], lists[5][:3]], "'logits' has 3 scores in row 5 (counted from 0) and 12 in"),
        ([*lists[:5], None], "'logits' has no scores in row 5"),
        ([*lists[:5], [None, *lists[5][1:]]], "score nan in row 5, column 0"),
        ([], "a table without rows"),
    ):
        column = pyarrow.array(wrong, pyarrow.list_(pyarrow.float64()))
        parquet.write_table(pyarrow.table({"logits": column}), tmp_path / "in.parquet")
        done = run_here("correct", "in.parquet", *words, "out.parquet", cwd=tmp_path)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
        assert f"in.parquet: {says}" in done.stderr
    np.savetxt(tmp_path / "in.csv", scores, delimiter=",")
    done = run_here("correct", "in.csv", *words, "out.csv", cwd=tmp_path)
    assert "in.csv: --key logits names a column of lists of numbers, which Parquet" in done.stderr


@pytest.mark.filterwarnings("ignore::transil.ScoreScaleWarning")
@pytest.mark.filterwarnings("ignore::transil.errors.ScheduleWarning")
def test_a_bank_that_looks_at_the_scores_sees_them_in_order(scores: Any, tmp_path: Path) -> None:
    """Its pairs depend on the moments of each group."""
    bank = load_bank("lwf-t", schedule=[4, 4, 4])
    mine = np.empty_like(scores)
    mine[:, ORDER] = scores
    np.save(tmp_path / "in.npy", mine)
    for rescale in (False, True):
        new = tmp_path / f"out-{rescale}.npy"
        correct_file(tmp_path / "in.npy", new, bank, 3, order=ORDER, rescale=rescale)
        np.testing.assert_allclose(
            np.load(new)[:, ORDER], bank.correct(scores, 3), rtol=1e-5, atol=1e-6
        )

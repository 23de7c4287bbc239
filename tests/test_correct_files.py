"""`transil correct` on files whose columns stand in another order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from support import ok_here, run_here
from transil import Bank, fit
from transil.synthetic import biased_scores

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

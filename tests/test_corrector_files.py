"""What is kept in files between updates: correctors that correct files, and the ledger."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from support import ok_here, refused_here, run_here
from transil import Corrector, Ledger
from transil.testing import biased_scores

SIZES = "12,5,5,8,3,4"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Scores of every state."""
    work = tmp_path_factory.mktemp("kept")
    store = biased_scores(SIZES, seed=3, images_per_class=30)
    for state in range(1, 7):
        np.save(work / f"state{state}.npy", store.get("test", state).scores)
    np.save(work / "scores.npy", store.get("test", 6).scores)
    return work


def test_the_ledger(folder: Path) -> None:
    words = ("--schedule", SIZES, "--method", "lwf-t", "--ledger", "ledger.json")
    for state in range(1, 6):
        ok_here("ledger", "record", f"state{state}.npy", "--state", f"{state}", *words, cwd=folder)
    said = ok_here("ledger", "show", "ledger.json", cwd=folder)
    assert "groups of 12, 5, 5, 8, 3, 4 classes, trained with lwf-t" in said
    assert "not recorded: group 6" in said
    kept = json.loads(ok_here("ledger", "show", "ledger.json", "--json", cwd=folder))
    own = Ledger(folder / "own.json", SIZES, "lwf-t")
    entry = own.record(2, np.load(folder / "state2.npy"))
    assert kept["states"]["2"] == {**vars(entry), "within": list(entry.within),
                                   "groups": list(entry.groups)}  # fmt: skip
    mixed = np.load(folder / "state6.npy")[:, ::-1]
    np.save(folder / "mixed.npy", mixed)
    order = ",".join(str(36 - i) for i in range(37))
    ok_here("ledger", "record", "mixed.npy", "--state", "6", "--order", order, *words, cwd=folder)
    assert "recorded again" in ok_here(
        "ledger", "record", "state6.npy", "--state", "6", *words, cwd=folder
    )
    for extra, says in (
        (("state4.npy", "--state", "4"), "state 6 is recorded already"),
        (("state6.npy", "--state", "7"), "state 7 does not exist"),
        (("state5.npy", "--state", "6"), "33 columns"),
        (("state6.npy", "--state", "6", "--order", "0,1"), "order: it names 2 columns"),
    ):
        refused_here("ledger", "record", *extra, *words, says=says, cwd=folder)


def test_what_is_refused_is_told_without_warnings_before_it(folder: Path) -> None:
    scores = np.load(folder / "state3.npy")
    np.save(folder / "flat.npy", np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True))
    words = ("ledger", "record", "flat.npy", "--schedule", SIZES, "--state", "3")
    refused_here(*words, "--ledger", "new.json", says="these are probabilities", cwd=folder)
    assert not (folder / "new.json").exists()
    done = run_here(
        "ledger", "record", "state3.npy", *words[3:], "--ledger", "new.json", cwd=folder
    )
    assert done.returncode == 0
    assert "the generic bank knows less" in done.stderr
    words = ("ledger", "record", "state3.npy", *words[3:])
    refused_here(*words, "--ledger", "new.txt", says="a ledger is a .json file", cwd=folder)


def test_a_corrector_corrects_every_kind_of_file(folder: Path) -> None:
    given = np.load(folder / "scores.npy")
    corrector = Corrector(SIZES, method="lwf-t", prior="uniform").fit(given)
    corrector.save(folder / "kind.json")
    expected = corrector.transform(given)
    np.savez(folder / "scores.npz", scores=given)
    torch.save(torch.from_numpy(given), folder / "scores.pt")
    heads = ",".join(f"c{i}" for i in range(37))
    np.savetxt(folder / "scores.csv", given, delimiter=",", header=heads, comments="")
    for source, target in (("npy", "npy"), ("npz", "npy"), ("pt", "pt"), ("csv", "csv")):
        said = ok_here("correct", f"scores.{source}", "--bank", "kind.json", "-o", f"out.{target}",
                       cwd=folder)  # fmt: skip
        assert (
            "corrected with a corrector fitted on 1,110 rows; it assumes that all classes" in said
        )
        made: Any = folder / f"out.{target}"
        if target == "npy":
            made = np.load(made)
        elif target == "pt":
            made = torch.load(made).numpy()
        else:
            made = np.loadtxt(made, delimiter=",", skiprows=1)
        np.testing.assert_allclose(made, expected, rtol=1e-4, atol=1e-4)
    probabilities = np.exp(given) / np.exp(given).sum(axis=1, keepdims=True)
    np.save(folder / "probabilities.npy", probabilities)
    for words, says in (
        (("scores.npy", "--state", "5"), "this corrector was fitted in state 6"),
        (("scores.npy", "--order", "0,1"), "leave out --order"),
        (("scores.npy", "--rescale"), "leave out --rescale"),
        (("scores.npy", "--schedule", SIZES), "leave out --schedule"),
        (("state5.npy",), "33 columns, but state 6 has 37"),
        (("probabilities.npy",), "these are probabilities"),
    ):
        more = ("--bank", "kind.json", "-o", "no.npy")
        refused_here("correct", *words, *more, says=says, cwd=folder)
        assert not (folder / "no.npy").exists()

"""What commands may not write over, and words that name no output at all."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from support import refused, run_here, told
from transil import Schedule, ScoreStore, fit
from transil.testing import biased_scores


@pytest.fixture
def given(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    np.save(tmp_path / "in" / "scores_test_1.npy", np.eye(4) - 0.5)
    np.save(tmp_path / "in" / "labels_test_1.npy", np.zeros(4, dtype=int))
    return tmp_path


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            '{"my": "settings"}',
            "st/store.json: this file is there and is not a transil-scores file",
        ),
        ("[1, 2]", "not a transil-scores file"),
        ("{", "not a transil-scores file"),
        ("hello", "not a transil-scores file"),
        ('{"format": "transil-bank", "version": 1}', "not a transil-scores file"),
        ('{"format": "transil-scores", "version": 99}', "a transil-scores file of version 99"),
        ('{\n "format": "transil-scores",\n "version": 2,', "file of version 2, but this transil"),
    ],
)
def test_what_is_no_store_of_ours_stays(given: Path, text: str, says: str) -> None:
    (given / "st").mkdir()
    (given / "st" / "store.json").write_text(text)
    refused(given, "import-scores", "in", "-o", "st", says=says)
    for write in (ScoreStore(Schedule.of("4/2")).save, partial(ScoreStore.create, schedule="4/2")):
        told(given, "", write, given / "st")


def test_other_files_in_the_folder_of_a_store_stay(given: Path) -> None:
    (given / "st").mkdir()
    (given / "st" / "notes.safetensors").write_bytes(b"mine")
    for _ in range(2):
        assert run_here("import-scores", "in", "-o", "st", cwd=given).returncode == 0
        assert (given / "st" / "notes.safetensors").read_bytes() == b"mine"
    # A manifest cannot make us delete it.
    manifest = json.loads((given / "st" / "store.json").read_text())
    manifest["splits"]["test"]["1"]["file"] = "notes.safetensors"
    (given / "st" / "store.json").write_text(json.dumps(manifest))
    assert run_here("import-scores", "in", "-o", "st", cwd=given).returncode == 0
    assert (given / "st" / "notes.safetensors").read_bytes() == b"mine"


def test_a_bank_of_a_newer_version_stays(given: Path) -> None:
    fit(biased_scores("4/2", images_per_class=4)).save(given / "bank.json")
    newer = (given / "bank.json").read_text().replace('"version": 2', '"version": 3')
    (given / "newer.json").write_text(newer)
    refused(given, "transfer", "bank.json", "-o", "newer.json", says="file of version 3")


@pytest.mark.parametrize(
    "words",
    [
        ("import-scores", "in", "-o", ""),
        ("import-scores", "in", "-o", "  "),
        ("import-scores", "in", "--output="),
        ("import-scores", "", "-o", "new"),
        ("transfer", "bank.json", "-o", ""),
        ("correct", "", "--bank", "bank.json", "-o", "new.npy"),
        ("evaluate", ""),
        ("demo", "-o", ""),
        ("train", "lwf", "--data", "formula", "-o", ""),
        ("report", "in", "-o", "\t"),
    ],
)
def test_empty_words(given: Path, words: tuple[str, ...]) -> None:
    refused(given, *words, says="nothing stands after '")

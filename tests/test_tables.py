"""Tables of scores, CSV and Parquet, through the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from pyarrow import csv, parquet

from support import ok_here, run_here
from transil import Bank, fit
from transil.synthetic import biased_scores

ROWS = 80


@pytest.fixture
def bank(tmp_path: Path) -> Bank:
    made = fit([biased_scores("12/3", seed=seed) for seed in (1, 2)])
    made.save(tmp_path / "bank.json")
    return made


@pytest.fixture
def scores() -> Any:
    return biased_scores("12/3", seed=9, images_per_class=10).get("test", 3).scores[:ROWS]


def table_of(scores: Any) -> Any:
    columns = {"file": [f"{i}, a.jpg" for i in range(len(scores))], "id": np.arange(len(scores))}
    columns |= {f"class {i}": column for i, column in enumerate(scores.T)}
    return pyarrow.table(columns)


@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet"])
def test_scores_are_corrected_and_the_rest_is_carried_along(
    bank: Bank, scores: Any, tmp_path: Path, kind: str
) -> None:
    given = table_of(scores)
    if kind == "parquet":
        parquet.write_table(given, tmp_path / "in.parquet")
    else:
        options = csv.WriteOptions(delimiter="\t" if kind == "tsv" else ";")
        csv.write_csv(given, tmp_path / f"in.{kind}", options)
    words = ("correct", f"in.{kind}", "--bank", "bank.json", "-o")
    said = ok_here(*words, f"out.{kind}", "--keep", "id", cwd=tmp_path)
    assert f"out.{kind}: {ROWS} rows of state 3" in said
    if kind == "parquet":
        found = parquet.read_table(tmp_path / "out.parquet")
        assert found.schema.field("class 3").type == pyarrow.float32()
    else:
        assert (tmp_path / f"in.{kind}").read_text().splitlines()[0].replace('"', "") == (
            tmp_path / f"out.{kind}"
        ).read_text().splitlines()[0].replace('"', "")
        parse = csv.ParseOptions(delimiter=options.delimiter)
        found = csv.read_csv(tmp_path / f"out.{kind}", parse_options=parse)
    assert found.column_names == given.column_names
    assert found.select(["file", "id"]) == given.select(["file", "id"])
    got = np.stack([found[f"class {i}"].to_numpy() for i in range(12)], axis=1)
    np.testing.assert_allclose(got, bank.correct(scores, 3), rtol=1e-6, atol=1e-6)


def test_a_table_without_a_header_stays_without(bank: Bank, scores: Any, tmp_path: Path) -> None:
    np.savetxt(tmp_path / "in.csv", scores, delimiter=",")
    ok_here("correct", "in.csv", "--bank", "bank.json", "-o", "out.csv", cwd=tmp_path)
    found = np.loadtxt(tmp_path / "out.csv", delimiter=",")
    np.testing.assert_allclose(found, bank.correct(scores.astype(np.float64), 3), rtol=1e-6)


def test_mistakes_get_one_line_and_nothing_is_written(
    bank: Bank, scores: Any, tmp_path: Path
) -> None:
    given = table_of(scores)
    csv.write_csv(given, tmp_path / "in.csv")
    holes = given.set_column(4, "class 2", [[None, *scores[1:, 2].tolist()]])
    csv.write_csv(holes, tmp_path / "holes.csv")
    (tmp_path / "junk.parquet").write_text("no table")
    (tmp_path / "ragged.csv").write_text("a,b\n1,2\n1,2,3\n")
    np.save(tmp_path / "in.npy", scores)
    cases = [
        (("in.csv", "-o", "out.csv"), "13 columns of numbers (id, class 0, ...), and file without, "
         "but a model has 4, 8, 12 classes; name columns that are no scores with --keep"),
        (("in.csv", "-o", "out.csv", "--keep", "idd"), "no column 'idd' to keep; did you mean 'id'?"),
        (("in.csv", "-o", "out.csv", "--keep", "id", "--state", "2"), "but a model has 8 classes"),
        (("in.csv", "-o", "out.npy", "--keep", "id"), "are written as .csv, .tsv, .parquet"),
        (("in.npy", "-o", "out.npy", "--keep", "id"), "only tables have columns to keep"),
        (("holes.csv", "-o", "out.csv", "--keep", "id"), "score nan in row 0, column 2"),
        (("junk.parquet", "-o", "out.parquet"), "junk.parquet: not a table of that kind"),
        (("ragged.csv", "-o", "out.csv"), "ragged.csv: not a table of that kind"),
        (("absent.csv", "-o", "out.csv"), "cannot read absent.csv"),
    ]  # fmt: skip
    before = sorted(tmp_path.iterdir())
    for words, says in cases:
        done = run_here("correct", *words, "--bank", "bank.json", cwd=tmp_path)
        assert done.returncode == 2
        assert says in done.stderr
        assert len(done.stderr.splitlines()) == 1
        assert sorted(tmp_path.iterdir()) == before

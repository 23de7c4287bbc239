"""Tables of scores, CSV and Parquet, through the command line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from pyarrow import csv, parquet

from support import ok_here, run_here
from test_score_files import columns_of, write
from transil import Bank, fit
from transil.testing import biased_scores

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
    said = ok_here(*words, f"out.{kind}", "--keep", "id,file", cwd=tmp_path)
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


def test_headers_of_numbers_and_tables_without_one(bank: Bank, scores: Any, tmp_path: Path) -> None:
    """What pandas writes, and what no program should take for an image or lose."""
    rows = [",".join(f"{x:.6f}" for x in row) for row in scores]
    numbers = ",".join(str(i) for i in range(12))
    kinds = {
        "numbers": [numbers, *rows],
        "index": [f",{numbers}", *(f"{i},{row}" for i, row in enumerate(rows))],
        "quoted": [
            ";".join(f'"{i}, y"' for i in range(12)), *(row.replace(",", ";") for row in rows)
        ],
        "zeros": [
            "id,ok," + numbers, *(f"{i:03d},{i % 2 == 0},{row}" for i, row in enumerate(rows))
        ],
        "names": [f"{i}.png,{row}" for i, row in enumerate(rows)],
    }  # fmt: skip
    expected = bank.correct(scores.astype(np.float64).round(6), 3)
    for name, lines in kinds.items():
        (tmp_path / f"{name}.csv").write_text("\r\n".join(lines) + "\r\n", encoding="utf-8-sig")
        keep = {"zeros": ("--keep", "id,ok"), "names": ("--keep", "1")}.get(name, ())
        said = ok_here("correct", f"{name}.csv", "--bank", "bank.json", "-o", "o.csv", *keep,
                       cwd=tmp_path)  # fmt: skip
        assert f"{ROWS} rows" in said, name
        text = (tmp_path / "o.csv").read_text().replace('"', "").splitlines()
        assert len(text) == len(lines)
        separator = ";" if name == "quoted" else ","
        first = 1 if name != "names" else 0
        found = np.array([row.split(separator)[-12:] for row in text[first:]], dtype=float)
        np.testing.assert_allclose(found, expected, rtol=1e-9)
        if name in ("zeros", "names", "index"):
            beside = [row.split(",")[0] for row in text[first:]]
            assert beside == [row.split(",")[0] for row in lines[first:]]
        if name == "zeros":
            assert text[0] == lines[0]
            assert [row.split(",")[1] for row in text[1:3]] == ["True", "False"]


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
    (tmp_path / "latin.csv").write_bytes("name,a,b,c,d\nJörg,1,2,3,4.5\n".encode("latin-1"))
    (tmp_path / "commas.csv").write_text("a;b;c;d\n0,5;1,5;2,5;3,5\n")
    (tmp_path / "header.csv").write_text("a,b,c,d\n")
    nested = pyarrow.table({"list": [[1], [2]], **{f"{i}": [0.5, 1.0] for i in range(4)}})
    parquet.write_table(nested, tmp_path / "nested.parquet")
    cases = [
        (("in.csv", "-o", "out.csv"), "13 columns of numbers (id, class 0, ...) and 1 of others "
         "('file'), but a model has 4, 8, 12 classes; name numbers that are no scores with --keep"),
        (("in.csv", "-o", "out.csv", "--keep", "idd"), "no column 'idd' to keep; did you mean 'id'?"),
        (("in.csv", "-o", "out.csv", "--keep", "id", "--state", "2"), "but a model has 8 classes"),
        (("in.csv", "-o", "out.txt", "--keep", "id"), "out.txt: unknown kind of file; scores are"),
        (("in.npy", "-o", "out.npy", "--keep", "id"), "only tables have columns to keep"),
        (("holes.csv", "-o", "out.csv", "--keep", "id"), "3 of others ('file', 'id', 'class 2')"),
        (("junk.parquet", "-o", "out.parquet"), "junk.parquet: not a table that can be read"),
        (("ragged.csv", "-o", "out.csv"), "ragged.csv: not a table that can be read"),
        (("absent.csv", "-o", "out.csv"), "cannot read absent.csv"),
        (("latin.csv", "-o", "out.csv"), "latin.csv: not a table that can be read"),
        (("commas.csv", "-o", "out.csv"), "0 columns of numbers and 4 of others"),
        (("header.csv", "-o", "out.csv"), "header.csv: a table without rows"),
        (("nested.parquet", "-o", "out.csv", "--state", "1"), "out.csv: not a table that can be"),
    ]  # fmt: skip
    before = sorted(tmp_path.iterdir())
    for words, says in cases:
        done = run_here("correct", *words, "--bank", "bank.json", cwd=tmp_path)
        assert done.returncode == 2
        assert says in done.stderr
        assert len(done.stderr.splitlines()) == 1
        assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("kind", [".npy", ".pt", ".safetensors", ".csv", ".parquet", ".arrow"])
def test_every_command_refuses_what_is_no_scores(
    bank: Bank, scores: Any, tmp_path: Path, kind: str
) -> None:
    """NaN, another width, mixed types: in one line that names the file."""
    holed, words = np.array(scores), np.array(["x"] * len(scores))
    holed[3, 5] = np.nan
    newest = np.where(np.arange(len(scores)) % 2, 8, -1)
    write(tmp_path / "newest.parquet", {"label": newest})
    np.save(tmp_path / "whole.npy", scores)
    groups = ("--schedule", "4,4,4")
    before = ("--newest-labels", "newest.parquet", "--before", f"in{kind}")
    commands: list[tuple[str, ...]] = [
        ("advise", f"in{kind}", *groups),
        ("advise", "whole.npy", *groups, *before),
        ("ledger", "record", f"in{kind}", *groups, "--state", "3", "--ledger", "new.json"),
        ("bank", "check", f"in{kind}", "--state", "3", "--bank", "bank.json"),
        ("transfer", "bank.json", "--like", f"in{kind}", "--state", "3", "-o", "new.json"),
    ]
    given: list[tuple[dict[str, Any], str]] = [
        (columns_of(holed), r"in\W\w+\b.*(NaN|nan|not finite)"),
        (columns_of(scores[:, :11]), "11 columns"),
    ]
    if kind not in (".npy", ".pt", ".safetensors"):
        one = {**columns_of(scores), "class 5": words}
        # Eight columns would be those of the second state.
        last = {**columns_of(scores), **{f"class {i}": words for i in range(8, 12)}}
        given += [(one, "11 columns"), (last, r"8 columns|not all columns are scores")]
    for columns, says in given:
        write(tmp_path / f"in{kind}", columns)
        for line in commands:
            done = run_here(*line, cwd=tmp_path)
            assert done.returncode == 2, (line, done.stdout)
            assert re.fullmatch(f"error: .*({says}).*\n", done.stderr), (line, done.stderr)
    assert not (tmp_path / "new.json").exists()

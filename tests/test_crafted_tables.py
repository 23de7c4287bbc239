"""Tables that are damaged or odd: one line each, nothing written, and no state guessed from a part."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from support import told
from transil import Bank, fit
from transil.adaptation.score_files import correct_file
from transil.testing import biased_scores


@pytest.fixture(scope="module")
def bank() -> Bank:
    return fit(biased_scores("12/3", seed=1))


@pytest.fixture(scope="module")
def scores() -> Any:
    return np.array(biased_scores("12/3", seed=9, images_per_class=2).get("test", 3).scores)


@pytest.fixture(scope="module")
def lines(scores: Any) -> list[str]:
    names = ",".join(f"class {i}" for i in range(scores.shape[1]))
    return [names, *(",".join(f"{x:.6f}" for x in row) for row in scores)]


def changed(lines: list[str], row: int, cell: str) -> list[str]:
    """The lines with another third cell in one row."""
    cells = lines[row].split(",")
    cells[2] = cell
    return [*lines[:row], ",".join(cells), *lines[row + 1 :]]


LONG = "x" * 200_000


def test_long_cells_are_cells(bank: Bank, scores: Any, lines: list[str], tmp_path: Path) -> None:
    """Python's csv module stops at 131,072 characters."""
    source, new = tmp_path / "in.csv", tmp_path / "out.parquet"
    for place in (0, 1, 5):
        notes = [LONG if i == place else "note" for i in range(len(lines))]
        rows = [f"{note};{line.replace(',', ';')}" for note, line in zip(notes, lines, strict=True)]
        source.write_text("\n".join(rows))
        assert correct_file(source, new, bank, 3) == (3, len(scores))
        found = parquet.read_table(new)
        assert found.column_names[0] == notes[0]
        assert found.column(0).to_pylist() == notes[1:]


def test_quotes_around_names(bank: Bank, scores: Any, lines: list[str], tmp_path: Path) -> None:
    for name in ('"a, b"', '"a\nb"', '"a ""b"", c"'):
        source = tmp_path / "in.csv"
        source.write_text("\n".join(changed(lines, 0, name)))
        assert correct_file(source, tmp_path / "out.csv", bank) == (3, len(scores))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda _: [], "in.csv: not a table"),
        (lambda _: ["\n"] * 50, "in.csv: not a table"),
        (lambda _: ["\0" * 1000], "in.csv: not a table"),
        (lambda _: ["x" * 3_000_000], "in.csv: not a table"),
        (lambda lines: lines[:1], "in.csv: "),
        (lambda _: ["a", "1.5", "2.5"], "1 columns of numbers"),
        (lambda lines: [*lines, "1,2"], "in.csv: not a table"),
        (lambda lines: [*lines, lines[1] + ",5"], "in.csv: not a table"),
        (lambda lines: [*lines, '"1.5'], "in.csv: not a table"),
        (lambda lines: ['"' + lines[0], *lines[1:]], "in.csv: not a table"),
        (lambda lines: changed(lines, 3, '"1.5'), "in.csv: not a table"),
        (lambda lines: changed(lines, 3, "1.\x005"), "11 columns of numbers"),
        (lambda lines: changed(lines, 3, "n/a"), "11 columns of numbers"),
        (lambda lines: changed(lines, 3, "0x10"), "11 columns of numbers"),
        (lambda lines: changed(lines, 3, ""), "11 columns of numbers"),
        (lambda lines: changed(lines, 3, "9" * 5000), "score inf in row 2, column 2"),
        (lambda lines: changed(lines, 3, "1e999"), "score inf in row 2, column 2"),
        (lambda lines: changed(lines, 3, "nan"), "score nan in row 2, column 2"),
        (lambda lines: changed(lines, 3, "1.79e308"), "corrected to float64"),
        (lambda lines: [*changed(lines, 0, LONG)[:3], "?"], "in.csv: not a table"),
    ],
    ids=range(20),
)  # fmt: skip
def test_odd_csv(bank: Bank, lines: list[str], tmp_path: Path, make: Any, says: str) -> None:
    source = tmp_path / "in.csv"
    source.write_text("\n".join(make(lines)))
    told(tmp_path, says, correct_file, source, tmp_path / "out.csv", bank)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32"])
def test_other_encodings(bank: Bank, lines: list[str], tmp_path: Path, encoding: str) -> None:
    source = tmp_path / "in.csv"
    source.write_text("\n".join(lines), encoding=encoding)
    told(tmp_path, "in.csv: ", correct_file, source, tmp_path / "out.csv", bank)


def test_the_state_is_told_by_scores_alone(bank: Bank, scores: Any, tmp_path: Path) -> None:
    """Twelve columns of which four cannot be read are no scores of state 2."""
    names = [str(i) for i in range(12)]
    for others in (["?"] * len(scores), [True] * len(scores), [[1.0]] * len(scores)):
        cells = [*scores.T[:8], *[others] * 4]
        given = dict(zip(names, cells, strict=True))
        parquet.write_table(pyarrow.table(given), tmp_path / "in.parquet")
        rows = ["".join(f"{cell}," for cell in row)[:-1] for row in zip(*cells, strict=True)]
        (tmp_path / "in.csv").write_text("\n".join([",".join(names), *rows]))
        for ending in ("csv", "parquet"):
            source, new = tmp_path / f"in.{ending}", tmp_path / f"new.{ending}"
            says = (
                "not all columns are scores ('8', '9', '10' and 1 more), so their number does not"
            )
            told(tmp_path, says, correct_file, source, new, bank)
            told(
                tmp_path, "('9', '10', '11')", partial(correct_file, keep=["8"]), source, new, bank
            )
            more: list[dict[str, Any]] = [{"state": 2}, {"keep": names[8:]}]
            if ending == "csv" or others[0] != [1.0]:  # CSV has no lists
                assert [correct_file(source, new, bank, **how)[0] for how in more] == [2, 2]
                new.unlink()


def odd_tables(scores: Any) -> dict[str, tuple[Any, str]]:
    plain = {f"class {i}": scores[:, i] for i in range(12)}
    rows = len(scores)
    twice = pyarrow.Table.from_arrays([pyarrow.array(scores[:, 0])] * 12, names=["a"] * 12)
    none = pyarrow.array([[]] * rows, pyarrow.list_(pyarrow.float64()))
    lists = [[1.0] * 12] * (rows - 1)
    return {
        "names twice": (twice, "Multiple matches"),
        "structs": (pyarrow.table({**plain, "s": [{"a": 1.0}] * rows}), "not all columns"),
        "lists of structs": (pyarrow.table({**plain, "s": [[{"a": 1.0}]] * rows}), "not all"),
        "lists of lists": (pyarrow.table({"s": [[[1.0] * 12]] * rows}), "0 columns of numbers"),
        "a hole": (pyarrow.table({**plain, "class 3": [None] * rows}), "11 columns of numbers"),
        "empty": (pyarrow.table({}), "without rows"),
        "no rows": (pyarrow.table(plain).slice(0, 0), "without rows"),
        "--key s, ragged": (pyarrow.table({"s": [*lists, [1.0]]}), "'s' has 1 scores in row"),
        "--key s, holes": (pyarrow.table({"s": [*lists, None]}), "'s' has no scores in row"),
        "--key s, null": (pyarrow.table({"s": [*lists, [None] * 12]}), "score nan in row"),
        "--key s, empty": (pyarrow.table({"s": none}), "'s' has no scores in row 0"),
    }


@pytest.mark.parametrize("kind", odd_tables(np.zeros((2, 12))))
def test_odd_parquet(bank: Bank, scores: Any, tmp_path: Path, kind: str) -> None:
    given, says = odd_tables(scores)[kind]
    parquet.write_table(given, tmp_path / "in.parquet")
    key = "s" if kind.startswith("--key") else None

    def correct() -> None:
        correct_file(tmp_path / "in.parquet", tmp_path / "out.parquet", bank, key=key)

    told(tmp_path, says, correct)


def test_damaged_parquet(bank: Bank, scores: Any, tmp_path: Path) -> None:
    source, out = tmp_path / "in.parquet", tmp_path / "out.parquet"
    parquet.write_table(pyarrow.table({f"{i}": scores[:, i] for i in range(12)}), source)
    whole, random = source.read_bytes(), np.random.default_rng(0)
    for size in random.integers(0, len(whole), 20):
        source.write_bytes(whole[:size])
        told(tmp_path, "in.parquet", correct_file, source, out, bank)

"""DataFrames in, DataFrames out: pandas, polars, pyarrow, and doubles that need none of them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest

from transil import Bank, ScoreRecorder, ScoreStore, TransilError, fit
from transil.correction.checks import check_bank
from transil.testing import biased_scores

NAMES = [f"class {i}" for i in range(12)]


class PandasLike:
    """What is touched of pandas."""

    def __init__(self, values: Any, index: Any, columns: Any) -> None:
        self._values, self._index, self._names = np.asarray(values), index, list(columns)

    index = property(lambda self: self._index)
    columns = property(lambda self: self._names)
    dtypes = property(lambda self: [self._values.dtype] * len(self._names))

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self._values


class PolarsLike:
    """What is touched of polars."""

    def __init__(self, values: Any, schema: list[str]) -> None:
        self._values, self._names = np.asarray(values), schema

    columns = property(lambda self: self._names)
    dtypes = property(lambda self: [str(self._values.dtype).capitalize()] * len(self._names))

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self._values


def pandas(values: Any) -> Any:
    found = pytest.importorskip("pandas")
    return found.DataFrame(values, index=[f"{i}.jpg" for i in range(len(values))], columns=NAMES)


def polars(values: Any) -> Any:
    return pytest.importorskip("polars").DataFrame(np.ascontiguousarray(values), schema=NAMES)


def arrow(values: Any) -> Any:
    columns = [np.ascontiguousarray(column) for column in values.T]
    schema = pyarrow.schema([(n, pyarrow.from_numpy_dtype(values.dtype)) for n in NAMES])
    return pyarrow.Table.from_arrays(columns, schema=schema.with_metadata({"made": "here"}))


def batch(values: Any) -> Any:
    return arrow(values).to_batches()[0]


KINDS: dict[str, Callable[[Any], Any]] = {
    "pandas": pandas,
    "polars": polars,
    "arrow": arrow,
    "batch": batch,
    "like pandas": lambda v: PandasLike(v, [f"{i}.jpg" for i in range(len(v))], NAMES),
    "like polars": lambda v: PolarsLike(v, NAMES),
}


@pytest.fixture(scope="module")
def bank() -> Bank:
    return fit(biased_scores("12/3", seed=1))


@pytest.fixture(scope="module")
def scores() -> Any:
    return np.array(biased_scores("12/3", seed=9, images_per_class=10).get("test", 3).scores)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_kind_comes_out(bank: Bank, scores: Any, kind: str, dtype: Any) -> None:
    given = KINDS[kind](scores.astype(dtype))
    for more in ({}, {"rescale": True}, {"order": list(range(12))[::-1]}):
        made = bank.correct(given, 3, **more)
        assert type(made) is type(given)
        expected = bank.correct(scores.astype(dtype), 3, **more)
        np.testing.assert_allclose(np.asarray(made), expected, rtol=1e-6)
        assert np.asarray(made).dtype == dtype
        if "arrow" in kind or kind == "batch":
            assert made.schema == given.schema
            assert made.schema.metadata == given.schema.metadata
        else:
            assert list(made.columns) == NAMES
        if "pandas" in kind:
            assert list(made.index) == [f"{i}.jpg" for i in range(len(scores))]


@pytest.mark.parametrize("kind", KINDS)
def test_frames_where_scores_go_in(bank: Bank, scores: Any, kind: str, tmp_path: Path) -> None:
    given, labels = KINDS[kind](scores), np.arange(len(scores)) % 12
    assert bank.like(given, 3).scale(3) == pytest.approx(bank.like(scores, 3).scale(3))
    assert check_bank(bank, given, 3).changed == check_bank(bank, scores, 3).changed
    whole = ScoreStore.from_arrays({"test": [(scores, labels)]}, [12]).fingerprint()
    assert ScoreStore.from_arrays({"test": [(given, labels)]}, [12]).fingerprint() == whole
    recorder = ScoreRecorder(tmp_path, [12])
    recorder.add("test", given, labels)
    recorder.next_state()
    assert ScoreStore.open(tmp_path).fingerprint() == whole


@pytest.mark.parametrize("kind", KINDS)
def test_frames_that_are_no_scores(bank: Bank, scores: Any, kind: str) -> None:
    holed = scores.copy()
    holed[4, 2] = np.nan
    for values, says in (
        (holed, "state 3: score nan in row 4, column 2"),
        (
            (100 * scores).astype(np.int64),
            "column 'class 0' is of type .*give the columns of scores",
        ),
    ):
        with pytest.raises(TransilError, match=says):
            bank.correct(KINDS[kind](values), 3)
    with pytest.raises(TransilError, match="12 columns, but state 2 has 8"):
        bank.correct(KINDS[kind](scores), 2)


def test_mixed_types_and_missing_values(bank: Bank, scores: Any) -> None:
    table = arrow(scores)
    texts = table.set_column(3, "file", pyarrow.array(["x"] * len(scores)))
    with pytest.raises(TransilError, match="column 'file' is of type string"):
        bank.correct(texts, 3)
    hole = pyarrow.array([None, *scores[1:, 3].tolist()], pyarrow.float32())
    with pytest.raises(TransilError, match="score nan in row 0, column 3"):
        bank.correct(table.set_column(3, "class 3", hole), 3)
    for package in ("pandas", "polars"):
        found = pytest.importorskip(package)
        frame = KINDS[package](scores)
        with pytest.raises(TransilError, match="column 'x' is of type"):
            bank.correct(found.DataFrame({"x": ["a"], "y": [1.0]}), 3)
        if package == "pandas":
            nullable = frame.astype("Float32")
            assert set(map(str, bank.correct(nullable, 3).dtypes)) == {"Float32"}
            nullable.iloc[5, 1] = None
            with pytest.raises(TransilError, match="score nan in row 5, column 1"):
                bank.correct(nullable, 3)
        else:
            with pytest.raises(TransilError, match=r"call collect\(\) first"):
                bank.correct(frame.lazy(), 3)


def test_nothing_is_imported_for_arrays() -> None:
    """Neither by the package nor by correcting an array or a table of another kind."""
    script = """
import sys
import numpy as np
from transil import fit
from transil.testing import biased_scores
store = biased_scores("6/3", images_per_class=20)
fit(store).correct(store.get("test", 3).scores, 3)
print(sorted({"pandas", "polars", "pyarrow", "torch"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr

"""One reader and one writer: every kind of file from every kind, for every command that takes scores."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
import torch
from pyarrow import csv, feather, ipc, parquet
from safetensors.torch import load_file, save_file

from support import ok_here, refused, run_here, told
from test_interop import write_released_layout
from transil import Bank, ScoreStore, TransilError, fit, load_bank
from transil.adaptation.score_files import correct_file
from transil.scores.files import read_labels, read_scores
from transil.testing import biased_scores

KINDS = (".npy", ".npz", ".pt", ".pth", ".ckpt", ".safetensors",
         ".csv", ".tsv", ".parquet", ".arrow", ".feather")  # fmt: skip
TABLES = KINDS[6:]


@pytest.fixture(scope="module")
def bank() -> Bank:
    return fit(biased_scores("12/3", seed=1))


@pytest.fixture(scope="module")
def scores() -> Any:
    return np.array(biased_scores("12/3", seed=9, images_per_class=6).get("test", 3).scores)


@pytest.fixture
def work(bank: Bank, tmp_path: Path) -> Path:
    bank.save(tmp_path / "bank.json")
    return tmp_path


def write(path: Path, columns: dict[str, Any]) -> Path:
    """A file of any kind with one array, or with a table of its columns."""
    table = pyarrow.table({n: np.ascontiguousarray(c) for n, c in columns.items()})
    numbers = [c for c in columns.values() if np.asarray(c).dtype.kind in "fi"]
    array = np.stack(numbers, axis=1)
    if path.suffix == ".npy":
        np.save(path, array)
    elif path.suffix == ".npz":
        np.savez(path, scores=array)
    elif path.suffix == ".safetensors":
        save_file({"scores": torch.from_numpy(array)}, path)
    elif path.suffix in (".pt", ".pth", ".ckpt"):
        torch.save(torch.from_numpy(array), path)
    elif path.suffix == ".parquet":
        parquet.write_table(table, path)
    elif path.suffix == ".feather":
        feather.write_feather(table, str(path))
    elif path.suffix == ".arrow":
        with ipc.new_stream(str(path), table.schema) as file:  # others write streams
            file.write_table(table)
    else:
        options = csv.WriteOptions(delimiter="\t" if path.suffix == ".tsv" else ",")
        csv.write_csv(table, path, options)
    return path


def read_again(path: Path) -> Any:
    """The scores of a file, by the libraries themselves."""
    if path.suffix in (".npy", ".npz"):
        found = np.load(path)
        return found if path.suffix == ".npy" else found["scores"]
    if path.suffix in (".pt", ".pth", ".ckpt"):
        return torch.load(path).numpy()
    if path.suffix == ".safetensors":
        return load_file(path)["scores"].numpy()
    if path.suffix == ".parquet":
        table = parquet.read_table(path)
    elif path.suffix in (".arrow", ".feather"):
        table = feather.read_table(path)
    else:
        delimiter = "\t" if path.suffix == ".tsv" else ","
        table = csv.read_csv(path, parse_options=csv.ParseOptions(delimiter=delimiter))
    names = [name for name in table.column_names if name != "file"]
    return np.stack([table[name].to_numpy() for name in names], axis=1)


def columns_of(scores: Any) -> dict[str, Any]:
    return {f"class {i}": column for i, column in enumerate(scores.T)}


@pytest.mark.parametrize("given", KINDS)
@pytest.mark.parametrize("made", KINDS)
def test_every_kind_into_every_kind(
    bank: Bank, scores: Any, tmp_path: Path, given: str, made: str
) -> None:
    source = write(tmp_path / f"in{given}", columns_of(scores))
    target = tmp_path / f"out{made}"
    assert correct_file(source, target, bank) == (3, len(scores))
    found = read_again(target)
    np.testing.assert_allclose(found, bank.correct(scores), rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(read_scores(target).scores, found)  # we read what we wrote
    if given not in (".csv", ".tsv") and made not in (".csv", ".tsv"):  # those know no types
        assert found.dtype == np.float32


@pytest.mark.parametrize("given", TABLES)
@pytest.mark.parametrize("made", TABLES)
def test_tables_keep_their_other_columns(
    bank: Bank, scores: Any, tmp_path: Path, given: str, made: str
) -> None:
    names = [f"{i}, é.jpg" for i in range(len(scores))]
    source = write(tmp_path / f"in{given}", {"file": np.array(names), **columns_of(scores)})
    correct_file(source, tmp_path / f"out{made}", bank, keep=["file"])
    read = read_scores(tmp_path / f"out{made}", keep=["file"])
    assert read.table is not None
    assert read.table.data["file"].to_pylist() == names
    assert read.table.data.column_names == ["file", *columns_of(scores)]


@pytest.mark.parametrize("made", KINDS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_types_stay_where_the_kind_has_them(
    bank: Bank, scores: Any, tmp_path: Path, made: str, dtype: torch.dtype
) -> None:
    given = torch.from_numpy(scores).to(dtype)
    save_file({"x": given, "other": torch.zeros(3)}, tmp_path / "in.safetensors")
    target = tmp_path / f"out{made}"
    correct_file(tmp_path / "in.safetensors", target, bank, key="x")
    expected = bank.correct(given, 3)
    if made in (".pt", ".pth", ".ckpt", ".safetensors"):
        found = torch.load(target) if made != ".safetensors" else load_file(target)["x"]
        assert found.dtype == dtype
        torch.testing.assert_close(found, expected)
    else:
        found = read_scores(target, "x" if made == ".npz" else None).scores
        np.testing.assert_allclose(found, expected.double().numpy(), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("made", KINDS)
def test_the_same_scores_give_the_same_bytes(
    bank: Bank, scores: Any, tmp_path: Path, made: str
) -> None:
    source = write(tmp_path / "in.npy", columns_of(scores))
    for name in ("one", "two"):
        correct_file(source, tmp_path / f"{name}{made}", bank)
    assert (tmp_path / f"one{made}").read_bytes() == (tmp_path / f"two{made}").read_bytes()


# -- refusals ----------------------------------------------------------------------------------


@pytest.mark.parametrize("given", KINDS)
def test_scores_that_cannot_be_corrected(
    bank: Bank, scores: Any, tmp_path: Path, given: str
) -> None:
    """NaN, another width, no rows, mixed types: one line, and nothing is written."""
    source, target = tmp_path / f"in{given}", tmp_path / "out.npz"
    holed = scores.copy()
    holed[3, 5] = np.nan
    cases = [(holed, "score nan in row 3, column 5"), (scores[:, :11], "11 columns")]
    if given in TABLES:  # of an array without rows, one without rows is made
        cases.append((scores[:0], ""))
    for wrong, says in cases:
        write(source, columns_of(wrong))
        told(tmp_path, says, correct_file, source, target, bank, 3)
    mixed = {**columns_of(scores), "class 5": np.array(["x"] * len(scores))}
    if given in TABLES:
        write(source, mixed)
        told(tmp_path, "11 columns of numbers", correct_file, source, target, bank, 3)
        told(tmp_path, "11 columns of numbers", correct_file, source, target, bank)
    else:
        write(source, columns_of((scores * 100).astype(np.int64)))
        told(tmp_path, "expected floating-point scores", correct_file, source, target, bank, 3)


@pytest.mark.parametrize("ending", ["", ".txt", ".json", ".xlsx", ".csv.gz"])
def test_other_kinds_are_named(bank: Bank, scores: Any, tmp_path: Path, ending: str) -> None:
    source = write(tmp_path / "in.npy", columns_of(scores))
    says = f"out{ending}: unknown kind of file; scores are arrays (.npy, .npz,"
    told(tmp_path, says, correct_file, source, tmp_path / f"out{ending}", bank)
    odd = tmp_path / f"in{ending}"
    odd.write_bytes(b"1")
    says = f"in{ending}: unknown kind of file; scores are arrays (.npy, .npz,"
    told(tmp_path, says, correct_file, odd, tmp_path / "out.npy", bank)


def test_damaged_and_crafted_arrow_files(
    bank: Bank, scores: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = tmp_path / "in.arrow", tmp_path / "out.csv"
    for ending in (".arrow", ".feather"):
        whole = write(tmp_path / f"whole{ending}", columns_of(scores)).read_bytes()
        random = np.random.default_rng(0)
        for _ in range(40):
            raw = bytearray(whole[: random.integers(len(whole))])
            for place in random.integers(0, max(1, len(raw)), 3):
                raw[place : place + 1] = bytes([random.integers(256)])
            source.write_bytes(raw)
            with warnings.catch_warnings(), contextlib.suppress(TransilError):
                warnings.simplefilter("ignore")  # of numbers that are damaged
                correct_file(source, target, bank, 3)
            target.unlink(missing_ok=True)
    monkeypatch.setattr("transil.scores.zips.ANY_SIZE", 1 << 16)
    zeros = pyarrow.table({f"{i}": np.zeros(200_000) for i in range(3)})
    feather.write_feather(zeros, str(tmp_path / "in.feather"), compression="zstd")
    parquet.write_table(zeros, tmp_path / "in.parquet")
    for name in ("in.feather", "in.parquet"):
        says = "MiB of memory; refused"
        told(tmp_path, says, correct_file, tmp_path / name, target, bank, 3)


# -- standard input and output -----------------------------------------------------------------


def piped(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


def csv_text(scores: Any) -> str:
    rows = [",".join(map(str, row)) for row in scores.tolist()]
    return "\n".join([",".join(f"class {i}" for i in range(scores.shape[1])), *rows]) + "\n"


def test_standard_input_and_output(
    bank: Bank, scores: Any, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = bank.correct(scores.astype(np.float64), 3)
    words = ("correct", "-", "--bank", "bank.json", "-o")
    piped(monkeypatch, csv_text(scores))
    done = run_here(*words, "-", cwd=work)
    assert done.returncode == 0, done.stderr
    assert "-: 72 rows of state 3" in done.stderr  # what is told goes elsewhere
    lines = done.stdout.splitlines()
    assert lines[0].replace('"', "") == csv_text(scores).splitlines()[0]
    found = np.array([line.split(",") for line in lines[1:]], dtype=float)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    piped(monkeypatch, csv_text(scores))
    ok_here(*words, "out.parquet", cwd=work)
    np.testing.assert_allclose(read_again(work / "out.parquet"), expected, rtol=1e-9)
    np.save(work / "in.npy", scores)
    done = run_here("correct", "in.npy", "--bank", "bank.json", "-o", "-", cwd=work)
    assert done.stdout.startswith('"score_0","score_1"')
    assert sorted(p.name for p in work.iterdir()) == ["bank.json", "in.npy", "out.parquet"]
    piped(monkeypatch, csv_text(scores))
    said = ok_here("bank", "check", "-", "--state", "3", "--bank", "bank.json", cwd=work)
    assert "72 rows of state 3" in said
    for line in (("advise", "-"), ("ledger", "record", "-", "--state", "3", "--ledger", "l.json")):
        piped(monkeypatch, csv_text(scores))
        assert "72 rows" in ok_here(*line, "--schedule", "4,4,4", cwd=work)


def test_refusals_of_streams(
    bank: Bank, scores: Any, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("correct", "-", "--bank", "bank.json", "-o", "-", "--state", "3")
    for text, says in (
        ("", "standard input: not a table"),
        ("a,b\n1,2\n", "standard input: 2 columns of numbers"),
        (csv_text(scores[:, :11]), "standard input: 11 columns of numbers"),
        (csv_text(scores).replace("class 3", "cl\x1b[31m"), "hold control characters"),
    ):
        piped(monkeypatch, text)
        refused(work, *words, says=says)
    monkeypatch.setattr("transil.scores.tables.MOST_STREAMED", 100)
    piped(monkeypatch, csv_text(scores))
    refused(work, *words, says="standard input: more than")


# -- the other commands ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_other_commands_read_all_kinds(bank: Bank, scores: Any, work: Path, kind: str) -> None:
    write(work / f"in{kind}", columns_of(scores))
    words = ("bank", "check", f"in{kind}", "--state", "3", "--bank", "bank.json", "--json")
    checked = json.loads(ok_here(*words, cwd=work))[0]
    assert checked["rows"] == len(scores)
    like = ("transfer", "bank.json", "--like", f"in{kind}", "--state", "3", "-o", "like.json")
    ok_here(*like, cwd=work)
    found = load_bank(work / "like.json")
    assert isinstance(found, Bank)
    assert found.scale(3) == pytest.approx(bank.like(scores, 3).scale(3), rel=1e-5)


def test_columns_that_are_no_scores(bank: Bank, scores: Any, work: Path) -> None:
    write(work / "in.csv", {"id": np.arange(len(scores)), **columns_of(scores)})
    more = ("--state", "3", "--keep", "id")
    ok_here("bank", "check", "in.csv", "--bank", "bank.json", *more, cwd=work)
    ok_here("transfer", "bank.json", "--like", "in.csv", *more, "-o", "like.json", cwd=work)
    refused(
        work, "bank", "check", "in.csv", "--bank", "bank.json", "--state", "3", says="13 columns"
    )
    refused(work, "transfer", "bank.json", "-o", "x.json", "--keep", "id", says="go with --like")


# -- stores ------------------------------------------------------------------------------------


@pytest.fixture
def store() -> ScoreStore:
    made = biased_scores("5,3,4", images_per_class=5)
    made.dataset = made.method = None
    return made


def same(store: ScoreStore, folder: Path) -> None:
    found = ScoreStore.open(folder)
    assert list(found) == list(store)
    for split, state in store:
        a, b = found.get(split, state), store.get(split, state)
        np.testing.assert_allclose(a.scores, b.scores, rtol=1e-6)
        np.testing.assert_array_equal(a.labels, b.labels)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("labels_kind", [".npy", ".csv", ".parquet", ".npz"])
def test_a_folder_of_any_kind(
    store: ScoreStore, tmp_path: Path, kind: str, labels_kind: str
) -> None:
    (tmp_path / "files").mkdir()
    for split, state in store:
        data = store.get(split, state)
        write(tmp_path / "files" / f"scores_{split}_{state}{kind}", columns_of(data.scores))
        write(tmp_path / "files" / f"labels_{split}_{state}{labels_kind}", {"label": data.labels})
    ok_here("import-scores", "files", "-o", "store", cwd=tmp_path)
    same(store, tmp_path / "store")


def test_labels_beside_the_scores(store: ScoreStore, tmp_path: Path) -> None:
    for folder in ("tables", "archives"):
        (tmp_path / folder).mkdir()
    for split, state in store:
        data, name = store.get(split, state), f"scores_{split}_{state}"
        ids = np.array([f"{i}.png" for i in range(len(data.labels))])
        table = {"id": ids, "label": data.labels, **columns_of(data.scores)}
        write(tmp_path / "tables" / f"{name}.csv", table)
        np.savez(tmp_path / "archives" / f"{name}.npz", logits=data.scores, y=data.labels)
    words = ("import-scores", "tables", "--labels", "label", "--keep", "id", "-o", "one")
    ok_here(*words, cwd=tmp_path)
    same(store, tmp_path / "one")
    words = ("import-scores", "archives", "--key", "logits", "--labels", "y", "-o", "two")
    ok_here(*words, cwd=tmp_path)
    same(store, tmp_path / "two")
    refused(tmp_path, "import-scores", "tables", "-o", "new",
            says="labels_test_1 is missing beside scores_test_1; labels in the same file")  # fmt: skip
    refused(tmp_path, "import-scores", "tables", "--labels", "lable", "-o", "new",
            says="did you mean 'label'")  # fmt: skip
    refused(tmp_path, "import-scores", "tables", "--labels", "id", "-o", "new",
            says="not all cells of column 'id' are numbers")  # fmt: skip
    (tmp_path / "tables" / "labels_test_1.npy").write_bytes(b"")
    refused(
        tmp_path, "import-scores", "tables", "--labels", "label", "-o", "new", says="labels_test_1"
    )


@pytest.mark.parametrize("kind", [".npy", ".pt", ".npz", ".csv"])
def test_the_released_layout_in_other_kinds(store: ScoreStore, tmp_path: Path, kind: str) -> None:
    folder = write_released_layout(store, tmp_path / "logits_siw_s3")
    for path in list(folder.iterdir()):
        array = torch.load(path).numpy()
        path.unlink()
        write(path.with_suffix(kind), columns_of(array) if array.ndim == 2 else {"y": array})
    ok_here("import-scores", "logits_siw_s3", "-o", "store", cwd=tmp_path)
    same(store, tmp_path / "store")
    assert ScoreStore.open(tmp_path / "store").method == "siw"
    if kind == ".npy":
        name = "logits_val_0_0"
        torch.save(torch.zeros(1), folder / f"{name}.ckpt")
        refused(tmp_path, "import-scores", "logits_siw_s3", "-o", "new", says="is there twice")


def test_heads_from_files(store: ScoreStore, tmp_path: Path) -> None:
    for folder in ("whole", "four"):
        (tmp_path / folder).mkdir()
    for split, state in store:
        data, name = store.get(split, state), f"{split}_{state}.npy"
        whole = np.full((len(data.labels), 12), -9.0, np.float32)
        whole[:, : data.scores.shape[1]] = data.scores
        np.save(tmp_path / "whole" / f"scores_{name}", whole[:, ::-1])
        np.save(tmp_path / "four" / f"scores_{name}", data.scores.repeat(4, axis=1))
        for folder in ("whole", "four"):
            np.save(tmp_path / folder / f"labels_{name}", data.labels)
    order = ",".join(map(str, range(11, -1, -1)))
    words = ("import-scores", "whole", "--schedule", "5,3,4", "--width", "12", "--order", order)
    ok_here(*words, "-o", "one", cwd=tmp_path)
    same(store, tmp_path / "one")
    ok_here("import-scores", "four", "--columns", "4", "-o", "two", cwd=tmp_path)
    same(store, tmp_path / "two")
    refused(tmp_path, "import-scores", "four", "--schedule", "5,3,4", "-o", "new",
            says="(columns=4)")  # fmt: skip
    refused(tmp_path, "import-scores", "whole", "--width", "12", "-o", "new",
            says="give them with --schedule")  # fmt: skip


def test_labels_of_any_kind(tmp_path: Path) -> None:
    labels = np.array([3, 1, 2])
    for kind in KINDS:
        found = read_labels(write(tmp_path / f"y{kind}", {"y": labels}))
        np.testing.assert_array_equal(found, labels)
        assert found.dtype == np.int64
    (tmp_path / "texts.csv").write_text("y\na\nb\n")
    told(tmp_path, "expected one column of whole numbers", read_labels, tmp_path / "texts.csv")


@pytest.mark.parametrize("kind", [".csv", ".tsv", ".parquet", ".arrow", ".feather"])
def test_labels_that_are_missing(store: ScoreStore, tmp_path: Path, kind: str) -> None:
    """An empty cell, fewer labels than rows, a label that no class has: told with the place."""
    data = store.get("test", 1)
    holed = data.labels.astype(np.float64)
    holed[2] = np.nan
    (tmp_path / "files").mkdir()
    scores, words = tmp_path / "files" / f"scores_test_1{kind}", ("import-scores", "files")
    write(scores, {"label": holed, **columns_of(data.scores)})
    refused(tmp_path, *words, "--labels", "label", "-o", "new", says="label nan in row 2 is not a")
    write(scores, columns_of(data.scores))
    refused(tmp_path, *words, "-o", "new", says="labels_test_1 is missing beside scores_test_1")
    for labels, says in (
        (data.labels[:-1], "rows of scores but labels of shape"),
        (data.labels + 1, "label 5 in row"),
        (holed, "label nan in row 2 is not a whole number"),
    ):
        write(tmp_path / "files" / f"labels_test_1{kind}", {"label": labels})
        refused(tmp_path, *words, "-o", "new", says=says)

"""Files that were damaged or crafted, unusual arrays, and two writers at once."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from support import ok, run_transil, unequal_store
from transil import (
    AdBiC,
    Penalty,
    Schedule,
    ScoreStore,
    TransilError,
    evaluate,
    fit,
    fit_state,
    transfer,
)
from transil._common.files import read_json, write_json
from transil.adaptation.score_files import correct_file
from transil.correction import Bank, Newton, Pairs, Reference
from transil.scores import folders as score_folders


def wrong(value: Any) -> Any:
    """A value whose type the type checker shall not see."""
    return value


JUNK: list[Any] = [None, [], {}, "x", True, -1, 10**400, [[1]], {"a": None}, "\ud800"]


def _paths(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every value inside a JSON document."""
    found = [path] if path else []
    items = (
        data.items()
        if isinstance(data, dict)
        else enumerate(data)
        if isinstance(data, list)
        else []
    )
    for key, value in items:
        found += _paths(value, (*path, key))
    return found


def _with(data: Any, path: tuple[Any, ...], value: Any) -> Any:
    data = copy.deepcopy(data)
    place = data
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return data


@pytest.mark.filterwarnings(
    "ignore::transil.ScoreScaleWarning", "ignore::transil.errors.CorrectionWarning"
)
def test_every_field_of_a_bank_may_be_junk(tmp_path: Path) -> None:
    """Junk in any place is refused with a TransilError, or does no harm to any use of the bank."""
    store = unequal_store(1)
    good = fit(store).to_json()
    good["references"] = good["references"][:1]
    other = Bank.from_json({**good, "references": [{**good["references"][0], "name": "other"}]})
    refused = 0
    for path in _paths(good):
        for junk in JUNK:
            try:
                bank = Bank.from_json(_with(good, path, junk))
                evaluate(store, bank, same_method=False)
                bank.save(tmp_path / "again.json")
                transfer([bank, other])
            except TransilError:
                refused += 1
    assert refused > 500


def test_show_survives_junk(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from transil.cli import main

    good = fit(unequal_store(1)).to_json()
    for path in _paths(good):
        in_one_fit = "fit" in path and "5" in path  # the fit records of all states are alike
        if path[0] in ("settings", "provenance", "transfer") or in_one_fit:
            for junk in JUNK[:7:3]:
                (tmp_path / "b.json").write_text(json.dumps(_with(good, path, junk)))
                assert main(["bank", "show", str(tmp_path / "b.json")]) in (0, 2)
    capsys.readouterr()


def test_every_field_of_a_manifest_may_be_junk(tmp_path: Path) -> None:
    unequal_store(1).save(tmp_path)
    good = read_json(tmp_path / "store.json")
    for path in _paths(good):
        for junk in JUNK[:-1]:
            (tmp_path / "store.json").write_text(json.dumps(_with(good, path, junk)))
            try:
                store = ScoreStore.open(tmp_path)
                evaluate(store)
                fit(store)
            except TransilError:
                pass


def test_a_key_that_stands_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"a": 1, "a": 2}')
    with pytest.raises(TransilError, match="a key stands twice"):
        read_json(tmp_path / "x.json")


@pytest.mark.parametrize(
    ("scores", "labels", "words"),
    [
        (np.full((3, 50), np.nan, np.float32), np.arange(3), "score nan in row 0, column 0"),
        (np.zeros((3, 50), np.float32), np.arange(2), "3 rows of scores but labels of shape"),
        (np.zeros((3, 50), np.float32), np.zeros((3, 1), np.int64), "labels of shape"),
        (np.zeros(50, np.float32), np.arange(3), "must be a table"),
        (np.zeros((3, 50), np.int64), np.arange(3), "floating-point scores"),
        (np.zeros((0, 50), np.float32), np.zeros(0, np.int64), "no rows"),
        (np.zeros((3, 49), np.float32), np.arange(3), "49 columns"),
        (np.zeros((3, 50), np.float32), np.array([0, 1, 99]), "label 99 in row 2"),
    ],
)
def test_data_files_with_a_right_checksum_and_wrong_content(
    tmp_path: Path, scores: Any, labels: Any, words: str
) -> None:
    from safetensors.numpy import save

    unequal_store(1).save(tmp_path)
    _replace_data(tmp_path, save({"scores": scores, "labels": labels}))
    with pytest.raises(TransilError, match=words):
        evaluate(tmp_path)


@pytest.mark.parametrize(
    "raw",
    [
        (2**62).to_bytes(8, "little") + b"{}",
        (2).to_bytes(8, "little") + b"[]",
        (100_000).to_bytes(8, "little") + b"[" * 100_000,
        (2).to_bytes(8, "little") + b"{}",
        b"",
    ],
)
def test_headers_that_are_nonsense(tmp_path: Path, raw: bytes) -> None:
    unequal_store(1).save(tmp_path)
    _replace_data(tmp_path, raw)
    with pytest.raises(TransilError):
        evaluate(tmp_path)


def _replace_data(folder: Path, raw: bytes) -> None:
    manifest = read_json(folder / "store.json")
    entry = manifest["splits"]["test"]["1"]
    (folder / entry["file"]).write_bytes(raw)
    entry |= {"bytes": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}
    write_json(folder / "store.json", manifest)


def test_a_damaged_store_can_be_saved_over(tmp_path: Path) -> None:
    unequal_store(1).save(tmp_path)
    whole = (tmp_path / "store.json").read_text()
    for text in ("", whole[:200], '{"format": "transil-scores", "version": 1}'):
        (tmp_path / "store.json").write_text(text)
        unequal_store(2).save(tmp_path)
        assert ScoreStore.open(tmp_path).fingerprint() == unequal_store(2).fingerprint()


def test_two_writers_lose_nothing(tmp_path: Path) -> None:
    store = unequal_store(1)
    ScoreStore.create(tmp_path, store.schedule)
    with pytest.raises(TransilError, match="there is a score store already"):
        ScoreStore.create(tmp_path, store.schedule)
    a, b = ScoreStore.open(tmp_path), ScoreStore.open(tmp_path)
    for writer, state in ((a, 1), (b, 2), (a, 3), (b, 4)):
        data = store.get("val", state)
        writer.put("val", state, data.scores, data.labels)
    assert ScoreStore.open(tmp_path).states("val") == (1, 2, 3, 4)


def test_a_failed_save_leaves_no_trace(tmp_path: Path) -> None:
    store = ScoreStore.from_arrays(
        {"test": {1: ([[1.0, 2.0]], [0]), 2: ([[1e6] * 4], [3])}}, [2, 2]
    )
    with pytest.raises(TransilError, match="too large for float16"):
        store.save(tmp_path / "new", dtype="float16")
    assert not (tmp_path / "new").exists()
    unequal_store(1).save(tmp_path / "old")
    before = {p.name for p in (tmp_path / "old").iterdir()}
    with pytest.raises(TransilError, match="too large for float16"):
        store.save(tmp_path / "old", dtype="float16")
    assert {p.name for p in (tmp_path / "old").iterdir()} == before


def test_a_store_keeps_its_own_copy() -> None:
    buffer = np.zeros((2, 2))
    store = ScoreStore.from_arrays({"test": [(buffer, [0, 1])]}, [2])
    buffer[:] = np.nan
    assert np.isfinite(store.get("test", 1).scores).all()
    schedule = Schedule.of("2,2")
    with pytest.raises(ValueError, match="read-only"):
        schedule.classes(2)[0] = 99


# -- unusual numbers ---------------------------------------------------------------------------


def test_schedules_that_would_exhaust_memory() -> None:
    makers: list[Any] = [
        lambda: Schedule.of("99999999999"),
        lambda: Schedule.of("9999999999999999999999,1"),
        lambda: Schedule.equal(10**12, 10),
        lambda: Schedule.from_json({"sizes": [6, 300_000_000]}),
        lambda: Schedule.from_json({"sizes": [10**30]}),
        lambda: Schedule.from_groups([[2**70]]),
    ]
    for make in makers:
        with pytest.raises(TransilError):
            make()


def _tiny_bank(alpha: float) -> Bank:
    pairs = {2: Pairs(np.array([1.0, alpha]), np.zeros(2))}
    return Bank(AdBiC(), Schedule.of("2,2"), (Reference("x", pairs),))


@pytest.mark.parametrize(("dtype", "large"), [(np.float16, 6e4), (np.float32, 3e38)])
@pytest.mark.parametrize("ending", ["npy", "pt"])
def test_no_infinite_score_is_written(
    tmp_path: Path, dtype: Any, large: float, ending: str
) -> None:
    np.save(tmp_path / "in.npy", np.full((3, 4), large, dtype=dtype))
    with pytest.raises(TransilError, match=r"corrected to .*float.*score inf in row 0, column 2"):
        correct_file(tmp_path / "in.npy", tmp_path / f"out.{ending}", _tiny_bank(2.0))
    assert not (tmp_path / f"out.{ending}").exists()


def test_tensors_keep_their_type_in_files(tmp_path: Path) -> None:
    for dtype in (torch.bfloat16, torch.float16, torch.float64):
        torch.save(torch.ones(3, 4, dtype=dtype), tmp_path / "in.pt")
        correct_file(tmp_path / "in.pt", tmp_path / "out.pt", _tiny_bank(0.5))
        assert torch.load(tmp_path / "out.pt").dtype == dtype


def test_tensors_that_are_no_plain_numbers(tmp_path: Path) -> None:
    for tensor in (
        torch.ones(3, 4).to_sparse(),
        torch.ones(3, 4, dtype=torch.float8_e4m3fn),
        torch.ones(3, 4, device="meta"),
    ):
        torch.save(tensor, tmp_path / "in.pt")
        with pytest.raises(TransilError):
            correct_file(tmp_path / "in.pt", tmp_path / "out.npy", _tiny_bank(0.5))


def test_other_byte_orders_and_long_doubles(tmp_path: Path) -> None:
    np.save(tmp_path / "in.npy", np.ones((3, 4), dtype=">f4"))
    correct_file(tmp_path / "in.npy", tmp_path / "out.npy", _tiny_bank(0.5))
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy")[:, 2], 0.5)
    correct_file(tmp_path / "in.npy", tmp_path / "out.pt", _tiny_bank(0.5))
    store = ScoreStore.from_arrays({"t": [(np.ones((2, 2), ">f8"), np.array([0, 1], ">i2"))]}, [2])
    assert store.save(tmp_path / "s").get("t", 1).scores.dtype == np.float64
    with pytest.raises(TransilError, match="scores of type float128|longdouble"):
        ScoreStore.from_arrays({"t": [(np.ones((2, 2), np.longdouble), [0, 1])]}, [2])


def test_scores_too_large_to_fit() -> None:
    store = ScoreStore.from_arrays(
        {"val": [(np.ones((2, 2)), [0, 1]), (np.full((4, 4), 1e200), [0, 1, 2, 3])]}, [2, 2]
    )
    for solver in ("newton", "authors"):
        with pytest.raises(TransilError, match=r"state 2: scores up to 1.0e\+200 are too large"):
            fit(store, solver=solver)


def test_one_state_has_nothing_to_correct() -> None:
    store = ScoreStore.from_arrays({"val": [(np.ones((2, 2)), [0, 1])]}, [2])
    with pytest.raises(TransilError, match="one state has nothing to correct"):
        fit(store)


def test_numbered_file_names(tmp_path: Path) -> None:
    for kind, array in (("scores", np.ones((2, 2))), ("labels", np.array([0, 1]))):
        np.save(tmp_path / f"{kind}_test_01.npy", array)
    assert score_folders.import_scores(tmp_path).states("test") == (1,)
    np.save(tmp_path / "scores_test_1.npy", np.ones((2, 2)))
    with pytest.raises(TransilError, match="is there twice"):
        score_folders.import_scores(tmp_path)


# -- the Python interface ----------------------------------------------------------------------


def test_folders_classes_and_numbers_are_understood(tmp_path: Path) -> None:
    unequal_store(1).save(tmp_path)
    bank = fit(tmp_path, correction=AdBiC, solver=Newton)
    assert evaluate(str(tmp_path), bank, topk=3).states[1].topk.keys() == {3}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda s: fit(s, penalty=0.01), "give Penalty"),
        (lambda s: fit(s, correction=wrong(3)), "expected a name or a Correction"),
        (lambda s: fit(s, solver=wrong(3)), "expected a name or a Solver"),
        (lambda s: evaluate(s, topk=0), "at least 1"),
        (lambda _: Penalty(wrong("a"), 0), "must be a number"),
        (lambda _: Newton(tolerance=-1), "tolerance must be above 0"),
        (lambda _: Newton(ridge=float("nan")), "ridge must be above 0"),
        (lambda s: fit(s).correct(np.zeros((1, 60)), wrong("2")), "a state is a whole number"),
        (lambda _: fit_state(np.zeros((2, 4)), [0.5, 1], "2,2"), "label 0.5 in row 0"),
        (lambda _: fit_state(np.zeros((2, 4)), [[0], [1]], "2,2"), "labels of shape"),
        (lambda s: transfer(fit(s), "mean", reference="x"), "does not take one"),
        (lambda s: transfer(fit(s), "mean", target=s), "does not look at it"),
        (lambda s: transfer(fit(s), "oracle", target=_other("method")), "from 'other'"),
        (lambda s: transfer(fit(s), "oracle", target=_other("kind")), "of kind 'other'"),
        (lambda s: evaluate(_other("kind"), fit(s)), "of kind 'other'"),
        (lambda s: fit([s, _other("kind")], names=["a", "b"]), "its score kind is not that of"),
        (lambda s: transfer([fit(s), fit(_other("kind"), names=["b"])]), "its score kind is not"),
    ],
)
def test_mistakes_in_python_are_told(call: Any, words: str) -> None:
    with pytest.raises(TransilError, match=words):
        call(unequal_store(1))


def _other(what: str) -> ScoreStore:
    store = unequal_store(2)
    setattr(store, what, "other")
    return store


# -- the terminal ------------------------------------------------------------------------------


def test_help_without_words() -> None:
    for words in ((), ("bank",), ("data",)):
        done = run_transil(*words)
        assert done.returncode == 0
        assert done.stdout.startswith("Usage: transil")
        assert len(done.stdout.splitlines()) > 5


def test_strange_names_stay_on_one_line(tmp_path: Path) -> None:
    done = run_transil("bank", "show", "no\nsuch\x1b[31m.json", cwd=tmp_path)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert "\x1b[31m" not in done.stderr
    fit(unequal_store(1)).save(tmp_path / "[red]ü✓ a.json")
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = subprocess.run(
        [sys.executable, "-m", "transil", "bank", "compare", "[red]ü✓ a.json", "[red]ü✓ a.json"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


def test_a_dollar_in_a_name_is_no_mathematics(tmp_path: Path) -> None:
    unequal_store(1, dataset="a$b_$c").save(tmp_path / "s")
    for name in ("a.PNG", "b.svg", "c.svg"):
        ok("evaluate", tmp_path / "s", "--figure", tmp_path / name)
    assert (tmp_path / "b.svg").read_bytes() == (tmp_path / "c.svg").read_bytes()


def test_narrow_terminals_lose_no_numbers(tmp_path: Path) -> None:
    unequal_store(1).save(tmp_path / "s")
    environment = {**os.environ, "COLUMNS": "40"}
    done = subprocess.run(
        [sys.executable, "-m", "transil", "evaluate", str(tmp_path / "s")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    accuracy = evaluate(tmp_path / "s").states[4].accuracy
    assert f"{100 * accuracy:.2f}" in done.stdout
    assert "…" not in done.stdout


def test_a_closed_pipe_is_no_error(tmp_path: Path) -> None:
    fit(unequal_store(1)).save(tmp_path / "b.json")
    command = f"{sys.executable} -m transil bank show b.json; echo code $? >&2"
    done = subprocess.run(
        ["bash", "-c", f"({command}) | head -1"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "Traceback" not in done.stderr
    assert "code 0" in done.stderr


def test_termination_removes_temporary_files(tmp_path: Path) -> None:
    script = """
import sys, time
from transil.adaptation.columns import Columns
def slow(*args, **options):
    print("begun", flush=True)
    time.sleep(30)
Columns.correct = slow
from transil.cli import main
sys.exit(main(sys.argv[1:]))
"""
    fit(unequal_store(1)).save(tmp_path / "b.json")
    np.save(tmp_path / "in.npy", np.zeros((5, 60), np.float32))
    words = ["correct", "in.npy", "--bank", "b.json", "-o", "out.npy"]
    job = subprocess.Popen(
        [sys.executable, "-c", script, *words], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    assert job.stdout is not None
    assert job.stdout.readline().strip() == "begun"
    time.sleep(0.1)
    job.send_signal(signal.SIGTERM)
    assert job.wait(timeout=20) == 143
    job.stdout.close()
    assert {p.name for p in tmp_path.iterdir()} == {"b.json", "in.npy"}


def test_class_lists_from_a_file(tmp_path: Path) -> None:
    np.savez(
        tmp_path / "x.npz",
        scores_test_1=np.eye(2),
        labels_test_1=[30, 7],
        scores_test_2=np.eye(3),
        labels_test_2=[30, 7, 1],
    )
    (tmp_path / "classes.json").write_text("[[30, 7], [1]]")
    ok(
        "import-scores",
        "x.npz",
        "--format",
        "numpy",
        "--schedule",
        "classes.json",
        "-o",
        "s",
        cwd=tmp_path,
    )
    assert evaluate(tmp_path / "s").last_accuracy == 1.0
    (tmp_path / "classes.json").write_text("[[30, 30]]")
    done = run_transil(
        "import-scores",
        "x.npz",
        "--format",
        "numpy",
        "--schedule",
        "classes.json",
        "-o",
        "t",
        cwd=tmp_path,
    )
    assert done.returncode == 2
    assert "classes.json: schedule: class 30 is in group 1" in done.stderr


def test_links_are_followed_and_stay(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link.json").symlink_to(tmp_path / "real" / "bank.json")
    write_json(tmp_path / "link.json", {"a": 1})
    assert (tmp_path / "link.json").is_symlink()
    assert read_json(tmp_path / "real" / "bank.json") == {"a": 1}

"""Files of arrays that are no scores, or were made to do harm: one line each, and nothing written."""

from __future__ import annotations

import io
import json
import os
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from support import refused, run_here, told
from transil import Bank, Schedule, ScoreStore, TransilError, fit, fit_state
from transil.adaptation.score_files import correct_file
from transil.correction.checks import check_bank
from transil.interop import dkt
from transil.scores import folders as score_folders
from transil.scores.array_files import load_named
from transil.testing import biased_scores


@pytest.fixture(scope="module")
def bank() -> Bank:
    return fit(biased_scores("12/3", seed=1))


@pytest.fixture(scope="module")
def scores() -> Any:
    return np.array(biased_scores("12/3", seed=9, images_per_class=10).get("test", 3).scores)


@pytest.fixture
def work(bank: Bank, tmp_path: Path) -> Path:
    bank.save(tmp_path / "bank.json")
    return tmp_path


def wrong(value: Any) -> Any:
    """A value whose type the type checker shall not see."""
    return value


def correct(name: str, *more: str) -> tuple[str, ...]:
    return ("correct", name, "--bank", "bank.json", "-o", "new.npy", *more)


def npy(header: str, data: bytes = bytes(480)) -> bytes:
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


def header(descr: str, shape: str) -> str:
    return f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}"


# -- NumPy's files -----------------------------------------------------------------------------

HEADERS = [
    header("'<f4'", f"({2**70}, 12)"),
    header("'<f4'", f"({2**62}, 12)"),
    header("'<f4'", f"({2**33}, 12)"),
    header("'<f4'", "(-10, 12)"),
    header("'<f4'", "(-10, -12)"),
    header("'<f4'", f"(0, {10**20})"),
    header("'<f4'", "(10, 0)"),
    header("'<f4'", "()"),
    header("'<f4'", "(True, 12)"),
    header("'<f4'", f"({'9' * 5000}, 12)"),
    header("'<f4'", f"({'1, ' * 70})"),
    header("'|O'", "(5, 12)"),
    header("[('a', '<f4'), ('b', '<f4')]", "(5, 12)"),
    header("('<f4', (99999999999,))", "(5, 12)"),
    header("'<M8[s]'", "(5, 12)"),
    header("'|V0'", "(5, 12)"),
    header("5", "(5, 12)"),
    header("[" * 200 + "]" * 200, "(5, 12)"),
    "(" * 3000,
    "{'descr': ",
    "  {\n 'a' 5",
    "{}",
    " " * 20_000 + header("'<f4'", "(5, 12)"),
]


@pytest.mark.parametrize("text", HEADERS, ids=range(len(HEADERS)))
def test_headers_of_numpy(bank: Bank, tmp_path: Path, text: str) -> None:
    for name in ("scores_test_1.npy", "labels_test_1.npy"):
        np.save(tmp_path / "scores_test_1.npy", np.ones((5, 12)))
        np.save(tmp_path / "labels_test_1.npy", np.zeros(5, dtype=int))
        (tmp_path / name).write_bytes(npy(text))
        told(tmp_path, "", score_folders.import_scores, tmp_path)
    for new in ("new.npy", "new.pt"):
        source = tmp_path / "labels_test_1.npy"
        told(tmp_path, "", correct_file, source, tmp_path / new, bank)


@pytest.mark.parametrize(
    "raw", [b"", b"\x93NUMPY", npy("{}")[:9], b"\x93NUMPY\x02\x00" + b"\xff" * 5]
)
def test_cut_files_of_numpy(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "x.npy").write_bytes(raw)
    told(tmp_path, "x.npy: not a plain .npy file", load_named, tmp_path / "x.npy")


def member(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def write_zip(path: Path, members: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def test_members_of_archives(tmp_path: Path, scores: Any) -> None:
    path, labels = tmp_path / "x.npz", member(np.arange(len(scores)) % 4)
    write_zip(path, {"notes.txt": b"hello", "logits.npy": member(scores)})
    np.testing.assert_array_equal(load_named(path), scores)  # what is no array is left out
    cases: list[tuple[dict[str, bytes], str]] = [
        ({}, "holds no arrays"),
        ({"notes.txt": b"hello"}, "holds no arrays"),
        ({"a.npy": npy(header("'|O'", "(5, 12)"))}, "a damaged .npz file (Object arrays"),
        ({"a.npy": npy(header("'<f4'", f"({2**70}, 12)"))}, "a damaged .npz file"),
        ({"a.npy": npy(header("'<f4'", f"({2**26}, 12)"))}, "a damaged .npz file"),
    ]
    for members, says in cases:
        write_zip(path, members)
        told(tmp_path, says, load_named, path)
    for number in ("9999999999", "9" * 5000):
        write_zip(path, {f"{kind}_test_{number}.npy": labels for kind in ("scores", "labels")})
        says = "so large a number no state has"
        told(tmp_path, says, score_folders.import_scores, path)


def test_archives_that_would_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transil.scores.zips.ANY_SIZE", 1 << 20)
    zeros = np.zeros((40_000, 12), dtype=np.float32)
    write_zip(tmp_path / "x.npz", {"a.npy": member(zeros)})
    torch.save(torch.from_numpy(zeros), tmp_path / "stored.pt")
    with zipfile.ZipFile(tmp_path / "stored.pt") as stored:
        members = {name: stored.read(name) for name in stored.namelist()}
    write_zip(tmp_path / "x.pt", members)
    torch.save(torch.zeros(1, 12).expand(10**9, 12), tmp_path / "y.pt")  # one row, told often
    for name, size in (("x.npz", 1), ("x.pt", 1), ("y.pt", 45_776)):
        says = f"bytes that would take {size:,} MiB of memory; refused"
        told(tmp_path, says, load_named, tmp_path / name)


# -- numbers in names --------------------------------------------------------------------------


@pytest.mark.parametrize("number", ["9999999999", "9" * 200])
@pytest.mark.parametrize("more", [(), ("--schedule", "4,4")])
def test_states_in_names_of_files(
    tmp_path: Path, scores: Any, number: str, more: tuple[str, ...]
) -> None:
    for state, columns in (("1", 4), (number, 8)):
        np.save(tmp_path / f"scores_test_{state}.npy", scores[:, :columns])
        np.save(tmp_path / f"labels_test_{state}.npy", np.zeros(len(scores), dtype=int))
    says = "so large a number no state has"
    refused(tmp_path, "import-scores", ".", "-o", "new", *more, says=says)


def test_a_gap_between_states_costs_nothing(tmp_path: Path, scores: Any) -> None:
    for state in (1, 9_999_998):
        np.save(tmp_path / f"scores_test_{state}.npy", scores[:, :4])
        np.save(tmp_path / f"labels_test_{state}.npy", np.zeros(len(scores), dtype=int))
    with pytest.raises(TransilError, match=r"4 in state 1, 4 in state 9999998\).*--schedule"):
        score_folders.import_scores(tmp_path)


# -- tensors -----------------------------------------------------------------------------------


def odd_tensors() -> dict[str, Callable[[torch.Tensor], torch.Tensor]]:
    return {
        "sparse": lambda t: t.to_sparse(),
        "sparse rows": lambda t: t.to_sparse_csr(),
        "nested": lambda t: torch.nested.nested_tensor([t[:3], t[:4]]),
        "quantized": lambda t: torch.quantize_per_tensor(t, 0.1, 0, torch.qint8),
        "complex": lambda t: t.to(torch.complex64),
        "conjugate": lambda t: t.to(torch.complex64).conj(),
        "8 bits": lambda t: t.to(torch.float8_e4m3fn),
        "whole": lambda t: t.int(),
    }


@pytest.mark.parametrize("kind", odd_tensors())
def test_tensors_that_are_no_tables(bank: Bank, scores: Any, tmp_path: Path, kind: str) -> None:
    work, plain = tmp_path, torch.from_numpy(scores)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls some of these kinds unfinished
        odd = odd_tensors()[kind](plain)
        torch.save(odd, work / "x.pt")
        torch.save({"a": odd, "b": plain}, work / "two.pt")
        names = {"scores_test_1": odd, "labels_test_1": torch.zeros(len(scores))}
        torch.save(names, work / "names.pt")
    labels = np.arange(len(scores)) % 12
    calls: list[Callable[[], Any]] = [
        lambda: bank.correct(odd),
        lambda: bank.correct(odd, 3, rescale=True),
        lambda: bank.like(odd, 3),
        lambda: check_bank(bank, odd, 3),
        lambda: fit_state(odd, labels, "12/3"),
        lambda: ScoreStore.from_arrays({"test": [(odd, labels)]}, [12]),
        lambda: ScoreStore.from_arrays({"test": [(scores, odd)]}, [12]),
        lambda: bank.correct(plain, order=odd),
    ]
    for call in calls:
        with pytest.raises(TransilError):
            call()
    for new in ("new.npy", "new.pt"):
        told(work, "x.pt: ", correct_file, work / "x.pt", work / new, bank)
    told(work, "two.pt: ", load_named, work / "two.pt")
    told(work, "", score_folders.import_scores, work / "names.pt")


def test_tensors_without_values(work: Path) -> None:
    torch.save(torch.zeros(5, 12, device="meta"), work / "x.pt")
    refused(work, *correct("x.pt"), says="x.pt: a tensor of kind torch.float32 on meta")


def test_tensors_that_are_lazily_turned_around(bank: Bank, scores: Any) -> None:
    """Their bits are those of other numbers until somebody asks."""
    negative = torch.imag(
        torch.complex(torch.zeros(scores.shape), torch.from_numpy(-scores)).conj()
    )
    assert negative.is_neg()
    store = ScoreStore.from_arrays({"test": [(negative, np.zeros(len(scores)))]}, [12])
    np.testing.assert_array_equal(store.get("test", 1).scores, scores)
    assert bank.correct(negative.requires_grad_(), 3).requires_grad


@pytest.mark.parametrize(
    "given",
    [None, 5, "abc", {}, [[1.0], [1.0, 2.0]], [[2**70] * 12], np.array([[{}] * 12]), [[1j] * 12]],
    ids=str,
)
def test_what_is_no_array(bank: Bank, scores: Any, given: Any) -> None:
    labels = np.arange(len(scores)) % 12
    calls: list[Callable[[], Any]] = [
        lambda: bank.correct(given),
        lambda: bank.like(given, 3),
        lambda: bank.like(np.ones((80, 0)), 3),
        lambda: check_bank(bank, given, 3),
        lambda: fit_state(given, labels, "12/3"),
        lambda: ScoreStore.from_arrays({"test": [(given, labels)]}, [12]),
        lambda: ScoreStore.from_arrays({"test": [(scores, given)]}, [12]),
        lambda: ScoreStore.from_arrays({"test": [given]}, [12]),
        lambda: ScoreStore.from_arrays(wrong({3: [(scores, labels)]}), [12]),
    ]
    for call in calls:
        with pytest.raises(TransilError):
            call()


@pytest.mark.parametrize(
    "label", [2**63, -(2**63), 2**64 - 1, 2**70, 1e300, -1e300, np.inf, np.nan, -1, 1.5, "a", True]
)
def test_labels_that_are_none(scores: Any, label: Any) -> None:
    for labels in ([label] * len(scores), np.array([label] * len(scores))):
        with pytest.raises(TransilError):
            ScoreStore.from_arrays({"test": [(scores, labels)]}, [12])


# -- safetensors -------------------------------------------------------------------------------


def entry(dtype: str = "F32", shape: Any = (12, 12), offsets: Any = (0, 576)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def with_header(head: Any) -> bytes:
    text = head if isinstance(head, bytes) else json.dumps(head).encode()
    return len(text).to_bytes(8, "little") + text + bytes(576)


CRAFTED = [
    {"scores": entry(offsets=(-576, 0))},
    {"scores": entry(offsets=(576, 0))},
    {"scores": entry(offsets=(2**70, 2**71))},
    {"scores": entry(shape=(2**70, 4))},
    {"scores": entry(shape=(2**60, 12))},
    {"scores": entry(shape=(-12, -12))},
    {"scores": entry(shape=(-1, 4))},
    {"scores": entry(shape=5)},
    {"scores": entry(shape=None)},
    {"scores": entry("F64")},
    {"scores": entry("F7")},
    {"scores": entry(offsets=(0, 5760), shape=(120, 12))},
    {"scores": entry(offsets=(0,))},
    {"scores": entry(), "labels": entry()},  # one over the other
    {"scores": "x"},
    {},
    [1],
    b"[" * 100_000,
    b'{"scores": ' + b"9" * 5000 + b"}",
]


@pytest.mark.parametrize("head", CRAFTED, ids=range(len(CRAFTED)))
def test_headers_of_safetensors(tmp_path: Path, head: Any) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(with_header(head))
    told(tmp_path, "x.safetensors: ", load_named, path)


@pytest.mark.parametrize("head", CRAFTED, ids=range(len(CRAFTED)))
def test_data_files_of_a_store(tmp_path: Path, head: Any) -> None:
    from hashlib import sha256

    biased_scores("12/3", images_per_class=2).save(tmp_path)
    manifest = json.loads((tmp_path / "store.json").read_text())
    facts = manifest["splits"]["test"]["1"]
    raw = with_header(head)
    (tmp_path / facts["file"]).write_bytes(raw)
    facts |= {"bytes": len(raw), "sha256": sha256(raw).hexdigest()}
    (tmp_path / "store.json").write_text(json.dumps(manifest))
    with pytest.raises(TransilError):
        ScoreStore.open(tmp_path).get("test", 1)


# -- files that are none -----------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["npy", "npz", "pt", "safetensors", "csv", "parquet"])
def test_pipes_folders_and_links_to_nowhere(bank: Bank, tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"x.{ending}"
    new = tmp_path / (f"new.{ending}" if ending in ("csv", "parquet") else "new.npy")

    def refuses(says: str, source: Path = path) -> None:
        told(tmp_path, says, correct_file, source, new, bank, 3)

    os.mkfifo(path)
    refuses(f"cannot read {path}: it is a device or pipe")
    path.unlink()
    path.mkdir()
    refuses(f"cannot read {path}: it is a folder")
    path.rmdir()
    for target, says in (
        ("/dev/zero", "device or pipe"),
        (path.name, "Too many levels of symbolic links"),
        ("nowhere", "No such file"),
    ):
        path.symlink_to(target)
        refuses(says)
        path.unlink()
    path.write_bytes(b"")
    refuses(f"x.{ending}: ")
    refuses("File name too long", tmp_path / ("x" * 300 + f".{ending}"))
    refuses("a zero byte (NUL) cannot stand in a path", tmp_path / f"\0.{ending}")


def test_pipes_as_words(work: Path) -> None:
    os.mkfifo(work / "x.npy")
    says = "cannot read x.npy: it is a device or pipe, not a plain file"
    refused(work, *correct("x.npy"), says=says)
    refused(work, "bank", "check", "x.npy", "--bank", "bank.json", "--state", "3", says=says)
    refused(work, "transfer", "bank.json", "--like", "x.npy", "-o", "new.json", says=says)
    refused(work, "import-scores", "x.npy", "-o", "new", says=says)
    refused(work, "import-scores", "x" * 300, "-o", "new", says="File name too long")


def test_a_pipe_among_the_files_of_a_folder(tmp_path: Path) -> None:
    for name in ("scores_test_1.npy", "scores_test_2.pt"):
        os.mkfifo(tmp_path / name)
        told(tmp_path, "device or pipe", score_folders.import_scores, tmp_path)
        (tmp_path / name).unlink()
    (tmp_path / "bic_model_0.ckpt").touch()
    os.mkfifo(tmp_path / "bic_model_1.ckpt")
    told(tmp_path, "device or pipe", dkt.import_bank, tmp_path)


# -- schedules, states, orders -----------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["99999999999999999999/3", "9" * 5000 + "/3", "3/" + "9" * 5000, "1000000000/1000000000",
     "1e3/10", "10/0", "", "/", "5,,5", "5,-5", "5," + "9" * 5000, "10/10/10", "\0"],
    ids=range(13),
)  # fmt: skip
def test_texts_that_are_no_schedule(text: str) -> None:
    with pytest.raises(TransilError) as told:
        Schedule.of(text)
    assert len(str(told.value)) < 250


@pytest.mark.parametrize(
    "make",
    [
        lambda: Schedule.of(wrong(b"10,10")),
        lambda: Schedule.of(wrong(np.array(5))),
        lambda: Schedule.of(wrong(np.array([5.5]))),
        lambda: Schedule.of(wrong([torch.tensor([1, 2])])),
        lambda: Schedule.of(wrong([[torch.tensor([1, 2])]])),
        lambda: Schedule.equal(wrong("a"), 2),
        lambda: Schedule.equal(wrong(2.5), 2),
        lambda: Schedule.equal(10, wrong(None)),
    ],
)
def test_values_that_are_no_schedule(make: Callable[[], Any]) -> None:
    with pytest.raises(TransilError, match="^schedule: "):
        make()


def test_arrays_and_tensors_are_schedules() -> None:
    specs: list[Any] = [np.array([2, 3]), torch.tensor([2, 3])]
    assert all(Schedule.of(spec).sizes == (2, 3) for spec in specs)
    groups: Any = np.array([[3, 1], [0, 2]])
    assert Schedule.of(groups).groups == ((3, 1), (0, 2))


@pytest.mark.parametrize("value", ["9" * 5000, "9" * 30, "-1", "1.5"])
def test_states_that_there_are_not(work: Path, scores: Any, value: str) -> None:
    np.save(work / "x.npy", scores)
    refused(work, *correct("x.npy", "--state", value))
    refused(work, *correct("x.npy", "--order", value))
    (work / "order.json").write_text(f"[{value}]")
    refused(work, *correct("x.npy", "--order", "order.json"))


# -- scores near the largest float -------------------------------------------------------------


def huge(dtype: Any) -> ScoreStore:
    store = biased_scores("12/3", seed=3, images_per_class=10)
    arrays: dict[str, dict[int, Any]] = {}
    for split, state in store:
        data = store.get(split, state)
        large = float(np.finfo(dtype).max) * 0.9
        grown = data.scores.astype(np.float64) / np.abs(data.scores).max() * large
        arrays.setdefault(split, {})[state] = (grown.astype(dtype), data.labels)
    return ScoreStore.from_arrays(arrays, "12/3", method=store.method)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_finite_scores_that_are_huge(bank: Bank, work: Path, dtype: Any) -> None:
    """Judged where that can be done, refused in one line where it cannot: no arithmetic warns."""
    store = huge(dtype)
    store.save(work / "huge")
    done = run_here("evaluate", "huge", "--json", cwd=work)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["raw"]["last_accuracy"] > 0
    refused(work, "fit", "huge", "-o", "new.json", says="are too large to fit")
    np.save(work / "x.npy", store.get("test", 3).scores)
    refused(work, *correct("x.npy"), says="new.npy, corrected to float")


def test_a_correction_that_overflows_is_told(bank: Bank) -> None:
    rows = np.full((3, 12), 3e38, dtype=np.float32)
    larger = Bank.from_json(bank.to_json() | {})
    pair = larger.references[0].pairs[3]
    pair.alpha[:] = 2.0
    with pytest.raises(TransilError, match="corrected to float32: score inf in row 0, column 0"):
        larger.correct(rows, 3, order=list(range(12))[::-1])
    rows[:, 8:] = -np.inf  # masked: stays so, and is no error
    assert np.isneginf(larger.correct(rows / 4, 3)[:, 8:]).all()

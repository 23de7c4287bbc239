"""Bad input: one clear line, exit code 2, no traceback, nothing half-written, nothing lost."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from support import run_here, run_transil, unequal_store
from test_interop import (
    write_malicious,
    write_numpy_folder,
    write_released_bank,
    write_released_layout,
)
from transil import ScoreStore, fit
from transil.testing import biased_scores


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("template")
    store = unequal_store(1)
    store.save(folder / "store")
    fit(store).save(folder / "bank.json")
    write_numpy_folder(store, folder / "numpy")
    write_released_layout(unequal_store(1, splits=("val",)), folder / "dkt")
    write_released_bank(folder / "bic", 5)
    np.save(folder / "scores.npy", np.array(store.get("test", 3).scores))
    (folder / "old.npy").write_bytes(b"old")
    fit(store, correction="bic").save(folder / "old.json")
    return folder


@pytest.fixture
def work(template: Path, tmp_path: Path) -> Path:
    """A fresh copy of the template to break."""
    return Path(shutil.copytree(template, tmp_path / "work"))


def snapshot(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def refused(work: Path, *words: str, says: list[str]) -> None:
    """The command is refused in one line that says all of `says`, and changes no file."""
    before = snapshot(work)
    done = run_here(*words, cwd=work)
    assert done.returncode == 2, (done.stdout, done.stderr)
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("error: ")
    for part in says:
        assert part in lines[0], lines[0]
    assert done.stdout == ""
    assert snapshot(work) == before


def change_scores(work: Path, name: str, row: int, column: int, value: float) -> None:
    scores = np.load(work / name)
    scores[row, column] = value
    np.save(work / name, scores)


# -- scores ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "word"), [(np.nan, "nan"), (np.inf, "inf"), (-np.inf, "-inf")])
def test_scores_that_are_not_numbers(work: Path, value: float, word: str) -> None:
    change_scores(work, "scores.npy", 100, 64, value)
    refused(
        work,
        "correct",
        "scores.npy",
        "--bank",
        "bank.json",
        "--state",
        "3",
        "-o",
        "old.npy",
        says=["scores.npy, state 3", f"score {word} in row 100, column 64"],
    )
    change_scores(work, "numpy/scores_test_4.npy", 7, 65, value)
    refused(
        work,
        "import-scores",
        "numpy",
        "--format",
        "numpy",
        "-o",
        "store",
        says=["split 'test', state 4", f"score {word} in row 7, column 65"],
    )


def test_labels_outside_the_schedule(work: Path) -> None:
    labels = np.load(work / "numpy/labels_val_2.npy")
    labels[3] = 60  # a class of state 3
    np.save(work / "numpy/labels_val_2.npy", labels)
    refused(
        work,
        "import-scores",
        "numpy",
        "--format",
        "numpy",
        "-o",
        "new",
        says=["split 'val', state 2", "label 60 in row 3", "60 classes seen in state 2"],
    )


def test_wrong_column_count(work: Path) -> None:
    refused(
        work,
        "correct",
        "scores.npy",
        "--bank",
        "bank.json",
        "--state",
        "4",
        "-o",
        "old.npy",
        says=["scores.npy: 65 columns, but state 4 has 66"],
    )
    np.save(work / "scores.npy", np.zeros((5, 61), dtype=np.float32))
    refused(
        work,
        "correct",
        "scores.npy",
        "--bank",
        "bank.json",
        "-o",
        "old.npy",
        says=["61 columns", "50, 60, 65, 66, 100"],
    )
    refused(
        work,
        "import-scores",
        "numpy",
        "--format",
        "numpy",
        "--schedule",
        "100/5",
        "-o",
        "new",
        says=["split 'test', state 1: 50 columns, but state 1 has 20"],
    )
    refused(
        work,
        "import-scores",
        "dkt",
        "--schedule",
        "100/5",
        "-o",
        "new",
        says=["dkt: ", "50 columns"],
    )


def test_scores_of_the_wrong_kind(work: Path) -> None:
    np.save(work / "scores.npy", np.zeros((5, 65), dtype=np.int64))
    command = ("correct", "scores.npy", "--bank", "bank.json", "-o", "old.npy")
    refused(work, *command, says=["scores.npy: expected floating-point scores, not int64"])
    np.save(work / "scores.npy", np.zeros(65))
    refused(work, *command, says=["scores.npy: expected a table"])
    (work / "scores.npy").write_bytes((work / "numpy/scores_val_5.npy").read_bytes()[:5000])
    refused(work, *command, says=["scores.npy"])
    (work / "scores.npy").write_bytes(b"hello")
    refused(work, *command, says=["scores.npy: not a plain .npy file"])
    (work / "scores.npy").unlink()
    refused(work, *command, says=["cannot read scores.npy: No such file"])


# -- stores ------------------------------------------------------------------------------------


def test_a_missing_state_or_split(work: Path) -> None:
    refused(
        work,
        "fit",
        "store",
        "--split",
        "train",
        "-o",
        "old.json",
        says=["store: no split 'train' (there are: test 1-5, val 1-5)"],
    )
    manifest = json.loads((work / "store/store.json").read_text())
    del manifest["splits"]["val"]["3"]
    (work / "store/store.json").write_text(json.dumps(manifest))
    refused(work, "fit", "store", "-o", "old.json", says=["split 'val' lacks state 3"])
    del manifest["splits"]["test"]
    (work / "store/store.json").write_text(json.dumps(manifest))
    refused(work, "evaluate", "store", says=["no split 'test'"])
    (work / "dkt/logits_val_2_1.ckpt").unlink()
    refused(work, "import-scores", "dkt", "-o", "new", says=["logits_val_2_1.ckpt is missing"])
    (work / "numpy/scores_val_2.npy").unlink()
    (work / "numpy/scores_test_2.npy").unlink()
    command = ("import-scores", "numpy", "--format", "numpy", "-o", "new")
    refused(work, *command, says=["scores_test_2 is missing beside labels_test_2"])
    (work / "numpy/labels_val_2.npy").unlink()
    (work / "numpy/labels_test_2.npy").unlink()
    refused(work, *command, says=["--schedule"])


def test_a_cut_or_altered_file(work: Path) -> None:
    data = next((work / "store").glob("test-03-*.safetensors"))
    whole = data.read_bytes()
    data.write_bytes(whole[:-1])
    refused(work, "evaluate", "store", says=[data.name, f"{len(whole) - 1} bytes instead of"])
    altered = bytearray(whole)
    altered[-1] ^= 1
    data.write_bytes(bytes(altered))
    refused(work, "evaluate", "store", says=[data.name, "checksum does not match"])
    data.unlink()
    refused(work, "evaluate", "store", says=[data.name, "No such file"])
    manifest = work / "store/store.json"
    manifest.write_bytes(manifest.read_bytes()[:200])
    refused(work, "evaluate", "store", says=["store.json: not a JSON file"])
    manifest.write_text('{"format": "transil-scores", "version": 9}')
    refused(work, "evaluate", "store", says=["store.json: format version 9"])
    manifest.unlink()
    refused(work, "evaluate", "store", says=["store: no score store here"])
    refused(work, "evaluate", "nowhere", says=["nowhere: no score store here"])
    ckpt = work / "dkt/logits_val_1_1.ckpt"
    ckpt.write_bytes(ckpt.read_bytes()[:900])
    refused(work, "import-scores", "dkt", "-o", "new", says=["logits_val_1_1.ckpt: "])


# -- banks -------------------------------------------------------------------------------------


def test_a_bank_of_another_schedule_or_method(work: Path) -> None:
    fit(biased_scores("100/5", images_per_class=2)).save(work / "other.json")
    refused(
        work,
        "evaluate",
        "store",
        "--bank",
        "other.json",
        says=["store: its schedule", "is not the bank's (100 classes, 5 groups of 20)"],
    )
    refused(work, "bank", "compare", "bank.json", "other.json", says=["other.json: its schedule"])
    refused(
        work,
        "transfer",
        "bank.json",
        "other.json",
        "-o",
        "old.json",
        says=["bank 2: its schedule is not that of"],
    )
    store = unequal_store(3)
    store.method = "lwf"
    store.save(work / "lwf")
    refused(
        work,
        "evaluate",
        "lwf",
        "--bank",
        "bank.json",
        says=["from 'lwf', the bank is for 'generated'", "--any-method"],
    )
    done = run_transil("evaluate", "lwf", "--bank", "bank.json", "--any-method", cwd=work)
    assert done.returncode == 0
    refused(work, "fit", "store", "lwf", "-o", "old.json", says=["lwf: its method is not that of"])


def test_bank_files_that_are_wrong(work: Path) -> None:
    command = ("correct", "scores.npy", "--bank", "bad.json", "-o", "old.npy")
    refused(work, *command, says=["cannot read bad.json: No such file"])
    good = (work / "bank.json").read_text()
    for text, says in [
        (good[:100], "bad.json: not a JSON file"),
        ("[]", "bad.json: not a bank"),
        ("{}", "bad.json: not a bank"),
        (good.replace('"version": 2', '"version": 7'), "bad.json: bank version 7"),
        (good.replace('"solver"', '"silver"'), "bad.json: bank: solver is missing"),
        (good.replace('"alpha": [', '"alpha": [NaN, '), "bad.json: not a JSON file (NaN"),
        (good.replace('"alpha": [', '"alpha": [1.0, '), "values of alpha but"),
    ]:
        (work / "bad.json").write_text(text)
        refused(work, *command, says=[says])


# -- pickles -----------------------------------------------------------------------------------


@pytest.mark.parametrize("style", ["torch", "pickle"])
def test_malicious_pickles_do_not_run(work: Path, style: str) -> None:
    mark = work / "executed"
    for path, command in [
        ("dkt/logits_val_0_0.ckpt", ("import-scores", "dkt", "-o", "new")),
        ("bic/bic_model_1.ckpt", ("import-bank", "bic", "-o", "new.json")),
        ("evil.pt", ("correct", "evil.pt", "--bank", "bank.json", "-o", "old.pt")),
    ]:
        write_malicious(work / path, mark, style)
        refused(work, *command, says=[path, "refused", "nothing in it was executed"])
        assert not mark.exists()
    write_malicious(work / "scores.npy", mark, style)
    refused(
        work, "correct", "scores.npy", "--bank", "bank.json", "-o", "old.npy", says=["scores.npy"]
    )
    shutil.copy(work / "scores.npy", work / "numpy/scores_val_1.npy")
    refused(work, "import-scores", "numpy", "--format", "numpy", "-o", "new", says=["scores_val_1"])
    assert not mark.exists()


# -- outputs -----------------------------------------------------------------------------------


def test_outputs_that_cannot_be_written(work: Path) -> None:
    # A file where a folder should be refuses root as well, which permissions do not.
    for command in (
        ("fit", "store", "-o", "old.json/bank.json"),
        ("transfer", "bank.json", "-o", "old.json/bank.json"),
        ("import-bank", "bic", "-o", "old.json/bank.json"),
        ("correct", "scores.npy", "--bank", "bank.json", "-o", "old.npy/x.npy"),
        ("import-scores", "dkt", "-o", "old.npy/store"),
        ("evaluate", "store", "--figure", "old.npy/x.png"),
    ):
        refused(work, *command, says=["cannot write old."])
    refused(work, "fit", "store", "-o", "numpy", says=["cannot write numpy: it is a folder"])
    refused(work, "evaluate", "store", "--figure", "x.gif", says=["x.gif: figures are .png"])
    refused(
        work,
        "correct",
        "scores.npy",
        "--bank",
        "bank.json",
        "-o",
        "x.txt",
        says=["x.txt: unknown kind of file; scores are arrays (.npy, .npz,"],
    )


@pytest.mark.parametrize(
    "words", [("fit", "store"), ("transfer", "bank.json"), ("import-bank", "bic")]
)
def test_what_is_no_bank_is_not_overwritten_by_one(work: Path, words: tuple[str, ...]) -> None:
    refused(work, *words, "-o", "scores.npy", says=["scores.npy", "is not a transil-bank file"])
    assert run_here(*words, "-o", "old.json", cwd=work).returncode == 0


def test_an_interrupted_write_leaves_the_old_file(work: Path) -> None:
    # SIGKILL just before the new file would take the old one's name.
    script = """
import os, signal, sys
os.replace = lambda a, b: os.kill(os.getpid(), signal.SIGKILL)
from transil.cli import main
sys.exit(main(sys.argv[1:]))
"""
    old = (work / "old.json").read_bytes()
    for words in (
        ("correct", "scores.npy", "--bank", "bank.json", "-o", "old.npy"),
        ("fit", "store", "-o", "old.json"),
        ("transfer", "bank.json", "-o", "old.json"),
    ):
        done = subprocess.run([sys.executable, "-c", script, *words], cwd=work, timeout=60)
        assert done.returncode == -9
        assert (work / "old.npy").read_bytes() == b"old"
        assert (work / "old.json").read_bytes() == old
    before = ScoreStore.open(work / "store").fingerprint()
    words = ("import-scores", "numpy", "--format", "numpy", "-o", "store")
    done = subprocess.run([sys.executable, "-c", script, *words], cwd=work, timeout=60)
    assert done.returncode == -9
    store = ScoreStore.open(work / "store")
    assert store.fingerprint() == before
    assert store.get("val", 5).scores.shape[1] == 100


# -- words -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["fit", "store", "-o", "x.json", "--solver", "newtom"], "did you mean 'newton'"),
        (["fit", "store", "-o", "x.json", "--correction", "bick"], "did you mean 'bic'"),
        (["fit", "store", "-o", "x.json", "--epochs", "3"], "solver 'newton' has no setting"),
        (["fit", "store", "-o", "x.json", "--solver", "paper", "--epochs", "0"], "epochs must be"),
        (["fit", "store", "-o", "x.json", "--penalty-beta", "-1"], "penalty: beta is -1"),
        (["fit", "store", "store", "-o", "x.json"], "two references have one name"),
        (["fit", "store", "--name", "a", "--name", "b", "-o", "x.json"], "2 names for 1 stores"),
        (["fit", "store"], "transil fit --help"),
        (["fit", "store", "-o", "x.json", "--nonsense"], "--nonsense"),
        (["evaluate", "store", "--topk", "one"], "transil evaluate --help"),
        (["evaluate", "store", "--json", "--csv"], "not both"),
        (["transfer", "bank.json", "--how", "meen", "-o", "x.json"], "did you mean 'mean'"),
        (["transfer", "bank.json", "--how", "oracle", "-o", "x.json"], "needs the target's"),
        (["transfer", "bank.json", "--how", "single", "-o", "x.json"], "needs the name"),
        (["import-scores", "dkt", "--format", "nunpy", "-o", "x"], "did you mean 'numpy'"),
        (["import-scores", "dkt", "--schedule", "ten", "-o", "x"], "cannot read 'ten'"),
        (["import-scores", "dkt", "--dtype", "int8", "-o", "x"], "choose one of float16"),
        (["import-bank", "bic", "--classes", "7", "-o", "x.json"], "cannot be cut into 5"),
        (["import-bank", "bic", "--format", "x", "-o", "x.json"], "--format 'x' is unknown"),
        (["bank", "show", "bank.json", "--reference", "nobody"], "no reference 'nobody'"),
        (["nonsense"], "nonsense"),
    ],
)
def test_words_that_make_no_sense(work: Path, words: list[str], says: str) -> None:
    refused(work, *words, says=[says])


def test_non_convergence_is_said(work: Path) -> None:
    script = """
import sys
from transil.correction import registry
from transil.correction.newton import Newton
from dataclasses import dataclass
@registry.register_solver
@dataclass(frozen=True)
class Hasty(Newton):
    name = "hasty"
    max_iterations: int = 1
from transil.cli import main
sys.exit(main(sys.argv[1:]))
"""
    words = ("fit", "store", "--solver", "hasty", "-o", "new.json")
    done = subprocess.run(
        [sys.executable, "-c", script, *words], cwd=work, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0
    assert "warning: newton, state 2: stopped after 1 iterations" in done.stderr
    assert "NO" in done.stdout
    assert '"converged": false' in (work / "new.json").read_text()


def test_probabilities_are_no_raw_scores(work: Path) -> None:
    scores = torch.from_numpy(np.array(unequal_store(1).get("test", 5).scores))
    old = (work / "scores.npy").read_bytes()
    for name, values in (
        ("probabilities", scores.softmax(1)),
        ("log-probabilities", scores.log_softmax(1)),
    ):
        np.save(work / "scores.npy", values.numpy())
        torch.save(values, work / "p.pt")
        for file, more in (("scores.npy", ()), ("scores.npy", ("--rescale",)), ("p.pt", ())):
            out = "c" + Path(file).suffix
            refused(work, "correct", file, "--bank", "bank.json", *more, "-o", out,
                    says=[f"these are {name}", "before softmax"])  # fmt: skip
    (work / "scores.npy").write_bytes(old)
    places = [work / "numpy" / f"scores_val_{state}.npy" for state in (1, 2)]
    for path in places:
        rows = torch.from_numpy(np.load(path))
        np.save(path, rows.softmax(1).numpy())
    refused(work, "import-scores", "numpy", "--format", "numpy", "-o", "new",
            says=["split 'val', state 1, are probabilities", "--kind probability"])  # fmt: skip


def test_scores_are_not_imported_into_a_training(work: Path) -> None:
    (work / "run").mkdir()
    (work / "run" / "run.json").write_text("{}")
    refused(work, "import-scores", "numpy", "--format", "numpy", "-o", "run",
            says=["run: this is the folder of a training"])  # fmt: skip


def test_states_that_count_from_0(work: Path) -> None:
    for kind in ("scores", "labels"):
        shutil.copy(work / f"numpy/{kind}_val_1.npy", work / f"numpy/{kind}_val_0.npy")
    refused(work, "import-scores", "numpy", "--format", "numpy", "-o", "new",
            says=["scores of state 0; states count from 1"])  # fmt: skip


def test_scores_on_another_scale_warn(work: Path) -> None:
    store = unequal_store(1)
    scores = np.array(store.get("test", 5).scores)
    torch.save(torch.from_numpy(scores) / 20, work / "p.pt")
    done = run_transil("correct", "p.pt", "--bank", "bank.json", "-o", "c.pt", cwd=work)
    assert done.returncode == 0
    assert done.stderr.startswith("warning: state 5: these scores spread")
    assert len(done.stderr.strip().splitlines()) == 1

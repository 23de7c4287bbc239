"""Runs that are killed, starved, damaged or started twice: nothing is lost, and one line says why."""

from __future__ import annotations

import io
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr
from functools import cache
from itertools import count, islice
from pathlib import Path
from typing import Any

import pytest
import torch

from image_files import make_folder, picture
from support import run_transil
from transil import TransilError
from transil._common.settings import read_overrides
from transil.cli import main
from transil.data import Images
from transil.engine import (
    RunConfig,
    RunFolder,
    learner,
    load_model,
    resolve,
    session,
    train,
    training,
)
from transil.engine.checkpoint import Checkpoint
from transil.engine.setup import open_run_images
from transil.engine.step import Step
from transil.methods.lwf import Lwf

DATA = "formula:strokes?classes=6&train=20&test=6&size=16"
# Rates that depend on the losses before a stop, and a checkpoint after each epoch.
FAST = ("train.epochs=4", "train.schedule=plateau", "train.patience=0",
        "engine.checkpoint_minutes=0")  # fmt: skip
CURRENT, FIRST = "checkpoints/current.safetensors", "checkpoints/state-01.safetensors"


def config_of(*settings: str, recipe: str = "lwf-tiny") -> RunConfig:
    """What the command line makes of these words."""
    options = {"data": {"path": DATA, "states": 3}, "engine": {"device": "cpu"}}
    return resolve(recipe=recipe, overrides=[options, read_overrides([*FAST, *settings])])


def words_of(folder: Path, *settings: str, recipe: str = "lwf-tiny", data: str = DATA) -> list[str]:
    """The command line for `config_of` the same words."""
    words = ["train", "--data", data, "--recipe", recipe, "--states", "3", "--device", "cpu"]
    return [*words, "-o", str(folder), *FAST, *settings]


@cache
def images() -> Images:
    return open_run_images(config_of())


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a run that must not depend on how often it was stopped."""
    left_out = ("times.jsonl", ".lock")
    paths = (p for p in folder.rglob("*") if p.is_file() and not p.name.endswith(left_out))
    return {str(p.relative_to(folder)): p.read_bytes() for p in paths}


def go_on(folder: Path, config: RunConfig, pauses: int | None = None) -> None:
    """Start or continue a run, and give it up after some of its pauses."""
    run = training(config, folder, images=images())
    list(islice(run, pauses if pauses is None else pauses + 1))  # the first is the device
    run.close()


@cache
def whole() -> dict[str, bytes]:
    """What a run leaves that was never stopped."""
    with tempfile.TemporaryDirectory() as folder:
        train(config_of(), Path(folder) / "run", images=images())
        found = contents(Path(folder) / "run")
    assert len(found) == 4 + 3 + 10  # record, label map, logs; checkpoints; manifest and scores
    return found


def finish(folder: Path, config: RunConfig | None = None) -> None:
    """Continue a run to its end, which must be that of a run that was never stopped."""
    go_on(folder, config or config_of())
    expected = whole()
    if config is not None:  # how the work is done is told there
        expected = {**expected, "run.json": (folder / "run.json").read_bytes()}
    assert contents(folder) == expected


@pytest.fixture(scope="module")
def half(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was stopped in its second state, after two epochs."""
    folder = tmp_path_factory.mktemp("half")
    go_on(folder, config_of(), 8)
    assert Checkpoint.load(folder / CURRENT).epoch == 2
    return folder


@pytest.fixture
def run(half: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(half, tmp_path / "run"))


def refused(*words: str) -> str:
    """Run a command that must end with code 2; the one line that it says."""
    with redirect_stderr(io.StringIO()) as said:
        code = main(words)
    return one_error(code, said.getvalue())


def one_error(code: int, text: str) -> str:
    usual = ("images/s", " px; ", ": accuracy ")  # where a run is and what it has learned
    errors = [line for line in text.splitlines() if not any(word in line for word in usual)]
    assert (code, len(errors)) == (2, 1), text
    assert errors[0].startswith("error: ")
    return errors[0]


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def at(
    owner: Any, name: str, call: int = 1, *, naming: str = "", then: Callable[[], Any] = die
) -> tuple[Any, str, Callable[..., Any]]:
    """For setattr: something happens before a call, of those whose last argument has that name."""
    real, calls = getattr(owner, name), count(1)

    def patched(*args: Any, **options: Any) -> Any:
        if (not naming or naming in str(args[-1])) and next(calls) == call:
            then()
        return real(*args, **options)

    return owner, name, patched


def in_child(*works: Callable[[], Any]) -> tuple[int, str]:
    """Do this in a fork: its exit code, or minus the signal that ended it, and its stderr."""
    with tempfile.TemporaryFile("w+", 1) as said, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads there are; it uses none
        child = os.fork()
        if not child:
            try:
                signal.alarm(20)
                torch.set_num_threads(1)  # a pool of threads does not survive a fork
                with redirect_stderr(said):
                    os._exit([work() for work in works][-1])
            finally:
                os._exit(99)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        said.seek(0)
        return code, said.read()


def kill(folder: Path, moment: tuple[Any, str, Any]) -> None:
    """Start or continue a run in a process that is killed at that moment."""
    done = in_child(lambda: setattr(*moment), lambda: go_on(folder, config_of()))
    assert done[0] == -signal.SIGKILL, done[1]


def kill_from_outside(folder: Path, lines: int) -> None:
    """Start or continue a run by its command, and kill it when its log has so many lines."""
    log, end = folder / "log.jsonl", time.monotonic() + 30
    words = [sys.executable, "-m", "transil", *words_of(folder)]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while log.read_bytes().count(b"\n") < lines and time.monotonic() < end:
            time.sleep(0.001)
        process.kill()
    assert (process.returncode, len(RunFolder(folder).lines()) >= lines) == (-9, True)


def test_killed_ten_times(tmp_path: Path) -> None:
    run, path = RunFolder(tmp_path), tmp_path
    whole()  # now, since run.json names the commit, which is looked up once
    kill(path, at(Step, "__call__", 2))
    kill(path, at(RunFolder, "log"))
    (path / "log.jsonl").write_text('{"state": 1, "ep')  # so much was written
    kill(path, at(Checkpoint, "save"))  # logged, not saved
    kill(path, at(os, "replace", 2, naming=CURRENT))  # saved, not in its place
    assert [line["epoch"] for line in run.lines()] == [1, 2]
    kill_from_outside(path, 3)
    kill(path, at(RunFolder, "commit"))  # scored, not finished
    assert run.finished() == 0
    kill(path, at(Path, "unlink", naming=CURRENT))  # finished, not tidied up
    assert (run.finished(), run.current_path.exists()) == (1, True)
    kill_from_outside(path, 6)
    kill(path, at(os, "replace", naming="log.jsonl"))
    kill(path, at(os, "replace", 2, naming="store.json"))  # scores that no manifest names
    finish(path)


def test_killed_in_its_first_moment(tmp_path: Path) -> None:
    kill(tmp_path, at(os, "replace", naming="run.json"))
    finish(tmp_path)


def test_killed_in_its_last_moment(run: Path) -> None:
    kill(run, at(Path, "unlink", 2, naming=CURRENT))
    assert RunFolder(run).finished() == 3
    finish(run)


def test_what_a_kill_left_is_swept_up(run: Path) -> None:
    for name in ("label-map.json", CURRENT, "store.json"):
        kill(run, at(os, "replace", naming=name))
    finish(run)
    assert list(run.rglob("*.tmp")) == []


@pytest.mark.parametrize(("pauses", "epoch", "batches"), [(2, 0, 1), (7, 2, 0), (16, 0, 2)])
@pytest.mark.parametrize("streamed", [False, True])
def test_stopped_in_the_middle_of_an_epoch(
    pauses: int, epoch: int, batches: int, streamed: bool,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Three batches an epoch, a checkpoint after each."""
    monkeypatch.setattr(learner, "PAUSE", 1)
    config = config_of(*(["engine.image_gigabytes=0"] if streamed else []))
    go_on(tmp_path, config, pauses)
    found = Checkpoint.load(tmp_path / CURRENT)
    assert (found.epoch, found.batches) == (epoch, batches)
    go_on(tmp_path, config, 2)  # again and again
    monkeypatch.undo()
    finish(tmp_path, config)


def test_where_an_epoch_is_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learner, "PAUSE", 1)
    monkeypatch.setattr(session, "SHOW", 0.0)
    go_on(tmp_path, config_of(), 5)
    shown: list[tuple[float, str]] = []
    train(config_of(), tmp_path, images=images(), progress=lambda *both: shown.append(both))
    texts = [text.split(", ")[:2] for _, text in shown[:5]]
    assert texts == [["state 1/3", f"epoch {epoch}/4"] for epoch in (1, 1, 2, 2, 2)]
    assert ["loss" in text for _, text in shown[:5]] == [False, False, True, True, True]
    assert ["images/s" in text for _, text in shown[:5]] == [False, True, True, True, True]
    shares = [share for share, _ in shown]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


@pytest.mark.parametrize("lost", ["scores", "scores/lwf/store.json", "scores/lwf/test-01-*"])
@pytest.mark.parametrize("finished", [True, False])
def test_lost_scores_are_made_again(
    lost: str, finished: bool, run: Path, recwarn: pytest.WarningsRecorder
) -> None:
    if finished:
        finish(run)
    (path,) = run.glob(lost)
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    finish(run)
    (told,) = recwarn.list
    states = "1" if not finished or "test" in lost else "1, 2, 3"
    assert f"are missing (of {states}); they are made again" in str(told.message)
    finish(run)
    assert len(recwarn.list) == 1


def test_old_checkpoints_may_be_deleted(run: Path, recwarn: pytest.WarningsRecorder) -> None:
    finish(run)
    (run / FIRST).unlink()
    left = contents(run)
    go_on(run, config_of())
    assert contents(run) == left
    with pytest.raises(
        TransilError, match=r"its checkpoint state-01\.safetensors is missing; .*2, 3"
    ):
        load_model(run, 1)
    assert load_model(run).state == 3
    assert not recwarn.list
    shutil.rmtree(run / "scores")
    go_on(run, config_of())
    told = [str(warning.message) for warning in recwarn.list]
    assert "(of 1), and so are their checkpoints" in told[0]
    assert "(of 2, 3); they are made again" in told[1]
    assert {k: v for k, v in left.items() if "-01-" not in k and "store" not in k} == {
        k: v for k, v in contents(run).items() if "store" not in k
    }


# What is written, file by file, up to the end of a state, and the epoch that is saved by then.
WRITTEN = [
    ("label-map.json", 2), ("log.jsonl", 2), ("log.jsonl", 2), (CURRENT, 2), ("log.jsonl", 3),
    (CURRENT, 3), ("scores/lwf", 4), ("store.json", 4), ("scores/lwf", 4), ("store.json", 4),
    ("scores/lwf", 4), ("store.json", 4),
    ("log.jsonl", 4), ("checkpoints/state-02.safetensors", 4),
]  # fmt: skip


@pytest.mark.parametrize("call", range(1, len(WRITTEN) + 1))
def test_a_full_disk(call: int, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, epoch = WRITTEN[call - 1]
    first = (run / FIRST).read_bytes()
    monkeypatch.setattr(*at(os, "fsync", call, then=lambda: Path("/dev/full").write_text("x")))
    with pytest.raises(TransilError, match=f"^cannot write {run}/.*{name}: No space left on"):
        go_on(run, config_of())
    monkeypatch.undo()
    assert list(run.rglob("*.tmp")) == []
    assert (run / FIRST).read_bytes() == first
    assert Checkpoint.load(run / CURRENT).epoch == epoch
    finish(run)


def no_rights(run: Path) -> None:
    for path in (run / ".run.lock", run, run.parent):
        path.chmod(0o555)
    if os.geteuid() == 0:  # whom permissions do not bind: go on as one who may look, not write
        for path in (p for p in run.parents if not p.stat().st_mode & 1):
            path.chmod(0o711)
        os.setuid(65534)


@pytest.mark.parametrize(
    ("limit", "name", "told"),
    [
        (lambda _: resource.setrlimit(resource.RLIMIT_FSIZE, (10**5, 10**5)), "run",
         f"/{CURRENT}: File too large"),
        (no_rights, "run", "/.run.lock: Permission denied"),
        (no_rights, "new", ": Permission denied"),
    ],
)  # fmt: skip
def test_real_limits(limit: Callable[[Path], None], name: str, told: str, run: Path) -> None:
    before, folder = (run / CURRENT).read_bytes(), run.with_name(name)
    # They begin when all that a run reads was read.
    moment = at(RunFolder, "opened", then=lambda: limit(run))
    said = one_error(*in_child(lambda: setattr(*moment), lambda: main(words_of(folder))))
    assert said.endswith(f"{folder}{told}")
    assert list(run.rglob("*.tmp")) == []
    assert (run / CURRENT).read_bytes() == before
    for path in (run.parent, run, run / ".run.lock"):
        path.chmod(0o755)
    finish(run)


def test_a_learning_rate_too_high(tmp_path: Path) -> None:
    done = run_transil(*words_of(tmp_path / "run", "train.lr=1e30"))
    told = "not a number in state 1, epoch 1, at learning rate 1e+30"
    assert told in one_error(done.returncode, done.stderr)
    assert not RunFolder(tmp_path / "run").checkpoints.exists()


@pytest.mark.parametrize("pause", [1, 32])
def test_a_loss_that_is_no_number(
    pause: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Lwf.loss

    def loss(self: Lwf, *args: Any) -> torch.Tensor:
        return real(self, *args) * (float("nan") if args[-1].number == 2 else 1.0)

    monkeypatch.setattr(Lwf, "loss", loss)
    monkeypatch.setattr(learner, "PAUSE", pause)
    said = "in state 2, epoch 1, at learning rate 1; .*lower train.lr, or look at the method's settings"
    with pytest.raises(TransilError, match=said):
        go_on(tmp_path, config_of())
    monkeypatch.undo()
    assert [p.name for p in (tmp_path / "checkpoints").iterdir()] == [Path(FIRST).name]
    finish(tmp_path)  # nothing of it was kept


@pytest.mark.parametrize(
    "told",
    ["train.epochs=4, 5", "seed=0, 1", 'data.order="seed:0", "label"', "settings.weight=1.0, 3.5"],
)
def test_another_config(told: str, tmp_path: Path) -> None:
    go_on(tmp_path, config_of(recipe="lwf-t-tiny"), 3)
    before, (key, new) = contents(tmp_path), (told.split("=")[0], told.split()[1])
    said = refused(*words_of(tmp_path, f"{key}={new}", recipe="lwf-t-tiny"))
    assert f"begun with {told.replace(', ', ', now it is ')}; " in said
    assert contents(tmp_path) == before


def test_a_setting_that_came_later(tmp_path: Path) -> None:
    go_on(tmp_path, config_of(), 3)
    record = json.loads((tmp_path / "run.json").read_text())
    del record["config"]["train"]["warmup"]
    (tmp_path / "run.json").write_text(json.dumps(record))
    assert "begun with train.warmup=0, now it is 2" in refused(
        *words_of(tmp_path, "train.warmup=2")
    )
    go_on(tmp_path, config_of())
    same = contents(tmp_path)
    assert {k: v for k, v in same.items() if k != "run.json"} == {
        k: v for k, v in whole().items() if k != "run.json"
    }


def test_other_images_of_the_same_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRANSIL_CACHE", str(tmp_path / "cache"))
    words = words_of(tmp_path / "run", data=str(make_folder(tmp_path / "set", train=10)))
    assert main(words) == 0
    picture(999).save(tmp_path / "set" / "train" / "class1" / "000.png")
    said = refused(*words)
    assert "the images of" in said
    assert "have changed since this run was begun" in said


def test_the_same_images_may_be_called_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRANSIL_CACHE", str(tmp_path / "cache"))
    data = make_folder(tmp_path / "set", train=10)
    assert main(words_of(tmp_path / "run", data=str(data))) == 0
    monkeypatch.chdir(tmp_path)
    assert main(words_of(tmp_path / "run", data="./set")) == 0
    moved = data.rename(tmp_path / "other")
    for path in moved.rglob("*.png"):
        os.utime(path, ns=(1, 1))
    assert main(words_of(tmp_path / "run", data="other")) == 0


def test_two_at_once(tmp_path: Path) -> None:
    first = training(config_of(), tmp_path, images=images())
    next(first), next(first)  # its device, and the first pause
    assert f"{tmp_path}: another process is working" in refused(*words_of(tmp_path))
    first.close()


def test_a_finished_run(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seen = []
    for setting in ("engine.checkpoint_minutes=9", "engine.graph=false"):  # these may change
        assert main(words_of(run, setting)) == 0
        seen.append((capsys.readouterr().out, (run / "times.jsonl").read_bytes()))
        assert contents(run) == whole()
    assert seen[0] == seen[1]


ALTERED = (
    b'{"state":1}\n{"state":"x","epoch":null}\n{"a":1}\n{"seconds":"x"}\n{"seconds":NaN}\n[1]\n'
    b'{"seconds":1e999,"gpu_gigabytes":"x"}\n\xff\xfe\x00\n{"seconds":1,"gpu_gigabytes":"x"}\n'
) + b"[" * 100_000


def test_altered_logs(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = run / "log.jsonl"
    log.write_bytes(ALTERED + b"\n" + log.read_bytes())
    (run / "times.jsonl").write_bytes(ALTERED)
    finish(run)
    capsys.readouterr()
    (run / "times.jsonl").write_bytes(ALTERED)
    assert main(words_of(run)) == 0
    assert "trained in 1.0 s\n" in capsys.readouterr().out


@pytest.mark.parametrize(("name", "left"), [(CURRENT, 0), (CURRENT, 200_000), (FIRST, 5)])
def test_a_cut_checkpoint(name: str, left: int, run: Path) -> None:
    os.truncate(run / name, left)
    before = contents(run)
    assert f"{run / name}: not a checkpoint of transil, or dama" in refused(*words_of(run))
    assert contents(run) == before
    (run / name).unlink()  # as the message says
    finish(run)


HEAD = '{"format": "transil-run", "version": 1'
odd = [HEAD + rest for rest in (', "config": []}', ', "config": {}, "data": 3}')]


@pytest.mark.parametrize("text", [HEAD, "[]", HEAD + "9}", *odd])
def test_a_damaged_record(text: str, run: Path) -> None:
    (run / "run.json").write_text(text)
    before = contents(run)
    assert f"{run / 'run.json'}: " in refused(*words_of(run))
    assert contents(run) == before


def test_places_for_something_else(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    assert refused(*words_of(file)).endswith(f"cannot write {file}: it is not a folder")
    assert refused(*words_of(file / "run")).endswith(f"write {file / 'run'}: Not a directory")
    assert f"{tmp_path}: the folder holds other things" in refused(*words_of(tmp_path))
    assert contents(tmp_path) == {"file": b"mine"}

"""Runs that are killed, starved, damaged or started twice: nothing is lost, and one line says why."""

from __future__ import annotations

import errno
import itertools
import json
import os
import resource
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest
import torch

from image_files import make_folder, picture
from support import run_transil
from transil import TransilError, files, store_files
from transil.cli import main
from transil.data import Images
from transil.engine import RunConfig, RunFolder, checkpoint, resolve, train, training
from transil.engine.checkpoint import Checkpoint
from transil.engine.recipes import read_overrides
from transil.engine.setup import open_run_images
from transil.engine.step import Step
from transil.files import atomic_file
from transil.methods.lwf import Lwf

DATA = "formula:strokes?classes=6&train=20&test=6&size=16"
FAST = ("train.epochs=4", "engine.checkpoint_minutes=0")  # a checkpoint after each epoch


def config_of(*settings: str, recipe: str = "lwf-tiny", data: str = DATA) -> RunConfig:
    """What the command line makes of these words."""
    options = {"data": {"path": data, "states": 3}, "engine": {"device": "cpu"}}
    return resolve(recipe=recipe, overrides=[options, read_overrides([*FAST, *settings])])


def words_of(folder: Path, *settings: str, recipe: str = "lwf-tiny", data: str = DATA) -> list[str]:
    """The command line for `config_of` the same words."""
    words = ["train", "--data", data, "--recipe", recipe, "--states", "3", "--device", "cpu"]
    return [*words, "-o", str(folder), *FAST, *settings]


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a run that must not depend on how often it was stopped."""
    left_out = ("times.jsonl", ".lock", ".tmp")
    paths = (p for p in folder.rglob("*") if p.is_file() and not p.name.endswith(left_out))
    return {str(p.relative_to(folder)): p.read_bytes() for p in paths}


def litter(folder: Path) -> list[Path]:
    """Files that were being written."""
    return list(folder.rglob("*.tmp"))


def begin(config: RunConfig, folder: Path, pauses: int, images: Images | None = None) -> None:
    """Start or continue a run, and give it up after some of its pauses."""
    run = training(config, folder, images=images)
    for _ in itertools.islice(run, pauses):
        pass
    run.close()


@pytest.fixture(scope="module")
def images() -> Images:
    return open_run_images(config_of())


@pytest.fixture(scope="module")
def whole(images: Images, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What a run leaves that was never stopped."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    train(config_of(), folder, images=images)
    found = contents(folder)
    assert len(found) == 3 + 3 + 7  # record, label map, log; checkpoints; manifest and scores
    return found


@pytest.fixture
def stopped(images: Images, tmp_path: Path) -> Path:
    """A run that was stopped in its second state, after two epochs."""
    begin(config_of(), tmp_path / "run", 8, images)
    assert RunFolder(tmp_path / "run").lines()[-1]["epoch"] == 2
    return tmp_path / "run"


def refusal(capsys: pytest.CaptureFixture[str], words: list[str]) -> str:
    """The one line that a command says before it ends with code 2."""
    capsys.readouterr()
    code = main(words)
    return one_error(code, capsys.readouterr().err)


def one_error(code: int, text: str) -> str:
    assert code == 2, text
    assert "Traceback" not in text
    errors = [line for line in text.splitlines() if "images/s" not in line and " px; " not in line]
    assert len(errors) == 1, text
    assert errors[0].startswith("error: ")
    return errors[0]


# -- killed ------------------------------------------------------------------------------------


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


Moment = Callable[[], None]


def at(
    owner: Any, name: str, call: int = 1, *, naming: str = "", then: Callable[[], Any] = die
) -> Moment:
    """Something happens before a call of a function, the first one or a later one.

    `naming`: only calls count whose last argument has this in its name.
    """

    def arm() -> None:
        real, calls = getattr(owner, name), itertools.count(1)

        def patched(*args: Any, **options: Any) -> Any:
            if (not naming or naming in str(args[-1])) and next(calls) == call:
                then()
            return real(*args, **options)

        setattr(owner, name, patched)

    return arm


class Torn:
    """A file of which only half is written when something happens."""

    def __init__(self, file: IO[bytes], then: Callable[[], None]) -> None:
        self.file, self.then = file, then

    def write(self, data: bytes) -> None:
        self.file.write(data[: len(data) // 2])
        self.file.flush()
        self.then()


def tearing(then: Callable[[], None], call: int) -> Callable[..., Any]:
    """`atomic_file`, with something that happens in the middle of a file, the first or a later."""
    calls = itertools.count(1)

    @contextmanager
    def torn(path: Path, **options: Any) -> Iterator[Any]:
        with atomic_file(path, **options) as file:
            yield Torn(file, then) if next(calls) == call else file

    return torn


def half_a_checkpoint() -> None:
    setattr(checkpoint, "atomic_file", tearing(die, 1))  # noqa: B010  mypy: not exported there


def half_a_line() -> None:
    def log(run: RunFolder, line: Any, name: str = "log.jsonl") -> None:
        with open(run.path / name, "a") as file:
            file.write(json.dumps(line)[:30])
        die()

    RunFolder.log = log  # type: ignore[method-assign]


def in_child(work: Callable[[], int], timeout: float = 20.0) -> int:
    """Do it in a fork of this process; its exit code, or minus the signal that ended it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads elsewhere; it uses none
        child = os.fork()
    if not child:
        code = 99
        try:
            torch.set_num_threads(1)  # a pool of threads does not survive a fork
            code = work()
        finally:
            os._exit(code)
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise AssertionError(f"the child took more than {timeout} s")


def kill(moment: Moment, folder: Path, images: Images) -> None:
    """Start or continue a run in a process that is killed at that moment."""

    def work() -> int:
        moment()
        for _ in training(config_of(), folder, images=images):
            pass
        return 0

    assert in_child(work) == -signal.SIGKILL


def kill_from_outside(folder: Path, lines: int) -> None:
    """Start or continue a run by its command, and kill it when its log has so many lines."""
    log, end = folder / "log.jsonl", time.monotonic() + 30
    words = [sys.executable, "-m", "transil", *words_of(folder)]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while log.read_bytes().count(b"\n") < lines and time.monotonic() < end:
            time.sleep(0.001)
        process.kill()
    assert process.returncode == -signal.SIGKILL, "it was over before it could be killed"


def test_killed_ten_times(tmp_path: Path, images: Images, whole: dict[str, bytes]) -> None:
    run = RunFolder(tmp_path / "run")
    kill(at(Step, "__call__", 2), run.path, images)
    kill(half_a_line, run.path, images)
    kill(at(Checkpoint, "save"), run.path, images)  # logged, not saved
    kill(at(os, "replace", 2, naming="current.safetensors"), run.path, images)
    assert [line["epoch"] for line in run.lines()] == [1, 2]
    kill_from_outside(run.path, 3)
    kill(at(RunFolder, "commit"), run.path, images)  # scored, not finished
    assert run.finished() == 0
    kill(at(Path, "unlink", naming="current.safetensors"), run.path, images)
    assert run.finished() == 1
    assert run.current_path.exists()
    kill(half_a_checkpoint, run.path, images)
    kill_from_outside(run.path, 6)
    kill(at(os, "replace", 2, naming="store.json"), run.path, images)  # scores, no manifest
    assert run.finished() == 1
    train(config_of(), run.path, images=images)
    assert contents(run.path) == whole


@pytest.mark.parametrize("name", ["run.json", "label-map.json", "log.jsonl"])
def test_killed_in_its_first_files(
    name: str, tmp_path: Path, images: Images, whole: dict[str, bytes]
) -> None:
    if name == "log.jsonl":  # that is written again where a run goes on
        begin(config_of(), tmp_path / "run", 3, images)
    kill(at(os, "replace", naming=name), tmp_path / "run", images)
    train(config_of(), tmp_path / "run", images=images)
    assert contents(tmp_path / "run") == whole


def test_killed_in_its_last_step(stopped: Path, images: Images, whole: dict[str, bytes]) -> None:
    kill(at(Path, "unlink", 2, naming="current.safetensors"), stopped, images)
    assert RunFolder(stopped).finished() == 3
    train(config_of(), stopped, images=images)
    assert contents(stopped) == whole


def test_what_a_kill_left_is_swept_up(stopped: Path, images: Images) -> None:
    kill(at(os, "replace", naming="current.safetensors"), stopped, images)
    kill(at(os, "replace", naming="store.json"), stopped, images)
    assert len(litter(stopped)) > 0
    train(config_of(), stopped, images=images)
    assert litter(stopped) == []


def test_stopped_after_every_epoch(tmp_path: Path, images: Images) -> None:
    """With rates that depend on losses before the stop, and the scores of several methods."""
    config = config_of("train.schedule=plateau", "train.patience=1", recipe="ft-tiny")
    train(config, tmp_path / "whole", images=images)
    run, starts = RunFolder(tmp_path / "run"), 0
    while run.finished() < 3 and starts < 20:
        begin(config, run.path, 2, images)  # an epoch is saved before the second pause
        starts += 1
    assert starts > 10
    assert contents(run.path) == contents(tmp_path / "whole")


# -- no room, no right to write ----------------------------------------------------------------


def full() -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(
    ("module", "call", "name"),
    [
        (checkpoint, 2, "checkpoints/current.safetensors"),
        (checkpoint, 3, "checkpoints/state-02.safetensors"),
        (store_files, 2, "scores/lwf/test-02-.*.safetensors"),
        (files, 1, "label-map.json"),
        (files, 2, "scores/lwf/store.json"),
    ],
)
def test_a_full_disk(
    module: Any, call: int, name: str, stopped: Path, images: Images, whole: dict[str, bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    before = contents(stopped)
    monkeypatch.setattr(module, "atomic_file", tearing(full, call))
    with pytest.raises(TransilError, match=f"^cannot write .*/{name}: No space left") as caught:
        train(config_of(), stopped, images=images)
    monkeypatch.undo()
    assert "\n" not in str(caught.value)
    assert litter(stopped) == []
    assert contents(stopped).items() >= {k: v for k, v in before.items() if "state-" in k}.items()
    assert Checkpoint.load(RunFolder(stopped).current_path).state == 2
    train(config_of(), stopped, images=images)
    assert contents(stopped) == whole


def in_child_to_its_end(work: Callable[[], int], said: Path) -> str:
    """The one error line of a command in a fork, whose stderr goes to a file."""

    def command() -> int:
        with open(said, "w") as sys.stderr:
            return work()

    return one_error(in_child(command), said.read_text())


def test_files_may_not_grow(stopped: Path, images: Images, whole: dict[str, bytes]) -> None:
    """A real limit, met in the middle of a checkpoint."""
    last = RunFolder(stopped).current_path.read_bytes()

    def work() -> int:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        return main(words_of(stopped))

    said = in_child_to_its_end(work, stopped.parent / "said")
    assert f"cannot write {RunFolder(stopped).current_path}: File too large" in said
    assert litter(stopped) == []
    assert RunFolder(stopped).current_path.read_bytes() == last
    train(config_of(), stopped, images=images)
    assert contents(stopped) == whole


@pytest.mark.parametrize("begun", [False, True])
def test_a_folder_that_may_not_be_written(begun: bool, stopped: Path) -> None:
    folder = stopped if begun else stopped.parent / "closed" / "new"
    (stopped.parent / "closed").mkdir(mode=0o555)
    before = contents(stopped)

    def others() -> None:
        """Permissions do not bind root: go on as somebody else, in a place they can see."""
        if os.geteuid() == 0:
            for path in (p for p in folder.parents if p.exists() and p.name != "closed"):
                path.chmod(path.stat().st_mode | 0o055)
            os.setuid(65534)

    def work() -> int:
        if begun:
            for path in (folder, *folder.rglob("*")):
                path.chmod(0o555)
        at(RunFolder, "opened", then=others)()
        return main(words_of(folder))

    said = in_child_to_its_end(work, stopped.parent / "said")
    assert str(folder) in said
    assert "Permission denied" in said
    assert contents(stopped) == before


def test_a_file_system_that_is_read_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def mkdir(path: Path, *_: Any) -> None:
        raise OSError(errno.EROFS, "Read-only file system", str(path))

    monkeypatch.setattr(os, "mkdir", mkdir)
    said = refusal(capsys, words_of(tmp_path / "run"))
    assert said == f"error: cannot write {tmp_path / 'run'}: Read-only file system"


# -- losses that are no numbers ----------------------------------------------------------------


def test_a_learning_rate_too_high(tmp_path: Path) -> None:
    done = run_transil(*words_of(tmp_path / "run", "train.lr=1e30"))
    said = one_error(done.returncode, done.stderr)
    assert "not a number in state 1, epoch 1, at learning rate 1e+30" in said
    assert not RunFolder(tmp_path / "run").checkpoints.exists()


def test_a_loss_that_is_no_number_later(
    tmp_path: Path, images: Images, whole: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Lwf.loss

    def loss(self: Lwf, *args: Any) -> torch.Tensor:
        return real(self, *args) * (float("nan") if args[-1].number == 2 else 1.0)

    monkeypatch.setattr(Lwf, "loss", loss)
    with pytest.raises(TransilError, match="in state 2, epoch 1, at learning rate 1;"):
        train(config_of(), tmp_path / "run", images=images)
    monkeypatch.undo()
    assert [p.name for p in (tmp_path / "run/checkpoints").iterdir()] == ["state-01.safetensors"]
    train(config_of(), tmp_path / "run", images=images)  # nothing of it was kept
    assert contents(tmp_path / "run") == whole


# -- another run in the same place -------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("train.epochs=5", "train.epochs=4, now it is 5"),
        ("train.lr=0.5", "train.lr=1.0, now it is 0.5"),
        ("seed=1", "seed=0, now it is 1"),
        ("data.order=label", 'data.order="seed:0", now it is "label"'),
        ("net.body=resnet18-32", 'net.body="convnet", now it is "resnet18-32"'),
    ],
)
def test_another_config(
    change: str, told: str, stopped: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(stopped)
    assert f"begun with {told}" in refusal(capsys, words_of(stopped, change))
    assert contents(stopped) == before


def test_other_settings_of_a_method(
    tmp_path: Path, images: Images, capsys: pytest.CaptureFixture[str]
) -> None:
    begin(config_of("settings.weight=2", recipe="lwf-t-tiny"), tmp_path, 1, images)
    words = words_of(tmp_path, "settings.weight=3", recipe="lwf-t-tiny")
    assert "begun with settings.weight=2, now it is 3" in refusal(capsys, words)


def test_other_work_is_welcome(stopped: Path, images: Images, whole: dict[str, bytes]) -> None:
    train(config_of("engine.checkpoint_minutes=9", "engine.graph=false"), stopped, images=images)
    assert contents(stopped) == whole


def test_other_images_under_the_same_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TRANSIL_CACHE", str(tmp_path / "cache"))
    root = make_folder(tmp_path / "set", train=10)
    begin(config_of(data=str(root)), tmp_path / "run", 1)
    picture(999).save(root / "train" / "class1" / "000.png")
    said = refusal(capsys, words_of(tmp_path / "run", data=str(root)))
    assert "begun with the data set's fingerprint=" in said


def test_two_at_once(tmp_path: Path, images: Images, capsys: pytest.CaptureFixture[str]) -> None:
    first = training(config_of(), tmp_path, images=images)
    next(first)
    assert f"{tmp_path}: another process is working" in refusal(capsys, words_of(tmp_path))
    first.close()
    begin(config_of(), tmp_path, 1, images)  # the first has gone


def test_a_finished_run(stopped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words_of(stopped)) == 0
    first, before = capsys.readouterr().out, contents(stopped)
    times = (stopped / "times.jsonl").read_bytes()
    assert main(words_of(stopped)) == 0
    assert capsys.readouterr().out == first
    assert contents(stopped) == before
    assert (stopped / "times.jsonl").read_bytes() == times


# -- damaged -----------------------------------------------------------------------------------


@pytest.mark.parametrize("left", [0, 5, 1000, 200_000])
@pytest.mark.parametrize("name", ["current", "state-01"])
def test_a_cut_checkpoint(
    name: str, left: int, stopped: Path, images: Images, whole: dict[str, bytes],
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    path = stopped / "checkpoints" / f"{name}.safetensors"
    os.truncate(path, left)
    before = contents(stopped)
    said = refusal(capsys, words_of(stopped))
    assert f"{path}: not a checkpoint of transil, or damaged" in said
    assert contents(stopped) == before
    path.unlink()  # as the message says
    train(config_of(), stopped, images=images)
    assert contents(stopped) == whole


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "run.json: not a JSON file"),
        ('{"format": "transil-run", "vers', "run.json: not a JSON file"),
        ("[]", "run.json: not the record of a run"),
        ('{"format": "transil-run", "version": 99}', "format version 99, but"),
        ('{"format": "transil-run", "version": 1, "config": []}', "run.json"),
        ('{"format": "transil-run", "version": 1, "config": {}, "data": 3}', "run.json"),
    ],
)
def test_a_damaged_record(
    text: str, told: str, stopped: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (stopped / "run.json").write_text(text)
    assert told in refusal(capsys, words_of(stopped))
    assert (stopped / "run.json").read_text() == text


def test_places_for_something_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("mine")
    assert "cannot write" in refusal(capsys, words_of(tmp_path / "file"))
    assert "cannot write" in refusal(capsys, words_of(tmp_path / "file" / "run"))
    said = refusal(capsys, words_of(tmp_path))
    assert f"{tmp_path}: the folder holds other things, but no run.json" in said
    assert contents(tmp_path) == {"file": b"mine"}

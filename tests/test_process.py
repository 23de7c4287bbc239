"""The command as a process: its streams, signals, home and environment, and what nobody foresaw."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

from support import run_here
from transil import TransilError, fit
from transil._common.files import private_folder
from transil._common.provenance import versions
from transil._common.unforeseen import unforeseen
from transil.cli import banks, evaluate
from transil.cli.app import run
from transil.data.cache import default_cache_dir
from transil.engine import RunFolder
from transil.engine.workers import MEET, Workers
from transil.experiment.children import spared
from transil.testing import biased_scores

FULL = "error: cannot write standard output: No space left on device\n"
CLOSED = "error: cannot write standard output: it is closed\n"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("template")
    store = biased_scores("4,2,2", seed=1, images_per_class=4)
    store.save(folder / "store")
    fit(store).save(folder / "bank.json")
    return folder


@pytest.fixture
def work(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a store and a bank, and the temporary folder of this user."""
    shutil.copytree(template, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    return tmp_path


# -- streams -----------------------------------------------------------------------------------


def _pipe_without_reader() -> Any:
    reading, writing = os.pipe()
    os.close(reading)
    return open(writing, "w")


def _full() -> Any:
    return open("/dev/full", "w")


SHOW = ["bank", "show", "bank.json"]
FIT = ["fit", "store", "--solver", "newton", "-o", "made.json"]


@pytest.mark.parametrize(
    ("words", "stream", "code", "told"),
    [
        (SHOW, _full, 2, FULL),
        ([*SHOW, "--json"], _full, 2, FULL),
        (["--version"], _full, 2, FULL),
        ([], _full, 2, FULL),
        (["bank", "show", "--help"], _full, 2, FULL),
        (SHOW, lambda: None, 2, CLOSED),
        (SHOW, _pipe_without_reader, 0, ""),
        # The result is in a file: what was to be printed only tells of it.
        (FIT, _full, 0, FULL.replace("error", "warning")),
        (FIT, lambda: None, 0, ""),
        (FIT, _pipe_without_reader, 0, ""),
    ],
)
def test_standard_output_that_cannot_be_written(
    words: list[str], stream: Any, code: int, told: str, work: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    out = stream()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", out)
        assert run(words) == code
        assert sys.stdout is out
    if out is not None:
        out.close()  # what Python does at the end does not fail either
    assert capsys.readouterr().err == told
    assert (work / "made.json").exists() == ("made.json" in words)


@pytest.mark.parametrize("stream", [_full, lambda: None, _pipe_without_reader])
def test_standard_error_that_cannot_be_written(
    stream: Any, work: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    err = stream()
    for words, code in ((["bank", "show", "nowhere.json"], 2), (["transfer"], 2), (SHOW, 0)):
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", err)
            assert run(words) == code
    if err is not None:
        err.close()
    assert "alpha" in capsys.readouterr().out


def test_a_process_without_any_streams(work: Path) -> None:
    """No file of ours takes the place of a stream, so nothing that is printed gets into it."""
    code = (
        "import os, sys\n"
        "from transil.cli import main\n"
        f"code = main({FIT!r})\n"
        "taken = [os.readlink(f'/proc/self/fd/{i}') for i in range(3)]\n"
        "sys.exit(code if taken == ['/dev/null'] * 3 else 9)\n"
    )
    shell = f'exec {sys.executable} -c "$CODE" <&- >&- 2>&-'
    done = subprocess.run(["sh", "-c", shell], env={**os.environ, "CODE": code}, timeout=60)
    assert done.returncode == 0
    assert (work / "made.json").exists()


def test_a_terminal_that_knows_only_ascii(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open(work / "out", "w", encoding="ascii") as out, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", out)
        (work / "bank.json").rename(work / "bänk.json")
        assert run(["bank", "show", "bänk.json"]) == 0
    assert r"b\xe4nk.json" in (work / "out").read_text()


@pytest.mark.parametrize("columns", ["-5", "0", "99999999", "x", ""])
def test_a_width_that_is_none(columns: str, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.delenv("TERM", raising=False)
    for words in (SHOW, ["evaluate", "store"], ["bank", "--help"]):
        done = run_here(*words, cwd=work)
        assert done.returncode == 0
        assert 100 < len(done.stdout) < 20_000


def test_a_warning_is_told_unless_the_command_is_refused(work: Path) -> None:
    """Of bad input there is one line, whatever was found odd on the way to it."""
    make = ("bank", "make", "lwf-any", "--schedule", "1,1,1", "-o", "made.json")
    done = run_here(*make, cwd=work)
    assert done.returncode == 0
    assert done.stderr.startswith("warning: schedule far from what")
    done = run_here(*make, "--like", "nowhere.npy", cwd=work)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert "far from" not in run_here(*SHOW, cwd=work).stderr  # nothing is kept for the next


# -- what nobody foresaw -----------------------------------------------------------------------


def _raise(error: BaseException) -> Any:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (KeyError("a\nkey"), "transil did not foresee this (KeyError: 'a\\nkey')"),
        (MemoryError(), "not enough memory (MemoryError); free some"),
        (RecursionError("too deep"), "something is nested too deeply (RecursionError: too deep)"),
        (AssertionError("\x1b[31m"), "transil did not foresee this (AssertionError: [31m)"),
    ],
)
def test_what_nobody_foresaw_is_one_line(
    error: BaseException, says: str, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(banks, "find_bank", _raise(error))
    done = run_here(*SHOW, cwd=work)
    assert (done.returncode, done.stdout) == (70, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"error: {says}")
    assert "please report it with that file" in line
    found = re.search(r"the traceback is in (\S+):", line)
    assert found is not None
    text = Path(found[1]).read_text()
    assert "command: transil bank show bank.json\n" in text
    assert f"transil: {versions()['transil']}\n" in text
    assert "in show\n    found = find_bank" in text
    for path in (Path(found[1]), Path(found[1]).parent):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0


def test_a_traceback_that_cannot_be_kept(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (work / "temporary" / f"transil-{os.geteuid()}").symlink_to(work)  # somebody was there first
    monkeypatch.setattr(banks, "find_bank", _raise(KeyError("key")))
    done = run_here(*SHOW, cwd=work)
    assert done.returncode == 70
    (line,) = done.stderr.splitlines()
    assert "test_process.py, line " in line
    assert "the traceback cannot be written: " in line
    assert not list(work.glob("traceback*"))


def test_it_is_one_line_in_a_process_of_its_own(work: Path) -> None:
    code = (
        "import sys, transil.cli.app as app, transil.cli.banks as banks\n"
        "banks.find_bank = None\n"
        "sys.exit(app.run(sys.argv[1:]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *SHOW], env={**os.environ, "TMPDIR": str(work / "temporary")},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 70
    assert done.stderr.count("\n") == 1
    assert "TypeError: 'NoneType' object is not callable" in done.stderr
    assert len(list((work / "temporary").rglob("traceback-*.txt"))) == 1


def test_a_run_that_fails_so_is_told_with_the_others(work: Path) -> None:
    """Worker processes and Ray's tasks tell it as a line, too."""
    try:
        raise ZeroDivisionError("division by zero")
    except ZeroDivisionError as error:
        line = unforeseen(error)
    assert "\n" not in line
    assert "(ZeroDivisionError: division by zero); the traceback is in " in line


# -- signals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "code", "how"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")],
)
def test_a_command_that_is_stopped_says_how_to_go_on(
    number: signal.Signals, code: int, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    biased_scores("4,2,2", seed=1, images_per_class=4).save(tmp_path / "store")

    def stop(*_: Any, **__: Any) -> None:
        os.kill(os.getpid(), number)
        raise AssertionError("it went on")

    monkeypatch.setattr(evaluate, "evaluate", stop)
    done = run_here("evaluate", "store", cwd=tmp_path)
    assert done.returncode == code
    assert done.stderr == (
        f"transil: {how}; nothing half-written is left, and the same command goes on or begins "
        "again\n"
    )


@pytest.mark.parametrize("script", [False, True])
@pytest.mark.parametrize("when", ["numpy", "rich"])
def test_ctrl_c_while_the_command_is_being_imported(
    script: bool, when: str, tmp_path: Path
) -> None:
    """`when` it looks for a package that it needs, first or last."""
    (tmp_path / when).mkdir()
    (tmp_path / when / "__init__.py").write_text(
        "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(9)\n"
    )
    command = tmp_path / "transil"  # as pip makes it
    command.write_text("import sys\nfrom transil.cli import main\nsys.exit(main())\n")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, *([str(command)] if script else ["-m", "transil"]), "bank", "list"],
        env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "transil: interrupted before it began\n"


def test_the_library_leaves_ctrl_c_alone() -> None:
    code = "import signal, transil; assert signal.getsignal(2) is signal.default_int_handler"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_processes_that_are_started_do_not_hear_of_ctrl_c() -> None:
    code = "import os, signal, sys; os.kill(os.getpid(), signal.SIGINT); print('went on')"
    heard: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: heard.append(number))
    try:
        with spared():
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)
            assert heard == []
        assert heard == [signal.SIGINT]
    finally:
        signal.signal(signal.SIGINT, before)
    assert done.stdout == b"went on\n"


# -- home and environment ----------------------------------------------------------------------


@pytest.fixture
def _homeless(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(_: int) -> None:
        raise KeyError("uid not found")

    for name in ("HOME", "XDG_CACHE_HOME", "TRANSIL_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)


@pytest.mark.usefixtures("_homeless")
def test_without_a_home_the_cache_is_a_temporary_one_of_this_user(work: Path) -> None:
    with pytest.raises(RuntimeError):
        Path.home()
    done = run_here("data", "cache", cwd=work)
    assert done.returncode == 0
    assert done.stderr.count("warning: there is no home folder") == 1
    with pytest.warns(UserWarning, match="set TRANSIL_CACHE"):
        folder = default_cache_dir()
    assert folder.parent == work / "temporary" / f"transil-{os.geteuid()}"
    assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o700


def test_a_home_that_cannot_be_written_is_like_none(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Containers give a user that they do not know the home '/'."""
    for name in ("XDG_CACHE_HOME", "TRANSIL_CACHE"):
        monkeypatch.delenv(name, raising=False)
    home = work / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    assert default_cache_dir() == home / ".cache" / "transil"
    monkeypatch.setattr(os, "access", lambda path, _: not str(path).startswith(str(home)))
    with pytest.warns(UserWarning, match="nothing can be written in the home folder .*/home"):
        folder = default_cache_dir()
    assert folder.parent == work / "temporary" / f"transil-{os.geteuid()}"
    (home / ".cache/transil").mkdir(parents=True)  # a cache may be read where none can be made
    assert default_cache_dir() == home / ".cache" / "transil"


@pytest.mark.usefixtures("_homeless")
def test_a_temporary_folder_of_others_is_not_used(work: Path) -> None:
    folder = work / "temporary" / f"transil-{os.geteuid()}"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(TransilError, match="not a folder of this user alone"):
        default_cache_dir()
    folder.rmdir()
    folder.symlink_to(work)
    with pytest.raises(TransilError, match="not a folder of this user alone"):
        private_folder()
    folder.unlink()
    folder.write_text("")
    assert run(["data", "cache"]) == 2


@pytest.mark.parametrize(
    "left_over",
    [{"WORLD_SIZE": "4"}, {"WORLD_SIZE": "x"}, {"RANK": "1", "WORLD_SIZE": "2", "MASTER_PORT": "1"},
     {"LOCAL_RANK": "x"}, dict.fromkeys(MEET, "")],
)  # fmt: skip
def test_words_of_a_launcher_that_are_left_over_mean_nothing(
    left_over: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (*MEET, "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    for name, value in left_over.items():
        monkeypatch.setenv(name, value)
    workers = Workers(torch.device("cpu"))
    assert (workers.rank, workers.world, workers.main, workers.alone) == (0, 1, True, True)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("RANK", "2", r"\$RANK is '2', not a number from 0 to 1; start processes with torchrun"),
        ("RANK", "-1", "RANK is '-1'"),
        ("WORLD_SIZE", "0", "WORLD_SIZE is '0'"),
        ("WORLD_SIZE", "9" * 5000, "WORLD_SIZE is '9999"),
        ("MASTER_PORT", "http", "MASTER_PORT is 'http'"),
        ("MASTER_PORT", "65536", "MASTER_PORT is '65536'"),
        ("LOCAL_RANK", "²", "LOCAL_RANK is '²'"),
        ("MASTER_ADDR", "a b", "cannot meet the other 1 process.* at a b:29500"),
        ("TRANSIL_BACKEND", "smoke", "cannot meet .*this torch has no backend 'smoke'"),
    ],
)
def test_words_of_a_launcher_that_are_wrong_are_told(
    name: str, value: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
    for key, text in {**given, name: value}.items():
        monkeypatch.setenv(key, text)
    with pytest.raises(TransilError, match=says):
        Workers(torch.device("cpu"))


def test_the_commit_is_that_of_this_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not of a repository whose hook has started the command."""
    from transil._common import provenance

    if not provenance._is_checkout():
        pytest.skip("not in a checkout")
    before = provenance._git(provenance.ROOT, "rev-parse", "--show-toplevel")
    monkeypatch.setenv("GIT_DIR", str(tmp_path))
    assert provenance._git(provenance.ROOT, "rev-parse", "--show-toplevel") == before


# -- foreign files -----------------------------------------------------------------------------


def test_what_desktops_put_into_a_run_folder_changes_nothing(tmp_path: Path) -> None:
    words = ["train", "--data", "formula:strokes?classes=4&train=20&test=10&size=16",
             "--recipe", "lwf-tiny", "--states", "2", "-o", "run", "train.epochs=1",
             "train.first_epochs=1"]  # fmt: skip
    run_folder = RunFolder(tmp_path / "run")

    def litter() -> None:
        for folder in (run_folder.path, run_folder.checkpoints, run_folder.path / "scores",
                       run_folder.path / "scores" / "lwf"):  # fmt: skip
            if folder.is_dir():
                for name in (".DS_Store", "._state-01.safetensors", "Thumbs.db", "desktop.ini"):
                    (folder / name).write_bytes(b"\0\1")

    run_folder.path.mkdir()
    litter()
    assert not run_folder.has_checkpoint()
    first = run_here(*words, cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    litter()
    again = run_here(*words, cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert again.stdout == first.stdout
    assert run_folder.finished() == 2
    assert run_here("evaluate", "run", cwd=tmp_path).returncode == 0
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").touch()
    done = run_here(*words[:-3], "other", cwd=tmp_path)
    assert "the folder holds other things" in done.stderr

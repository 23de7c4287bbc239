"""What all reading and writing goes through: plain files only, locks, files whole or not there."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from transil import TransilError
from transil._common.files import (
    check_regular,
    locked,
    read_bytes,
    read_json,
    remove_left,
    sha256,
    umask,
    write_json,
)


@pytest.mark.parametrize("read", [read_bytes, read_json, sha256, check_regular])
def test_only_plain_files_are_read(read: object, tmp_path: Path) -> None:
    assert callable(read)
    os.mkfifo(tmp_path / "pipe")
    for path, says in [
        (tmp_path / "pipe", "pipe: it is a device or pipe, not a plain file"),
        (Path("/dev/zero"), "/dev/zero: it is a device or pipe"),
        (tmp_path, "it is a folder, not a plain file"),
        (tmp_path / "nowhere", "nowhere: No such file"),
        ("a\0b", "a zero byte"),
    ]:
        with pytest.raises(TransilError, match=says):
            read(path)


def test_a_file_may_not_be_larger_than_its_kind(tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_bytes(b"x" * 10)
    assert read_bytes(path, most=10) == b"x" * 10
    with pytest.raises(TransilError, match="large: larger than"):
        read_bytes(path, most=9)


# -- locks -------------------------------------------------------------------------------------


def test_a_lock_leaves_what_lies_there_alone(tmp_path: Path) -> None:
    victim, lock = tmp_path / "victim", tmp_path / ".lock"
    victim.write_text("kept")
    lock.symlink_to(victim)
    with (
        pytest.raises(TransilError, match="cannot use the lock .*: it is a link, not a plain file"),
        locked(lock),
    ):
        pass
    lock.unlink()
    lock.symlink_to(tmp_path / "nowhere")
    with pytest.raises(TransilError, match="it is a link"), locked(lock):
        pass
    assert not (tmp_path / "nowhere").exists()
    lock.unlink()
    os.link(victim, lock)  # the same file under the lock's name
    with locked(lock):
        pass
    assert victim.read_text() == "kept"


def test_a_lock_is_a_plain_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, says in [
        (tmp_path / "pipe", "pipe: it is a device or pipe"),
        (Path("/dev/null"), "null: it is a device or pipe"),
        (tmp_path, "it is a folder"),
        (tmp_path / "nowhere" / "lock", "No such file"),
        (Path("a\0b"), "a zero byte"),
    ]:
        with pytest.raises(TransilError, match=says), locked(path):
            pass
        with pytest.raises(TransilError, match=says), locked(path, "busy"):
            pass


def test_a_lock_is_held_by_one(tmp_path: Path) -> None:
    with locked(tmp_path / "lock"), locked(tmp_path / "other", "somebody is here"):
        busy = locked(tmp_path / "lock", "somebody is here")
        with pytest.raises(TransilError, match="somebody is here"), busy:
            pass
    with locked(tmp_path / "lock", "somebody is here"):
        pass


def test_a_lock_whose_file_was_deleted_meanwhile_is_taken_anew(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    order: list[str] = []

    def second() -> None:
        with locked(path):
            order.append("second")
            with pytest.raises(TransilError, match="busy"), locked(path, "busy"):
                pass

    with locked(path):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join(0.05)
        path.unlink()  # whoever comes now makes another file
        order.append("first")
    thread.join()
    assert order == ["first", "second"]
    assert path.exists()


# -- outputs -----------------------------------------------------------------------------------

WRITE_AND_WAIT = """
import sys
from transil._common.files import atomic_file
with atomic_file(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    print("writing", flush=True)
    sys.stdin.read()
"""


def writer(path: Path) -> subprocess.Popen[str]:
    """A process that has written half a file, and waits for the end of its input."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITE_AND_WAIT, str(path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "writing\n"
    return process


def test_what_a_killed_writer_left_is_removed_but_not_what_is_being_written(tmp_path: Path) -> None:
    path, other = tmp_path / "out", tmp_path / "other"
    with writer(path) as killed, writer(other) as living:
        assert len(list(tmp_path.glob(".transil-*.tmp"))) == 2
        killed.kill()
        killed.wait()
        write_json(path, [1])
        assert len(list(tmp_path.glob(".transil-*.tmp"))) == 1
        living.communicate("")
    assert sorted(os.listdir(tmp_path)) == ["other", "out"]
    assert (path.read_bytes(), other.read_bytes()) == (b"[ 1 ]\n", b"half")


def test_names_that_look_like_leftovers_but_are_none(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("kept")
    (tmp_path / ".transil-writing-link.tmp").symlink_to(victim)
    os.mkfifo(tmp_path / ".transil-writing-pipe.tmp")
    (tmp_path / ".transil-writing-folder.tmp").mkdir()
    (tmp_path / ".transil-abcdefgh.tmp").touch()  # of an earlier transil, which may be running
    write_json(tmp_path / "out", [1])
    assert len(list(tmp_path.iterdir())) == 6
    assert victim.read_text() == "kept"
    remove_left(tmp_path)
    assert not (tmp_path / ".transil-abcdefgh.tmp").exists()


def test_an_output_keeps_its_mode_and_owner(tmp_path: Path) -> None:
    path = tmp_path / "out"
    write_json(path, 1)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask()
    path.chmod(0o600)
    if os.geteuid() == 0:
        os.chown(path, 12345, 54321)
    before = path.stat()
    write_json(path, 2)
    after = path.stat()
    assert after.st_ino != before.st_ino
    assert stat.S_IMODE(after.st_mode) == 0o600
    assert (after.st_uid, after.st_gid) == (before.st_uid, before.st_gid)


def test_a_name_as_long_as_a_name_may_be(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 255)
    write_json(path, 1)
    write_json(path, 2)
    assert os.listdir(tmp_path) == [path.name]

"""What killed, running and foreign things leave in a cache or beside an output."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from image_files import make_folder
from support import ok_here, run_here
from transil._common.files import locked
from transil.data import open_images
from transil.data.cache import convert
from transil.data.entries import clear, entry_paths, open_entry
from transil.data.sources.folder import FolderSource
from transil.errors import DataWarning, TransilError


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRANSIL_CACHE", str(tmp_path / "cache"))


def _build(tmp_path: Path, *names: str) -> tuple[Path, ...]:
    """The cache's entries of some sets."""
    for name in names:
        open_images(make_folder(tmp_path / name))
    return tuple(entry_paths(tmp_path / "cache"))


def _half_built(path: Path) -> Path:
    """What a build of `path` has written so far."""
    work = path.parent / f".{path.name}.x7f3.tmp"
    work.mkdir()
    (work / "train.u8").write_bytes(b"half")
    return work


def test_clearing_leaves_a_running_build_alone(tmp_path: Path) -> None:
    one, two = _build(tmp_path, "one", "two")
    folder = one.parent
    third = folder / "three-32-0123456789abcdef"
    work, other = _half_built(third), _half_built(two)
    with locked(folder / f".{third.name}.lock"), locked(folder / f".{one.name}.lock"):
        with pytest.warns(
            DataWarning, match="is being built by another command and was left"
        ) as told:
            assert clear(folder) == [two]
        assert [str(warning.message).split(" ")[0] for warning in told] == [one.name, third.name]
        assert work.exists()
        assert not other.exists()
        assert open_entry(one) is not None
        done = run_here("data", "cache", "--clear", cwd=tmp_path)
        assert done.returncode == 0
        assert "0 set(s) deleted" in done.stdout
        assert f"warning: {third.name} is being built by another command" in done.stderr
    assert clear(folder) == [one]
    assert list(folder.iterdir()) == []


def test_a_killed_convert_is_cleared_up_by_the_next(tmp_path: Path) -> None:
    root = make_folder(tmp_path / "set")
    script = f"""
import os, signal
from pathlib import Path
os.rename = lambda a, b: os.kill(os.getpid(), signal.SIGKILL)
from transil.data.cache import convert
from transil.data.sources.folder import FolderSource
convert(FolderSource(Path({str(root)!r})), Path({str(tmp_path / "o[u]t")!r}), size=None, rule="crop")
"""
    assert subprocess.run([sys.executable, "-c", script], timeout=60).returncode == -9
    assert [p for p in tmp_path.iterdir() if p.name.endswith(".tmp")]
    (tmp_path / ".o[u]t.mine.tmp").write_text("a file, not a folder of ours")
    other = _half_built(tmp_path / "outer")
    made = convert(FolderSource(root), tmp_path / "o[u]t", size=None, rule="crop")
    assert len(made.splits["train"]) == 12
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"set", "o[u]t", ".o[u]t.mine.tmp", other.name}


def test_a_failed_convert_leaves_nothing(tmp_path: Path) -> None:
    make_folder(tmp_path / "set")
    (tmp_path / "set/train/class0/000.png").write_bytes(b"no image")
    assert run_here("data", "convert", "set", "out", cwd=tmp_path).returncode == 2
    assert [path.name for path in tmp_path.iterdir()] == ["set"]


def test_two_converts_at_once(tmp_path: Path) -> None:
    make_folder(tmp_path / "set")
    with locked(tmp_path / ".out.lock"):
        work = _half_built(tmp_path / "out")
        done = run_here("data", "convert", "set", "out", cwd=tmp_path)
        assert done.returncode == 2
        assert done.stderr == "error: cannot write out: another command is making it\n"
        assert work.exists()


def test_foreign_files_in_a_cache_change_nothing(tmp_path: Path) -> None:
    (entry,) = _build(tmp_path, "one")
    folder = entry.parent
    for path in (
        entry / ".DS_Store",
        folder / ".DS_Store",
        folder / "notes.txt",
        folder / ".x.tmp",
    ):
        path.write_bytes(b"\0\1")
    (entry / "Thumbs").mkdir()
    os.mkfifo(folder / ".pipe.lock")
    ok_here("data", "show", "one", "--json", cwd=tmp_path)
    listed = json.loads(ok_here("data", "cache", "--verify", "--json", cwd=tmp_path))
    assert [row["whole"] for row in listed["entries"]] == [True]
    assert clear(folder) == [entry]
    assert entry_paths(folder) == []
    left = {str(path.relative_to(folder)) for path in folder.rglob("*")} - {entry.name}
    inside = {f"{entry.name}/.DS_Store", f"{entry.name}/Thumbs"}
    assert left == inside | {".DS_Store", "notes.txt", ".x.tmp", ".pipe.lock"}
    assert len(open_images(tmp_path / "one").splits["train"]) == 12


def test_labels_that_are_something_else(tmp_path: Path) -> None:
    (entry,) = _build(tmp_path, "one")
    good = np.load(entry / "train.labels.npy")
    path = entry / "train.labels.npy"

    def header(**facts: Any) -> bytes:
        out = io.BytesIO()
        np.lib.format.write_array_header_1_0(
            out, {"descr": "<i8", "fortran_order": False, "shape": good.shape, **facts}
        )
        return out.getvalue()

    objects = io.BytesIO()
    np.save(objects, np.array([{}] * len(good)), allow_pickle=True)
    for raw in (
        b"", b"x", b"PK\x03\x04", header(), header(shape=(2**40,)), header(shape=(2**70,)),
        header(descr="<f8") + good.tobytes(), header() + good.tobytes()[:-1],
        header() + good.tobytes() + bytes(8), header().replace(b"{", b"(") + good.tobytes(),
        objects.getvalue(), bytes(1 << 20),
    ):  # fmt: skip
        path.write_bytes(raw)
        assert open_entry(entry) is None
    path.unlink()
    os.mkfifo(path)
    assert open_entry(entry) is None
    path.unlink()
    path.mkdir()
    assert open_entry(entry) is None
    assert len(open_images(tmp_path / "one").splits["train"]) == 12
    made = convert(FolderSource(tmp_path / "one"), tmp_path / "made", size=None, rule="crop")
    assert made.splits["train"].labels.tolist() == good.tolist()
    (tmp_path / "made" / "train.u8").unlink()
    os.mkfifo(tmp_path / "made" / "train.u8")
    with pytest.raises(TransilError, match="made: cut short or altered"):
        open_images(tmp_path / "made")

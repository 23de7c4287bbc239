"""The data commands through the real command line."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from image_files import make_folder, make_parquet
from support import ok, ok_here, run_transil
from transil.data import Images, ImageSplit
from transil.data.sheet import contact_sheet


@pytest.fixture(autouse=True)
def _own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRANSIL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TRANSIL_DATA", str(tmp_path / "data"))


def test_list(tmp_path: Path) -> None:
    text = ok("data", "list", cwd=tmp_path)
    for words in ("cifar100", "food100", "places100", "imn100", "birds100", "ref1", "ref10",
                  "fractal", "radial", "noise", "strokes", "Parquet", "torchvision:"):  # fmt: skip
        assert words in text
    make_parquet(tmp_path / "data" / "cifar100")
    rows = {row["name"]: row for row in json.loads(ok("data", "list", "--json", cwd=tmp_path))}
    assert rows["cifar100"]["found"] == "yes"
    assert rows["imn100"]["found"] == "no"
    assert "image_lists" not in rows["cifar100"]["needs"]


def test_show(tmp_path: Path) -> None:
    make_folder(tmp_path / "set")
    text = ok_here("data", "show", "set", cwd=tmp_path)
    for words in ("class0, class1, class2", "8 x 8 pixels", "train", "12", "set-sheet.png"):
        assert words in text
    assert (tmp_path / "set-sheet.png").stat().st_size > 1000
    data = json.loads(ok_here("data", "show", "set", "--size", "4", "--json", cwd=tmp_path))
    assert data["size"] == 4
    assert data["counts"]["test"] == [2, 2, 2]
    assert len(data["mean"]) == 3


def test_show_a_formula(tmp_path: Path) -> None:
    text = ok_here(
        "data", "show", "formula:noise?classes=3&train=4&test=2", "--sheet", "n.png", cwd=tmp_path
    )
    assert "32 x 32 pixels" in text
    assert (tmp_path / "n.png").exists()


def test_convert_and_cache(tmp_path: Path) -> None:
    make_folder(tmp_path / "set")
    assert "18 images of 4 px, 3 classes" in ok_here(
        "data", "convert", "set", "out", "--size", "4", cwd=tmp_path
    )
    assert "4 x 4 pixels" in ok_here("data", "show", "out", cwd=tmp_path)
    ok_here("data", "show", "set", cwd=tmp_path)
    listed = json.loads(ok_here("data", "cache", "--verify", "--json", cwd=tmp_path))
    assert [entry["whole"] for entry in listed["entries"]] == [True]
    assert listed["entries"][0]["images"] == 18
    assert "1 set(s), 0.0 MB" in ok_here("data", "cache", cwd=tmp_path)
    assert "1 set(s) deleted" in ok_here("data", "cache", "--clear", cwd=tmp_path)
    assert "0 set(s)" in ok_here("data", "cache", cwd=tmp_path)
    ok_here("data", "show", "set", "--cache-dir", "here", cwd=tmp_path)
    assert any((tmp_path / "here").iterdir())


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["show", "nowhere"], "nowhere: no such folder or file"),
        (["show", "imn100"], "imn100: not found"),
        (["show", "formula:circles"], "circles"),
        (["show", "set", "--size", "0"], "at least 1 pixel"),
        (["show", "set", "--rule", "squash"], "'squash' is unknown"),
        (["show", "set", "--sheet", "x.gif"], "contact sheets are .png"),
        (["cache", "--clear", "--cache-dir", ""], "nothing stands after '--cache-dir'"),
        (["cache", "--name", "x"], "--name goes with --clear"),
        (["convert", "set", "new", "--size", "-5"], "at least 1 pixel"),
        (["show", "bad"], "bad/train/class1/000.png: cannot be decoded"),
        (["convert", "bad", "new"], "bad/train/class1/000.png: cannot be decoded"),
        (["convert", "set", "bad"], "cannot write bad: it exists"),
        (["convert", "set", "file/x"], "cannot write file/x"),
        (["show", "set", "--cache-dir", "file/x"], "cannot use the cache folder file/x"),
    ],
)
def test_mistakes(tmp_path: Path, words: list[str], says: str) -> None:
    make_folder(tmp_path / "set")
    make_folder(tmp_path / "bad")
    (tmp_path / "bad/train/class1/000.png").write_bytes(b"no image")
    (tmp_path / "file").write_text("a file")
    done = run_transil("data", *words, cwd=tmp_path)
    assert done.returncode == 2, done.stdout
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert done.stderr.startswith("error: ")
    assert says in done.stderr
    assert not (tmp_path / "new").exists()
    assert not list(tmp_path.glob(".*.tmp"))


def test_bad_images_can_be_left_out(tmp_path: Path) -> None:
    make_folder(tmp_path / "bad")
    (tmp_path / "bad/train/class1/000.png").write_bytes(b"no image")
    done = run_transil("data", "show", "bad", "--skip-bad", cwd=tmp_path)
    assert done.returncode == 0
    assert "warning: bad: 1 image(s) could not be decoded" in done.stderr
    assert "left out" in done.stdout
    assert os.path.exists(tmp_path / "bad-sheet.png")


def test_a_sheet_has_letters_that_are_not_english(tmp_path: Path) -> None:
    """Pillow's own font draws one box for each letter it has not: all such names look alike."""
    pytest.importorskip("matplotlib", reason="its font is the one that has them")

    def drawn(*names: str) -> bytes:
        pixels = np.zeros((len(names), 8, 8, 3), dtype=np.uint8)
        split = ImageSplit(pixels, np.arange(len(names)))
        contact_sheet(Images("x", names, {"train": split}, "x"), tmp_path / "x.png")
        return (tmp_path / "x.png").read_bytes()

    assert drawn("Möwe", "Bär") == drawn("Möwe", "Bär") != drawn("Müwe", "Bür")

"""Images, lists and folders that are not what their names say: pipes, bombs, other formats."""

from __future__ import annotations

import inspect
import json
import os
import struct
import sys
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import EpsImagePlugin, Image

from image_files import make_parquet, png, refuses, write_lists
from support import ok_here, run_here
from transil.data import open_images
from transil.data.decode import FORMATS, UnreadableImage, decode, known_formats_only
from transil.data.sources import torchvision as torchvision_module
from transil.data.sources.folder import IMAGE, image_files
from transil.errors import DataWarning, TransilError

EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n%%EOF\n"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRANSIL_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that is there once Pillow has started Ghostscript."""
    mark = tmp_path / "started"
    script = tmp_path / "bin" / "gs"
    script.parent.mkdir()
    script.write_text(f"#!/bin/sh\ntouch {mark}\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(EpsImagePlugin, "gs_binary", None)
    with Image.open(_written(tmp_path / "bin" / "x.png", EPS)) as image, pytest.raises(OSError):  # noqa: PT011
        image.load()  # as Pillow does of itself
    assert mark.exists()
    mark.unlink()
    return mark


def _written(path: Path, raw: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(raw)
    return path


# -- formats -----------------------------------------------------------------------------------


def test_no_file_starts_ghostscript(
    tmp_path: Path, started: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.png", "a.jpg", "a.tif", "a.tga"):
        path = _written(tmp_path / "set" / "x" / name, EPS)
        for item in (path, EPS):
            with pytest.raises(UnreadableImage, match="cannot be decoded"):
                decode(item, 8, "crop")
        refuses(f"{name}: cannot be decoded", tmp_path / "set", size=8)
        path.unlink()

    class Set:
        """A set of torchvision, which opens whatever Pillow knows."""

        targets, classes = (0,), ("x",)

        def __init__(self, root: str, train: bool) -> None:
            self.path = _written(Path(root) / f"{train}.png", EPS)

        def __len__(self) -> int:
            return 1

        def __getitem__(self, row: int) -> tuple[Any, int]:
            return Image.open(self.path), row

    class Module:
        Mine = Set

    monkeypatch.setattr(torchvision_module, "_datasets", lambda: Module)
    refuses("row 0: cannot be decoded", f"torchvision:Mine?root={tmp_path / 'mine'}", size=8)
    assert not started.exists()


def test_other_libraries_get_pillow_back_as_it_was() -> None:
    before = Image.ID[:]
    with known_formats_only():
        assert "EPS" not in Image.ID
        assert "PNG" in Image.ID
    assert Image.ID[: len(before)] == before


def test_the_formats_are_those_that_folders_and_the_page_name() -> None:
    Image.init()
    endings = IMAGE.pattern.split("(")[1].split(")")[0].split("|")
    formats = {
        Image.EXTENSION[f".{ending}"] for ending in endings if f".{ending}" in Image.EXTENSION
    }
    assert formats <= set(FORMATS)
    page = (Path(__file__).parent.parent / "docs" / "data.md").read_text()
    for name in FORMATS:
        assert name in page
    assert not {"EPS", "PDF", "WMF", "PSD", "FITS"} & set(FORMATS)


def _png(width: int, height: int, *chunks: tuple[bytes, bytes]) -> bytes:
    """A PNG of grey zeros: its rows take next to nothing."""
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress(bytes((width + 1) * height if height < 1000 else 0))
    body = b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in ((b"IHDR", header), *chunks, (b"IDAT", rows), (b"IEND", b""))
    )
    return b"\x89PNG\r\n\x1a\n" + body


def test_images_of_far_too_many_pixels(tmp_path: Path) -> None:
    _written(tmp_path / "set/x/a.png", _png(10_000, 9_000))
    refuses("a.png: cannot be decoded .*10000 x 9000 pixels; at most 89,478,485", tmp_path / "set")
    _written(tmp_path / "set/x/b.png", png(0))
    with pytest.warns(DataWarning, match="could not be decoded"):  # and no warning of Pillow's
        assert len(open_images(tmp_path / "set", skip_bad=True).splits["train"]) == 1
    with pytest.raises(UnreadableImage, match="20000 x 20000|could be decompression bomb"):
        decode(_png(20_000, 20_000), 8, "crop")
    # A row of 60,000 pixels is no bomb until its short side is scaled to 224.
    thin = _png(60_000, 1)
    assert len(thin) < 300
    with pytest.raises(UnreadableImage, match=r"13440000 x 224 pixels; at most"):
        decode(thin, 224, "crop")
    assert decode(thin, 8, "stretch").shape == (8, 8, 3)
    assert decode(_png(600, 2), 8, "crop").shape == (8, 8, 3)


def test_what_pillow_warns_of_is_no_error(tmp_path: Path) -> None:
    odd = _png(8, 8, (b"acTL", bytes(8)))  # of an animation without pictures
    with pytest.warns(UserWarning, match="Invalid APNG"), Image.open(_written(tmp_path / "x", odd)):
        pass
    _written(tmp_path / "set/x/a.png", odd)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert open_images(tmp_path / "set").splits["train"].pixels.sum() == 0


def test_grey_of_16_bits_in_any_order_of_bytes(tmp_path: Path) -> None:
    for kind in ("<u2", ">u2"):
        Image.fromarray(np.full((4, 4), 40_000, dtype=kind)).save(tmp_path / "a.tif")
        assert (decode(tmp_path / "a.tif", None, "crop") == 40_000 >> 8).all()
    Image.fromarray(np.full((4, 4), -5, dtype=np.int32)).save(tmp_path / "a.tif")
    assert (decode(tmp_path / "a.tif", None, "crop") == 0).all()


# -- pipes, devices, odd lines -----------------------------------------------------------------


def test_pipes_and_devices_are_no_images(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for number, line in enumerate(("pipe 0", "/dev/zero 0", ". 0")):
        folder = write_lists(tmp_path / str(number), tmp_path, train=[line])
        refuses(
            r"train.lst, image 1\): cannot be decoded .*not a plain file", folder, root=tmp_path
        )
    (tmp_path / "set" / "x").mkdir(parents=True)
    (tmp_path / "set" / "x" / "a.png").symlink_to(tmp_path / "pipe")
    refuses("a.png: cannot be decoded .*not a plain file", tmp_path / "set")
    (tmp_path / "list").mkdir()
    os.mkfifo(tmp_path / "list" / "train.lst")
    refuses("no folders of classes", tmp_path / "list")
    refuses("no such folder or file", tmp_path / "pipe")
    (tmp_path / "parquet").mkdir()
    os.mkfifo(tmp_path / "parquet" / "train.parquet")
    refuses("train.parquet: it is a device or pipe, not a plain file", tmp_path / "parquet")


def test_lines_that_are_no_paths(tmp_path: Path) -> None:
    folder = write_lists(tmp_path / "a", tmp_path, train=["x\0.png 0"])
    refuses(r"image 1\): cannot be decoded .*a zero byte \(NUL\)", folder)
    folder = write_lists(tmp_path / "b", tmp_path, train=["x.png 0", "a" * 3_000_000 + " 0"])
    refuses("train.lst, line 2: 3,000,002 characters; this is no path", folder)
    folder = write_lists(tmp_path / "c", tmp_path, train=["a" * 4500 + " 0"])
    refuses("cannot be decoded .*File name too long", folder)
    folder = write_lists(tmp_path / "d", tmp_path, train=["x.png " + "9" * 5000])
    refuses("train.lst, line 1: 5,006 characters", folder)


def test_a_name_beyond_what_a_system_has() -> None:
    refuses("cannot read .*File name too long", "a" * 300)
    refuses("no such folder or file", "a\0b")


def test_names_that_are_no_text(tmp_path: Path) -> None:
    (root := tmp_path / os.fsdecode(b"caf\xe9")).mkdir()
    for name in ("plain", os.fsdecode(b"\xff")):
        _written(root / "set" / name / "0.png", png(len(name)))
    refuses(r"set: class 1 is called '\\udcff', which is no text in UTF-8; rename it", root / "set")
    (root / "set" / os.fsdecode(b"\xff")).rename(root / "set" / "other\n\x1b[31m\t")
    _written(root / "set" / "plain" / os.fsdecode(b"\xfe.png"), b"no image")
    refuses("cannot be decoded", root / "set")
    with pytest.warns(DataWarning, match=r"1 image\(s\) could not be decoded"):
        images = open_images(root / "set", skip_bad=True)
    assert images.class_names == ("other\n\x1b[31m\t", "plain")
    assert "?.png" in images.skipped[0]
    (root / "set" / "plain" / os.fsdecode(b"\xfe.png")).write_bytes(png(3))
    (root / "set").rename(tmp_path / os.fsdecode(b"s\xe9t"))
    assert "s?t" in ok_here("data", "show", os.fsdecode(b"s\xe9t"), cwd=tmp_path)
    facts = json.loads(ok_here("data", "show", os.fsdecode(b"s\xe9t"), "--json", cwd=tmp_path))
    assert facts["name"] == "s?t"
    done = run_here("data", "convert", os.fsdecode(b"s\xe9t"), "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_folders_in_folders_beyond_what_python_calls(tmp_path: Path) -> None:
    deep = tmp_path / "x" / "/".join(["d"] * 150)
    _written(deep / "a.png", png(0))
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 100)
    try:
        found = list(image_files(tmp_path / "x"))
    finally:
        sys.setrecursionlimit(before)
    assert found == ["d/" * 150 + "a.png"]


# -- Parquet -----------------------------------------------------------------------------------


def test_columns_of_other_kinds(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    image = pa.array([{"bytes": png(0), "path": ""}])
    label = pa.array([0])
    pair = pa.struct([("bytes", pa.string()), ("path", pa.string())])
    for number, (columns, words) in enumerate(
        [
            ((("image", image), ("label", label), ("label", label)), "'label' is there 2 times"),
            ((("image", image), ("image", image), ("label", label)), "'image' is there 2 times"),
            ((("image", pa.array([[1]])), ("label", label)), "must hold {bytes, path}, not list"),
            ((("image", pa.array([{"bytes": "a"}], pair)), ("label", label)), "must hold {bytes"),
            ((("image", image), ("label", pa.array([[0]]))), "must hold whole numbers"),
            ((("image", image), ("label", pa.array([2**63], pa.uint64()))), "label -9223372036"),
        ]
    ):
        (tmp_path / str(number)).mkdir()
        table = pa.table([c for _, c in columns], names=[n for n, _ in columns])
        pq.write_table(table, tmp_path / str(number) / "train.parquet")
        refuses(words, tmp_path / str(number))
    root = make_parquet(tmp_path / "set")
    pq.write_table(pa.table({"image": image}), root / "train-00001-of-00002.parquet")
    refuses("00001-of-00002.parquet: column 'label' is there 0 times", root)


def test_few_bytes_that_stand_for_many_rows(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    (tmp_path / "set").mkdir()
    kind = pa.struct([("bytes", pa.binary())])
    rows = 3_000_000
    table = pa.table({"image": pa.nulls(rows, kind), "label": np.zeros(rows, np.int64)})
    pq.write_table(table, tmp_path / "set" / "train.parquet")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("transil.scores.zips.ANY_SIZE", 1 << 20)
        refuses("train.parquet: .* bytes that would take 22 MiB of memory", tmp_path / "set")


def test_altered_bytes_of_parquet(tmp_path: Path) -> None:
    """Whatever is damaged, it is told in one line, or harms one image."""
    root = make_parquet(tmp_path / "set", shards=1)
    path = root / "train-00000-of-00001.parquet"
    raw = path.read_bytes()
    random = np.random.default_rng(0)
    refused = 0
    for _ in range(40):
        damaged = bytearray(raw)
        damaged[int(random.integers(4, len(raw)))] ^= int(random.integers(1, 256))
        path.write_bytes(damaged)
        told = ""
        try:
            open_images(root)
        except TransilError as error:
            told = str(error)
            refused += 1
        assert "\n" not in told
        assert not told or path.name in told
    assert refused > 10

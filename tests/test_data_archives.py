"""Archives of CIFAR that unpack to more than they should, or to something else."""

from __future__ import annotations

import gzip
import io
import os
import shutil
import tarfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from image_files import make_archive, make_cifar, refuses
from transil.data import open_images
from transil.data.sources import cifar


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRANSIL_CACHE", str(tmp_path / "cache"))


def _archive(path: Path, add: Callable[[tarfile.TarFile], Any], mode: Any = "w:gz") -> Path:
    """An archive of the official files, with more before them."""
    folder = make_cifar(path / "100-python", 100, "python")
    archive = path / "cifar-100-python.tar.gz"
    with tarfile.open(archive, mode) as tar:
        add(tar)
        tar.add(folder, arcname=folder.name)
    shutil.rmtree(folder)
    return archive


def _member(tar: tarfile.TarFile, name: str, size: int = 0, **facts: Any) -> None:
    member = tarfile.TarInfo(name)
    member.size = size
    for key, value in facts.items():
        setattr(member, key, value)
    tar.addfile(member, io.BytesIO(bytes(size)) if size else None)


def _header(name: str, size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    """A header that promises more than there is."""
    member = tarfile.TarInfo(name)
    member.size, member.type = size, kind
    return member.tobuf(tarfile.GNU_FORMAT)


def test_what_else_an_archive_may_hold(tmp_path: Path) -> None:
    def add(tar: tarfile.TarFile) -> None:
        _member(tar, "x/README", 5_000_000)
        _member(tar, "x/train", type=tarfile.SYMTYPE, linkname="/etc/passwd")
        _member(tar, "x/test", type=tarfile.LNKTYPE, linkname="../../etc/passwd")
        _member(tar, "x/meta", type=tarfile.FIFOTYPE)
        _member(tar, "x/train", type=tarfile.CHRTYPE, devmajor=1, devminor=5)
        _member(tar, "/abs/../../odd\x1b\n", 3)
        _member(tar, "d" * 300 + "/._train", 30)

    (tmp_path / "a").mkdir()
    images = open_images(_archive(tmp_path / "a", add))
    assert len(images.splits["train"]) == 8
    (tmp_path / "b").mkdir()
    plain = _archive(tmp_path / "b", add, "w")
    assert open_images(plain).fingerprint != images.fingerprint
    assert not (tmp_path / "odd").exists()


def test_a_bomb_takes_neither_memory_nor_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cifar, "MOST_UNPACKED", 32 << 20)
    archive = _archive(tmp_path, lambda tar: _member(tar, "README", 40 << 20))
    assert archive.stat().st_size < 100_000
    # What follows the members is unpacked, too: only the end tells whether all is whole.
    whole = make_archive(make_cifar(tmp_path / "100-python", 100, "python"))
    whole.write_bytes(whole.read_bytes() + gzip.compress(bytes(40 << 20)))
    started = time.monotonic()
    tracemalloc.start()
    refuses("tar.gz: it unpacks to more than 32 MiB; not CIFAR's archive", archive)
    refuses("it unpacks to more than 32 MiB", whole)
    assert tracemalloc.get_traced_memory()[1] < 10 << 20
    tracemalloc.stop()
    assert time.monotonic() - started < 10


def test_members_that_are_not_the_official_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(cifar.MOST, "train", 4 << 20)
    archive = _archive(tmp_path, lambda tar: _member(tar, "y/train", 5 << 20))
    refuses("train holds 5,242,880 bytes; that is not CIFAR's file", archive)
    archive = _archive(tmp_path, lambda tar: _member(tar, "y/meta", 2 << 20))
    refuses("meta holds 2,097,152 bytes; that is not CIFAR's file", archive)

    def add(tar: tarfile.TarFile) -> None:
        for number in range(1200):
            _member(tar, f"{number}")

    archive = _archive(tmp_path, add)
    refuses("far more than CIFAR's files", archive)


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (_header("train", 1 << 20), "cut short or altered"),
        (_header("train", 1 << 33), "train holds 8,589,934,592 bytes"),
        (_header("other", 1 << 33), "not the official files|cut short or altered"),
        (_header("x", 1 << 33, tarfile.XHDTYPE), "its headers are too long"),
        (_header("x", 1 << 33, tarfile.GNUTYPE_LONGNAME), "its headers are too long"),
        (_header("x", 5, tarfile.GNUTYPE_SPARSE), "not the official files|cut short or altered"),
        (_header("x", 512, tarfile.GNUTYPE_LONGNAME) * 3000, "cut short or altered"),
        (_header("x", 512, tarfile.XHDTYPE) + b"99999999999 a=b\n" * 32, "cut short or altered"),
        (_header("x", 512, tarfile.XHDTYPE) + b"9" * 512, "cut short or altered"),
        (_header("x", 510, tarfile.XHDTYPE) + b"17 size=-9999999\n" * 30, "cut short or altered"),
        (b"", "not a tar archive"),
        (bytes(2048), "not the official files"),
        (b"no tar", "not a tar archive"),
    ],
)  # fmt: skip
def test_crafted_headers(tmp_path: Path, raw: bytes, words: str, packed: bool) -> None:
    path = tmp_path / "cifar.tar.gz"
    path.write_bytes(gzip.compress(raw) if packed else raw)
    refuses(f"cifar.tar.gz: .*({words})", path)


def test_a_member_with_holes(tmp_path: Path) -> None:
    """As GNU's tar writes one of many gigabytes that takes a few hundred bytes."""
    header = bytearray(_header("train", 512, tarfile.GNUTYPE_SPARSE))
    header[386:410] = b"00000000000\0" + b"00000001000\0"
    header[483:495] = b"77777777777\0"
    header[148:156] = b"        "
    header[148:156] = b"%06o\0 " % sum(header)
    path = tmp_path / "cifar.tar"
    path.write_bytes(bytes(header) + bytes(512 + 1024))
    refuses("cifar.tar: train has holes; that is not CIFAR's file", path)


def test_cut_and_altered_archives(tmp_path: Path) -> None:
    archive = make_archive(make_cifar(tmp_path / "100-python", 100, "python"))
    raw = archive.read_bytes()
    for number in (1, 5, len(raw) // 2, len(raw) - 9, len(raw) - 1):
        archive.write_bytes(raw[:number])
        refuses("not a tar archive, cut short or altered", archive)
    archive.write_bytes(raw + b"more")
    refuses("cut short or altered", archive)
    archive.write_bytes(raw[:-6] + b"\x00\x00" + raw[-4:])  # its checksum
    refuses("cut short or altered", archive)
    plain = gzip.decompress(raw)
    archive.write_bytes(plain[:9000])
    refuses("cut short or altered|not the official files", archive)


def test_a_pipe_in_place_of_a_file(tmp_path: Path) -> None:
    folder = make_cifar(tmp_path / "c", 100, "python")
    (folder / "train").unlink()
    os.mkfifo(folder / "train")
    refuses("no folders of classes", folder)
    os.mkfifo(tmp_path / "cifar.tar.gz")
    refuses("no such folder or file", tmp_path / "cifar.tar.gz")

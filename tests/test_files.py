"""What every reading goes through: plain files only, of a bounded size, told in one line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from transil import TransilError
from transil.files import check_regular, read_bytes, read_json, sha256


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

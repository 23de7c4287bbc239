"""Files that are small on disk and would fill the memory: archives (.npz, torch's .pt), Parquet."""

from __future__ import annotations

import zipfile
from typing import IO

from transil.errors import TransilError

# Scores and images hardly shrink, and labels are few; what zip makes of zeros is a thousandth of them.
ANY_SIZE, MOST_TIMES = 256 << 20, 100


def check_unpacked(file: IO[bytes], where: str) -> None:
    """An error where a zip archive unpacks to far more than it has; other files pass."""
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            unpacked = sum(member.file_size for member in archive.infolist())
        check_growth(unpacked, file.seek(0, 2), where)
    file.seek(0)


def check_growth(unpacked: int, stored: int, where: str) -> None:
    """An error where so many bytes in memory come from so few that are stored."""
    if unpacked > max(ANY_SIZE, MOST_TIMES * stored):
        raise TransilError(
            f"{where}: {stored:,} bytes that would take {unpacked >> 20:,} MiB of memory; refused, "
            "neither scores nor images are packed so well"
        )

"""Files that are small on disk and would fill the memory: archives (.npz, torch's .pt), tables."""

from __future__ import annotations

import struct
import zipfile
from typing import IO, Any

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


def unpacked_size(message: Any) -> int:
    """The bytes that a message of Arrow's format (pyarrow's Message) takes in memory, before it is read.

    Its buffers may be compressed; each then begins with the size it has without.
    """
    if message.type not in ("record batch", "dictionary"):
        return 0
    data, body = bytes(message.metadata), message.body

    def field(table: int, number: int) -> int:
        """Where a field of a flatbuffer's table lies; 0 where it has none."""
        entries = table - struct.unpack_from("<i", data, table)[0]
        entry = 4 + 2 * number
        if entry >= struct.unpack_from("<H", data, entries)[0]:
            return 0
        offset: int = struct.unpack_from("<H", data, entries + entry)[0]
        return table + offset if offset else 0

    def below(place: int) -> int:
        """The table or list that a field refers to."""
        return place + int(struct.unpack_from("<I", data, place)[0])

    try:
        batch = below(field(below(0), 2))
        if message.type == "dictionary":
            batch = below(field(batch, 1))
        total, buffers = 0, below(field(batch, 2))
        for number in range(struct.unpack_from("<I", data, buffers)[0]):
            start, size = struct.unpack_from("<qq", data, buffers + 4 + 16 * number)
            total += size
            if field(batch, 3) and size >= 8:  # the batch is compressed
                total += max(0, struct.unpack_from("<q", body, start)[0])
    except struct.error:
        raise ValueError("a damaged message") from None
    return total

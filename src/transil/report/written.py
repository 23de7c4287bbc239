"""Files of a report in a folder: ours are known again, other people's stay as they are.

Beside them lies a list, `report-files.json`, with the checksum of every file that was written. Only
what it names, and what is still as it was written, is overwritten or taken away.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transil._common.files import atomic_file, check_output, read_json, sha256, told, write_json
from transil.errors import TransilError

FILE, FORMAT, VERSION = "report-files.json", "transil-report-files", 1
PICTURE = r"(gains|figure-\d+(-\d+)?|table-3-references|transfer-matrix|traffic)"
HINT = "move it away, write elsewhere, or overwrite with --force"

Known = Mapping[str, frozenset[str]]  # a path to the checksums under which it is ours


@dataclass(frozen=True)
class Output:
    """A page and the files beside it, by their paths below `root`.

    `names` says which paths there can be at all: nothing else is ever written or taken away.
    """

    root: Path
    page: str
    names: re.Pattern[str]
    files: Mapping[str, bytes]
    list: str = FILE

    @property
    def place(self) -> Path:
        """Where the page lies."""
        return self.root / self.page


def write_outputs(outputs: Sequence[Output], force: bool = False) -> None:
    """Write all files, and take away what an earlier report has left in the same places.

    Before anything is written: an error where a file is in the way that is not ours, unless `force`.
    Whenever it is interrupted, the lists know the files of before and those of now.
    """
    for output, ours in zip(outputs, check_outputs(outputs, force), strict=True):
        new = {path: frozenset((_sum(data),)) for path, data in output.files.items()}
        _save(output, {p: new.get(p, frozenset()) | ours.get(p, frozenset())
                       for p in {**ours, **new}})  # fmt: skip
        for path, data in output.files.items():
            with atomic_file(output.root / path, durable=False) as file:
                file.write(data)
        for path in ours:
            if path not in new and not (output.root / path).is_symlink():
                _remove(output, path, ours[path])
        _save(output, new)


def check_outputs(outputs: Sequence[Output], force: bool = False) -> list[Known]:
    """What is ours of the files that are there; an error where others are in the way."""
    found = []
    for output in outputs:
        with told(f"cannot look into {output.root}"):
            found.append(_checked(output, force))
    return found


def _checked(output: Output, force: bool) -> Known:
    for path in (output.list, *output.files):
        check_output(output.root / path)
    try:
        known = _known(output)
    except TransilError as error:
        if not force:
            raise TransilError(f"{error}; {HINT}") from None
        known = {}
    foreign = [] if force else list(_foreign(output, known))
    if foreign:
        more = f" (and {len(foreign) - 1} more)" if len(foreign) > 1 else ""
        raise TransilError(f"{foreign[0]}: not written by transil, or changed since{more}; {HINT}")
    return known


def _foreign(output: Output, known: Known) -> Iterator[Path]:
    """Files that would be overwritten and are not ours; those that would stay the same are."""
    for name, data in output.files.items():
        path = output.root / name
        ours = known.get(name, frozenset()) | {_sum(data)}
        if not _inside(output, path) or (os.path.lexists(path) and not _is_one(path, ours)):
            yield path


def _is_one(path: Path, sums: frozenset[str]) -> bool:
    return path.is_file() and sha256(path) in sums


def _inside(output: Output, path: Path) -> bool:
    """Whether it lies in the folder, whatever links are on the way."""
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(output.root))


def _remove(output: Output, name: str, sums: frozenset[str]) -> None:
    path = output.root / name
    if _inside(output, path) and _is_one(path, sums):
        with told(f"cannot remove {path}"):
            path.unlink(missing_ok=True)


def _known(output: Output) -> Known:
    """What the list says is ours."""
    path = output.root / output.list
    if not os.path.lexists(path):
        return {}
    if not _inside(output, path):
        raise TransilError(f"{path}: a link that leads elsewhere")
    data: Any = read_json(path)
    wrong = TransilError(f"{path}: not a list of files that transil has written")
    if not isinstance(data, dict) or (data.get("format"), data.get("version")) != (FORMAT, VERSION):
        raise wrong
    files = data.get("files")
    if not isinstance(files, dict):
        raise wrong
    for sums in files.values():
        if not isinstance(sums, list) or not all(isinstance(x, str) for x in sums):
            raise wrong
    return {p: frozenset(sums) for p, sums in files.items() if output.names.fullmatch(p)}


def _save(output: Output, known: Known) -> None:
    files = {path: sorted(known[path]) for path in sorted(known)}
    write_json(output.root / output.list, {"format": FORMAT, "version": VERSION, "files": files})


def _sum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()

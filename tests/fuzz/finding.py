"""How a finding is written down: what lies in the folder, and what is wrong with it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from random import Random
from typing import Any

from fuzz.boxes import Case, Spoil
from fuzz.mutate import signed


def finding(
    name: str,
    line: str,
    needs: str,
    spoil: Spoil | None,
    *,
    outputs: str = "",
    must: Any = "refused",
    **more: Any,
) -> Case:
    return Case(
        f"finding : {name}",
        tuple(line.split(" ")),
        tuple(needs.split()),
        spoil,
        tuple(outputs.split()),
        must,
        **more,
    )


def writes(path: str, content: str | bytes) -> Spoil:
    """A file (and its folders) with that content."""

    def spoil(folder: Path, random: Random) -> None:
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        raw = content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
        place.write_bytes(raw)

    return spoil


def changes(path: str, change: Any) -> Spoil:
    """A JSON file after `change(data)`, which gives other data or None."""

    def spoil(folder: Path, random: Random) -> None:
        data = json.loads((folder / path).read_text())
        made = change(data)
        (folder / path).write_text(signed(json.dumps(data if made is None else made)))

    return spoil


def at(*way: Any) -> Any:
    """A change: the value at `way`, whose last is the new one."""
    *path, last, value = way

    def change(data: Any) -> None:
        for key in path:
            data = data[key]
        data[last] = value

    return change


def links(place: str, to: str = "kept.txt") -> Spoil:
    def spoil(folder: Path, random: Random) -> None:
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).unlink(missing_ok=True)
        os.symlink(os.path.relpath(folder / to, (folder / place).parent), folder / place)

    return spoil


def together(*spoils: Spoil) -> Spoil:
    def spoil(folder: Path, random: Random) -> None:
        for one in spoils:
            one(folder, random)

    return spoil


def pipe(place: str) -> Spoil:
    def spoil(folder: Path, random: Random) -> None:
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).unlink(missing_ok=True)
        os.mkfifo(folder / place)

    return spoil

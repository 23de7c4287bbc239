"""The names of classes: as a list that a user writes, and found among those of a data set."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Sequence
from pathlib import Path

from transil._common.files import read_json, read_text
from transil._common.registry import nearest
from transil.errors import TransilError

# How many names of a data set a message gives where none is near.
SHOWN = 5


def read_names(text: str) -> list[str]:
    """The names in `cat,dog`, in `@names.txt` (one a line), or in `@names.json`.

    A JSON file holds one list, or several in an object: `@names.json:birds` is one of those.
    """
    if text == "@":
        raise TransilError("classes: no file is named behind the '@'")
    if not text.startswith("@"):
        names = text.split(",")
    else:
        file, mark, key = text[1:].rpartition(".json:")
        if mark and not os.path.exists(text[1:]):
            names = _names_in_json(Path(f"{file}.json"), key)
        elif text.lower().endswith(".json"):
            names = _names_in_json(Path(text[1:]), None)
        else:
            names = read_text(text[1:]).splitlines()
    return [name.strip() for name in names if name.strip()]


def _names_in_json(path: Path, key: str | None) -> list[str]:
    data = read_json(path)
    if key is not None:
        if not isinstance(data, dict) or key not in data:
            there = f"; {nearest(key, data)}" if isinstance(data, dict) and data else ""
            raise TransilError(f"{path}: it holds no list '{_shown(key)}'{there}")
        data = data[key]
    elif isinstance(data, dict):
        some = f"; choose one, as @{path}:{_shown(next(iter(data)))}" if data else ""
        raise TransilError(f"{path}: an object of {len(data)} lists, not one list of names{some}")
    if not isinstance(data, list) or not all(isinstance(name, str) for name in data):
        raise TransilError(f'{path}: the classes must be a list of names, ["cat", "dog"]')
    return data


def find_classes(names: Sequence[str], known: Sequence[str], where: str) -> list[int]:
    """The number of each class called so, in the order of `names`.

    A name is that of a class to the letter, or else but for upper and lower case, blanks,
    underscores and other marks. `where` is the data set, for messages.
    """
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise TransilError(f'{where}: the classes must be a list of names, ["cat", "dog"]')
    if not names:
        raise TransilError(f"{where}: the list of classes is empty; name one at least")
    exact: dict[str, list[int]] = {}
    plain: dict[str, list[int]] = {}
    for number, name in enumerate(known):
        exact.setdefault(name, []).append(number)
        plain.setdefault(_plain(name), []).append(number)
    chosen: dict[int, str] = {}
    unknown = []
    for name in names:
        found = exact.get(name) or (plain.get(_plain(name), []) if _plain(name) else [])
        if len(found) > 1:
            raise TransilError(f"{where}: {_ambiguous(name, found, known)}")
        if not found:
            unknown.append(name)
        elif found[0] in chosen:
            before, again = _shown(chosen[found[0]]), _shown(name)
            what = f"'{before}' and '{again}' are the same class"
            if chosen[found[0]] == name:
                what = f"class '{again}' is named twice"
            raise TransilError(f"{where}: {what}; name it once")
        else:
            chosen[found[0]] = name
    if unknown:
        raise TransilError(f"{where}: {_unknown(unknown, known, plain)}")
    return list(chosen)


def _plain(name: str) -> str:
    """A name in lower case, its words parted by one blank; without Places365's letter folder."""
    name = re.sub(r"^/[a-z]/", "", name)
    return re.sub(r"[\W_]+", " ", name.casefold()).strip()


def _ambiguous(name: str, found: list[int], known: Sequence[str]) -> str:
    fits = " and ".join(f"'{_shown(known[number])}' (class {number})" for number in found[:3])
    alike = len({known[number] for number in found}) < len(found)
    remedy = "rename one in the data set" if alike else "write one as it stands there"
    return f"the name '{_shown(name)}' fits {len(found)} classes, {fits}; {remedy}"


def _unknown(unknown: list[str], known: Sequence[str], plain: dict[str, list[int]]) -> str:
    close = difflib.get_close_matches(_plain(unknown[0]), plain, n=1)
    if close:
        hint = f"did you mean '{_shown(known[plain[close[0]][0]])}'?"
    else:
        some = ", ".join(_shown(name) for name in known[:SHOWN])
        hint = f"there are: {some}" + (f", ... ({len(known)})" if len(known) > SHOWN else "")
    more = f" ({len(unknown) - 1} more of the names are not there either)" if unknown[1:] else ""
    return f"no class is called '{_shown(unknown[0])}'; {hint}{more}"


def _shown(name: str) -> str:
    """A name as part of one line."""
    return " ".join(name.split())[:60]

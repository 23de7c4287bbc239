"""Ways to spoil a file; each is the same for the same seed of its random generator."""

from __future__ import annotations

import copy
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

Mutation = Callable[[Path, Random], None]

DIGITS = "9" * 5000
# Texts that JSON's writer would not give; they stand in the file as they are.
RAW_JSON = (
    "NaN", "Infinity", "-Infinity", "1e999", "-1e999", DIGITS, f"-{DIGITS}", f"1.{DIGITS}",
    "[" * 100_000, '{"a":' * 100_000, "[" * 5000 + "]" * 5000, "'a'", "01", "0x10", "undefined",
    '"\\ud800"', '"\\u0000"', '"a\tb"', '{"a": 1, "a": 2}', "", "1e-999", "[1,]", "// no",
)  # fmt: skip
ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 10**6, 2**31, 2**63, -(2**63) - 1, 2**64, 10**40, 10**309,
    0.5, -0.0, 1e308, -1e308, 5e-324, "", " ", "x", "1", "-1", "1.5", "nan", "a\0b", "a\nb",
    "\x1b[31mred\x1b[0m\x07", "\x9b31m", "../../kept.txt", "/dev/zero", "/", ".", "..", "~",
    "\U0001f986", "\u202etxt.exe", "<script>alert(1)</script>", "$x^{$", "%s%n{0}", DIGITS,
    "x" * 100_000, "a/" * 3000, [], {}, [[]], [None], [0], ["x"], [1, "x"], [[1.5]], {"": 0},
    {"a": {"b": []}}, [0] * 5000, [1e308, -1e308], {"x" * 300: "\x1b"}, {"1": 1, "01": 2},
)  # fmt: skip
RAW_YAML = (
    ".nan", "-.inf", ".inf", "!!timestamp 2001-01-01", "!!timestamp x", "2001-99-99", "2001-01-01",
    "!!bool x", "!!int x", "!!float x", "!!set {a, b}", "!!set x", "!!binary aGVsbG8=",
    "!!binary %",
    "!!omap [a: 1]", "!!pairs [a: 1]", "!!null x", "!!str {a: 1}", "!!seq {a: 1}", "!!map [1]",
    "!!python/object/apply:os.system [id]", "!!python/name:os.system", "!none x", "&a [*a]",
    "&a {b: *a}", "*nothing", "{? [a] : b}", "{? {a: b} : c}", "{<<: 1}", "{<<: [1]}",
    "{<<: {epochs: 2}}", DIGITS, "0x" + "f" * 5000, "0b1", "0o17", "1:59:59", "1_000", "1e5",
    "~", "yes", "'a", '"a', '"\\x00"', '"\\uD800"', "[" * 3000, "[" * 3000 + "]" * 3000,
    "{a: " * 3000, "\t- x", "%YAML 9.9", "---\n---", "a: b: c", "- - - -", "|", ">", "? x", "@",
    "`",
    "\x00", "\x1b[31m", "\ufeff", "\u2028", "[1, 2, 3", "'\x1b]0;title\x07'",
)  # fmt: skip


def alias_bomb(depth: int = 9, width: int = 9, inside: str = "lol") -> str:
    """A YAML list of `width ** depth` texts, in a few lines."""
    lines = [f"a0: &a0 [{', '.join([inside] * width)}]"]
    for i in range(1, depth):
        lines.append(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * width)}]")
    return "\n".join(lines)


# -- bytes -------------------------------------------------------------------------------------


def spoiled(raw: bytes, random: Random) -> bytes:
    """Bytes flipped, cut, put in, taken out, doubled, overwritten by others from elsewhere."""
    data = bytearray(raw)
    for _ in range(random.choice((1, 1, 1, 2, 4, 16))):
        at = random.randrange(len(data) + 1)
        length = random.choice((1, 1, 2, 4, 8, 64, 1000))
        what = random.randrange(9)
        if what == 0 and data:
            data[at % len(data)] ^= 1 << random.randrange(8)
        elif what == 1:
            del data[at:]
        elif what == 2:
            data[at:at] = random.randbytes(length)
        elif what == 3:
            del data[at : at + length]
        elif what == 4:
            data[at:at] = data[at : at + length]
        elif what == 5:
            data[at : at + length] = (
                random.choice((b"\0", b"\xff", b"\x80", b"9", b"\x1b")) * length
            )
        elif what == 6:
            other = random.randrange(len(data) + 1)
            data[at : at + length] = data[other : other + length]
        elif what == 7:
            values = (2**31 - 1, 2**31, 2**63 - 1, 2**63, 2**64 - 1, 2**40, 0)
            data[at : at + 8] = random.choice(values).to_bytes(8, random.choice(("little", "big")))
        else:
            data += data[:length]
    return bytes(data)


def bytes_of(path: Path, random: Random) -> None:
    """The file's bytes."""
    path.write_bytes(spoiled(path.read_bytes(), random))


def text_of(path: Path, random: Random) -> None:
    """A text file by its lines and words."""
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    for _ in range(random.choice((1, 1, 2, 3))):
        at = random.randrange(len(lines))
        line, what = lines[at], random.randrange(8)
        words = line.split(" ")
        odd = random.choice([v for v in ODD if isinstance(v, str)])
        if what == 0:
            words[random.randrange(len(words))] = odd
            lines[at] = " ".join(words)
        elif what == 1:
            lines[at] = line[: random.randrange(len(line) + 1)]
        elif what == 2:
            del lines[at]
            lines = lines or [""]
        elif what == 3:
            lines.insert(at, random.choice(lines))
        elif what == 4:
            lines[at] = line.replace(random.choice(line or " "), odd[:500])
        elif what == 5:
            lines.insert(at, odd)
        elif what == 6:
            lines[at] = random.choice(("\r", "\0", "\u2028", "\x85", "\ufeff", "\t")) + line
        else:
            lines[at] = line * random.choice((2, 50))
    raw = "\n".join(lines).encode("utf-8", "surrogatepass")
    path.write_bytes(
        random.choice((raw, raw, raw, raw.decode().encode("utf-16"), b"\xef\xbb\xbf" + raw))
    )


# -- places ------------------------------------------------------------------------------------


def place(path: Path, random: Random) -> None:
    """Something else where the file should be."""
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    what = random.choice(PLACES)
    if what == "pipe":
        os.mkfifo(path)
    elif what == "folder":
        path.mkdir()
    elif what == "loop":
        os.symlink(path.name, path)
    elif what == "dangling":
        os.symlink("nowhere", path)
    elif what == "device":
        os.symlink("/dev/zero", path)
    elif what == "empty":
        path.touch()
    elif what == "huge":
        with open(path, "wb") as file:
            file.truncate(1 << 40)
    elif what == "socket-like":
        os.symlink("/proc/self/mem", path)
    elif what == "itself":
        os.symlink(".", path)


PLACES = (
    "pipe", "folder", "loop", "dangling", "device", "empty", "missing", "huge", "socket-like",
    "itself",
)  # fmt: skip


def place_as(what: str) -> Mutation:
    """`place` with one thing alone."""

    class Fixed(Random):
        def choice(self, seq: Any) -> Any:
            return what

    return lambda path, _: place(path, Fixed())


def neighbours(path: Path, random: Random) -> None:
    """Other files beside the file (or in the folder), with names that look like its own."""
    folder = path if path.is_dir() else path.parent
    stems = [p.name for p in folder.iterdir()] or ["x"]
    old = random.choice(stems)
    number = random.choice(("9999999999", "0", "-1", "00", "1e9", "²", "\uff19", "9" * 200))
    digits = [i for i, c in enumerate(old) if c.isdigit()]
    names = [
        ".DS_Store", "._" + old, "Thumbs.db", "\x1b[31m" + old, old + "\n", old + ".bak", " " + old,
        "\U0001f986" + old,
        old[: digits[-1]] + number + old[digits[-1] + 1 :] if digits else number,
        "desktop.ini", old.upper(), "__MACOSX", ".hidden", "state-9999999999.safetensors",
    ]  # fmt: skip
    new = folder / random.choice(names)[:250]
    what = random.randrange(5)
    if new.exists():
        return
    if what == 0 or (folder / old).is_dir():
        new.mkdir()
    elif what == 1:
        os.mkfifo(new)
    elif what == 2:
        new.write_bytes(random.randbytes(100))
    elif what == 3 and (folder / old).is_file():
        shutil.copy(folder / old, new)
    else:
        os.symlink(random.choice(("/dev/zero", "nowhere", new.name)), new)


# -- trees -------------------------------------------------------------------------------------


def paths_in(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every value of nested lists and dictionaries, the whole first."""
    found = [path]
    items = data.items() if isinstance(data, dict) else ()
    if isinstance(data, list):
        items = list(enumerate(data))[:8]  # type: ignore[assignment]
    for key, value in items:
        found += paths_in(value, (*path, key))
    return found


def changed(data: Any, random: Random, odd: Any) -> Any:
    """A copy in which one value is `odd`, or gone, renamed, doubled, or another of the same tree."""
    data = copy.deepcopy(data)
    ways = paths_in(data)
    # A level first, then a place there: long lists of numbers would take nearly all otherwise.
    level = random.choice(sorted({len(way) for way in ways}))
    way = random.choice([w for w in ways if len(w) == level])
    if not way:
        return odd
    inner = data
    for key in way[:-1]:
        inner = inner[key]
    last, what = way[-1], random.randrange(8)
    if what == 0:
        del inner[last]
    elif what == 1 and isinstance(inner, dict):
        inner[random.choice(("", " ", "x", "\x1b[31m", DIGITS, "0", "-1", "__class__"))] = (
            inner.pop(last)
        )
    elif what == 2 and isinstance(inner, list):
        inner.insert(last, inner[last])
    elif what == 3:
        other = data
        for key in random.choice(ways):
            other = other[key]
        inner[last] = copy.deepcopy(other)
    else:
        inner[last] = odd
    return data


MARK = "@@raw@@"


def json_text(data: Any, random: Random) -> str:
    """JSON with one value changed, perhaps to a text that is no JSON."""
    if random.random() < 0.3:
        raw = random.choice(RAW_JSON)
        return json.dumps(changed(data, random, MARK)).replace(f'"{MARK}"', raw)
    return json.dumps(changed(data, random, random.choice(ODD)))


def json_of(path: Path, random: Random) -> None:
    """A JSON file by its values."""
    path.write_text(json_text(json.loads(path.read_text()), random))


def signed_of(path: Path, random: Random) -> None:
    """A JSON file with a checksum by its values, with the checksum that goes with them."""
    json_of(path, random)
    path.write_text(signed(path.read_text()))


def signed(text: str) -> str:
    """A ledger or corrector with its right checksum: without, all that is changed stops there."""
    from transil._common.typed import read_record, sealed
    from transil.adaptation.corrector_file import CorrectorFile
    from transil.adaptation.ledger import LedgerFile
    from transil.errors import TransilError

    kinds: dict[str, Any] = {"transil-ledger": LedgerFile, "transil-corrector": CorrectorFile}
    try:
        data = json.loads(text)
        return json.dumps(sealed(read_record(data, kinds[data["format"]], "")))
    except (ValueError, TypeError, LookupError, RecursionError, TransilError):
        return text


def yaml_text(data: Any, random: Random) -> str:
    """YAML with one value changed, perhaps to one of YAML's many odd things."""
    if random.random() < 0.1:
        return "\n".join((json.dumps(data), alias_bomb(random.choice((2, 9, 30)))))
    if random.random() < 0.1:
        bomb = alias_bomb(random.choice((3, 9)), inside=random.choice(("x", "1", "{a: 1}", "[]")))
        return bomb + "\n" + "\n".join(f"{k}: {json.dumps(v)}" for k, v in data.items())
    made = changed(data, random, MARK if random.random() < 0.6 else random.choice(ODD))
    if not isinstance(made, dict):
        return random.choice(RAW_YAML)
    text = "\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in made.items())
    return text.replace(f'"{MARK}"', random.choice(RAW_YAML))


def yaml_of(path: Path, random: Random) -> None:
    """A YAML file by its values."""
    import yaml

    text = yaml_text(yaml.safe_load(path.read_text()), random)
    path.write_bytes(text.encode("utf-8", "surrogatepass"))

"""Pickles of plain values and NumPy arrays, read without the pickle module.

A pickle is a program for a small stack machine, and Python's own machine can call what the file
names and fill objects with what the file says: even arrays and their dtypes, which then hold
addresses from the file. This machine has only the steps that plain values and arrays need. It
never calls, imports or fills an object that is not its own; arrays are made here, from bytes whose
form was checked. Everything it gives is exactly None, bool, int, float, bytes, str, tuple, list,
dict (of texts) or `Array`.

It reads what Python 2 wrote (its texts become bytes) and all protocols since. Work and memory are
bounded by the size of the file and by `MOST_STEPS`.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

# The official files take 250,000 steps.
MOST_STEPS = 3_000_000
# Texts longer than this may hold nothing beyond Latin-1: one other letter makes four bytes of each.
LONG_TEXT = 1 << 20
# What the pickles of NumPy arrays name; old and new versions have it in other modules.
NAMES = {
    "numpy.core.multiarray _reconstruct": "reconstruct",
    "numpy._core.multiarray _reconstruct": "reconstruct",
    "numpy.core.numeric _frombuffer": "frombuffer",
    "numpy._core.numeric _frombuffer": "frombuffer",
    "numpy ndarray": "ndarray",
    "numpy dtype": "dtype",
    "_codecs encode": "encode",
}
# Whole numbers without fields, parts or notes; anything else could hide addresses.
DTYPE = re.compile(r"[|<>=]?([iu][1248])")


class PlainPickleError(ValueError):
    """Why a file is not a pickle of plain values, in our own words."""


@dataclass(frozen=True)
class Name:
    """One of the functions and classes of `NAMES`, which is only named, never called."""

    what: str


@dataclass
class DType:
    """A dtype of whole numbers; its byte order comes in a second step."""

    code: str
    order: str = "|"


@dataclass
class Array:
    """An array; without values until the step that gives them."""

    values: NDArray[np.integer[Any]] | None = None


def load_plain(raw: bytes) -> Any:
    """The value that a pickle describes, or a `PlainPickleError`."""
    machine = _Machine(raw)
    try:
        for _ in range(MOST_STEPS):
            code = machine.take(1)[0]
            if code == STOP:
                return machine.stack.pop()
            step = STEPS.get(code)
            if step is None:
                _refuse(f"step {code:#04x} at byte {machine.at - 1} is none of plain values")
            step(machine)
    except (IndexError, KeyError):
        _refuse(f"what step {code:#04x} at byte {machine.at - 1} takes is not there")
    except PlainPickleError:
        raise
    except ValueError:  # a number of too many digits, a text that is none
        _refuse(f"no proper value at byte {machine.at - 1}")
    raise PlainPickleError(f"more than {MOST_STEPS:,} steps")


def _refuse(why: str) -> NoReturn:
    raise PlainPickleError(why)


class _Machine:
    """The file, the stack, and what was kept for later."""

    def __init__(self, raw: bytes) -> None:
        self.raw, self.at = raw, 0
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}
        # Bytes that texts may become: in a proper file each text does once.
        self.encodable = len(raw)

    def take(self, count: int) -> bytes:
        """The next bytes of the file."""
        start, self.at = self.at, self.at + count
        if count < 0 or self.at > len(self.raw):
            _refuse("cut short")
        return self.raw[start : self.at]

    def number(self, size: int, *, signed: bool = False) -> int:
        """A whole number of so many bytes."""
        return int.from_bytes(self.take(size), "little", signed=signed)

    def line(self) -> bytes:
        """The bytes up to the end of a line."""
        end = self.raw.find(b"\n", self.at)
        if end < 0:
            _refuse("cut short")
        found = self.take(end - self.at)
        self.at += 1
        return found

    def since_mark(self) -> list[Any]:
        """What was pushed since the last mark."""
        start = self.marks.pop()
        items = self.stack[start:]
        del self.stack[start:]
        return items

    def newest(self, count: int) -> list[Any]:
        """What was pushed last, so many values."""
        if len(self.stack) < count:
            raise IndexError
        items = self.stack[-count:]
        del self.stack[-count:]
        return items

    def last(self, kind: type) -> Any:
        """What lies on top and is to be filled."""
        if type(self.stack[-1]) is not kind:
            _refuse(f"a step fills something that is no {kind.__name__}")
        return self.stack[-1]


# -- values ------------------------------------------------------------------------------------


def _text(raw: bytes) -> str:
    if len(raw) > LONG_TEXT and re.search(rb"[\xc4-\xff]", raw):
        _refuse("a text of megabytes")
    return raw.decode("utf-8", "surrogatepass")


def _quoted(line: bytes) -> bytes:
    """A text as Python 2 wrote it in its oldest protocol."""
    line = line.strip()
    if len(line) < 2 or line[0] != line[-1] or line[:1] not in (b"'", b'"') or b"\\" in line:
        _refuse("a text that is not plain")
    return line[1:-1]


def _escaped(line: bytes) -> str:
    if len(line) > LONG_TEXT:
        _refuse("a text of megabytes")
    return line.decode("raw-unicode-escape")


def _whole(line: bytes) -> int:
    """A number, or True and False as the oldest protocol writes them."""
    return line == b"01" if line in (b"00", b"01") else int(line.removesuffix(b"L"))


# -- containers --------------------------------------------------------------------------------


def _extend(machine: _Machine, items: list[Any]) -> None:
    machine.last(list).extend(items)


def _update(machine: _Machine, items: list[Any]) -> None:
    machine.last(dict).update(_pairs(items))


def _pairs(items: list[Any]) -> dict[bytes | str, Any]:
    """Keys and values in turn; only texts as keys: of numbers, many could be made to collide."""
    keys, values = items[::2], items[1::2]
    if len(keys) != len(values) or not all(type(key) in (bytes, str) for key in keys):
        _refuse("a dictionary whose keys are not texts")
    return dict(zip(keys, values, strict=True))


# -- arrays ------------------------------------------------------------------------------------


def _name(module: Any, name: Any) -> Name:
    if type(module) is not str or type(name) is not str:
        _refuse("a name that is no text")
    what = NAMES.get(f"{module} {name}")
    if what is None:
        plain = re.fullmatch(r"[\w.]{1,100}", module + name, re.ASCII)
        _refuse(f"it names {module}.{name}" if plain else "it names odd things")
    return Name(what)


def _reduced(machine: _Machine) -> Any:
    """What another machine would get by calling a function."""
    name, given = machine.newest(2)
    if type(given) is not tuple or type(name) is not Name:
        _refuse("it calls something that is no function")
    match name.what, given:
        case "reconstruct", (Name("ndarray"), (0,), _):
            return Array()
        case "dtype", (str() | bytes() as code, 0 | 1, 0 | 1):
            return DType(_ascii(code))
        case "frombuffer", (bytes() as data, DType() as dtype, shape, "C" | "F" as order):
            return Array(_values(shape, dtype, order == "F", data))
        case "encode", (str() as text, "latin1" | "latin-1"):
            machine.encodable -= len(text)
            if machine.encodable < 0:
                _refuse("more bytes than it holds")
            return text.encode("latin-1")
    _refuse(f"'{name.what}' is given something else than arrays give it")


def _build(machine: _Machine) -> None:
    """Where another machine would fill an object."""
    state, target = machine.stack.pop(), machine.stack[-1]
    match target, state:
        case Array(None), (1, shape, DType() as dtype, 0 | 1 as columns, bytes() as data):
            target.values = _values(shape, dtype, bool(columns), data)
        case DType(), (3, str() | bytes() as order, None, None, None, -1, -1, 0):
            target.order = _ascii(order)
        case _:
            _refuse("it fills something that is no array, or with something else")


def _ascii(text: str | bytes) -> str:
    return text.decode("ascii") if isinstance(text, bytes) else text


def _values(shape: Any, dtype: DType, columns: bool, data: bytes) -> NDArray[np.integer[Any]]:
    """The array, if its form is plain and the bytes are as many as it says."""
    code, order = DTYPE.fullmatch(dtype.code), dtype.order
    if code is None or order not in ("|", "<", ">", "="):
        _refuse("an array of something else than whole numbers")
    if type(shape) is not tuple or not 1 <= len(shape) <= 4:
        _refuse("an array of an odd shape")
    if not all(type(size) is int and 0 <= size <= len(data) for size in shape):
        _refuse("an array of an odd shape")
    made = np.dtype(order + code[1])
    if math.prod(shape) * made.itemsize != len(data):
        _refuse(f"an array of {len(data)} bytes, which is not what its shape says")
    return np.frombuffer(data, dtype=made).reshape(shape, order="F" if columns else "C")


# -- the steps ---------------------------------------------------------------------------------


def _push(value: Callable[[_Machine], Any]) -> Callable[[_Machine], None]:
    return lambda machine: machine.stack.append(value(machine))


def _keep(place: Callable[[_Machine], int]) -> Callable[[_Machine], None]:
    def step(machine: _Machine) -> None:
        machine.memo[place(machine)] = machine.stack[-1]

    return step


def _sized(size: int) -> Callable[[_Machine], bytes]:
    """Bytes after their number, which itself takes `size` bytes."""
    return lambda machine: machine.take(machine.number(size))


STOP = ord(".")
# By the names that `pickletools` gives them.
STEPS: dict[int, Callable[[_Machine], object]] = {
    0x80: lambda m: m.take(1),  # PROTO
    0x95: lambda m: m.take(8),  # FRAME
    ord("("): lambda m: m.marks.append(len(m.stack)),  # MARK
    ord("N"): lambda m: m.stack.append(None),  # NONE
    0x88: lambda m: m.stack.append(True),  # NEWTRUE
    0x89: lambda m: m.stack.append(False),  # NEWFALSE
    ord("K"): _push(lambda m: m.number(1)),  # BININT1
    ord("M"): _push(lambda m: m.number(2)),  # BININT2
    ord("J"): _push(lambda m: m.number(4, signed=True)),  # BININT
    0x8A: _push(lambda m: int.from_bytes(_sized(1)(m), "little", signed=True)),  # LONG1
    0x8B: _push(lambda m: int.from_bytes(_sized(4)(m), "little", signed=True)),  # LONG4
    ord("I"): _push(lambda m: _whole(m.line())),  # INT
    ord("L"): _push(lambda m: _whole(m.line())),  # LONG
    ord("F"): _push(lambda m: float(m.line())),  # FLOAT
    ord("G"): _push(lambda m: struct.unpack(">d", m.take(8))[0]),  # BINFLOAT
    ord("S"): _push(lambda m: _quoted(m.line())),  # STRING
    ord("U"): _push(_sized(1)),  # SHORT_BINSTRING
    ord("T"): _push(_sized(4)),  # BINSTRING
    ord("C"): _push(_sized(1)),  # SHORT_BINBYTES
    ord("B"): _push(_sized(4)),  # BINBYTES
    0x8E: _push(_sized(8)),  # BINBYTES8
    0x96: _push(_sized(8)),  # BYTEARRAY8
    ord("V"): _push(lambda m: _escaped(m.line())),  # UNICODE
    0x8C: _push(lambda m: _text(_sized(1)(m))),  # SHORT_BINUNICODE
    ord("X"): _push(lambda m: _text(_sized(4)(m))),  # BINUNICODE
    0x8D: _push(lambda m: _text(_sized(8)(m))),  # BINUNICODE8
    ord("]"): lambda m: m.stack.append([]),  # EMPTY_LIST
    ord("}"): lambda m: m.stack.append({}),  # EMPTY_DICT
    ord(")"): lambda m: m.stack.append(()),  # EMPTY_TUPLE
    ord("l"): _push(lambda m: m.since_mark()),  # LIST
    ord("d"): _push(lambda m: _pairs(m.since_mark())),  # DICT
    ord("t"): _push(lambda m: tuple(m.since_mark())),  # TUPLE
    0x85: _push(lambda m: tuple(m.newest(1))),  # TUPLE1
    0x86: _push(lambda m: tuple(m.newest(2))),  # TUPLE2
    0x87: _push(lambda m: tuple(m.newest(3))),  # TUPLE3
    ord("a"): lambda m: _extend(m, m.newest(1)),  # APPEND
    ord("e"): lambda m: _extend(m, m.since_mark()),  # APPENDS
    ord("s"): lambda m: _update(m, m.newest(2)),  # SETITEM
    ord("u"): lambda m: _update(m, m.since_mark()),  # SETITEMS
    ord("p"): _keep(lambda m: int(m.line())),  # PUT
    ord("q"): _keep(lambda m: m.number(1)),  # BINPUT
    ord("r"): _keep(lambda m: m.number(4)),  # LONG_BINPUT
    0x94: _keep(lambda m: len(m.memo)),  # MEMOIZE
    ord("g"): _push(lambda m: m.memo[int(m.line())]),  # GET
    ord("h"): _push(lambda m: m.memo[m.number(1)]),  # BINGET
    ord("j"): _push(lambda m: m.memo[m.number(4)]),  # LONG_BINGET
    ord("c"): _push(lambda m: _name(_ascii(m.line()), _ascii(m.line()))),  # GLOBAL
    0x93: _push(lambda m: _name(*m.newest(2))),  # STACK_GLOBAL
    ord("R"): _push(_reduced),  # REDUCE
    ord("b"): _build,  # BUILD
}

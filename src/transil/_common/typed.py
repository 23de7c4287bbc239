"""Data from files, read by the types that dataclasses declare; what is wrong is told with its place.

One mechanism for settings (YAML, recipes, overrides) and for files that transil wrote (JSON). Settings
are written by people: an unknown key is an error, a number may be a text ('1e-4'). In other files an
unknown key is one of a newer transil and is left out, and numbers must be numbers. In both, a key
that is missing counts as the default of its field.
"""

from __future__ import annotations

import math
import os
import reprlib
import types
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import MISSING, asdict, dataclass, fields, is_dataclass
from functools import lru_cache, partial
from typing import (
    Annotated,
    Any,
    Literal,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from transil._common.files import digest, read_json
from transil._common.registry import nearest
from transil.errors import TransilError

T = TypeVar("T")
Read = Callable[[Any], Any]

# How deep values may be nested where any are welcome: what reads or shows them calls itself.
DEEP = 32
# The metadata of a field that has a default in the code and stands in every file all the same.
ALWAYS = {"always": True}
# Whole numbers in files have no bound, 64 bits have.
MOST_WHOLE = 2**63


@dataclass(frozen=True)
class Between:
    """What a number must lie between, both ends included: `Annotated[float, Between(0, 1)]`."""

    least: float
    most: float


class FormError(Exception):
    """A value of another form. On its way out, each list and group adds where it was."""

    def __init__(self, say: Callable[[str], str], *way: str | int) -> None:
        super().__init__()
        self.say, self.way = say, list(way)

    def inside(self, key: str | int) -> FormError:
        """The same, inside a list or group."""
        self.way.insert(0, key)
        return self

    def path(self, prefix: str) -> str:
        """The way to the value, after a prefix: `cells[3].setting.states`."""
        words = (f"[{key}]" if isinstance(key, int) else f".{key}" for key in self.way)
        return (prefix + "".join(words)).removeprefix(".")

    def told(self, at: str) -> str:
        """What is wrong, with the way to it."""
        return self.say(at or "the whole").removeprefix("the whole: ")


def build(
    cls: type[T], data: Any, where: str, lines: Mapping[str, int] | None = None, prefix: str = ""
) -> T:
    """A dataclass from nested settings (see `of_type`)."""
    made: T = of_type(data, cls, where, lines, prefix)
    return made


def of_type(
    value: Any, hint: Any, where: str, lines: Mapping[str, int] | None = None, prefix: str = ""
) -> Any:
    """A value of the settings as the type `hint` says, or an error.

    `where` names the file in messages, `lines` the line of each dotted key in it; `prefix` is the
    way from the top of the file to this value ('train').
    """
    try:
        return _reader(hint, True)(value)
    except FormError as error:
        at = error.path(prefix)
        place = f"{where}, line {lines[at]}" if lines and at in lines else where
        raise TransilError(f"{place}: {error.told(at)}") from None


def read_record(value: Any, hint: type[T], where: str, prefix: str = "") -> T:
    """A value of a file that transil wrote as the type `hint` says, or an error."""
    try:
        made: T = _reader(cast(Any, hint), False)(value)
    except FormError as error:
        raise TransilError(f"{where}: {error.told(error.path(prefix))}") from None
    return made


def read_file(
    path: str | os.PathLike[str], hint: type[T], form: str, version: int, what: str, remedy: str
) -> T:
    """A JSON file that transil wrote; `what` it is and what to do where it is damaged are told.

    Where the type has a `checksum`, that must be the one of all else (see `sealed`).
    """
    data = read_json(path)
    if not isinstance(data, dict) or data.get("format") != form:
        raise TransilError(f'{path}: not a {what} (a JSON object with "format": "{form}")')
    if type(data.get("version")) is not int or data["version"] != version:
        raise TransilError(
            f"{path}: format version {short(data.get('version'))}, but this transil reads version "
            f"{version}; use the transil that wrote it, or a newer one"
        )
    try:
        made = read_record(data, hint, f"{path}: damaged {what}")
        if getattr(made, "checksum", None) not in (None, sealed(made)["checksum"]):
            raise TransilError(f"{path}: damaged {what}: its checksum is another one")
    except TransilError as error:
        raise TransilError(f"{error}; {remedy}") from None
    return made


def sealed(record: Any) -> dict[str, Any]:
    """A dataclass as plain values, with the checksum of all others as its `checksum`."""
    data = {key: value for key, value in asdict(record).items() if key != "checksum"}
    return {**data, "checksum": digest(data)}


def short(value: Any) -> str:
    """A value as a message shows it."""
    return _SHORT.repr(value)


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 60


# -- readers, one for each type, made once -----------------------------------------------------


@lru_cache(maxsize=1024)
def _reader(hint: Any, settings: bool) -> Read:
    """What reads a value as a type; raises a FormError."""
    origin, words = get_origin(hint), get_args(hint)
    kind = origin or hint
    if hint is Any:
        return _anything
    if hint in (float, int, str):
        return {float: _setting if settings else _number, int: _whole if settings else _bounded,
                str: _text}[hint]  # fmt: skip
    if origin is Annotated:
        return _within(_reader(words[0], settings), words[1:])
    if origin in (Union, types.UnionType):
        options = [_reader(w, settings) for w in words if w is not type(None)]
        return _either(options, type(None) in words)
    if origin is Literal:
        return _chosen(words)
    if kind in (list, tuple):
        items = [_reader(word, settings) for word in words if word is not Ellipsis] or [_anything]
        return _list(items, kind, kind is list or len(words) < 2 or words[1] is Ellipsis, settings)
    if isinstance(kind, type) and issubclass(kind, Mapping):
        return _group(_reader(words[1], settings) if words else _anything, settings)
    if hasattr(hint, "from_json"):  # a type that reads itself
        return lambda value: _made(hint.from_json, _anything(value))
    return _dataclass(hint, settings) if is_dataclass(hint) else partial(_exactly, hint)


_WANTED = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}


def _wrong(value: Any, wanted: str) -> FormError:
    return FormError(lambda at: f"{at} is {short(value)}, but must be {wanted}")


def _outside(value: Any, ends: str) -> FormError:
    return FormError(lambda at: f"{at} is {short(value)}; it must be {ends}")


def _exactly(kind: Any, value: Any) -> Any:
    if type(value) is not kind:
        raise _wrong(value, _WANTED.get(kind, str(kind)))
    return value


def _inside(key: str | int | None, read: Read, value: Any) -> Any:
    """A value in a list or group."""
    try:
        return read(value)
    except FormError as error:
        raise error if key is None else error.inside(key) from None


def _made(make: Callable[..., Any], *values: Any, **named: Any) -> Any:
    """What is made of values that have the right types and may go together badly."""
    try:
        return make(*values, **named)
    except TransilError as error:
        text = str(error)
    raise FormError(lambda at: f"{at}: {text}")


def _text(value: Any) -> Any:
    if not _exactly(str, value).isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise _wrong(value, "a text without halves of characters") from None
    return value


_whole = partial(_exactly, int)


def _bounded(value: Any) -> Any:
    if not -MOST_WHOLE < _whole(value) < MOST_WHOLE:
        raise FormError(lambda at: f"{at} is {short(value)}; it is too large")
    return value


def _number(value: Any) -> float:
    if type(value) is not int:
        _exactly(float, value)
    try:
        made = float(value)
    except OverflowError:
        made = math.inf
    if not math.isfinite(made):
        raise _outside(made, "a finite number")
    return made


def _setting(value: Any) -> float:
    """A number that YAML may read as a text: 1e-4."""
    try:
        return _number(float(value) if isinstance(value, str) else value)
    except ValueError:
        raise _wrong(value, "a number") from None


def _anything(value: Any, deep: int = DEEP) -> Any:
    """What has no type of its own: as it is, but no more than other files and pages can take."""
    if type(value) in (str, float, int):
        {str: _text, float: _number, int: _bounded}[type(value)](value)
    if not isinstance(value, Mapping | list | tuple):
        return value
    if not deep:
        raise FormError(lambda at: f"{at.split('.')[0].split('[')[0]} is nested too deep")
    inner = partial(_anything, deep=deep - 1)
    if isinstance(value, Mapping):
        return _group(inner, True)(value)
    for number, item in enumerate(value):
        _inside(number, inner, item)
    return value


def _within(read: Read, limits: tuple[Any, ...]) -> Read:
    def within(value: Any) -> Any:
        made = read(value)
        for limit in limits:
            if isinstance(limit, Between) and not limit.least <= made <= limit.most:
                raise _outside(made, f"{limit.least:g} to {limit.most:g}")
        return made

    return within


def _either(options: list[Read], nothing: bool) -> Read:
    def either(value: Any) -> Any:
        if nothing and value is None:
            return None
        for option in options[:-1]:
            with suppress(FormError):
                return option(value)
        return options[-1](value)

    return either


def _chosen(words: tuple[Any, ...]) -> Read:
    def chosen(value: Any) -> Any:
        if value not in words:
            raise FormError(lambda at: f"{at} is {short(value)}; {nearest(str(value), words)}")
        return value

    return chosen


def _list(items: list[Read], make: type, several: bool, settings: bool) -> Read:
    def read(value: Any) -> Any:
        if not isinstance(value, list | tuple):
            raise _wrong(value, "a list")
        if not several and len(value) != len(items):
            raise _wrong(value, f"a list of {len(items)}")
        # In a list of settings people find the item by its value.
        return make(
            _inside(None if settings else number, items[0 if several else number], item)
            for number, item in enumerate(value)
        )

    return read


def _group(read: Read, settings: bool) -> Read:
    def group(value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise _wrong(value, "a group of settings" if settings else "an object")
        return {_inside(key, _text, key): _inside(key, read, value[key]) for key in value}

    return group


def _dataclass(cls: Any, settings: bool) -> Read:
    hints = get_type_hints(cls, include_extras=True)
    # A field whose name Python keeps for itself has a '_' at its end.
    names = {f.name.rstrip("_"): f.name for f in fields(cls)}
    readers = {key: _reader(hints[name], settings) for key, name in names.items()}
    needed = [
        f.name.rstrip("_")
        for f in fields(cls)
        if "always" in f.metadata or (f.default is MISSING and f.default_factory is MISSING)
    ]

    def unknown(key: str) -> FormError:
        def say(at: str) -> str:
            head = at.removesuffix(key)
            groups = [n for n in names if is_dataclass(hints[names[n]])]
            within = [f"{n}.{key}" for n in groups if hasattr(hints[names[n]], key)]
            known = within or names
            return f"unknown key '{at}'; {nearest(at, [head + name for name in known])}"

        return FormError(say, key)

    def read(value: Any) -> Any:
        if not isinstance(value, Mapping):
            if settings:
                raise FormError(lambda at: f"{at} is a group of settings, not {short(value)}")
            raise _wrong(value, "an object")
        for key in value if settings else ():
            if key not in names:
                raise unknown(str(key))
        for key in needed:
            if key not in value:
                raise FormError(lambda at: f"{at} is missing", key)
        made = {names[k]: _inside(k, readers[k], v) for k, v in value.items() if k in names}
        return _made(cls, **made)

    return read

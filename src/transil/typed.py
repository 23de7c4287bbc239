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
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import lru_cache
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

from transil.errors import TransilError
from transil.files import read_json
from transil.registry import nearest

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
    """A JSON file that transil wrote; `what` it is and what to do where it is damaged are told."""
    data = read_json(path)
    if not isinstance(data, dict) or data.get("format") != form:
        raise TransilError(f'{path}: not a {what} (a JSON object with "format": "{form}")')
    if type(data.get("version")) is not int or data["version"] != version:
        raise TransilError(
            f"{path}: format version {short(data.get('version'))}, but this transil reads version "
            f"{version}; use the transil that wrote it, or a newer one"
        )
    try:
        return read_record(data, hint, f"{path}: damaged {what}")
    except TransilError as error:
        raise TransilError(f"{error}; {remedy}") from None


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
    if hint in _PLAIN:
        return _PLAIN[hint]
    if hint is float:
        return _setting if settings else _number
    if hint is int:
        return _whole if settings else _bounded
    if hint is Any:
        return _anything
    if origin is Annotated:
        limits = [limit for limit in words[1:] if isinstance(limit, Between)]
        return _within(_reader(words[0], settings), limits)
    if origin in (Union, types.UnionType):
        options = [_reader(w, settings) for w in words if w is not type(None)]
        return _either(options, type(None) in words)
    if origin is Literal:
        return _chosen(words)
    if hint in (list, tuple) or origin in (list, tuple):
        several = hint is list or origin is list or len(words) < 2 or words[1] is Ellipsis
        items = [_reader(word, settings) for word in words if word is not Ellipsis]
        make = list if list in (hint, origin) else tuple
        return _list(items or [_anything], make, several, settings)
    if isinstance(origin or hint, type) and issubclass(origin or hint, Mapping):
        return _group(_reader(words[1], settings) if words else _anything, settings)
    if hasattr(hint, "from_json"):
        return _own(hint.from_json)
    if is_dataclass(hint):
        return _dataclass(hint, settings)
    return _plain(hint, str(hint))


def _wrong(value: Any, wanted: str) -> FormError:
    return FormError(lambda at: f"{at} is {short(value)}, but must be {wanted}")


def _outside(value: Any, limit: Between) -> FormError:
    ends = f"{limit.least:g} to {limit.most:g}"
    return FormError(lambda at: f"{at} is {short(value)}; it must be {ends}")


def _plain(kind: Any, wanted: str) -> Read:
    def read(value: Any) -> Any:
        if type(value) is not kind:
            raise _wrong(value, wanted)
        return value

    return read


_whole = _plain(int, "a whole number")
_is_text = _plain(str, "a text")


def _text(value: Any) -> Any:
    if not _is_text(value).isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise _wrong(value, "a text without halves of characters") from None
    return value


_PLAIN: dict[Any, Read] = {str: _text, bool: _plain(bool, "true or false")}


def _bounded(value: Any) -> Any:
    if not -MOST_WHOLE < _whole(value) < MOST_WHOLE:
        raise FormError(lambda at: f"{at} is {short(value)}; it is too large")
    return value


def _number(value: Any) -> float:
    if type(value) is not float and type(value) is not int:
        raise _wrong(value, "a number")
    try:
        made = float(value)
    except OverflowError:
        made = math.inf
    if not math.isfinite(made):
        raise FormError(lambda at: f"{at} is {made}; it must be a finite number")
    return made


def _setting(value: Any) -> float:
    """A number that YAML may read as a text: 1e-4."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            raise _wrong(value, "a number") from None
    return _number(value)


def _anything(value: Any, deep: int = DEEP) -> Any:
    """What has no type of its own: as it is, but no more than other files and pages can take."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, float):
        return _number(value)
    if type(value) is int:
        return _bounded(value)
    if not isinstance(value, Mapping | list | tuple):
        return value
    if not deep:
        raise FormError(lambda at: f"{at.split('.')[0].split('[')[0]} is nested too deep")
    items = value.items() if isinstance(value, Mapping) else enumerate(value)
    for key, item in items:
        try:
            _anything(item, deep - 1)
            if not isinstance(key, int):
                _text(key)
        except FormError as error:
            raise error.inside(key) from None
    return dict(value) if isinstance(value, Mapping) else value


def _within(read: Read, limits: list[Between]) -> Read:
    def within(value: Any) -> Any:
        made = read(value)
        for limit in limits:
            if not limit.least <= made <= limit.most:
                raise _outside(made, limit)
        return made

    return within


def _either(options: list[Read], nothing: bool) -> Read:
    def either(value: Any) -> Any:
        if nothing and value is None:
            return None
        for option in options[:-1]:
            try:
                return option(value)
            except FormError:
                pass
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
        made = []
        for number, item in enumerate(value):
            try:
                made.append(items[0 if several else number](item))
            except FormError as error:
                # People count the items of a list of settings themselves: it is short.
                raise error if settings else error.inside(number) from None
        return make(made)

    return read


def _group(read: Read, settings: bool) -> Read:
    def group(value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise _wrong(value, _OBJECT[settings])
        made = {}
        for key, item in value.items():
            try:
                made[_text(key)] = read(item)
            except FormError as error:
                raise error.inside(key) from None
        return made

    return group


_OBJECT = {True: "a group of settings", False: "an object"}


def _own(from_json: Read) -> Read:
    """A type that reads itself."""

    def own(value: Any) -> Any:
        try:
            return from_json(_anything(value))
        except TransilError as error:
            text = str(error)
        raise FormError(lambda at: f"{at}: {text}")

    return own


def _dataclass(cls: Any, settings: bool) -> Read:
    hints = get_type_hints(cls, include_extras=True)
    # A field whose name Python keeps for itself has a '_' at its end.
    names = {f.name.rstrip("_"): f for f in fields(cls)}
    readers = {key: (f.name, _reader(hints[f.name], settings)) for key, f in names.items()}
    needed = [
        (key, f.name)
        for key, f in names.items()
        if "always" in f.metadata or (f.default is MISSING and f.default_factory is MISSING)
    ]

    def unknown(key: str) -> FormError:
        def say(at: str) -> str:
            head = at.removesuffix(key)
            return f"unknown key '{at}'; {nearest(at, [f'{head}{name}' for name in names])}"

        return FormError(say, key)

    def read(value: Any) -> Any:
        if not isinstance(value, Mapping):
            if settings:
                raise FormError(lambda at: f"{at} is a group of settings, not {short(value)}")
            raise _wrong(value, "an object")
        made = {}
        for key, item in value.items():
            if key not in readers:
                if settings:
                    raise unknown(str(key))
                continue
            name, reader = readers[key]
            try:
                made[name] = reader(item)
            except FormError as error:
                raise error.inside(key) from None
        for key, name in needed:
            if name not in made:
                raise FormError(lambda at: f"{at} is missing", key)
        try:
            return cls(**made)
        except TransilError as error:
            text = str(error)
        raise FormError(lambda at: f"{at}: {text}")

    return read

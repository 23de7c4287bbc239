"""Settings: nested dictionaries, dotted keys, YAML, and frozen dataclasses built strictly from them."""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Literal, TypeVar

from transil.errors import TransilError, missing, reason
from transil.registry import nearest

T = TypeVar("T")


def set_dotted(data: dict[str, Any], key: str, value: Any) -> None:
    """Set `a.b.c` in nested dictionaries."""
    *path, last = key.split(".")
    for word in path:
        inner = data.setdefault(word, {})
        if not isinstance(inner, dict):
            raise TransilError(f"'{key}': {word} is a value, it has nothing inside")
        data = inner
    data[last] = value


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with the values of `over`, key by key, at every depth."""
    merged = dict(base)
    for key, value in over.items():
        if isinstance(value, Mapping) and isinstance(merged.get(key), Mapping):
            merged[key] = merge(merged[key], value)
        else:
            merged[key] = value
    return merged


def flatten(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested dictionaries as one with dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in data.items():
        if isinstance(value, Mapping):
            flat.update(flatten(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def build(
    cls: type[T], data: Any, where: str, lines: Mapping[str, int] | None = None, prefix: str = ""
) -> T:
    """A dataclass from nested dictionaries; an unknown key or a wrong type is an error.

    `where` names the file in messages, `lines` the line of each dotted key in it.
    """
    lines = lines or {}

    def place(key: str) -> str:
        return f"{where}, line {lines[key]}" if key in lines else where

    if not isinstance(data, Mapping):
        name = prefix.rstrip(".")
        raise TransilError(f"{place(name)}: {name} is a group of settings, not {data!r}")
    hints = typing.get_type_hints(cls)
    known = [f.name for f in fields(cls)]  # type: ignore[arg-type]
    values = {}
    for key, value in data.items():
        dotted = f"{prefix}{key}"
        if key not in known:
            remedy = nearest(dotted, [f"{prefix}{name}" for name in known])
            raise TransilError(f"{place(dotted)}: unknown key '{dotted}'; {remedy}")
        if is_dataclass(hints[key]):
            values[key] = build(hints[key], value, where, lines, f"{dotted}.")
        else:
            values[key] = of_type(value, hints[key], f"{place(dotted)}: {dotted}")
    for f in fields(cls):  # type: ignore[arg-type]
        if f.name not in values and f.default is MISSING and f.default_factory is MISSING:
            raise TransilError(f"{where}: {prefix}{f.name} is missing")
    return cls(**values)


def of_type(value: Any, hint: Any, where: str) -> Any:
    """`value` as the type `hint` says, or an error."""
    origin, words = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in words:
            return None
        errors = []
        for option in (w for w in words if w is not type(None)):
            try:
                return of_type(value, option, where)
            except TransilError as error:
                errors.append(error)
        raise errors[-1]
    if origin is Literal:
        if value not in words:
            raise TransilError(f"{where} is {value!r}; {nearest(str(value), words)}")
        return value
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise TransilError(f"{where} is {value!r}, but must be a list")
        return tuple(of_type(v, words[0], where) for v in value)
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            raise TransilError(f"{where} must be a group of settings")
        return dict(value)
    return typed(value, hint, where)


def typed(value: Any, hint: Any, where: str) -> Any:
    """`value` as a plain type, or an error."""
    if hint is float and isinstance(value, int | float | str) and not isinstance(value, bool):
        try:
            value = float(value)  # YAML reads 1e-4 as a text
        except OverflowError:
            value = math.inf
        except ValueError:
            pass
        if isinstance(value, float) and not math.isfinite(value):
            raise TransilError(f"{where} is {value}; it must be a finite number")
    if type(value) is not hint:
        wanted = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}
        raise TransilError(f"{where} is {value!r}, but must be {wanted.get(hint, hint)}")
    return value


def plain(value: Any) -> Any:
    """`value` with lists for tuples, as JSON has them."""
    if isinstance(value, Mapping):
        return {k: plain(v) for k, v in value.items()}
    return [plain(v) for v in value] if isinstance(value, list | tuple) else value


def read_yaml(text: str, where: str) -> Any:
    """Plain values from YAML; a key that stands twice is an error with its line."""
    yaml = _yaml()

    class Loader(yaml.SafeLoader):  # type: ignore[misc, name-defined]
        """The safe loader, strict about keys."""

    def mapping(loader: Any, node: Any) -> dict[Any, Any]:
        seen: dict[Any, int] = {}
        for key, _ in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key.value, str):
                raise TransilError(f"{where}, line {line}: a key must be a plain name")
            if key.value in seen:
                raise TransilError(f"{where}, line {line}: key '{key.value}' stands twice")
            seen[key.value] = line
        made: dict[Any, Any] = loader.construct_mapping(node, deep=True)
        return made

    Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, mapping)
    try:
        return yaml.load(text, Loader)
    except TransilError:
        raise
    except ValueError as error:  # a date that does not exist, for instance
        raise TransilError(f"{where}: cannot be read ({error})") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or reason(error)
        raise TransilError(f"{where}{line}: not YAML ({problem})") from None


def read_overrides(words: Iterable[str]) -> dict[str, Any]:
    """`train.epochs=5 seed=1` as nested settings; values are read as YAML."""
    data: dict[str, Any] = {}
    for word in words:
        key, equals, text = word.partition("=")
        if not equals or not key:
            raise TransilError(f"'{word}': settings are written as train.epochs=5")
        set_dotted(data, key, read_yaml(text, f"setting '{word}'"))
    return data


def yaml_lines(text: str) -> dict[str, int]:
    """The line of each dotted key of a YAML document that `read_yaml` accepts."""
    yaml = _yaml()
    lines: dict[str, int] = {}

    def walk(node: Any, prefix: str) -> None:
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                lines[f"{prefix}{key.value}"] = key.start_mark.line + 1
                walk(value, f"{prefix}{key.value}.")

    walk(yaml.compose(text, yaml.SafeLoader), "")
    return lines


def _yaml() -> Any:
    try:
        import yaml
    except ModuleNotFoundError:
        raise missing("recipes need", "pyyaml") from None
    return yaml

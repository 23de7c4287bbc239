"""Settings: nested dictionaries with dotted keys, and those given as `train.epochs=5`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from transil._common.typed import DEEP, short
from transil._common.yaml_files import read_yaml
from transil.errors import TransilError


def set_dotted(data: dict[str, Any], key: str, value: Any) -> None:
    """Set `a.b.c` in nested dictionaries."""
    *path, last = key.split(".")
    if len(path) >= DEEP:
        raise TransilError(f"{short(key)}: nested more than {DEEP} deep")
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


def plain(value: Any) -> Any:
    """`value` with lists for tuples, as JSON has them."""
    if isinstance(value, Mapping):
        return {k: plain(v) for k, v in value.items()}
    return [plain(v) for v in value] if isinstance(value, list | tuple) else value


def read_overrides(words: Iterable[str]) -> dict[str, Any]:
    """`train.epochs=5 seed=1` as nested settings; values are read as YAML."""
    data: dict[str, Any] = {}
    for word in words:
        key, equals, text = word.partition("=")
        if not equals or not key:
            raise TransilError(f"'{word}': settings are written as train.epochs=5")
        set_dotted(data, key, read_yaml(text, f"setting {short(word)}")[0])
    return data

"""Methods by name, with their settings checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from transil.errors import TransilError
from transil.methods.base import Method
from transil.methods.ft import Ft
from transil.methods.ft_plus import FtPlus
from transil.methods.joint import Joint
from transil.methods.lucir import Lucir
from transil.methods.lwf import Lwf
from transil.methods.lwf_t import LwfT
from transil.methods.siw import Siw
from transil.registry import Registry, nearest

METHODS: Registry[Method] = Registry(
    "method", "transil.methods", [Ft, FtPlus, Siw, Lwf, LwfT, Lucir, Joint]
)
register_method: Callable[[type[Method]], type[Method]] = METHODS.register


def get_method(name: str, settings: Mapping[str, Any] | None = None) -> Method:
    """A method by name with its settings; an unknown or wrong one is an error."""
    cls = METHODS.find(name)
    known = {f.name: f.default for f in fields(cls)}  # type: ignore[arg-type]
    for key, value in (settings or {}).items():
        if key not in known:
            remedy = nearest(key, known) if known else "it has none"
            raise TransilError(f"method '{name}' has no setting '{key}'; {remedy}")
        wanted = type(known[key])
        if not isinstance(value, wanted) and not (wanted is float and type(value) is int):
            raise TransilError(
                f"method '{name}': {key} is {value!r}, but must be of type {wanted.__name__}"
            )
    return cls(**(settings or {}))


def family_of(method: Method) -> list[Method]:
    """The methods whose scores a run of `method` gives: itself, or all that share its training."""
    settings = {f.name: getattr(method, f.name) for f in fields(method)}  # type: ignore[arg-type]
    return [METHODS.find(name)(**settings) for name in method.family or (method.name,)]

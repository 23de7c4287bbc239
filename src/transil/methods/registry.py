"""Methods by name, with their settings checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from typing import Any, get_type_hints

from transil._common.registry import Registry, nearest
from transil._common.typed import of_type
from transil.errors import TransilError
from transil.methods.base import Method
from transil.methods.ft import Ft
from transil.methods.ft_plus import FtPlus
from transil.methods.joint import Joint
from transil.methods.lucir import Lucir
from transil.methods.lwf import Lwf
from transil.methods.lwf_all import LwfAll
from transil.methods.lwf_t import LwfT
from transil.methods.siw import Siw
from transil.nets.heads import find_head

METHODS: Registry[type[Method]] = Registry(
    "method", "transil.methods", [Ft, FtPlus, Siw, Lwf, LwfT, LwfAll, Lucir, Joint]
)
register_method: Callable[[type[Method]], type[Method]] = METHODS.register


def get_method(name: str, settings: Mapping[str, Any] | None = None) -> Method:
    """A method by name with its settings; an unknown or wrong one is an error."""
    cls = METHODS.find(name)
    values = {}
    known = settings_of(cls)
    try:
        hints = get_type_hints(cls)
    except NameError:  # a name that only type checkers see: the defaults tell
        hints = {key: type(value) for key, value in known.items()}
    for key, value in (settings or {}).items():
        if key not in known:
            remedy = nearest(key, known) if known else "it has none"
            raise TransilError(f"method '{name}' has no setting '{key}'; {remedy}")
        values[key] = of_type(value, hints[key], f"method '{name}'", prefix=f"settings.{key}")
    try:
        find_head(cls.head)
    except TransilError as error:
        raise TransilError(f"method '{name}': {error}") from None
    method = cls(**values)
    method.check()
    return method


def settings_of(cls: type[Method]) -> dict[str, Any]:
    """The settings of a method with their defaults; one that is no dataclass of them is told."""
    if "__dataclass_fields__" not in vars(cls):  # its own, not only its parent's
        raise TransilError(f"method '{cls.name}': its class {cls.__name__} must be a dataclass")
    for f in fields(cls):  # type: ignore[arg-type]
        if f.default is MISSING:
            raise TransilError(f"method '{cls.name}': its setting '{f.name}' has no default")
    return {f.name: f.default for f in fields(cls)}  # type: ignore[arg-type]


def family_of(method: Method) -> list[Method]:
    """The methods whose scores a run of `method` gives: itself, or all that share its training."""
    if method.name not in method.family:  # a subclass from outside has a training of its own
        return [method]
    return [METHODS.find(name)(**method.settings()) for name in method.family]

"""Texts of results as they can be shown: names come from files, which may come from anybody."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping
from dataclasses import is_dataclass, replace
from typing import Any

NUMBERS = frozenset((float, int, type(None)))
# Characters that terminals and browsers act upon, or XML forbids; lines and tabs are text.
UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


def printable(text: str) -> str:
    """Characters that do something, rather than show, as the mark of an unknown one."""
    return UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", re.sub("\r\n?", "\n", text))


def cleaned(value: Any) -> Any:
    """The same with every text in it as it can be printed; itself where there is nothing to do."""
    if isinstance(value, str):
        return value if value.isascii() and value.isprintable() else printable(value)
    if value is None or isinstance(value, (int, float)):
        return value
    if isinstance(value, (list, tuple)):
        if NUMBERS.issuperset(map(type, value)):
            return value
        made = [cleaned(v) for v in value]
        return value if all(map(operator.is_, made, value)) else made
    if isinstance(value, Mapping):
        return {cleaned(k): cleaned(v) for k, v in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        new = {k: v for k, old in vars(value).items() if (v := cleaned(old)) is not old}
        return replace(value, **new) if new else value
    return value

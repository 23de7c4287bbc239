"""Parameters may only be joined where they were made in the same way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transil.errors import TransilError


def check_alike(
    first: Mapping[str, Any], other: Mapping[str, Any], names: tuple[str, str], remedy: str
) -> None:
    """An error that names the first fact in which the two differ. `names` are theirs."""
    for what, value in first.items():
        if other[what] != value:
            raise TransilError(
                f"{names[1]}: its {what} is not that of {names[0]} ({other[what]} and {value}); "
                f"{remedy}"
            )

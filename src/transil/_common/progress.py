"""How far something is: one kind of callback for all that takes a while."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

# progress(share of the work that is done, from 0 to 1; what happens, '' where there is nothing to say)
Progress: TypeAlias = Callable[[float, str], None]


def no_progress(share: float, text: str = "") -> None:
    """The callback of those who do not want one."""


def part(progress: Progress, number: int, of: int, text: str = "") -> Progress:
    """What part `number` of so many equal ones, from 0, is told with; `text` stands for its own."""

    def tell(share: float, own: str = "") -> None:
        progress((number + share) / max(1, of), text or own)

    return tell

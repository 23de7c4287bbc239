"""Which correction is fitted by which solver."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def ways(
    corrections: Iterable[str], solvers: Sequence[str], solvers_of: Mapping[str, Any]
) -> list[tuple[str, str]]:
    """Each correction with each solver, or with those of `solvers_of` where that names it."""
    made = []
    for correction in corrections:
        own = solvers_of.get(correction, solvers)
        made += [(str(correction), str(solver)) for solver in solvers if solver in own]
    return made

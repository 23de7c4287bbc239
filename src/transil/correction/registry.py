"""Corrections and solvers by name. Other packages add theirs by decorator or entry point.

In `pyproject.toml` of another package:

    [project.entry-points."transil.corrections"]
    mine = "package.module:MyCorrection"
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from transil._common.registry import Registry, nearest
from transil.correction.adam import Adam, Authors, Paper
from transil.correction.any_schedule import AdBiCAny
from transil.correction.layers import AdBiC, AdBiCCentred, BiC, BiCAll, BiCPast, Correction
from transil.correction.newton import Newton
from transil.correction.solvers import Solver
from transil.errors import TransilError

CORRECTIONS: Registry[type[Correction]] = Registry(
    "correction", "transil.corrections", [BiC, AdBiC, BiCPast, BiCAll, AdBiCCentred, AdBiCAny]
)
SOLVERS: Registry[type[Solver]] = Registry(
    "solver", "transil.solvers", [Authors, Paper, Newton, Adam]
)

register_correction: Callable[[type[Correction]], type[Correction]] = CORRECTIONS.register
register_solver: Callable[[type[Solver]], type[Solver]] = SOLVERS.register


def get_correction(
    correction: str | Correction | type[Correction], /, **settings: Any
) -> Correction:
    """A correction by name, with settings where it has any, or the one given."""
    if isinstance(correction, str):
        correction = CORRECTIONS.find(correction)
    if isinstance(correction, type):
        try:
            correction = correction(**settings)
        except TypeError as error:
            name = getattr(correction, "name", correction)
            raise TransilError(f"correction '{name}': wrong settings ({error})") from None
    if not isinstance(correction, Correction):
        raise TransilError(f"correction: expected a name or a Correction, not {correction!r}")
    return correction


def get_solver(solver: str | Solver | type[Solver], **settings: Any) -> Solver:
    """A solver by name with settings, or the one given."""
    if isinstance(solver, type) and issubclass(solver, Solver):
        return solver(**settings)
    if not isinstance(solver, str):
        if not isinstance(solver, Solver):
            raise TransilError(f"solver: expected a name or a Solver, not {solver!r}")
        if settings:
            raise TransilError("solver: give settings with a name, or a solver that has them")
        return solver
    cls = SOLVERS.find(solver)
    known = [f.name for f in fields(cls)]
    for name in settings:
        if name not in known:
            raise TransilError(f"solver '{solver}' has no setting '{name}'; {nearest(name, known)}")
    return cls(**settings)

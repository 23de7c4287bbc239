"""Corrections and solvers by name. Other packages add theirs by decorator or entry point.

In `pyproject.toml` of another package:

    [project.entry-points."transil.corrections"]
    mine = "package.module:MyCorrection"
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from dataclasses import fields
from importlib.metadata import entry_points
from typing import Any, Generic, TypeVar

from transil.correction.adam import Adam, Authors, Paper
from transil.correction.layers import AdBiC, BiC, BiCAll, BiCPast, Correction
from transil.correction.newton import Newton
from transil.correction.solvers import Solver
from transil.errors import TransilError

T = TypeVar("T")


class Registry(Generic[T]):
    """Classes by their `name`, and those that installed packages announce."""

    def __init__(self, what: str, group: str, classes: Iterable[type[T]]) -> None:
        self.what = what
        self.group = group
        self._classes: dict[str, type[T]] = {}
        for cls in classes:
            self.register(cls)

    def register(self, cls: type[T]) -> type[T]:
        """Add a class under its `name`; usable as a decorator."""
        self._classes[cls.name] = cls  # type: ignore[attr-defined]
        return cls

    def names(self) -> list[str]:
        """All names, built in and announced."""
        return sorted({*self._classes, *(e.name for e in entry_points(group=self.group))})

    def find(self, name: str) -> type[T]:
        """The class of that name, else an error with the nearest one."""
        if name in self._classes:
            return self._classes[name]
        for entry in entry_points(group=self.group):
            if entry.name == name:
                found: type[T] = entry.load()
                return found
        raise TransilError(f"{self.what} '{name}' is unknown; {nearest(name, self.names())}")


CORRECTIONS: Registry[Correction] = Registry(
    "correction", "transil.corrections", [BiC, AdBiC, BiCPast, BiCAll]
)
SOLVERS: Registry[Solver] = Registry("solver", "transil.solvers", [Authors, Paper, Newton, Adam])

register_correction: Callable[[type[Correction]], type[Correction]] = CORRECTIONS.register
register_solver: Callable[[type[Solver]], type[Solver]] = SOLVERS.register


def get_correction(correction: str | Correction | type[Correction]) -> Correction:
    """A correction by name, or the one given."""
    if isinstance(correction, type):
        correction = correction()
    if isinstance(correction, str):
        return CORRECTIONS.find(correction)()
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


def nearest(name: str, known: Iterable[str]) -> str:
    """'did you mean x?' where something is near, else the list of what there is."""
    known = list(known)
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean '{close[0]}'?" if close else f"there are: {', '.join(known)}"

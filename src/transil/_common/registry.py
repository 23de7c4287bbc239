"""Things by name: what is built in, and what others add by decorator, file or entry point."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

from transil.errors import TransilError, reason
from transil.plugins import import_plugins

T = TypeVar("T")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+_-]*")


class Registry(Generic[T]):
    """Classes or functions by their `name`, and those that installed packages announce."""

    def __init__(self, what: str, group: str, things: Iterable[T] = ()) -> None:
        self.what = what
        self.group = group
        self._things: dict[str, T] = {}
        for thing in things:
            self.register(thing)

    def register(self, thing: T) -> T:
        """Add a class or function under its `name`; usable as a decorator."""
        self._things[self._name(thing)] = thing
        return thing

    def _name(self, thing: T) -> str:
        """The name of a class or function; it becomes part of file names."""
        name = getattr(thing, "name", None)
        if not isinstance(name, str) or not NAME.fullmatch(name):
            own = getattr(thing, "__name__", repr(thing))
            raise TransilError(
                f"{self.what}: {own} has the name {name!r}; a name has letters, digits and "
                ". + - _, and begins with a letter or digit"
            )
        return name

    def names(self) -> list[str]:
        """All names, built in and announced."""
        import_plugins()
        return sorted({*self._things, *(e.name for e in entry_points(group=self.group))})

    def find(self, name: str) -> T:
        """The one of that name, else an error with the nearest one."""
        import_plugins()
        if name in self._things:
            return self._things[name]
        for entry in entry_points(group=self.group):
            if entry.name == name:
                return self._load(entry)
        known = nearest(name, self.names())
        own = "" if known.startswith("did") else "; one of your own needs transil --import FILE.py"
        raise TransilError(f"{self.what} '{name}' is unknown; {known}{own}")

    def _load(self, entry: EntryPoint) -> T:
        """What a package announces; whatever is wrong with it is told in one line."""
        lead = f"{self.what} '{entry.name}', announced as {entry.value}"
        try:
            found: T = entry.load()
        except Exception as error:
            raise TransilError(f"{lead}, cannot be loaded: {reason(error)}") from None
        if getattr(found, "name", None) != entry.name:
            raise TransilError(f"{lead}: that is no {self.what} whose name is '{entry.name}'")
        self._name(found)
        return found


def nearest(name: str, known: Iterable[str]) -> str:
    """'did you mean x?' where something is near, else the list of what there is."""
    known = list(known)
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean '{close[0]}'?" if close else f"there are: {', '.join(known)}"

"""Python files and modules that a user names, to register methods and corrections of their own.

They are named in an environment variable, so that processes that are started later know them too.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from types import ModuleType

from transil.errors import TransilError, reason

ENVIRONMENT = "TRANSIL_IMPORT"

_done: set[str] = set()


def add_plugin(name: str) -> None:
    """Name one more file or module, for this process and those it starts, and import it."""
    if os.pathsep in name:
        raise TransilError(f"{name}: a name with '{os.pathsep}' cannot be imported; rename it")
    if name.endswith(".py"):
        name = str(Path(name).absolute())
    os.environ[ENVIRONMENT] = os.pathsep.join([*_named(), name])
    import_plugins()


def import_plugins() -> None:
    """Import everything that is named, each once."""
    for name in _named():
        if name not in _done:
            _done.add(name)  # first: it may ask for registered classes itself
            try:
                _import(name)
            except BaseException:
                _done.discard(name)
                raise


def named_module(module: str, what: str) -> ModuleType:
    """A module that is named, or one inside it; others are not imported, as a file may name them."""
    import_plugins()
    tops = [Path(name).stem if name.endswith(".py") else name for name in _named()]
    if not any(f"{module}.".startswith(f"{top}.") for top in tops):
        raise TransilError(
            f"{what}: name its module before the command: transil --import {module} ..."
        )
    try:
        return importlib.import_module(module)
    except Exception as error:
        kind = type(error).__name__
        raise TransilError(
            f"{what}: {module} cannot be imported ({kind}: {reason(error)})"
        ) from None


def _named() -> list[str]:
    return [name for name in os.environ.get(ENVIRONMENT, "").split(os.pathsep) if name]


def _import(name: str) -> None:
    path = Path(name)
    try:
        if path.suffix != ".py":
            if path.is_dir():
                raise TransilError(f"{name}: a folder; name a file of it, or an installed module")
            importlib.import_module(name)
            return
        if not path.is_file():
            raise TransilError(f"{name}: there is no such file to import")
        if str(path.parent) not in sys.path:
            sys.path.append(str(path.parent))  # for files beside it
        there = getattr(sys.modules.get(path.stem), "__file__", None)
        if there is not None and path.samefile(there):
            return
        if path.stem in sys.modules:
            raise TransilError(f"{name}: there is a module '{path.stem}' already; rename the file")
        # Under the file's own name: dataclasses look up their module, and so does unpickling.
        module = sys.modules[path.stem] = ModuleType(path.stem)
        module.__file__ = name
        try:
            exec(compile(path.read_bytes(), name, "exec", dont_inherit=True), vars(module))
        except BaseException:
            del sys.modules[path.stem]
            raise
    except TransilError:
        raise
    except (Exception, SystemExit) as error:
        kind = type(error).__name__
        raise TransilError(f"{name}: it cannot be imported ({kind}: {reason(error)})") from None

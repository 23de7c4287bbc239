"""The door to matplotlib: the user's own settings of it stay outside.

A `matplotlibrc` with TeX switched on, a backend that is not there or an unwritable folder for its
caches would otherwise change a figure, or stop it.
"""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from transil.errors import TransilError, missing, reason

# Read when matplotlib is imported: an empty file of settings, and a backend that is always there.
IMPORT = {"MPLBACKEND": "agg", "MATPLOTLIBRC": os.devnull}
# Set by matplotlib itself where its folder cannot be used; programs we start have no need of it.
FOLDER = "MPLCONFIGDIR"


def figure_class() -> Any:
    """Matplotlib's figure, without its global state; an error that says how to get it."""
    try:
        with _undisturbed():
            from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("matplotlib"):
            raise TransilError(f"matplotlib does not work here: {reason(error)}") from None
        raise missing("figures need", "matplotlib") from None
    except (ImportError, OSError) as error:  # of another NumPy; no folder for its caches
        raise TransilError(f"matplotlib does not work here: {reason(error)}") from None
    return Figure


@contextmanager
def settings(own: Mapping[str, Any]) -> Iterator[None]:
    """Matplotlib as it comes, with settings of ours, while the block runs."""
    figure_class()
    import matplotlib

    # Not rcdefaults: that reads the user's styles. The backend is nobody's here.
    plain = {
        str(k): v for k, v in matplotlib.rcParamsDefault.items() if not k.startswith("backend")
    }
    with matplotlib.rc_context():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of settings that will go
            matplotlib.rcParams.update({**plain, **own})  # type: ignore[dict-item]
        yield


@contextmanager
def _undisturbed() -> Iterator[None]:
    """An environment in which matplotlib is imported: no settings, nothing said about caches."""
    if "matplotlib" in sys.modules:
        yield
        return
    log = logging.getLogger("matplotlib")
    before = {name: os.environ.get(name) for name in (*IMPORT, FOLDER)}
    level = log.level
    os.environ.update(IMPORT)
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

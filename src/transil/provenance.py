"""What made a result: versions of the library and of what it computes with, and the commit."""

from __future__ import annotations

import os
import platform
import subprocess
from functools import lru_cache
from pathlib import Path

import numpy as np

from transil._version import __version__

COMMIT = "TRANSIL_COMMIT"


def versions() -> dict[str, str]:
    """Versions that may change a number; the commit where the library runs from a checkout."""
    found = {
        "transil": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
    }
    commit = _commit()
    return {**found, "commit": commit} if commit else found


@lru_cache(maxsize=1)
def _commit() -> str | None:
    """The commit of the checkout that holds this file, with a '+' where it was changed since."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():  # an installed package, or a tree copied to a cluster
        return os.environ.get(COMMIT) or None
    try:
        head = _git(root, "rev-parse", "HEAD")
        changed = _git(root, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return None
    return head + ("+" if changed else "")


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(root), *words], capture_output=True, text=True, timeout=10, check=True
    )
    return done.stdout.strip()

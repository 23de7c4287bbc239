"""What made a result: versions of the library and of what it computes with, and the commit."""

from __future__ import annotations

import os
import platform
import subprocess
from functools import lru_cache
from pathlib import Path

import numpy as np

from transil._version import __version__

ROOT = Path(__file__).resolve().parents[3]  # of a checkout
ENVIRONMENT = "TRANSIL_COMMIT"  # names the commit of a copy that has no .git


def versions() -> dict[str, str]:
    """Versions that may change a number; the commit where the library runs from a checkout.

    Elsewhere, as in a tree that was copied to a cluster, $TRANSIL_COMMIT can name the commit.
    """
    found = {
        "transil": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
    }
    commit = _commit() if _is_checkout() else os.environ.get(ENVIRONMENT, "").strip()
    return {**found, "commit": commit} if commit else found


def _is_checkout() -> bool:
    return (ROOT / ".git").exists()


@lru_cache(maxsize=1)
def _commit() -> str | None:
    """The commit of the checkout that holds this file, with a '+' where it was changed since."""
    try:
        head = _git(ROOT, "rev-parse", "HEAD")
        changed = _git(ROOT, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return None
    return head + ("+" if changed else "")


def _git(root: Path, *words: str) -> str:
    # Not those of another repository, where git has started us; and nothing is written.
    known = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    done = subprocess.run(
        ["git", "-C", str(root), *words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=10, check=True, env={**known, "GIT_OPTIONAL_LOCKS": "0"},
    )  # fmt: skip
    return done.stdout.strip()

"""What can be seen of a Ray that runs on this machine, for tests."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path


def stranger(address: str) -> str:
    """What a process hears that asks a Ray for its keys, but was not told the token."""
    code = f"from ray._raylet import GcsClient as C; C({address!r}).internal_kv_keys(b'', None)"
    known = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    done = subprocess.run(
        [sys.executable, "-c", code], env={**known, "HOME": "/nowhere"}, timeout=60,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode != 0
    return done.stderr


def listening() -> set[str]:
    """Where processes below this one listen, as the kernel writes addresses."""
    sockets = {}
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A":
                sockets[f"socket:[{words[9]}]"] = words[1].partition(":")[0]
    found = set()
    ours = {str(os.getpid())}
    for folder in sorted(Path("/proc").glob("[0-9]*"), key=lambda path: int(path.name)):
        with contextlib.suppress(OSError):  # it has ended, or is not ours to look at
            parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            if parent in ours or folder.name in ours:
                ours.add(folder.name)
                found |= {
                    sockets[name] for file in (folder / "fd").iterdir()
                    if (name := os.readlink(file)) in sockets
                }  # fmt: skip
    return found


def ray_workers() -> list[int]:
    """The processes that are training for Ray right now."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (folder / "cmdline").read_bytes().startswith(b"ray::run_task"):
                found.append(int(folder.name))
    return found

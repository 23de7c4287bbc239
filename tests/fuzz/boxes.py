"""Cases, the boxes they run in, and what must hold of each.

A box is a folder with everything that a command could reach: the folder where it is called, one
beside it, its home and its cache. The first two are looked at before and after.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Literal

HERE = Path(__file__).parent
SMALL = 1 << 20  # of larger files only size and time are compared
# What `train` and `run` tell on the way, before they find something wrong.
ON_THE_WAY = (" px; ", "images/s", ": accuracy ", " runs, ", "note: ", "; they are made again")
# A training that fails in the middle keeps what it has learned until then, and says so.
BEGUN = "the last good checkpoint is kept"
LONGEST = 4000  # characters of an error: a name that a file holds may be of any length
Spoil = Callable[[Path, Random], None]


@dataclass(frozen=True)
class Case:
    """One command line and what is wrong with the files that it reads.

    `name` is all that is needed to make the case again. `needs`: what of the seeds lies in the
    folder. `spoil` changes that folder. `outputs`: what an accepted command may make or change.
    """

    name: str
    words: tuple[str, ...]
    needs: tuple[str, ...] = ()
    spoil: Spoil | None = None
    outputs: tuple[str, ...] = ()
    must: Literal["refused", "accepted", "either"] = "either"
    says: tuple[str, ...] = ()
    keeps: tuple[str, ...] = ()  # what may not change even within the outputs
    new_files: bool = False  # the place of the output is itself what is tried
    order: dict[str, Any] = field(default_factory=dict)  # more for the server

    @property
    def command(self) -> str:
        """`bank show` or `fit`."""
        found = [word for word in self.words[:2] if word.isalpha() or "-" in word[1:]]
        two = self.words[:1] in (("bank",), ("data",), ("ledger",)) and len(found) > 1
        return " ".join(found[: 2 if two else 1]) or "transil"


@dataclass(frozen=True)
class Outcome:
    """What a command did, and what of it breaks the promise."""

    case: Case
    verdict: Literal["refused", "accepted", "violated"]
    reasons: tuple[str, ...]
    stderr: str

    def report(self) -> str:
        """For a person who wants to see it again."""
        words = " ".join(_shown(word) for word in self.case.words)
        lines = [f"{self.case.name}", f"    transil {words}"]
        lines += [f"    {reason}" for reason in self.reasons]
        last = self.stderr.strip().splitlines()[-1:]
        lines += [f"    stderr ends with: {text[:300]!r}" for text in last]
        lines.append(f"    again: cd tests && python -m fuzz.again {shlex.quote(self.case.name)}")
        return "\n".join(lines)


class Server:
    """The process that runs the cases (see server.py)."""

    def __init__(self) -> None:
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "ARROW_DEFAULT_MEMORY_POOL": "system",  # others reserve a gigabyte of addresses
            "MALLOC_ARENA_MAX": "2",
            "MPLBACKEND": "agg",
        }
        self._process = subprocess.Popen(
            [sys.executable, HERE / "server.py"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def run(self, order: dict[str, Any]) -> dict[str, Any]:
        """Run one command line and wait for it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)
        self._process.stdout.close()


def prepare(case: Case, seeds: Path, box: Path) -> Path:
    """Make the box of a case; returns the folder where the command is to be called."""
    work, beside = box / "room" / "inner" / "work", box / "room" / "beside"
    for folder in (work, beside, box / "home", box / "cache"):
        folder.mkdir(parents=True)
    (beside / "kept.txt").write_text("nobody may touch this\n")
    os.symlink("kept.txt", beside / "link")
    (work / "kept.txt").write_text("nor this\n")
    for name in case.needs:
        whole = seeds / name
        if whole.is_dir():
            shutil.copytree(whole, work / name, symlinks=True)
        else:
            shutil.copy(whole, work / name)
    if case.spoil is not None:
        case.spoil(work, Random(case.name))
    return work


def run_case(case: Case, seeds: Path, server: Server, box: Path | None = None) -> Outcome:
    """Run a case in a box of its own, and judge it."""
    place = Path(tempfile.mkdtemp(prefix="transil-fuzz-")) if box is None else box
    try:
        work = prepare(case, seeds, place)
        before = snapshot(place / "room")
        answer = server.run(
            {
                "words": list(case.words),
                "folder": str(work),
                "out": str(place / "out"),
                "err": str(place / "err"),
                "env": {
                    "HOME": str(place / "home"),
                    "TRANSIL_CACHE": str(place / "cache"),
                    "TMPDIR": str(place / "home"),
                },
                **case.order,
            }
        )
        after = snapshot(place / "room")
        out, err = (_text(place / name) for name in ("out", "err"))
        return judge(case, answer, out, err, before, after)
    finally:
        if box is None:
            shutil.rmtree(place, ignore_errors=True)


def judge(
    case: Case,
    answer: dict[str, Any],
    out: str,
    err: str,
    before: dict[str, str],
    after: dict[str, str],
) -> Outcome:
    """Whether it is refused or accepted as promised."""
    code, wrong = answer["code"], []
    lines = err.strip().splitlines()
    errors = lines
    if case.command in ("train", "run", "demo"):
        errors = [line for line in lines if not any(word in line for word in ON_THE_WAY)]
    if answer["why"]:
        wrong.append(answer["why"])
    if "Traceback" in err:
        wrong.append("a traceback")
    if any(_is_control(c) for c in out + err):
        wrong.append("control characters in what is printed")
    changed = sorted(path for path in {*before, *after} if before.get(path) != after.get(path))
    if code == 2 and 2 in case.order.get("closed", ()):
        wrong += [f"changed: {path}" for path in changed]
    elif code == 2:
        if len(errors) != 1 or not errors[0].startswith("error: "):
            wrong.append(f"not one line that begins with 'error: ', but {len(errors)} lines")
        if len(err) > LONGEST:
            wrong.append(f"a line of {len(err)} characters")
        if out:
            wrong.append(f"{len(out)} characters on stdout")
        begun = BEGUN in err
        wrong += [f"changed: {p}" for p in changed if not (begun and _may(case, p, before))]
        wrong += [f"does not say {part!r}" for part in case.says if part not in err]
    elif code == 0 or _partly(case, answer, err):
        wrong += [f"changed: {path}" for path in changed if not _may(case, path, before)]
        if any(line.startswith("error: ") for line in lines):
            wrong.append("an error, but exit code 0")
    elif not answer["why"]:
        wrong.append(f"exit code {code}")
    if case.must == "refused" and code == 0:
        wrong.append("accepted")
    if case.must == "accepted" and code != 0:
        wrong.append("refused, though it is right")
    good: Literal["refused", "accepted"] = "refused" if code == 2 else "accepted"
    return Outcome(case, "violated" if wrong else good, tuple(wrong), err)


def _partly(case: Case, answer: dict[str, Any], err: str) -> bool:
    """Whether an experiment went on without a run that failed, and told so: its exit code is 1."""
    return case.command == "run" and answer["code"] == 1 and "\nfailed: " in f"\n{err}"


def _may(case: Case, path: str, before: dict[str, str]) -> bool:
    """Whether an accepted command may have made or changed `path`."""
    if case.new_files and path not in before:
        return True
    home = "inner/work/"
    if any(path == home + name for name in case.keeps):
        return False
    names = [home + name for name in case.outputs]
    return any(path == name or path.startswith(name + "/") for name in names)


def snapshot(folder: Path) -> dict[str, str]:
    """Every file, folder, link, pipe below: what it is, its rights, its content."""
    found = {}
    for top, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            path = os.path.join(top, name)
            info = os.lstat(path)
            content = ""
            if stat.S_ISLNK(info.st_mode):
                content = os.readlink(path)
            elif stat.S_ISREG(info.st_mode) and info.st_size <= SMALL:
                with open(path, "rb") as file:
                    content = hashlib.sha256(file.read()).hexdigest()
            elif stat.S_ISREG(info.st_mode):
                content = f"{info.st_size} {info.st_mtime_ns}"
            found[os.path.relpath(path, folder)] = f"{info.st_mode:o} {content}"
    return found


def _text(path: Path) -> str:
    with open(path, encoding="utf-8", errors="replace", newline="") as file:
        return file.read(SMALL)


def _is_control(char: str) -> bool:
    return (char < " " and char not in "\n\t") or "\x7f" <= char <= "\x9f"


def _shown(word: str) -> str:
    text = ascii(word)
    return text if len(text) <= 120 else f"{text[:100]}... ({len(word)} characters)"

"""Files that are either whole or not there: atomic writes, locks, checksums, strict JSON."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import math
import os
import re
import stat
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TypeVar

from transil.errors import TransilError

if sys.platform != "win32":
    import fcntl

# How the names of files begin that are still being written; they end with .tmp. Those of before had
# no lock that says whether somebody is still writing.
TEMPORARY = ".transil-"
LOCKED_TEMPORARY = ".transil-writing-"
NO_LINK = getattr(os, "O_NOFOLLOW", 0)
# What a text file (JSON, YAML, a list of images) may hold at most, so that a wrong one costs no memory.
MOST_BYTES = 256 << 20
Made = TypeVar("Made")


@contextmanager
def atomic_file(path: str | os.PathLike[str], *, durable: bool = True) -> Iterator[IO[bytes]]:
    """A binary file that takes its name only when the block ends without an error.

    It is written beside its final place and renamed. Whatever goes wrong before, a file that was
    there stays as it was, and no half-written one is left; what a killed process left in the folder
    is removed. `durable` waits until the disk has it, so that it survives a power cut; large files
    that are easily made again may do without.
    """
    with told(f"cannot write {path}"):
        check_output(path)
        final = Path(os.path.realpath(path))  # a link stays a link, what it names is replaced
        draft = Draft(final.parent)
        try:
            with os.fdopen(draft.handle, "wb", closefd=False) as file:
                yield file
            draft.become(final, durable=durable)
        finally:
            draft.drop()


class Draft:
    """A file that is being written in a folder, and has no name yet.

    `become` gives it one, `drop` removes it where it has none. Where neither happens, it goes with the
    object; when the process is killed, with the next file that is written in that folder.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.handle, self.path = _begin(folder)
        self._end = weakref.finalize(self, _drop, self.handle, self.path)

    def become(self, final: Path, *, durable: bool = True) -> None:
        """Take that name, in place of the file that has it."""
        if durable:
            os.fsync(self.handle)
        _as_before(self.handle if sys.platform != "win32" else self.path, final)
        # The lock goes with the last handle: it is there until the file has its name. Windows, which
        # has no such locks, renames no file that is open.
        if sys.platform == "win32":
            os.close(self.handle)
            os.replace(self.path, final)
        else:
            os.replace(self.path, final)
            os.close(self.handle)
        self._end.detach()

    def drop(self) -> None:
        """Remove it, unless it has its name."""
        self._end()


def _drop(handle: int, path: str) -> None:
    with suppress(OSError):
        os.close(handle)
    with suppress(FileNotFoundError):
        os.unlink(path)


def _begin(folder: Path) -> tuple[int, str]:
    """A new file there, locked: its handle and its name."""
    remove_left(folder, LOCKED_TEMPORARY)
    handle, temporary = tempfile.mkstemp(prefix=LOCKED_TEMPORARY, suffix=".tmp", dir=folder)
    if sys.platform != "win32":
        with suppress(OSError):  # without locks, nothing is removed either
            fcntl.flock(handle, fcntl.LOCK_EX)
        if os.fstat(handle).st_nlink == 0:  # another removed it before it was locked
            os.close(handle)
            return _begin(folder)
    return handle, temporary


def remove_left(folder: Path, begins: str = TEMPORARY) -> None:
    """Remove files that killed processes left half-written: those whose lock nobody holds."""
    if sys.platform == "win32":
        return
    with suppress(OSError):  # a folder that is not there, or cannot be listed
        for name in os.listdir(folder):
            if name.startswith(begins) and name.endswith(".tmp"):
                _remove_left(folder / name)


def _remove_left(path: Path) -> None:
    with suppress(OSError, TransilError):  # it is being written, or no file of ours
        handle = _open_plain(path, os.O_RDWR | NO_LINK, "")
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(path)
        finally:
            os.close(handle)


def _as_before(temporary: str | int, final: Path) -> None:
    """Give a file the mode of the one it replaces; its owner and group, too, where that is allowed."""
    try:
        old = os.lstat(final)
    except FileNotFoundError:
        os.chmod(temporary, 0o666 & ~umask())
        return
    if sys.platform != "win32":
        for owner in (-1, old.st_uid):
            with suppress(OSError):
                os.chown(temporary, owner, old.st_gid)
    os.chmod(temporary, old.st_mode & 0o777)


def plain_name(text: str) -> str:
    """A text as part of a file name: letters, digits, '-' and '_'."""
    return "".join(c if c.isalnum() or c in "-_" else "-" for c in text)


def check_output(path: str | os.PathLike[str]) -> None:
    """An error where no plain file can be written at `path`; for asking before long work."""
    path = Path(path)
    with told(f"cannot write {path}"), suppress(FileNotFoundError, NotADirectoryError):
        os.stat(path)  # tells of links that lead in circles, which `exists` does not
    if path.exists() and not path.is_file():
        kind = "folder" if path.is_dir() else "device or pipe"
        raise TransilError(f"cannot write {path}: it is a {kind}, not a plain file")
    for parent in path.parents:
        if parent.exists():
            if not parent.is_dir():
                raise TransilError(f"cannot write {path}: {parent} is not a folder")
            return


def check_replaceable(path: str | os.PathLike[str], kind: str, version: int) -> None:
    """An error where a JSON file would replace another than one of ours of that kind and version.

    It looks at the beginning only, where ours say what they are: a damaged one may be replaced.
    """
    check_output(path)
    with told(f"cannot write {path}"):
        if not os.path.exists(path) or not os.path.getsize(path):
            return
    with open_regular(path) as file, told(f"cannot read {path}"):
        start = file.read(200).decode(errors="replace")
    found = re.search(rf'"format":\s*"{kind}",\s*"version":\s*([0-9]+)', start)
    if not found:
        raise TransilError(
            f"{path}: this file is there and is not a {kind} file; remove it, or give another name"
        )
    if found[1] != str(version):
        raise TransilError(
            f"{path}: a {kind} file of version {found[1][:20]}, but this transil writes version "
            f"{version}; use the transil that wrote it, or give another name"
        )


def reserve(file: IO[bytes], size: int) -> None:
    """Set `size` bytes of disk aside: a full disk is told at once, and writing is faster."""
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(file.fileno(), 0, size)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise
            # Some file systems cannot reserve; they will say when they are full.


def write_json(path: str | os.PathLike[str], data: Any) -> None:
    """Write JSON atomically; the same data always give the same bytes."""
    try:
        text = json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False)
        text.encode()
    except (TypeError, ValueError) as error:  # no plain value, NaN, infinity, half of a character
        raise TransilError(f"cannot write {path}: {error}") from None
    # Lists of plain values on one line each: people read and compare these files.
    text = re.sub(r"\[[^\[\]{}]*\]", lambda m: re.sub(r"\n\s*", " ", m[0]), text)
    with atomic_file(path) as file:
        file.write(text.encode() + b"\n")


def read_json(path: str | os.PathLike[str]) -> Any:
    """Read a JSON file; what JSON does not have (NaN, a key twice in one object) is an error."""
    raw = read_bytes(path)
    try:
        return json.loads(
            raw, parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=_unique
        )
    except (ValueError, RecursionError) as error:
        raise TransilError(f"{path}: not a JSON file ({error})") from None


def read_json_as(path: str | os.PathLike[str], read: Callable[[Any], Made]) -> Made:
    """What is read from a JSON file; anything wrong in it is told with its name."""
    data = read_json(path)
    try:
        return read(data)
    except TransilError as error:
        raise TransilError(f"{path}: {error}") from None


@contextmanager
def open_regular(path: str | os.PathLike[str]) -> Iterator[io.BufferedReader]:
    """A plain file, open for reading its bytes.

    Anything else is refused: opening a pipe or a device would wait for ever, or change it.
    """
    handle = _open_plain(path, os.O_RDONLY, f"cannot read {path}")
    with os.fdopen(handle, "rb") as file:
        yield file


def check_regular(path: str | os.PathLike[str]) -> None:
    """An error where `path` cannot be read as a plain file; for libraries that open it by name."""
    with told(f"cannot read {path}"):
        mode = os.stat(path).st_mode
    _check_kind(mode, f"cannot read {path}")


def read_bytes(path: str | os.PathLike[str], most: int = MOST_BYTES) -> bytes:
    """All bytes of a plain file; an error where there are more than `most`."""
    with open_regular(path) as file, told(f"cannot read {path}"):
        large = os.fstat(file.fileno()).st_size > most
        raw = b"" if large else file.read()  # `read(most)` would take so much memory at once
    if large:
        raise TransilError(f"{path}: larger than {most >> 20} MiB; this is no file of this kind")
    return raw


def read_text(path: str | os.PathLike[str]) -> str:
    """A text file in UTF-8, with or without the mark that some editors begin it with."""
    try:
        return read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise TransilError(f"{path}: not a text in UTF-8; convert it") from None


def _open_plain(path: str | os.PathLike[str], flags: int, what: str) -> int:
    """The handle of a plain file; an error that begins with `what` where it is anything else."""
    with told(what):
        # Without O_NONBLOCK, opening a pipe waits until somebody writes to it.
        handle = os.open(path, flags | getattr(os, "O_NONBLOCK", 0), 0o666)
    try:
        _check_kind(os.fstat(handle).st_mode, what)
    except TransilError:
        os.close(handle)
        raise
    return handle


def _check_kind(mode: int, what: str) -> None:
    if stat.S_ISREG(mode):
        return
    kind = {stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}.get(stat.S_IFMT(mode), "device or pipe")
    raise TransilError(f"{what}: it is a {kind}, not a plain file")


def sha256(path: str | os.PathLike[str]) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal."""
    with open_regular(path) as file, told(f"cannot read {path}"):
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest(data: Any) -> str:
    """The SHA-256 of a value's canonical JSON, in hexadecimal."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


@contextmanager
def told(what: str) -> Iterator[None]:
    """Turn an operating-system error inside the block into one line that begins with `what`."""
    try:
        yield
    except OSError as error:
        raise TransilError(f"{what}: {error.strerror or error}") from error
    except UnicodeEncodeError:
        raise TransilError(f"{what}: half of a character cannot be written") from None
    except ValueError as error:
        if "null byte" not in str(error) and "null character" not in str(error):
            raise
        raise TransilError(f"{what}: a zero byte (NUL) cannot stand in a path") from None


@contextmanager
def locked(path: Path, busy: str | None = None) -> Iterator[None]:
    """Hold a lock file while the block runs; waits for another process that holds it.

    With `busy` it does not wait: that is then the error's message. The file stays, whatever is in
    it; the lock is the system's, and goes with the process.
    """
    what = f"cannot use the lock {path}"
    with told(what), suppress(FileNotFoundError):
        _check_kind(os.lstat(path).st_mode, what)  # opening a device may already do something
    if sys.platform == "win32":
        from filelock import FileLock, Timeout

        lock = FileLock(path)
        try:
            with told(what):
                lock.acquire(timeout=0 if busy else -1)
        except Timeout:
            raise TransilError(busy or "") from None
        try:
            yield
        finally:
            lock.release()
        return
    with told(what):
        handle = _lock(path, what, wait=not busy)
    if handle is None:
        raise TransilError(busy or "")
    try:
        yield
    finally:
        os.close(handle)


def _lock(path: Path, what: str, *, wait: bool) -> int | None:
    """The handle of a lock file, locked; none where it is held and not waited for."""
    handle = _open_plain(path, os.O_RDWR | os.O_CREAT | NO_LINK, what)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        if os.fstat(handle).st_nlink:
            return handle
    except BlockingIOError:
        os.close(handle)
        return None
    except BaseException:
        os.close(handle)
        raise
    os.close(handle)
    return _lock(path, what, wait=wait)  # it was deleted meanwhile: others lock a new one


def private_folder() -> Path:
    """A folder for temporary files that nobody but this user can look into or write to."""
    if sys.platform == "win32":
        return Path(tempfile.gettempdir())  # each user has one there
    with told("cannot use the system's temporary folder"):
        folder = Path(tempfile.gettempdir()) / f"transil-{os.geteuid()}"
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise TransilError(f"{folder}: not a folder of this user alone; remove it, or set TMPDIR")
    return folder


def umask() -> int:
    """The bits of a file's mode that this process leaves out."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        raise ValueError("a key stands twice in one object")
    return data


def _finite(text: str) -> float:
    if math.isinf(number := float(text)):
        raise ValueError(f"{text[:20]} is too large a number")
    return number


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not allowed")

"""Scores from plain arrays: a folder of .npy files or one .npz, states counted from 1.

`scores_{split}_{state}` (n, columns) and `labels_{split}_{state}` (n,), as files with the ending
.npy in a folder, or as arrays in an .npz file; or as tensors, in .pt files or a dictionary in one.
"""

from __future__ import annotations

import os
import re
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transil.arrays import is_torch, to_numpy
from transil.errors import TransilError, reason
from transil.files import open_regular, told
from transil.interop.torch_files import checked_tensor, load_safely, load_tensor
from transil.interop.zips import check_unpacked
from transil.schedule import Schedule, read_whole
from transil.scores import ScoreStore

ARRAY = re.compile(r"(scores|labels)_([A-Za-z0-9_]+)_([0-9]+)")
MAGIC = b"\x93NUMPY"
TENSORS = (".pt", ".pth")


def import_scores(
    path: str | os.PathLike[str],
    *,
    schedule: Schedule | None = None,
    method: str | None = None,
    dataset: str | None = None,
    kind: str = "logit",
) -> ScoreStore:
    """Read a folder of .npy or .pt files, or an .npz or .pt file, into a store in memory.

    Without a schedule, group sizes are how many columns each state adds, labels 0, 1, ...
    """
    source = Path(path)
    arrays: dict[tuple[str, str, int], NDArray[Any]] = {}
    for name, array in _arrays(source).items():
        if match := ARRAY.fullmatch(name):
            key = (match[1], match[2], read_whole(match[3], f"{source}: {name[:40]}"))
            if key in arrays:
                raise TransilError(f"{source}: {name} is there twice, with and without zeros")
            arrays[key] = array
    if not any(what == "scores" for what, _, _ in arrays):
        raise TransilError(
            f"{source}: no arrays scores_SPLIT_STATE in it, such as scores_test_1 and "
            "labels_test_1 (states count from 1)"
        )
    data: dict[str, dict[int, tuple[NDArray[Any], NDArray[Any]]]] = {}
    for split, state in sorted({(split, state) for _, split, state in arrays}):
        for one, other in (("scores", "labels"), ("labels", "scores")):
            if (one, split, state) not in arrays:
                raise TransilError(
                    f"{source}: {one}_{split}_{state} is missing beside {other}_{split}_{state}"
                )
        pair = (arrays["scores", split, state], arrays["labels", split, state])
        data.setdefault(split, {})[state] = pair
    if schedule is None:
        schedule = _schedule_from_columns(source, data)
    return ScoreStore.from_arrays(data, schedule, method=method, dataset=dataset, kind=kind)


def load_array(path: str | os.PathLike[str]) -> NDArray[Any]:
    """One .npy file, memory-mapped; files with Python objects are refused, never unpickled."""
    with open_regular(path) as file, told(f"cannot read {path}"):
        magic = file.read(len(MAGIC))
    if magic != MAGIC:
        raise TransilError(f"{path}: not a plain .npy file")
    with _errors(f"{path}: not a plain .npy file"), told(f"cannot read {path}"):
        return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))


def load_archive(path: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    """All arrays of an .npz file, read without unpickling anything; what else is in it is left out."""
    with open_regular(path) as file, told(f"cannot read {path}"):
        if not zipfile.is_zipfile(file):
            raise TransilError(
                f"{path}: not an .npz file; scores are read from one, or from a folder of files "
                "scores_SPLIT_STATE.npy (or .pt) and labels_SPLIT_STATE.npy"
            )
        with _errors(f"{path}: a damaged .npz file"):
            check_unpacked(file, str(path))
            with np.load(file, allow_pickle=False) as archive:
                members = {name: archive[name] for name in archive.files}
    return {name: found for name, found in members.items() if isinstance(found, np.ndarray)}


@contextmanager
def _errors(what: str) -> Iterator[None]:
    """Whatever NumPy, zipfile and zlib raise for a file that is foreign or crafted, in one line."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore", UserWarning)  # of files of Python 2
            yield
    except (OSError, TransilError):
        raise
    except Exception as error:
        raise TransilError(f"{what} ({reason(error)})") from None


def is_ours(source: Path) -> bool:
    """Whether a path is a file, or a folder of files scores_..., rather than of another layout."""
    return source.is_file() or any(_files(source))


def _files(folder: Path) -> Iterator[Path]:
    """The files scores_... and labels_... of a folder."""
    for file in sorted(folder.glob("*")):
        if file.suffix in (".npy", *TENSORS) and ARRAY.fullmatch(file.stem):
            yield file


def _arrays(source: Path) -> dict[str, NDArray[Any]]:
    """The arrays scores_... and labels_... by name; .npy files of a folder are mapped, not read."""
    if not source.is_dir():
        if source.suffix not in TENSORS:
            return load_archive(source)
        found = load_safely(source)
        if not isinstance(found, dict):
            raise TransilError(f"{source}: expected a dictionary of tensors scores_SPLIT_STATE")
        names = [name for name in found if isinstance(name, str) and ARRAY.fullmatch(name)]
        for name in names:
            if not is_torch(found[name]):
                kind = type(found[name]).__name__
                raise TransilError(f"{source}: {name} is a {kind}; expected a tensor")
        where = {name: f"{source}: {name}" for name in names}
        return {
            name: to_numpy(checked_tensor(found[name], where[name]), where[name]) for name in names
        }
    arrays: dict[str, NDArray[Any]] = {}
    for file in _files(source):
        if file.stem in arrays:
            raise TransilError(f"{source}: {file.stem} is there twice, as .npy and as a tensor")
        tensor = file.suffix in TENSORS
        arrays[file.stem] = to_numpy(load_tensor(file), str(file)) if tensor else load_array(file)
    return arrays


def _schedule_from_columns(
    source: Path, data: Mapping[str, Mapping[int, tuple[NDArray[Any], NDArray[Any]]]]
) -> Schedule:
    columns: dict[int, int] = {}
    for split, states in data.items():
        for state, (scores, _) in states.items():
            if scores.ndim != 2:
                raise TransilError(
                    f"{source}: scores_{split}_{state} has shape {scores.shape}, "
                    "not (rows, columns)"
                )
            if columns.setdefault(state, scores.shape[1]) != scores.shape[1]:
                raise TransilError(
                    f"{source}: scores_{split}_{state} has {scores.shape[1]} columns, another "
                    f"split of state {state} has {columns[state]}"
                )
    if min(columns) < 1:
        raise TransilError(
            f"{source}: there are scores of state {min(columns)}; states count from 1"
        )
    found = sorted(columns)
    sizes = np.diff([0, *(columns[state] for state in found)])
    if found != list(range(1, len(found) + 1)) or (sizes < 1).any():
        counts = ", ".join(f"{columns[state]} in state {state}" for state in found)
        raise TransilError(
            f"{source}: the group sizes cannot be read off the column counts ({counts}): states "
            "are 1, 2, ..., each with more columns than the one before; give the sizes with "
            "--schedule"
        )
    return Schedule.from_sizes(sizes.tolist())

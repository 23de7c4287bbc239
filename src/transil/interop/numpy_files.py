"""Scores from plain arrays: a folder of .npy files or one .npz, states counted from 1.

`scores_{split}_{state}` (n, columns) and `labels_{split}_{state}` (n,), as files with the ending
.npy in a folder, or as arrays in an .npz file; or as tensors, in .pt files or a dictionary in one.
"""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transil.arrays import is_torch, to_numpy
from transil.errors import TransilError, reason
from transil.files import told
from transil.interop.torch_files import load_safely, load_tensor
from transil.schedule import Schedule
from transil.scores import ScoreStore

ARRAY = re.compile(r"(scores|labels)_([A-Za-z0-9_]+)_(\d+)")
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
            key = (match[1], match[2], int(match[3]))
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
    with told(f"cannot read {path}"):
        with open(path, "rb") as file:
            magic = file.read(len(MAGIC))
        if magic != MAGIC:
            raise TransilError(f"{path}: not a plain .npy file")
        try:
            return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
        except (ValueError, EOFError) as error:
            raise TransilError(f"{path}: not a plain .npy file ({reason(error)})") from None


def load_archive(path: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    """All arrays of an .npz file, read without unpickling anything."""
    with told(f"cannot read {path}"), open(path, "rb") as file:
        if not zipfile.is_zipfile(file):
            raise TransilError(
                f"{path}: not an .npz file; scores are read from one, or from a folder of files "
                "scores_SPLIT_STATE.npy (or .pt) and labels_SPLIT_STATE.npy"
            )
        file.seek(0)
        try:
            with np.load(file, allow_pickle=False) as archive:
                return {name: archive[name] for name in archive.files}
        except Exception as error:  # zlib, zipfile and NumPy each have their own
            raise TransilError(f"{path}: a damaged .npz file ({reason(error)})") from None


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
        return {name: to_numpy(found[name]) for name in names}
    arrays: dict[str, NDArray[Any]] = {}
    for file in _files(source):
        if file.stem in arrays:
            raise TransilError(f"{source}: {file.stem} is there twice, as .npy and as a tensor")
        tensor = file.suffix in TENSORS
        arrays[file.stem] = to_numpy(load_tensor(file)) if tensor else load_array(file)
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
    counts = [columns.get(state, 0) for state in range(1, max(columns) + 1)]
    sizes = np.diff([0, *counts])
    if 0 in counts or (sizes < 1).any():
        raise TransilError(
            f"{source}: the group sizes cannot be read off the column counts {counts} of the "
            "states 1, 2, ...; give them with --schedule"
        )
    return Schedule.from_sizes(sizes.tolist())

"""The scores of all states in one layout or another: a folder of files, or a file of named arrays.

`scores_{split}_{state}` (n, columns) and `labels_{split}_{state}` (n,), states counted from 1, as files
of any kind that holds arrays or a table, or as arrays of one file. The layout of the authors' release
is in `dkt`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from transil._common.arrays import is_torch
from transil.errors import TransilError
from transil.schedule import Schedule, read_whole
from transil.scores.array_files import ARRAYS, as_array, load_arrays, load_named
from transil.scores.files import is_table, read_labels, read_scores
from transil.scores.head import Head
from transil.scores.store import ScoreStore
from transil.scores.tables import TABLES

ARRAY = re.compile(r"(scores|labels)_([A-Za-z0-9_]+)_([0-9]+)")
SEVERAL = tuple(ending for ending in ARRAYS if ending != ".npy")

# (scores, labels) by split and state.
Pairs: TypeAlias = dict[str, dict[int, tuple[NDArray[Any], NDArray[Any]]]]


@dataclass(frozen=True)
class Within:
    """What of a file is read: the array or column of lists `key`, the columns but `keep`.

    `labels` names the array or column of labels, where files of scores hold them, too.
    """

    key: str | None = None
    labels: str | None = None
    keep: Sequence[str] = ()


@dataclass(frozen=True)
class Facts:
    """What is known of the scores, and of the model that made them."""

    schedule: Schedule | None = None
    method: str | None = None
    dataset: str | None = None
    kind: str = "logit"
    head: Head = field(default_factory=Head)

    def store(self, source: Path, pairs: Pairs) -> ScoreStore:
        """A store in memory; without a schedule, groups are as large as each state adds columns."""
        schedule = self.schedule or _schedule_from_columns(source, pairs, self.head)
        try:
            return ScoreStore.from_arrays(
                pairs, schedule, method=self.method, dataset=self.dataset, kind=self.kind,
                width=self.head.width, order=self.head.order, columns=self.head.columns,
            )  # fmt: skip
        except TransilError as error:
            raise TransilError(f"{source}: {error}") from None


def import_scores(
    path: str | os.PathLike[str], facts: Facts | None = None, within: Within | None = None
) -> ScoreStore:
    """Read a folder of files scores_SPLIT_STATE, or a file of arrays called so, into a store."""
    source, within = Path(path), within or Within()
    found = _from_folder(source, within) if source.is_dir() else _from_file(source)
    if not any(what == "scores" for what, _, _ in found):
        raise TransilError(
            f"{source}: no arrays scores_SPLIT_STATE in it, such as scores_test_1 and "
            "labels_test_1 (states count from 1)"
        )
    pairs: Pairs = {}
    for split, state in sorted({(split, state) for _, split, state in found}):
        for one, other in (("scores", "labels"), ("labels", "scores")):
            if (one, split, state) not in found:
                raise TransilError(
                    f"{source}: {one}_{split}_{state} is missing beside {other}_{split}_{state}"
                    + ("; labels in the same file are named with --labels" * (one == "labels"))
                )
        pair = (found["scores", split, state], found["labels", split, state])
        pairs.setdefault(split, {})[state] = pair
    return (facts or Facts()).store(source, pairs)


def is_ours(source: Path) -> bool:
    """Whether a path is a file, or a folder of files scores_..., rather than of another layout."""
    # labels_val_0_0.npy may be of either.
    return source.is_file() or any(file.stem.startswith("scores") for file in _files(source))


def _files(folder: Path) -> Iterator[Path]:
    """The files scores_... and labels_... of a folder."""
    for file in sorted(folder.glob("*")):
        if file.suffix in (*ARRAYS, *TABLES) and ARRAY.fullmatch(file.stem):
            yield file


Found: TypeAlias = dict[tuple[str, str, int], NDArray[Any]]


def _key(
    source: Path, name: str, found: Mapping[tuple[str, str, int], Any]
) -> tuple[str, str, int]:
    match = ARRAY.fullmatch(name)
    assert match
    key = (match[1], match[2], read_whole(match[3], f"{source}: {name[:40]}"))
    if key in found:
        raise TransilError(
            f"{source}: {name} is there twice, in two kinds of files or with and without zeros"
        )
    return key


def _from_folder(source: Path, within: Within) -> Found:
    found: Found = {}
    for file in _files(source):
        key = _key(source, file.stem, found)
        if key[0] == "labels":
            found[key] = read_labels(file)
            continue
        found[key], labels = read_pair(file, within)
        if labels is not None:
            found[_key(source, file.stem.replace("scores", "labels", 1), found)] = labels
    return found


def read_pair(file: Path, within: Within) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """The scores of a file, and its labels where it has them."""
    if not is_table(file):
        scores = read_scores(file, within.key, within.keep).scores
        named = within.labels
        return scores, None if named is None else as_array(load_named(file, named), str(file))
    keep = [*within.keep, *([within.labels] if within.labels else [])]
    read = read_scores(file, within.key, keep)
    assert read.table is not None
    if within.labels is None:
        return read.scores, None
    return read.scores, read.table.numbers(within.labels, str(file))


def _from_file(source: Path) -> Found:
    """The arrays scores_... and labels_... of a file."""
    if source.suffix not in SEVERAL:
        raise TransilError(
            f"{source}: not a file of several arrays ({', '.join(SEVERAL)}); scores are read from one, "
            "or from a folder of files scores_SPLIT_STATE and labels_SPLIT_STATE of any kind"
        )
    arrays, found = load_arrays(source), dict[tuple[str, str, int], NDArray[Any]]()
    if not isinstance(arrays, Mapping):
        raise TransilError(f"{source}: expected a dictionary of tensors scores_SPLIT_STATE")
    for name, array in arrays.items():
        if ARRAY.fullmatch(name):
            if not (is_torch(array) or isinstance(array, np.ndarray)):
                kind = type(array).__name__
                raise TransilError(f"{source}: {name} is a {kind}; expected a tensor")
            found[_key(source, name, found)] = as_array(array, f"{source}: {name}")
    return found


def _schedule_from_columns(source: Path, pairs: Pairs, head: Head) -> Schedule:
    if head.width is not None or head.order is not None:
        raise TransilError(
            f"{source}: a head with a width or an order of its own does not tell the group sizes; give "
            "them with --schedule"
        )
    columns: dict[int, int] = {}
    for split, states in pairs.items():
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
    if found != list(range(1, len(found) + 1)) or (sizes < 1).any() or (sizes % head.columns).any():
        counts = ", ".join(f"{columns[state]} in state {state}" for state in found)
        raise TransilError(
            f"{source}: the group sizes cannot be read off the column counts ({counts}): states "
            "are 1, 2, ..., each with more columns than the one before; give the sizes with "
            "--schedule"
        )
    return Schedule.from_sizes((sizes // head.columns).tolist())

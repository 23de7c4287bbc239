"""The reader and the writer of scores: every command takes and gives all kinds of files by them.

Arrays (`array_files`) hold scores alone, tables (`tables`) whatever else there is to say of an image.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transil._common.arrays import FloatArray, check_scores
from transil._common.files import atomic_file, reserve
from transil.errors import TransilError
from transil.scores.array_files import ARRAYS, as_array, load_named, save_array
from transil.scores.tables import (
    STREAM,
    STREAM_NAME,
    TABLES,
    Table,
    read_table,
    table_of,
    write_table,
)

KINDS = f"arrays ({', '.join(ARRAYS)}) or tables ({', '.join(TABLES)}; - is CSV)"


@dataclass(frozen=True)
class ScoreFile:
    """Scores (rows, columns) that were read, those of a .npy file as a map, and what came with them."""

    path: Path  # for messages
    scores: FloatArray
    name: str = "scores"  # of the array, where its kind of file has one
    bfloat16: bool = False  # the type they have in the file, and NumPy has not
    table: Table | None = None  # with the other columns


def read_scores(
    source: str | os.PathLike[str], key: str | None = None, keep: Sequence[str] = ()
) -> ScoreFile:
    """The scores of a file of any kind; `-` is standard input.

    Of several arrays `key` names the scores. In tables all columns of numbers are scores, but for those
    that `keep` names, or one column of lists is, which `key` names.
    """
    source = Path(source)
    if is_table(source):
        table = read_table(source, keep, key)
        path = STREAM_NAME if source == STREAM else source
        return ScoreFile(path, table.scores, key or "scores", table=table)
    if keep:
        raise TransilError(f"{source}: only tables have columns to keep ({', '.join(TABLES)})")
    found = load_named(source, key)
    scores = as_array(found, str(source))
    check_scores(scores, str(source))
    return ScoreFile(source, scores, key or "scores", str(found.dtype) == "torch.bfloat16")


def read_labels(source: Path) -> NDArray[Any]:
    """The labels of a file of any kind: its only array, or its only column, (rows,)."""
    if not is_table(source):
        found = as_array(load_named(source), str(source))
    else:
        found = read_table(source).scores
        if not found.size:
            raise TransilError(f"{source}: expected one column of whole numbers, the labels")
    found = found[:, 0] if found.ndim == 2 and found.shape[1] == 1 else found
    if found.dtype.kind not in "iuf":
        return found  # no labels: whoever takes them says so
    with np.errstate(invalid="ignore"):
        whole = found.astype(np.int64)  # tables, and torch's users, keep them as floats
    return whole if np.array_equal(whole, found) else found


def write_scores(
    target: Path, like: ScoreFile, scores: Iterable[FloatArray], dtype: np.dtype[Any]
) -> None:
    """Write scores, given in blocks of rows, in place of those that were read.

    The ending of `target` says how. A table keeps its other columns; an array has scores alone.
    """
    shape = like.scores.shape
    if target.suffix == ".npy":
        with atomic_file(target, durable=False) as file:
            header = {"descr": dtype.str, "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_2_0(file, header)
            reserve(file, file.tell() + dtype.itemsize * shape[0] * shape[1])
            for block in scores:
                file.write(block.data)
        return
    whole, start = np.empty(shape, dtype.newbyteorder("=")), 0
    for block in scores:
        whole[start : start + len(block)] = block
        start += len(block)
    if is_table(target):
        made = table_of(whole) if like.table is None else like.table.with_scores(whole)
        write_table(target, made)
    else:
        save_array(target, whole, like.name, bfloat16=like.bfloat16)


def is_table(path: Path) -> bool:
    """Whether a file is a table, or an array; an error where it is neither."""
    if path == STREAM or path.suffix in TABLES:
        return True
    if path.suffix not in ARRAYS:
        raise TransilError(f"{path}: unknown kind of file; scores are {KINDS}")
    return False

"""The reader and the writer of scores: every command takes and gives all kinds of files by them.

Arrays (`array_files`) hold scores alone, tables (`tables`) whatever else there is to say of an image.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transil.arrays import FloatArray, check_finite, check_scores
from transil.correction.affine import BLOCK
from transil.correction.bank import Bank
from transil.correction.columns import OrderLike, backwards, read_order, reordered, state_of
from transil.correction.scales import some_rows
from transil.correction.solvers import Progress, no_progress
from transil.errors import TransilError
from transil.files import atomic_file, reserve
from transil.interop.array_files import ARRAYS, as_array, load_named, save_array
from transil.interop.tables import (
    STREAM,
    STREAM_NAME,
    TABLES,
    Table,
    check_guess,
    check_table,
    read_table,
    table_of,
    write_table,
)
from transil.schedule import IntArray

KINDS = f"arrays ({', '.join(ARRAYS)}) or tables ({', '.join(TABLES)}; - is CSV)"
SOME_ROWS = 1024  # tell the state of scores that may be larger than memory


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
    return found[:, 0] if found.ndim == 2 and found.shape[1] == 1 else found


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


def correct_file(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    bank: Bank,
    state: int | None = None,
    progress: Progress = no_progress,
    *,
    order: OrderLike | None = None,
    rescale: bool = False,
    keep: Sequence[str] = (),
    key: str | None = None,
) -> tuple[int, int]:
    """Correct a file of scores (rows, columns) into another; returns (state, rows).

    From `.npy` to `.npy` memory stays small, however large they are. `key` and `keep` are those of
    `read_scores`, `order` and `rescale` those of `Bank.correct`.
    """
    target = Path(target)
    is_table(target)
    file = read_scores(source, key, keep)
    how = _How(bank, state, order, rescale).of(file, keep)
    bank.check_kind(file.scores, str(file.path))
    how = how.ready(file)
    write_scores(target, file, how.corrected(file, target, progress), file.scores.dtype)
    how.check_scale(file.scores)
    return how.known_state, len(file.scores)


def like_file(
    bank: Bank,
    source: str | os.PathLike[str],
    state: int | None = None,
    key: str | None = None,
    keep: Sequence[str] = (),
) -> Bank:
    """The bank at the scale of the scores (rows, columns) of a file, without labels."""
    file = read_scores(source, key, keep)
    how = _How(bank, state).of(file, keep)
    bank.check_kind(file.scores, str(file.path))
    return how.like(file)


@dataclass(frozen=True)
class _How:
    """How the scores of a file are corrected."""

    bank: Bank
    state: int | None
    order: OrderLike | None = None
    rescale: bool = False

    def of(self, file: ScoreFile, keep: Sequence[str]) -> _How:
        """The same, with the state of these scores; an error where they are none."""
        scores, source, schedule = file.scores, str(file.path), self.bank.schedule
        if file.table is not None:
            sizes = schedule.seen if self.state is None else [schedule.columns(self.state)]
            check_table(file.table, file.path, sizes)
            if self.state is None:
                check_guess(file.table, file.path, keep)
        if scores.ndim != 2:
            raise TransilError(
                f"{source}: expected a table (rows, columns), found shape {scores.shape}"
            )
        state = self.state
        if state is None:
            first = reordered(scores[:SOME_ROWS], self.places(scores))
            state = state_of(first, schedule, source)
        schedule.check_columns(scores.shape[1], state, source)
        return replace(self, state=schedule.check_state(state))

    @property
    def known_state(self) -> int:
        assert self.state is not None
        return self.state

    def places(self, scores: FloatArray) -> IntArray | None:
        return None if self.order is None else read_order(self.order, scores.shape[1])

    def like(self, file: ScoreFile) -> Bank:
        try:
            return self.bank.like(
                reordered(file.scores, self.places(file.scores)), self.known_state
            )
        except TransilError as error:
            raise TransilError(f"{file.path}: {error}") from None

    def ready(self, file: ScoreFile) -> _How:
        """The same, with a bank that has seen the scores where it needs that."""
        if self.rescale:
            return replace(self, bank=self.like(file))
        if not self.bank.correction.measured:
            return self
        learned = reordered(file.scores, self.places(file.scores))
        return replace(self, bank=self.bank.ready(learned, self.known_state))

    def corrected(self, file: ScoreFile, target: Path, progress: Progress) -> Iterator[FloatArray]:
        """The corrected scores, in blocks of rows; each is used before the next one is asked for."""
        bank, state, scores = self.bank, self.known_state, file.scores
        pairs, places = bank.applied(state), self.places(scores)
        back = None if places is None else backwards(places)
        rows = max(1, BLOCK // scores.shape[1])
        buffer = np.empty((min(rows, len(scores)), scores.shape[1]), dtype=scores.dtype)
        for start in range(0, len(scores), rows):
            block = scores[start : start + rows]
            out = buffer[: len(block)]
            with np.errstate(over="ignore", invalid="ignore"):
                bank.apply(pairs, reordered(block, places), state, out)
            out = np.ascontiguousarray(reordered(out, back))
            if not np.isfinite(out).all():
                # Either the scores hold such a value, or correcting them overflowed their type.
                check_finite(block, f"{file.path}, state {state}", first_row=start)
                check_finite(out, f"{target}, corrected to {out.dtype}", first_row=start)
            yield out
            progress(min(1.0, (start + rows) / len(scores)))

    def check_scale(self, scores: FloatArray) -> None:
        if not self.rescale and (some := some_rows(scores)) is not None:
            self.bank.check_scale(reordered(some, self.places(scores)), self.known_state)

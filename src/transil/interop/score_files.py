"""One file of scores in, one file of corrected scores out; larger than memory where need be."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from transil.arrays import FloatArray, check_finite, check_scores, to_numpy
from transil.correction.bank import Bank
from transil.correction.columns import state_of
from transil.correction.layers import BLOCK
from transil.correction.solvers import Progress, no_progress
from transil.errors import TransilError
from transil.files import atomic_file, reserve
from transil.interop.numpy_files import load_array
from transil.interop.tables import TABLES, check_table, read_table, write_table
from transil.interop.torch_files import load_tensor

TORCH = (".pt", ".pth", ".ckpt")


def correct_file(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    bank: Bank,
    state: int | None = None,
    progress: Progress = no_progress,
    *,
    rescale: bool = False,
    keep: Sequence[str] = (),
) -> tuple[int, int]:
    """Correct a file of scores (rows, columns) into another; returns (state, rows).

    `.npy` is read through a memory map and written block by block, so that memory stays small;
    torch files hold one tensor and are read with the safe loader. In tables all columns of numbers
    are scores, but for those that `keep` names. The ending of `target` says what is written.
    `rescale` brings the bank to the scale of the scores first.
    """
    source, target = Path(source), Path(target)
    for path in (source, target):
        if path.suffix not in (".npy", *TORCH, *TABLES):
            raise TransilError(
                f"{path}: unknown kind of file; scores are .npy, torch files ({', '.join(TORCH)}) or "
                f"tables ({', '.join(TABLES)})"
            )
    if (source.suffix in TABLES) != (target.suffix in TABLES):
        kinds = TABLES if source.suffix in TABLES else (".npy", *TORCH)
        raise TransilError(f"{target}: scores of {source} are written as {', '.join(kinds)}")
    if source.suffix in TABLES:
        return _correct_table(source, target, bank, state, rescale, keep)
    if keep:
        raise TransilError(f"{source}: only tables have columns to keep ({', '.join(TABLES)})")
    if source.suffix in TORCH and target.suffix in TORCH:
        return _correct_tensor(source, target, bank, state, rescale)
    scores, state = _read(source, bank, state)
    if target.suffix == ".npy":
        if rescale:
            bank = _like(bank, scores, state, source)
        else:
            bank.check_scale(scores, state)
        _write_npy(source, target, scores, bank, state, progress)
    else:
        import torch

        _save_tensor(
            source, target, torch.from_numpy(to_numpy(scores).copy()), bank, state, rescale
        )
    return state, len(scores)


def like_file(bank: Bank, source: str | os.PathLike[str], state: int | None = None) -> Bank:
    """The bank at the scale of the scores (rows, columns) of a `.npy` or torch file, without labels."""
    source = Path(source)
    if source.suffix not in (".npy", *TORCH):
        raise TransilError(f"{source}: unknown kind of file; give .npy or {', '.join(TORCH)}")
    scores, state = _read(source, bank, state)
    return _like(bank, scores, state, source)


def _read(source: Path, bank: Bank, state: int | None) -> tuple[FloatArray, int]:
    """The raw scores of a `.npy` or torch file, and their state."""
    scores = load_array(source) if source.suffix == ".npy" else to_numpy(load_tensor(source))
    state = _check(scores, source, bank, state)
    bank.check_kind(scores, str(source))
    return scores, state


def _like(bank: Bank, scores: FloatArray, state: int, source: Path) -> Bank:
    try:
        return bank.like(scores, state)
    except TransilError as error:
        raise TransilError(f"{source}: {error}") from None


def _check(scores: Any, source: Path, bank: Bank, state: int | None) -> int:
    """The state of a table of scores; an error where it is none."""
    check_scores(scores, str(source))
    if scores.ndim != 2:
        shape = tuple(scores.shape)
        raise TransilError(f"{source}: expected a table (rows, columns), found shape {shape}")
    if state is None:
        state = state_of(scores, bank.schedule, str(source))
    bank.schedule.check_columns(scores.shape[1], state, str(source))
    return state


def _correct_table(
    source: Path, target: Path, bank: Bank, state: int | None, rescale: bool, keep: Sequence[str]
) -> tuple[int, int]:
    table, sizes = read_table(source, keep), bank.schedule.seen
    check_table(table, source, sizes if state is None else [bank.schedule.columns(state)])
    scores = table.scores
    state = _check(scores, source, bank, state)
    try:
        corrected = bank.correct(scores, state, rescale=rescale)
    except TransilError as error:
        raise TransilError(f"{source}: {error}") from None
    check_finite(corrected, f"{target}, corrected to {corrected.dtype}")
    write_table(target, table.with_scores(corrected))
    return state, len(scores)


def _correct_tensor(
    source: Path, target: Path, bank: Bank, state: int | None, rescale: bool
) -> tuple[int, int]:
    """Tensor in, tensor out, in its own type."""
    tensor = load_tensor(source)
    state = _check(tensor, source, bank, state)
    _save_tensor(source, target, tensor, bank, state, rescale)
    return state, len(tensor)


def _save_tensor(
    source: Path, target: Path, tensor: Any, bank: Bank, state: int, rescale: bool
) -> None:
    import torch

    check_finite(to_numpy(tensor), f"{source}, state {state}")
    corrected = bank.correct(tensor, state, rescale=rescale)
    check_finite(to_numpy(corrected), f"{target}, corrected to {corrected.dtype}")
    with atomic_file(target, durable=False) as file:
        torch.save(corrected, file)


def _write_npy(
    source: Path, target: Path, scores: FloatArray, bank: Bank, state: int, progress: Progress
) -> None:
    pairs = bank.applied(state)
    rows = max(1, BLOCK // scores.shape[1])
    buffer = np.empty((min(rows, len(scores)), scores.shape[1]), dtype=scores.dtype)
    with atomic_file(target, durable=False) as file:
        header = {"descr": scores.dtype.str, "fortran_order": False, "shape": scores.shape}
        np.lib.format.write_array_header_2_0(file, header)
        reserve(file, file.tell() + scores.nbytes)
        for start in range(0, len(scores), rows):
            block = scores[start : start + rows]
            out = buffer[: len(block)]
            with np.errstate(over="ignore", invalid="ignore"):
                bank.apply(pairs, block, state, out)
            if not np.isfinite(out).all():
                # Either the scores hold such a value, or correcting them overflowed their type.
                check_finite(block, f"{source}, state {state}", first_row=start)
                check_finite(out, f"{target}, corrected to {out.dtype}", first_row=start)
            file.write(out.data)
            progress(min(1.0, (start + rows) / len(scores)))

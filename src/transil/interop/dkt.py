"""The layout in which the paper's authors released scores and parameters (DKT-for-CIL).

Scores: `{logits|labels}_{val|tst}_{t}_{u}.ckpt` (or `.npy`, or any other kind of file), the model
of state t on the images of group u, both counted from 0. Labels are authoritative: row order and u
are not (in the released LwF files some rows sit in another group's file). Parameters:
`bic_model_{t}.ckpt`, a state dict of `bias_layers.{k}.alpha` and `.beta`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transil._common.arrays import to_numpy
from transil._common.files import digest, sha256
from transil._common.provenance import versions
from transil.correction import parameters
from transil.correction.bank import Bank
from transil.correction.references import Reference, Transfer
from transil.correction.registry import get_correction
from transil.errors import TransilError
from transil.schedule import Schedule
from transil.scores.array_files import ARRAYS, load_safely
from transil.scores.files import read_labels
from transil.scores.folders import Facts, Pairs, Within, read_pair
from transil.scores.store import ScoreStore
from transil.scores.tables import TABLES

SPLITS = {"val": "val", "tst": "test"}
SCORES = re.compile(r"(logits|labels)_(val|tst)_([0-9]+)_([0-9]+)(\.[a-z]+)")
MODEL = re.compile(r"bic_model_([0-9]+)\.ckpt")


def import_scores(
    path: str | os.PathLike[str], facts: Facts | None = None, within: Within | None = None
) -> ScoreStore:
    """Read a folder of released scores into a store in memory.

    The schedule follows from the number of columns of each state, so groups may be of any size.
    The method is taken from a folder name such as `logits_lucir_s10` where it is not given.
    """
    wanted = "logits_{val|tst}_{t}_{u}.ckpt (nor scores_SPLIT_STATE.npy or .pt)"
    folder, facts = _folder_with(Path(path), SCORES, wanted), facts or Facts()
    files: dict[tuple[str, str, int, int], Path] = {}
    for name in sorted(os.listdir(folder)):
        match = SCORES.fullmatch(name)
        if match and match[5] in (*ARRAYS, *TABLES):
            key = (match[1], match[2], int(match[3]), int(match[4]))
            if key in files:
                raise TransilError(f"{folder}: {files[key].name} is there twice, also as {name}")
            files[key] = folder / name
    pairs: Pairs = {}
    for split in sorted({split for _, split, _, _ in files}):
        last = max(t for kind, of, t, _ in files if of == split)
        for t in range(last + 1):
            pairs.setdefault(SPLITS[split], {})[t + 1] = _read_state(
                folder, files, split, t, within
            )
    return replace(facts, method=facts.method or _method(folder)).store(folder, pairs)


def import_bank(
    path: str | os.PathLike[str],
    *,
    method: str | None = None,
    correction: str = "adbic",
    classes: int = 100,
    schedule: Schedule | None = None,
    name: str | None = None,
) -> Bank:
    """Read a folder of released parameters into a bank with one reference.

    The files do not tell group sizes: `classes` in equal groups (all sets of the paper have 100
    classes), unless a `schedule` is given. For a correction with one pair per state, such as
    `bic`, the last pair of each file is taken: the earlier ones are left over from past states.
    """
    folder = _folder_with(Path(path), MODEL, "bic_model_{t}.ckpt")
    states = sorted(int(m[1]) for name in os.listdir(folder) if (m := MODEL.fullmatch(name)))
    if states != list(range(len(states))) or len(states) < 2:
        raise TransilError(
            f"{folder}: files bic_model_0.ckpt, bic_model_1.ckpt, ... are needed without a gap, "
            f"but the states found are {', '.join(map(str, states))}"
        )
    schedule = schedule or Schedule.equal(classes, len(states))
    kind = get_correction(correction)
    pairs, checksums = {}, []
    for t in states[1:]:
        file = folder / f"bic_model_{t}.ckpt"
        wanted = kind.outline(schedule, t + 1).counts
        if list(wanted) != ["alpha", "beta"]:
            raise TransilError(
                f"'{kind.name}' is not made of pairs, and the released parameters are"
            )
        pairs[t + 1] = _read_pairs(file, t + 1, wanted["alpha"])
        checksums.append(sha256(file))
    return Bank(
        correction=kind,
        schedule=Schedule.from_sizes(schedule.sizes),
        references=(Reference(name or folder.resolve().name, pairs, source=digest(checksums)),),
        method=method or _method(folder),
        transfer=Transfer("mean"),
        provenance={"versions": versions(), "imported": "dkt", "config_hash": digest(checksums)},
    )


def _folder_with(path: Path, pattern: re.Pattern[str], wanted: str) -> Path:
    """The folder itself or its `logits` folder, whichever holds files of the pattern."""
    for folder in (path, path / "logits"):
        if folder.is_dir() and any(pattern.fullmatch(name) for name in os.listdir(folder)):
            return folder
    what = "no such folder" if not path.is_dir() else f"no files {wanted} in it"
    raise TransilError(f"{path}: {what}; give the folder of the released files")


def _read_state(
    folder: Path,
    files: Mapping[tuple[str, str, int, int], Path],
    split: str,
    t: int,
    within: Within | None,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """The scores and labels of a state: those of all groups, one after the other."""
    scores, labels = [], []
    for u in range(t + 1):
        for kind in ("logits", "labels"):
            if (kind, split, t, u) not in files:
                name = f"{kind}_{split}_{t}_{u}.ckpt"
                raise TransilError(f"{folder}: {name} is missing; get the whole folder again")
        of_scores, of_labels = (files[kind, split, t, u] for kind in ("logits", "labels"))
        scores.append(_of_rank(read_pair(of_scores, within or Within())[0], of_scores, 2))
        labels.append(_of_rank(read_labels(of_labels), of_labels, 1))
        if scores[-1].shape[1] != scores[0].shape[1]:
            raise TransilError(
                f"{of_scores}: {scores[-1].shape[1]} columns, but group 0 of the same state has "
                f"{scores[0].shape[1]}"
            )
    return np.concatenate(scores), np.concatenate(labels)


def _of_rank(array: NDArray[Any], path: Path, rank: int) -> NDArray[Any]:
    if array.ndim != rank:
        raise TransilError(f"{path}: expected {rank} dimension(s), found shape {array.shape}")
    return array


def _method(folder: Path) -> str | None:
    """`lucir` from `logits_lucir_s10` or `bic_models_lucir_s10`, the folder or the one above."""
    for name in (folder.resolve().name, folder.resolve().parent.name):
        if match := re.fullmatch(r"(?:logits|bic_models)_(.+)_s\d+", name):
            return match[1]
    return None


def _read_pairs(path: Path, groups: int, wanted: int) -> parameters.Pairs:
    state = load_safely(path)
    alpha, beta = [], []
    try:
        for k in range(groups):
            alpha.append(float(to_numpy(state[f"bias_layers.{k}.alpha"]).item()))
            beta.append(float(to_numpy(state[f"bias_layers.{k}.beta"]).item()))
    except (KeyError, TypeError, ValueError, RuntimeError):
        raise TransilError(
            f"{path}: expected 'bias_layers.{len(beta)}.alpha' and '.beta' with one number each; "
            f"a file of state {groups - 1} (from 0) has {groups} pairs"
        ) from None
    if not np.isfinite([alpha, beta]).all():
        raise TransilError(f"{path}: a parameter is NaN or infinite")
    return parameters.Pairs(np.array(alpha[-wanted:]), np.array(beta[-wanted:]))

"""The layout in which the paper's authors released scores and parameters (DKT-for-CIL).

Scores: `{logits|labels}_{val|tst}_{t}_{u}.ckpt`, the model of state t on the images of group u,
both counted from 0. Labels are authoritative: row order and u are not (in the released LwF
files some rows sit in another group's file). Parameters: `bic_model_{t}.ckpt`, a state dict of
`bias_layers.{k}.alpha` and `.beta`.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transil.arrays import to_numpy
from transil.correction.bank import Bank, Reference, Transfer
from transil.correction.parameters import Pairs
from transil.correction.registry import get_correction
from transil.errors import TransilError
from transil.files import digest, sha256
from transil.interop.torch_files import load_safely, load_tensor
from transil.provenance import versions
from transil.schedule import Schedule
from transil.scores import ScoreStore

SPLITS = {"val": "val", "tst": "test"}
SCORES = re.compile(r"logits_(val|tst)_([0-9]+)_([0-9]+)\.ckpt")
MODEL = re.compile(r"bic_model_([0-9]+)\.ckpt")


def import_scores(
    path: str | os.PathLike[str], *, method: str | None = None, dataset: str | None = None
) -> ScoreStore:
    """Read a folder of released scores into a store in memory.

    The schedule follows from the number of columns of each state, so groups may be of any size.
    The method is taken from a folder name such as `logits_lucir_s10` where it is not given.
    """
    folder = _folder_with(
        Path(path), SCORES, "logits_{val|tst}_{t}_{u}.ckpt (nor scores_SPLIT_STATE.npy or .pt)"
    )
    found: dict[str, dict[int, set[int]]] = {}
    for name in os.listdir(folder):
        if match := SCORES.fullmatch(name):
            split, state, group = match[1], int(match[2]), int(match[3])
            found.setdefault(split, {}).setdefault(state, set()).add(group)
    arrays: dict[str, dict[int, tuple[NDArray[Any], NDArray[Any]]]] = {}
    for split, states in sorted(found.items()):
        _check_complete(folder, split, states)
        arrays[SPLITS[split]] = {t + 1: _read_state(folder, split, t) for t in sorted(states)}
    schedule = _schedule(folder, arrays)
    return ScoreStore.from_arrays(
        arrays, schedule, method=method or _method(folder), dataset=dataset, kind="logit"
    )


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


def _check_complete(folder: Path, split: str, states: dict[int, set[int]]) -> None:
    for t in range(max(states) + 1):
        for u in range(t + 1):
            for kind in ("logits", "labels"):
                name = f"{kind}_{split}_{t}_{u}.ckpt"
                if u not in states.get(t, set()) or not (folder / name).is_file():
                    raise TransilError(f"{folder}: {name} is missing; get the whole folder again")


def _read_state(folder: Path, split: str, t: int) -> tuple[NDArray[Any], NDArray[Any]]:
    scores, labels = [], []
    for u in range(t + 1):
        scores.append(_checked_rank(folder / f"logits_{split}_{t}_{u}.ckpt", 2))
        labels.append(_checked_rank(folder / f"labels_{split}_{t}_{u}.ckpt", 1))
        if scores[-1].shape[1] != scores[0].shape[1]:
            raise TransilError(
                f"{folder / f'logits_{split}_{t}_{u}.ckpt'}: {scores[-1].shape[1]} columns, "
                f"but group 0 of the same state has {scores[0].shape[1]}"
            )
    return np.concatenate(scores), np.concatenate(labels)


def _checked_rank(path: Path, rank: int) -> NDArray[Any]:
    array = to_numpy(load_tensor(path), str(path))
    if array.ndim != rank:
        raise TransilError(f"{path}: expected {rank} dimension(s), found shape {array.shape}")
    return array


def _schedule(folder: Path, arrays: dict[str, dict[int, tuple[Any, Any]]]) -> Schedule:
    """Group sizes: how many columns each state adds; both splits must agree."""
    columns = {split: [s.shape[1] for s, _ in states.values()] for split, states in arrays.items()}
    longest = max(columns.values(), key=len)
    for split, counts in columns.items():
        if counts != longest[: len(counts)]:
            raise TransilError(
                f"{folder}: the states of split '{split}' have {counts} columns, another has "
                f"{longest}; the two are not of one model"
            )
    sizes = np.diff([0, *longest]).tolist()
    if min(sizes) < 1:
        t = int(np.argmin(sizes))
        raise TransilError(
            f"{folder}: state {t} has {longest[t]} columns, no more than the state before it; "
            "scores must have one column per class seen so far"
        )
    return Schedule.from_sizes(sizes)


def _method(folder: Path) -> str | None:
    """`lucir` from `logits_lucir_s10` or `bic_models_lucir_s10`, the folder or the one above."""
    for name in (folder.resolve().name, folder.resolve().parent.name):
        if match := re.fullmatch(r"(?:logits|bic_models)_(.+)_s\d+", name):
            return match[1]
    return None


def _read_pairs(path: Path, groups: int, wanted: int) -> Pairs:
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
    return Pairs(np.array(alpha[-wanted:]), np.array(beta[-wanted:]))

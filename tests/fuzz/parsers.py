"""The readers of files, each as a function of bytes from which only TransilError may leave.

They are called by `guided.py`, which looks for inputs that reach new code, and with the inputs in
`corpus/` by every run of the tests. Each imports what it needs when it is first called.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import pickle
import shutil
import tempfile
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from transil.errors import TransilError

CORPUS = Path(__file__).parent / "corpus"


def check(name: str, raw: bytes) -> None:
    """Read bytes as that kind of file: whatever leaves, but for TransilError, is a finding."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with contextlib.suppress(TransilError):
            PARSERS[name](raw)


@cache
def _folder(name: str) -> Path:
    """A folder in memory, if there is one, for the file that is read."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = tempfile.mkdtemp(prefix=f"transil-{name}-", dir=memory)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _file(name: str, raw: bytes) -> Path:
    path = _folder(name.split(".")[0]) / name
    path.write_bytes(raw)
    return path


def read_bank(raw: bytes) -> None:
    from transil import load_bank
    from transil.correction.bank_json import bank_to_json

    bank = load_bank(_file("bank.json", raw))
    bank_to_json(bank)
    for state in range(1, min(bank.schedule.states, 20) + 1):
        bank.applied(state)


def read_any(raw: bytes) -> None:
    """A bank for any schedule, made that of one, measured and applied; or one that is made so."""
    from transil.correction.bank_json import bank_to_json, open_to_json
    from transil.correction.open_bank import OpenBank
    from transil.correction.shipped import find_bank

    bank = find_bank(_file("any.json", raw))
    if isinstance(bank, OpenBank):
        open_to_json(bank)
        bank = bank.for_schedule([4, 2, 2])
    scores = _scores()
    bank.correct(scores, 3)
    made = bank.like(scores, 3)
    bank_to_json(made)
    made.uncertainty(3)


@cache
def _scores() -> Any:
    import numpy as np

    return np.random.default_rng(0).normal(size=(80, 8))


def read_store(raw: bytes) -> None:
    from transil import ScoreStore

    store = ScoreStore.open(_file("store.json", raw).parent)
    for split, state in store:
        store.has(split, state)
    store.fingerprint()


def read_tensors(raw: bytes) -> None:
    """A data file of a store, with a manifest that agrees with it."""
    from transil.schedule import Schedule
    from transil.scores.data_files import FileEntry, checked_scores, read_data

    path = _file("tensors.safetensors", raw)
    checksum = hashlib.sha256(raw).hexdigest()
    entry = FileEntry(path.name, 2, 4, "float32", len(raw), checksum)
    scores, labels = read_data(path, entry)
    checked_scores(scores, labels, Schedule.from_sizes([2, 2]), 2, "test")


def read_results(raw: bytes) -> None:
    from transil.experiment.results import Results

    folder = _file("results.json", raw).parent
    Results.load(folder).seen_from(folder, "elsewhere")


def read_recipe(raw: bytes) -> None:
    from transil.experiment.schedules import load_any

    load_any(str(_file("recipe.yaml", raw)))


def read_config(raw: bytes) -> None:
    """The settings of a training."""
    from transil.engine.recipes import resolve

    resolve(recipe=str(_file("config.yaml", raw))).to_dict()


def read_list(raw: bytes) -> None:
    from transil.data.sources.lists import ListSource

    source = ListSource(_file("train.lst", raw).parent)
    source.path("train", 0)
    source.where("train", 0)


def read_pickle(raw: bytes) -> None:
    """A file of CIFAR-100: the first byte says which of the three."""
    from transil.data.sources.cifar import CifarSource

    folder = _folder("pickle")
    good = _cifar()
    for name, content in good.items():
        (folder / name).write_bytes(content)
    name = list(good)[(raw[0] if raw else 0) % len(good)]
    (folder / name).write_bytes(raw[1:])
    source = CifarSource(folder)
    for split in source.labels:
        for _ in source.blocks(split):
            pass
    ",".join(source.class_names).encode(errors="replace")


@cache
def _cifar() -> dict[str, bytes]:
    import numpy as np

    images = {b"data": np.zeros((2, 3072), np.uint8), b"fine_labels": [0, 1]}
    names = {b"fine_label_names": [b"a", b"b"]}
    return {
        "meta": pickle.dumps(names, 2),
        "train": pickle.dumps(images, 2),
        "test": pickle.dumps(images, 2),
    }


def read_ledger(raw: bytes) -> None:
    """With a right checksum: what is remembered is shown and used."""
    from transil import Corrector, Ledger

    ledger = Ledger(_file("ledger.json", _signed(raw)))
    str(ledger)
    if sum(ledger.sizes) == 8:
        state = len(ledger.sizes)
        ledger.within(state)
        Corrector(ledger.sizes, bank="none", prior="remembered", ledger=ledger).fit(_scores())


def read_corrector(raw: bytes) -> None:
    """With a right checksum: it corrects, and is written again."""
    import numpy as np

    from transil import Corrector

    corrector = Corrector.load(_file("corrector.json", _signed(raw)))
    str(corrector)
    with np.errstate(all="ignore"):
        corrector.predict(np.resize(_scores(), (4, corrector.n_features_in_)))
    corrector.save(_folder("corrector") / "again.json")


def _signed(raw: bytes) -> bytes:
    from fuzz.mutate import signed

    return signed(raw.decode("utf-8", "replace")).encode("utf-8", "surrogatepass")


def read_classes(raw: bytes) -> None:
    """A list of class names: the first byte says whether it is JSON."""
    from transil.data.class_lists import find_classes, read_names

    name = "classes.json" if raw[:1] == b"{" or raw[:1] == b"[" else "classes.txt"
    path = _file(name, raw)
    for text in (f"@{path}", f"@{path}:a"):
        with contextlib.suppress(TransilError):
            find_classes(read_names(text), ["cat", "dog", "/a/attic", "A b"], "it")


def read_shares(raw: bytes) -> None:
    """Class frequencies that are given."""
    import numpy as np

    from transil.adaptation.priors import Situation, find_prior, with_newest
    from transil.cli.advise import read_prior

    group = np.repeat([0, 1, 2], [4, 2, 2])
    given = read_prior(str(_file("shares.json", raw)))
    situation = Situation(group, np.full(8, 1 / 8))
    prior = find_prior(given, situation, list(range(8)))
    assert np.isfinite(prior.shares).all()
    with_newest(prior, situation, 0.3)


def read_table(raw: bytes) -> None:
    from transil.scores.tables import check_table, read_table

    path = _file("table.csv", raw)
    table = read_table(path)
    check_table(table, path, [2, 3, 4])
    table.with_scores(table.scores)


PARSERS: dict[str, Callable[[bytes], None]] = {
    "bank": read_bank,
    "any": read_any,
    "store": read_store,
    "tensors": read_tensors,
    "results": read_results,
    "recipe": read_recipe,
    "config": read_config,
    "list": read_list,
    "pickle": read_pickle,
    "table": read_table,
    "ledger": read_ledger,
    "corrector": read_corrector,
    "classes": read_classes,
    "shares": read_shares,
}

"""Findings: files of the user, surroundings, values of the wrong type, pipes, escapes, strangers."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from fuzz.boxes import Case
from fuzz.cases import AGAIN, FAMILIES, STUDY, TRAIN
from fuzz.finding import at, changes, finding, links, pipe, together, writes
from fuzz.mutate import DIGITS, place_as


def kept() -> Iterator[Case]:
    mine = (
        "figures/figure-architecture.png",
        "figures/gains-old.svg",
        "tables/table-ablation.tex",
        "tables/table-1-notes.md",
        "figures/notes.txt",
        "report.css",
    )
    spoil = together(*(writes(f"new/{name}", "mine") for name in mine))
    kept = tuple(f"new/{name}" for name in mine)
    yield finding(
        "report beside my figures",
        "report results -o new",
        "results",
        spoil,
        outputs="new",
        must="accepted",
        keeps=kept,
    )
    yield finding(
        "report over my page",
        "report results -o new",
        "results",
        writes("new/report.html", "mine"),
        outputs="new",
        keeps=("new/report.html",),
    )
    yield finding(
        "report over my table",
        "report results -o new",
        "results",
        writes("new/tables/table-1.md", "mine"),
        outputs="new",
        keeps=("new/tables/table-1.md",),
    )
    for line, needs, lock, outputs in (
        (AGAIN, "run", "run/.run.lock", "run"),
        (TRAIN, "training.yaml", "new/.run.lock", "new"),
        (
            "import-scores numpy --format numpy -o store",
            "numpy store",
            "store/.store.lock",
            "store",
        ),
        ("import-scores numpy --format numpy -o new", "numpy", "new/.store.lock", "new"),
        (STUDY, "experiment.yaml done", "done/.experiment.lock", "done"),
    ):
        yield finding(f"{lock} is a link", line, needs, links(lock), outputs=outputs, must="either")
        yield finding(f"{lock} is a pipe", line, needs, pipe(lock), outputs=outputs, must="either")
    for text in (
        '{"format": "mine"}',
        "[1]",
        "{}",
        '{"format": "transil-scores", "version": 99}',
        "mine",
    ):
        yield finding(
            f"scores over a store.json of {text}",
            "import-scores numpy --format numpy -o new",
            "numpy",
            writes("new/store.json", text),
        )
    for line, needs in (
        ("import-scores numpy --format numpy -o", "numpy"),
        ("fit store -o", "store"),
        ("data convert images", "images"),
        ("report results -o", "results"),
        ("run experiment.yaml --plan -o", "experiment.yaml"),
        ("correct scores.npy --bank bank.json -o", "scores.npy bank.json"),
        ("predict run photo.png -o", "run photo.png"),
        (f"train --data {DIGITS[:9]} --recipe ft-tiny -o", ""),
        ("import-bank released --classes 6 -o", "released"),
        ("transfer bank.json -o", "bank.json"),
        ("report results --markdown", "results"),
        ("evaluate store --figure", "store"),
        ("data show images --sheet", "images"),
        ("data cache --cache-dir", ""),
    ):
        made = finding(
            f"an output without a name: {line.split()[0]} {line.split()[-1]}", line, needs, None
        )
        yield Case(made.name, (*made.words, ""), made.needs, None, must="refused")


def surroundings() -> Iterator[Case]:
    lines = {
        "evaluate": ("evaluate store", "store", ""),
        "fit": ("fit store -o new", "store", "new"),
        "methods": ("methods --json", "", ""),
        "show": ("bank show bank.json", "bank.json", ""),
        "cache": ("data cache", "", ""),
        "data": ("data show images --json", "images", ""),
        "predict": ("predict run photo.png --json", "run photo.png", ""),
        "train": (AGAIN, "run", "run"),
        "report": ("report results -o new", "results", "new"),
    }
    orders: dict[str, dict[str, Any]] = {
        "closed stdout": {"closed": [1]},
        "closed stdout and stderr": {"closed": [1, 2]},
        "closed stdin": {"closed": [0]},
        "a stray WORLD_SIZE": {"env": {"WORLD_SIZE": "2", "RANK": "0"}},
        "WORLD_SIZE no number": {"env": {"WORLD_SIZE": "x", "RANK": "y", "LOCAL_RANK": ""}},
        "a bogus MPLBACKEND": {"env": {"MPLBACKEND": "bogus"}},
        "no terminal": {"env": {"TERM": "", "COLUMNS": "x", "LINES": "-1"}},
        "a terminal of one column": {"env": {"COLUMNS": "1"}},
        "another encoding": {"env": {"PYTHONIOENCODING": "ascii", "LC_ALL": "C", "LANG": ""}},
    }
    for what, order in orders.items():
        for name, (line, needs, outputs) in lines.items():
            # Where what is printed is the result, it must be told that nobody can read it.
            lost = 1 in order.get("closed", ()) and " -o " not in line
            # Whoever starts several processes gives right numbers.
            wrong = what == "WORLD_SIZE no number" and name == "train"
            must = "either" if lost or wrong else "accepted"
            yield finding(
                f"{what}, {name}", line, needs, None, outputs=outputs, must=must, order=order
            )
    relative = {"env": {"TRANSIL_CACHE": "kept.txt"}}
    yield finding(
        "a cache that is a file", "data show images --json", "images", None, order=relative
    )


def values() -> Iterator[Case]:
    odd: tuple[Any, ...] = (None, 5, "x", [], {}, [5], {"a": 5}, True, 1e308, int(DIGITS[:400]))
    results = (
        "name",
        "facts",
        "cells",
        "details",
        "pairs",
        "ablations",
        "singles",
        "joints",
        "choices",
        "failures",
    )
    for key in results:
        for i, value in enumerate(odd):
            yield finding(
                f"results, {key}, odd {i}",
                "report results -o new",
                "results",
                changes("results/results.json", at(key, value)),
                outputs="new",
                must="either",
            )
    cell = ("setting", "kind", "name", "accuracy", "average", "gain", "run", "bank", "references")
    for key in cell:
        for i, value in enumerate(odd[:6]):
            yield finding(
                f"results, cell {key}, odd {i}",
                "report results -o new",
                "results",
                changes("results/results.json", at("cells", 0, key, value)),
                outputs="new",
                must="either",
            )
    for line, needs, file, keys in (
        (AGAIN, "run", "run/run.json", ("config", "data", "versions", "format", "version")),
        ("predict run photo.png", "run photo.png", "run/run.json", ("config", "data")),
        (
            "predict run photo.png",
            "run photo.png",
            "run/label-map.json",
            ("schedule", "labels", "colours"),
        ),
        (
            "evaluate store",
            "store",
            "store/store.json",
            ("schedule", "splits", "method", "dataset", "score_kind"),
        ),
        (
            "data show converted --json",
            "converted",
            "converted/meta.json",
            ("name", "class_names", "splits", "skipped", "size"),
        ),
    ):
        for key in keys:
            for i, value in enumerate(odd):
                yield finding(
                    f"{line.split()[0]}, {file}, {key}, odd {i}",
                    line,
                    needs,
                    changes(file, at(key, value)),
                    outputs="run" if "train" in line else "",
                    must="either",
                )


def pipes() -> Iterator[Case]:
    for family in FAMILIES.values():
        for target in family:
            if target.file.endswith(".jsonl") or "reading" in target.file:
                continue
            for what in ("pipe", "device"):
                case = target.case("place", 0)
                if target.ways == "beside":
                    continue

                def spoil(
                    folder: Path, random: Random, pattern: str = target.file, what: str = what
                ) -> None:
                    place_as(what)(random.choice(sorted(folder.glob(pattern))), random)

                yield Case(
                    f"finding : a {what} : {target.name}",
                    case.words,
                    case.needs,
                    spoil,
                    case.outputs,
                )


def escapes() -> Iterator[Case]:
    bad = "\x1b]0;owned\x07\x1b[31m\x9b2J\u202e"
    lines = (
        ("evaluate store", "store", "store/store.json", at("dataset", bad)),
        ("evaluate store", "store", "store/store.json", at("method", bad)),
        ("evaluate store --csv", "store", "store/store.json", at("dataset", bad)),
        ("evaluate store --json", "store", "store/store.json", at("dataset", bad)),
        ("bank show bank.json", "bank.json", "bank.json", at("references", 0, "name", bad)),
        ("bank show bank.json", "bank.json", "bank.json", at("references", 0, "source", bad)),
        ("bank show bank.json", "bank.json", "bank.json", at("method", bad)),
        (
            "bank show bank.json",
            "bank.json",
            "bank.json",
            at("provenance", {bad: bad, "datasets": [bad]}),
        ),
        (
            "bank compare bank.json both.json",
            "bank.json both.json",
            "bank.json",
            at("settings", {bad: bad}),
        ),
        (
            "predict run photo.png",
            "run photo.png",
            "run/label-map.json",
            at("labels", 0, "class", bad),
        ),
        (
            "predict run photo.png --csv",
            "run photo.png",
            "run/label-map.json",
            at("labels", 0, "class", bad),
        ),
        (
            "data show converted --sheet new.png",
            "converted",
            "converted/meta.json",
            at("class_names", [bad, "x"]),
        ),
        (
            "data show converted --sheet new.png",
            "converted",
            "converted/meta.json",
            at("name", bad),
        ),
        ("report results -o new", "results", "results/results.json", at("name", bad)),
        (
            "report results -o new",
            "results",
            "results/results.json",
            at("cells", 0, "name", bad),
        ),
        (AGAIN, "run", "run/label-map.json", at("labels", 0, "class", bad)),
    )
    for i, (line, needs, file, change) in enumerate(lines):
        yield finding(
            f"escapes {i} in {file}",
            line,
            needs,
            changes(file, change),
            outputs="new new.png run",
            must="either",
        )

    def folders(folder: Path, random: Random) -> None:
        os.rename(folder / "images/train/class0", folder / f"images/train/{bad}")
        os.rename(folder / "images/test/class0", folder / f"images/test/{bad}")

    yield finding(
        "escapes in the name of a class",
        "data show images --sheet new.png",
        "images",
        folders,
        outputs="new.png",
        must="either",
    )
    yield finding(
        "escapes in a class that is trained",
        "train --data images --recipe ft-tiny --states 1 -o new train.epochs=1",
        "images",
        folders,
        outputs="new",
        must="either",
    )


def remembered() -> Iterator[Case]:
    """Ledgers and correctors with a right checksum, whose values do not go together."""
    entry = {"rows": 10, "within": [0.25] * 4, "groups": [1.0]}
    states: tuple[Any, ...] = (
        {"1": entry | {"groups": []}},
        {"1": entry | {"within": [2.0, -1.0, 0.0, 0.0]}},
        {"1": entry | {"rows": -10}},
        {"01": entry},
        {"\u0661": entry},
        {DIGITS: entry},
    )
    ledgers = [("states", value) for value in states]
    ledgers += [("sizes", value) for value in ([], [0], [2**62], [-4, 2, 2])]
    for i, (key, value) in enumerate(ledgers):
        for line in (
            "ledger show ledger.json",
            "ledger record traffic.npy --schedule 4,2,2 --state 3 --ledger ledger.json",
        ):
            spoil = changes("ledger.json", at(key, value))
            name = f"{line.split(' ')[1]}, a ledger with other {key} {i}"
            yield finding(name, line, "ledger.json traffic.npy", spoil)
    correctors: tuple[tuple[str, Any], ...] = (
        ("classes", ["a", *range(1, 8)]),
        ("classes", ["a", "b"]),
        ("rows", -1),
        ("predicted", []),
        ("expected", [0.5]),
        ("prior", {"name": "x", "says": "x", "shares": [1.0]}),
        ("schedule", []),
        ("state", 9),
    )
    for i, (key, value) in enumerate(correctors):
        yield finding(
            f"a corrector with other {key} {i}",
            "correct traffic.npy --bank mine.json -o new.npy",
            "mine.json traffic.npy",
            changes("mine.json", at(key, value)),
        )


def shares() -> Iterator[Case]:
    advise = "advise traffic.npy --schedule 4,2,2 --prior shares.json"
    for i, given in enumerate(
        ([1e308] * 8, {str(c): 1e308 for c in range(8)}, [0] * 8, [-1, 2, 2])
    ):
        spoil = writes("shares.json", json.dumps(given))
        yield finding(f"shares that cannot be, {i}", advise, "traffic.npy", spoil)
    yield finding(
        "scores that are all alike",
        "advise traffic.npy --schedule 4,2,2",
        "",
        lambda folder, _: np.save(folder / "traffic.npy", np.full((192, 8), 3e38, np.float32)),
        says=("all scores of a row are equal",),
    )
    yield finding(
        "a picture of mine where a sheet would go",
        "data show images",
        "images",
        writes("images-sheet.png", "mine"),
    )


def foreign() -> Iterator[Case]:
    names = (
        ".DS_Store",
        "._x",
        "Thumbs.db",
        "notes.txt",
        "state-x.safetensors",
        ".transil-abc.tmp",
    )
    for line, needs, folders, outputs in (
        (AGAIN, "run", ("run", "run/checkpoints", "run/scores", "run/scores/ft"), "run"),
        ("predict run photo.png", "run photo.png", ("run", "run/checkpoints", "run/scores"), ""),
        ("evaluate run", "run", ("run", "run/scores"), ""),
        ("evaluate store", "store", ("store",), ""),
        (
            "data show images --json",
            "images",
            ("images", "images/train", "images/train/class0"),
            "",
        ),
        ("data cache --cache-dir kept", "kept", ("kept",), ""),
        (STUDY, "experiment.yaml done", ("done", "done/runs", "done/fits"), "done"),
        ("report results -o new", "results", ("results",), "new"),
    ):
        for folder in folders:
            spoil = together(*(writes(f"{folder}/{name}", "x") for name in names[:4]))
            yield finding(
                f"foreign files in {folder}, {line.split(' -')[0]}",
                line,
                needs,
                spoil,
                outputs=outputs,
                must="accepted",
            )

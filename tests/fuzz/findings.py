"""What people have found, by hand: each is a case, and none may come back."""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import shutil
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from fuzz import mutate_arrays as arrays
from fuzz.boxes import Case, Spoil
from fuzz.cases import AGAIN, FAMILIES, STUDY, TRAIN
from fuzz.mutate import DIGITS, RAW_YAML, alias_bomb, place_as


def _case(name: str, line: str, needs: str, spoil: Spoil | None, *, outputs: str = "", must: Any = "refused",
          **more: Any) -> Case:  # fmt: skip
    return Case(f"finding : {name}", tuple(line.split(" ")), tuple(needs.split()), spoil,
                tuple(outputs.split()), must, **more)  # fmt: skip


def _writes(path: str, content: str | bytes) -> Spoil:
    """A file (and its folders) with that content."""

    def spoil(folder: Path, random: Random) -> None:
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        raw = content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
        place.write_bytes(raw)

    return spoil


def _json(path: str, change: Any) -> Spoil:
    """A JSON file after `change(data)`, which gives other data or None."""

    def spoil(folder: Path, random: Random) -> None:
        data = json.loads((folder / path).read_text())
        made = change(data)
        (folder / path).write_text(json.dumps(data if made is None else made))

    return spoil


def _set(*way: Any) -> Any:
    """A change: the value at `way`, whose last is the new one."""
    *path, last, value = way

    def change(data: Any) -> None:
        for key in path:
            data = data[key]
        data[last] = value

    return change


def _links(place: str, to: str = "kept.txt") -> Spoil:
    def spoil(folder: Path, random: Random) -> None:
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).unlink(missing_ok=True)
        os.symlink(os.path.relpath(folder / to, (folder / place).parent), folder / place)

    return spoil


def _all(*spoils: Spoil) -> Spoil:
    def spoil(folder: Path, random: Random) -> None:
        for one in spoils:
            one(folder, random)

    return spoil


# -- 1: pickles --------------------------------------------------------------------------------


def _pickles() -> Iterator[Case]:
    hidden = arrays._HiddenObjects()
    pixels, labels = np.zeros((4, 3072), np.uint8), [0, 1, 2, 3]
    address = (0x4141414141414141).to_bytes(8, "little")
    crafted = {
        "names of hidden objects": ("batches.meta", {b"label_names": arrays._Crafted(hidden, address * 4, (4,))}),
        "a name that is such an array": ("batches.meta", {b"label_names": [arrays._Crafted(hidden, address, ())] * 4}),
        "labels of hidden objects": ("test_batch", {b"data": pixels, b"labels": arrays._Crafted(hidden, address * 4, (4,))}),
        "pixels of hidden objects": ("test_batch", {b"data": arrays._Crafted(hidden, address * 4, (4,)), b"labels": labels}),
        "a list with such an array": ("data_batch_1", {b"data": pixels, b"labels": [arrays._Crafted(hidden, address, ())] * 4}),
        "a dtype alone": ("batches.meta", {b"label_names": [hidden] * 4}),
        "more pixels than bytes": ("test_batch", {b"data": arrays._Crafted(np.dtype("u1"), b"x", (2**40, 3072)), b"labels": labels}),
        "code": ("test_batch", {b"data": arrays._Runs(), b"labels": labels}),
        "code as a name": ("batches.meta", {b"label_names": [arrays._Runs()] * 4}),
        "a loop": ("batches.meta", {b"label_names": _loop()}),
        "a very long number": ("test_batch", {b"data": pixels, b"labels": [10**5000] * 4}),
        "labels of 70 bits": ("test_batch", {b"data": pixels, b"labels": [2**70] * 4}),
        "labels below zero": ("test_batch", {b"data": pixels, b"labels": [-1] * 4}),
    }  # fmt: skip
    for name, (file, data) in crafted.items():
        raw = pickle.dumps(data, 2)
        yield _case(f"pickle, {name}", "data show cifar --json", "cifar", _writes(f"cifar/{file}", raw))
    raws = {
        "frames of a petabyte": b"\x80\x04\x95" + (2**50).to_bytes(8, "little") + b"}.",
        "a text of four gigabytes": b"\x80\x02T\xff\xff\xff\x7fabc.",
        "a memo at the end of memory": b"\x80\x02}r\xff\xff\xff\xff.",
        "a stack that is empty": b"\x80\x02.", "only marks": b"(" * 100_000, "tuples of tuples": b"\x80\x02" + b"]\x85" * 10 + b".",
        "nested without an end": b"\x80\x02" + b"(" * 50_000 + b"l" * 50_000 + b".",
        "tuples, deep": b"\x80\x02]" + b"\x85" * 200_000 + b".",
        "another extension": b"\x80\x02\x82\x01.", "a persistent name": b"\x80\x02X\x01\0\0\0aQ.",
    }  # fmt: skip
    for name, raw in raws.items():
        yield _case(f"pickle, {name}", "data show cifar --json", "cifar", _writes("cifar/test_batch", raw))


def _loop() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


# -- 2 and 3: files of the user ----------------------------------------------------------------


def _kept() -> Iterator[Case]:
    mine = ("figures/figure-architecture.png", "figures/gains-old.svg", "tables/table-ablation.tex",
            "tables/table-1-notes.md", "figures/notes.txt", "report.css")  # fmt: skip
    spoil = _all(*(_writes(f"new/{name}", "mine") for name in mine))
    kept = tuple(f"new/{name}" for name in mine)
    yield _case("report beside my figures", "report results -o new", "results", spoil, outputs="new",
                must="accepted", keeps=kept)  # fmt: skip
    yield _case("report over my page", "report results -o new", "results", _writes("new/report.html", "mine"),
                outputs="new", keeps=("new/report.html",))  # fmt: skip
    yield _case("report over my table", "report results -o new", "results", _writes("new/tables/table-1.md", "mine"),
                outputs="new", keeps=("new/tables/table-1.md",))  # fmt: skip
    for line, needs, lock, outputs in (
        (AGAIN, "run", "run/.run.lock", "run"),
        (TRAIN, "training.yaml", "new/.run.lock", "new"),
        ("import-scores numpy --format numpy -o store", "numpy store", "store/.store.lock", "store"),
        ("import-scores numpy --format numpy -o new", "numpy", "new/.store.lock", "new"),
        (STUDY, "experiment.yaml done", "done/.experiment.lock", "done"),
    ):
        yield _case(f"{lock} is a link", line, needs, _links(lock), outputs=outputs, must="either")
        yield _case(f"{lock} is a pipe", line, needs, _pipe(lock), outputs=outputs, must="either")
    for text in ('{"format": "mine"}', "[1]", "{}", '{"format": "transil-scores", "version": 99}', "mine"):
        yield _case(f"scores over a store.json of {text}", "import-scores numpy --format numpy -o new", "numpy",
                    _writes("new/store.json", text))  # fmt: skip
    for line, needs in (
        ("import-scores numpy --format numpy -o", "numpy"), ("fit store -o", "store"), ("data convert images", "images"),
        ("report results -o", "results"), ("run experiment.yaml --plan -o", "experiment.yaml"),
        ("correct scores.npy --bank bank.json -o", "scores.npy bank.json"), ("predict run photo.png -o", "run photo.png"),
        (f"train --data {DIGITS[:9]} --recipe ft-tiny -o", ""), ("import-bank released --classes 6 -o", "released"),
        ("transfer bank.json -o", "bank.json"), ("report results --markdown", "results"), ("evaluate store --figure", "store"),
        ("data show images --sheet", "images"), ("data cache --cache-dir", ""),
    ):  # fmt: skip
        made = _case(f"an output without a name: {line.split()[0]} {line.split()[-1]}", line, needs, None)
        yield Case(made.name, (*made.words, ""), made.needs, None, must="refused")


def _pipe(place: str) -> Spoil:
    def spoil(folder: Path, random: Random) -> None:
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).unlink(missing_ok=True)
        os.mkfifo(folder / place)

    return spoil


# -- 4: images ---------------------------------------------------------------------------------


def _ghostscript(folder: Path, random: Random) -> None:
    """A program of that name which tells that it was started, and EPS under the names of images."""
    program = folder / "bin" / "gs"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ntouch {folder}/started\n")
    program.chmod(0o755)
    for path in [*folder.glob("images/train/*/*.png"), *folder.glob("photo.png")]:
        path.write_bytes(arrays.EPS)


def _images() -> Iterator[Case]:
    path = {"env": {"PATH": f"bin:{os.environ.get('PATH', '')}"}}
    for line, needs in (
        ("data show images --json", "images"), ("data convert images new", "images"),
        ("data show images --json --skip-bad", "images"), ("predict run photo.png", "run photo.png"),
        ("train --data images --recipe ft-tiny --states 1 -o new", "images"),
    ):  # fmt: skip
        yield _case(f"EPS, {line.split(' -')[0]}{' skipped' * ('skip' in line)}", line, needs, _ghostscript, order=path)


# -- 6: YAML -----------------------------------------------------------------------------------


def _yaml() -> Iterator[Case]:
    texts = {f"YAML {text[:40]!r} of {len(text)}": f"name: {text}\n" for text in RAW_YAML}
    texts |= {f"a bomb of {i!r}, {d} deep": alias_bomb(d, inside=i) for i in ("x", "{a: 1}", "1") for d in (3, 6, 9, 40)}
    texts["a bomb of merges"] = "a0: &a0 {x: 1}\n" + "\n".join(
        f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 9)}]}}" for i in range(1, 12)
    )
    texts["a list that holds itself"] = "states: &a [*a]\n"
    texts["a mapping that holds itself"] = "sets: &a {x: *a}\n"
    texts["deep blocks"] = "\n".join(" " * i + "a:" for i in range(1200))
    texts["deep lists"] = "x: " + "- " * 3000 + "1"
    texts["a key of many lines"] = "? |\n  a\n  b\n: 1\n"
    texts["a million nodes"] = "x: [" + "1," * 1_000_000 + "1]"
    texts["two documents"] = "a: 1\n---\nb: 2\n"
    texts["nothing"] = ""
    texts["a list"] = "[1, 2]"
    for name, text in texts.items():
        yield _case(f"run, {name}", "run bad.yaml -o new --plan", "", _writes("bad.yaml", text))
        yield _case(f"train, {name}", "train --recipe bad.yaml --data images --states 1 -o new", "images",
                    _writes("bad.yaml", text))  # fmt: skip


# -- 7: archives -------------------------------------------------------------------------------


def _archives() -> Iterator[Case]:
    def bomb(folder: Path, random: Random) -> None:
        (folder / "cifar-100.tar.gz").write_bytes(gzip.compress(bytes(400 << 20), 1))

    def many(folder: Path, random: Random) -> None:
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as tar:
            for i in range(20_000):
                tar.addfile(tarfile.TarInfo(f"cifar-100-python/{i}"))
        (folder / "cifar-100.tar.gz").write_bytes(gzip.compress(out.getvalue(), 1))

    def huge(name: str) -> Spoil:
        def spoil(folder: Path, random: Random) -> None:
            out = io.BytesIO()
            with tarfile.open(fileobj=out, mode="w") as tar:
                info = tarfile.TarInfo(f"cifar-100-python/{name}")
                info.size = 8 << 40
                out.write(info.tobuf(tarfile.GNU_FORMAT))
            (folder / "cifar-100.tar.gz").write_bytes(gzip.compress(out.getvalue() + bytes(1024), 1))

        return spoil

    def sparse(folder: Path, random: Random) -> None:
        info = tarfile.TarInfo("cifar-100-python/train")
        info.pax_headers = {"GNU.sparse.map": f"0,1,{1 << 40},1", "GNU.sparse.size": str(1 << 40),
                            "GNU.sparse.numblocks": "2"}  # fmt: skip
        info.size = 2
        raw = info.tobuf(tarfile.PAX_FORMAT) + b"xx".ljust(512, b"\0") + bytes(1024)
        (folder / "cifar-100.tar.gz").write_bytes(gzip.compress(raw, 1))

    for name, spoil in {
        "gzip bomb": bomb, "many members": many, "a huge train": huge("train"), "a huge readme": huge("readme"),
        "a sparse train": sparse, "nothing": _writes("cifar-100.tar.gz", b""),
        "gzip of nothing": _writes("cifar-100.tar.gz", gzip.compress(b"")),
        "gzip in gzip": _writes("cifar-100.tar.gz", gzip.compress(gzip.compress(bytes(100)))),
    }.items():  # fmt: skip
        for line in ("data show cifar-100.tar.gz --json", "data convert cifar-100.tar.gz new"):
            yield _case(f"archive, {name}, {line.split()[1]}", line, "cifar-100.tar.gz", spoil)


# -- 8: surroundings ---------------------------------------------------------------------------


def _surroundings() -> Iterator[Case]:
    lines = {
        "evaluate": ("evaluate store", "store", ""), "fit": ("fit store -o new", "store", "new"),
        "methods": ("methods --json", "", ""), "show": ("bank show bank.json", "bank.json", ""),
        "cache": ("data cache", "", ""), "data": ("data show images --json", "images", ""),
        "predict": ("predict run photo.png", "run photo.png", ""), "figure": ("evaluate store --figure new.svg", "store", "new.svg"),
        "train": (AGAIN, "run", "run"), "report": ("report results -o new", "results", "new"),
    }  # fmt: skip
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
            yield _case(f"{what}, {name}", line, needs, None, outputs=outputs, must="accepted", order=order)
    relative = {"env": {"TRANSIL_CACHE": "kept.txt"}}
    yield _case("a cache that is a file", "data show images --json", "images", None, order=relative)


# -- 9 and 10: values --------------------------------------------------------------------------


def _values() -> Iterator[Case]:
    odd: tuple[Any, ...] = (None, 5, "x", [], {}, [5], {"a": 5}, True, 1e308, int(DIGITS[:400]))
    results = ("name", "facts", "cells", "details", "pairs", "ablations", "singles", "joints", "choices", "failures")
    for key in results:
        for i, value in enumerate(odd):
            yield _case(f"results, {key}, odd {i}", "report results -o new", "results",
                        _json("results/results.json", _set(key, value)), outputs="new", must="either")  # fmt: skip
    cell = ("setting", "kind", "name", "accuracy", "average", "gain", "run", "bank", "references")
    for key in cell:
        for i, value in enumerate(odd[:6]):
            yield _case(f"results, cell {key}, odd {i}", "report results -o new", "results",
                        _json("results/results.json", _set("cells", 0, key, value)), outputs="new", must="either")  # fmt: skip
    for line, needs, file, keys in (
        (AGAIN, "run", "run/run.json", ("config", "data", "versions", "format", "version")),
        ("predict run photo.png", "run photo.png", "run/run.json", ("config", "data")),
        ("predict run photo.png", "run photo.png", "run/label-map.json", ("schedule", "labels", "colours")),
        ("evaluate store", "store", "store/store.json", ("schedule", "splits", "method", "dataset", "score_kind")),
        ("data show converted --json", "converted", "converted/meta.json", ("name", "class_names", "splits", "skipped", "size")),
    ):  # fmt: skip
        for key in keys:
            for i, value in enumerate(odd):
                yield _case(f"{line.split()[0]}, {file}, {key}, odd {i}", line, needs, _json(file, _set(key, value)),
                            outputs="run" if "train" in line else "", must="either")  # fmt: skip


def _numbers() -> Iterator[Case]:
    def copied(new: str) -> Spoil:
        def spoil(folder: Path, random: Random) -> None:
            for kind in ("scores", "labels"):
                shutil.copy(folder / f"numpy/{kind}_test_1.npy", folder / f"numpy/{kind}_{new}.npy")

        return spoil

    for new in ("test_9999999999", "test_" + "9" * 200, "test_0", "test_00", "test_-1", "test_1000000", "test_\u0663"):
        yield _case(f"a file of state {new[:20]}", "import-scores numpy --format numpy -o new", "numpy", copied(new),
                    outputs="new", must="either")  # fmt: skip

    def member(raw: bytes, name: str = "scores.npy") -> Spoil:
        def spoil(folder: Path, random: Random) -> None:
            with zipfile.ZipFile(folder / "scores.npz", "w") as file:
                file.writestr(name, raw)

        return spoil

    good = arrays.npy_bytes(np.ones((4, 8), np.float32))
    for what, raw in (("text", b"hello"), ("half", good[:90]), ("nothing", b"")):
        yield _case(f"a member of {what}", "correct scores.npz --bank bank.json -o new.npy", "bank.json", member(raw))
        yield _case(f"a member of {what}, not .npy", "correct scores.npz --bank bank.json -o new.npy", "bank.json",
                    member(raw, "scores"))  # fmt: skip
        yield _case(f"images with a member of {what}", "data show scores.npz --json", "", member(raw, "x_train"))
    for shape in arrays.HEADERS:
        if shape == "(0, 8)":
            continue
        text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}\n".encode()[:60_000]
        raw = b"\x93NUMPY\1\0" + len(text).to_bytes(2, "little") + text + bytes(128)
        yield _case(f"a shape of {shape[:30]}", "correct scores.npy --bank bank.json -o new.npy", "bank.json",
                    _writes("scores.npy", raw))  # fmt: skip
        yield _case(f"scores of shape {shape[:30]}", "import-scores numpy --format numpy -o new", "numpy",
                    _writes("numpy/scores_test_2.npy", raw))  # fmt: skip
    for digits in (DIGITS, f"-{DIGITS}", f"1e{DIGITS[:9]}"):
        yield _case(f"a bank of {digits[:9]}", "bank show bad.json", "", _writes("bad.json", digits))
        yield _case(f"an order of {digits[:9]}", f"correct scores.npy --bank bank.json --order {digits} -o new.npy",
                    "scores.npy bank.json", None)  # fmt: skip
        yield _case(f"a schedule of {digits[:9]}", f"import-scores numpy --format numpy --schedule {digits} -o new",
                    "numpy", None)  # fmt: skip
    for value in ("3e38", "-3e38"):

        def huge(folder: Path, random: Random, value: str = value) -> None:
            np.save(folder / "scores.npy", np.full((80, 8), float(value), np.float32))

        yield _case(f"scores of {value}", "correct scores.npy --bank bank.json -o new.npy", "bank.json", huge,
                    outputs="new.npy", must="either")  # fmt: skip
        yield _case(f"like scores of {value}", "transfer bank.json --like scores.npy --state 3 -o new.json",
                    "bank.json", huge)  # fmt: skip
    yield _case("a zero byte in a list", "data show lists --json", "lists images",
                _writes("lists/train.lst", "train/class0/000.png\0 0\n"))  # fmt: skip
    yield _case("a zero byte in a path", "bank show a\0b", "", None)
    yield _case("half a character in a path", "bank show \ud800", "", None)


def _tables() -> Iterator[Case]:
    head = "image," + ",".join(f"class{i}" for i in range(8)) + "\n"
    row = "1.png," + ",".join(["0.5"] * 8) + "\n"
    texts = {
        "a field of 200 KB": head + row + '"' + "x" * 200_000 + '",' + ",".join(["0.5"] * 8) + "\n",
        "a name of 200 KB": head.replace("image", "x" * 200_000) + row,
        "a quote without an end": head + row + '"' + row * 100, "zero bytes": head + row.replace("0.5", "\0"),
        "a state that is guessed from what can be read": head + row + row.replace("0.5", "x", 4),
        "cells that are empty": head + row + row.replace("0.5", ""), "only a head": head, "nothing": "",
        "columns of one name": head.replace("class1", "class0").replace("class2", "class0"),
        "rows of other lengths": head + row + "1.png,1\n",
    }  # fmt: skip
    for name, text in texts.items():
        must = "either" if name in ("a field of 200 KB", "a name of 200 KB", "columns of one name") else "refused"
        yield _case(f"table, {name}", "correct scores.csv --bank bank.json -o new.csv", "bank.json",
                    _writes("scores.csv", text), outputs="new.csv", must=must)  # fmt: skip

    def twice(folder: Path, random: Random) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pq.read_table(folder / "scores.parquet")
        pq.write_table(pa.Table.from_arrays([*table.columns, table.column(1)], [*table.column_names, "class0"]),
                       folder / "scores.parquet")  # fmt: skip

    for line in ("correct scores.parquet --bank bank.json -o new.parquet",
                 "correct scores.parquet --keep class0 --bank bank.json -o new.parquet"):  # fmt: skip
        yield _case(f"a column twice, {'kept' * ('keep' in line)}", line, "scores.parquet bank.json", twice)


# -- 11 and 12: pipes, escapes -----------------------------------------------------------------


def _pipes() -> Iterator[Case]:
    for family in FAMILIES.values():
        for target in family:
            if target.file.endswith(".jsonl") or "reading" in target.file:
                continue
            for what in ("pipe", "device"):
                case = target.case("place", 0)
                if "beside" == target.ways:
                    continue

                def spoil(folder: Path, random: Random, pattern: str = target.file, what: str = what) -> None:
                    place_as(what)(random.choice(sorted(folder.glob(pattern))), random)

                yield Case(f"finding : a {what} : {target.name}", case.words, case.needs, spoil, case.outputs)


def _escapes() -> Iterator[Case]:
    bad = "\x1b]0;owned\x07\x1b[31m\x9b2J\u202e"
    lines = (
        ("evaluate store", "store", "store/store.json", _set("dataset", bad)),
        ("evaluate store", "store", "store/store.json", _set("method", bad)),
        ("evaluate store --csv", "store", "store/store.json", _set("dataset", bad)),
        ("evaluate store --json", "store", "store/store.json", _set("dataset", bad)),
        ("bank show bank.json", "bank.json", "bank.json", _set("references", 0, "name", bad)),
        ("bank show bank.json", "bank.json", "bank.json", _set("references", 0, "source", bad)),
        ("bank show bank.json", "bank.json", "bank.json", _set("method", bad)),
        ("bank show bank.json", "bank.json", "bank.json", _set("provenance", {bad: bad, "datasets": [bad]})),
        ("bank compare bank.json both.json", "bank.json both.json", "bank.json", _set("settings", {bad: bad})),
        ("predict run photo.png", "run photo.png", "run/label-map.json", _set("labels", 0, "class", bad)),
        ("predict run photo.png --csv", "run photo.png", "run/label-map.json", _set("labels", 0, "class", bad)),
        ("data show converted --sheet new.png", "converted", "converted/meta.json", _set("class_names", [bad, "x"])),
        ("data show converted --sheet new.png", "converted", "converted/meta.json", _set("name", bad)),
        ("report results -o new", "results", "results/results.json", _set("name", bad)),
        ("report results -o new", "results", "results/results.json", _set("cells", 0, "name", bad)),
        (AGAIN, "run", "run/label-map.json", _set("labels", 0, "class", bad)),
    )
    for i, (line, needs, file, change) in enumerate(lines):
        yield _case(f"escapes {i} in {file}", line, needs, _json(file, change), outputs="new new.png run", must="either")

    def folders(folder: Path, random: Random) -> None:
        os.rename(folder / "images/train/class0", folder / f"images/train/{bad}")
        os.rename(folder / "images/test/class0", folder / f"images/test/{bad}")

    yield _case("escapes in the name of a class", "data show images --sheet new.png", "images", folders,
                outputs="new.png", must="either")  # fmt: skip
    yield _case("escapes in a class that is trained", "train --data images --recipe ft-tiny --states 1 -o new train.epochs=1",
                "images", folders, outputs="new", must="either")  # fmt: skip


# -- 14: what others leave ---------------------------------------------------------------------


def _foreign() -> Iterator[Case]:
    names = (".DS_Store", "._x", "Thumbs.db", "notes.txt", "state-x.safetensors", ".transil-abc.tmp")
    for line, needs, folders, outputs in (
        (AGAIN, "run", ("run", "run/checkpoints", "run/scores", "run/scores/ft"), "run"),
        ("predict run photo.png", "run photo.png", ("run", "run/checkpoints", "run/scores"), ""),
        ("evaluate run", "run", ("run", "run/scores"), ""),
        ("evaluate store", "store", ("store",), ""),
        ("data show images --json", "images", ("images", "images/train", "images/train/class0"), ""),
        ("data cache --cache-dir kept", "kept", ("kept",), ""),
        (STUDY, "experiment.yaml done", ("done", "done/runs", "done/fits"), "done"),
        ("report results -o new", "results", ("results",), "new"),
    ):
        for folder in folders:
            spoil = _all(*(_writes(f"{folder}/{name}", "x") for name in names[:4]))
            yield _case(f"foreign files in {folder}, {line.split(' -')[0]}", line, needs, spoil, outputs=outputs,
                        must="accepted")  # fmt: skip


GROUPS = {
    "pickles": _pickles, "kept": _kept, "images": _images, "yaml": _yaml, "archives": _archives,
    "surroundings": _surroundings, "values": _values, "numbers": _numbers, "tables": _tables,
    "pipes": _pipes, "escapes": _escapes, "foreign": _foreign,
}  # fmt: skip
FINDINGS = {case.name: case for group in GROUPS.values() for case in group()}

"""Findings: pickles, images, YAML, archives, arrays, tables."""

from __future__ import annotations

import gzip
import io
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
from fuzz.finding import finding, writes
from fuzz.mutate import DIGITS, RAW_YAML, alias_bomb


def pickles() -> Iterator[Case]:
    hidden = arrays._HiddenObjects()
    pixels, labels = np.zeros((4, 3072), np.uint8), [0, 1, 2, 3]
    address = (0x4141414141414141).to_bytes(8, "little")
    crafted = {
        "names of hidden objects": (
            "batches.meta",
            {b"label_names": arrays._Crafted(hidden, address * 4, (4,))},
        ),
        "a name that is such an array": (
            "batches.meta",
            {b"label_names": [arrays._Crafted(hidden, address, ())] * 4},
        ),
        "labels of hidden objects": (
            "test_batch",
            {b"data": pixels, b"labels": arrays._Crafted(hidden, address * 4, (4,))},
        ),
        "pixels of hidden objects": (
            "test_batch",
            {b"data": arrays._Crafted(hidden, address * 4, (4,)), b"labels": labels},
        ),
        "a list with such an array": (
            "data_batch_1",
            {b"data": pixels, b"labels": [arrays._Crafted(hidden, address, ())] * 4},
        ),
        "a dtype alone": ("batches.meta", {b"label_names": [hidden] * 4}),
        "more pixels than bytes": (
            "test_batch",
            {b"data": arrays._Crafted(np.dtype("u1"), b"x", (2**40, 3072)), b"labels": labels},
        ),
        "code": ("test_batch", {b"data": arrays._Runs(), b"labels": labels}),
        "code as a name": ("batches.meta", {b"label_names": [arrays._Runs()] * 4}),
        "a loop": ("batches.meta", {b"label_names": _loop()}),
        "a very long number": ("test_batch", {b"data": pixels, b"labels": [10**5000] * 4}),
        "labels of 70 bits": ("test_batch", {b"data": pixels, b"labels": [2**70] * 4}),
        "labels below zero": ("test_batch", {b"data": pixels, b"labels": [-1] * 4}),
    }
    for name, (file, data) in crafted.items():
        raw = pickle.dumps(data, 2)
        yield finding(
            f"pickle, {name}", "data show cifar --json", "cifar", writes(f"cifar/{file}", raw)
        )
    raws = {
        "frames of a petabyte": b"\x80\x04\x95" + (2**50).to_bytes(8, "little") + b"}.",
        "a text of four gigabytes": b"\x80\x02T\xff\xff\xff\x7fabc.",
        "a memo at the end of memory": b"\x80\x02}r\xff\xff\xff\xff.",
        "a stack that is empty": b"\x80\x02.",
        "only marks": b"(" * 100_000,
        "tuples of tuples": b"\x80\x02" + b"]\x85" * 10 + b".",
        "nested without an end": b"\x80\x02" + b"(" * 50_000 + b"l" * 50_000 + b".",
        "tuples, deep": b"\x80\x02]" + b"\x85" * 200_000 + b".",
        "another extension": b"\x80\x02\x82\x01.",
        "a persistent name": b"\x80\x02X\x01\0\0\0aQ.",
    }
    for name, raw in raws.items():
        yield finding(
            f"pickle, {name}", "data show cifar --json", "cifar", writes("cifar/test_batch", raw)
        )


def _loop() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


def _ghostscript(folder: Path, random: Random) -> None:
    """A program of that name which tells that it was started, and EPS under the names of images."""
    program = folder / "bin" / "gs"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ntouch {folder}/started\n")
    program.chmod(0o755)
    for path in [*folder.glob("images/train/*/*.png"), *folder.glob("photo.png")]:
        path.write_bytes(arrays.EPS)


def images() -> Iterator[Case]:
    path = {"env": {"PATH": f"bin:{os.environ.get('PATH', '')}"}}
    for line, needs in (
        ("data show images --json", "images"),
        ("data convert images new", "images"),
        ("data show images --json --skip-bad", "images"),
        ("predict run photo.png", "run photo.png"),
        ("train --data images --recipe ft-tiny --states 1 -o new", "images"),
    ):
        yield finding(
            f"EPS, {line.split(' -')[0]}{' skipped' * ('skip' in line)}",
            line,
            needs,
            _ghostscript,
            order=path,
        )


def yaml() -> Iterator[Case]:
    texts = {f"YAML {text[:40]!r} of {len(text)}": f"name: {text}\n" for text in RAW_YAML}
    texts |= {
        f"a bomb of {i!r}, {d} deep": alias_bomb(d, inside=i)
        for i in ("x", "{a: 1}", "1")
        for d in (3, 6, 9, 40)
    }
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
        yield finding(f"run, {name}", "run bad.yaml -o new --plan", "", writes("bad.yaml", text))
        yield finding(
            f"train, {name}",
            "train --recipe bad.yaml --data images --states 1 -o new",
            "images",
            writes("bad.yaml", text),
        )


def archives() -> Iterator[Case]:
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
            with tarfile.open(fileobj=out, mode="w"):
                info = tarfile.TarInfo(f"cifar-100-python/{name}")
                info.size = 8 << 40
                out.write(info.tobuf(tarfile.GNU_FORMAT))
            (folder / "cifar-100.tar.gz").write_bytes(
                gzip.compress(out.getvalue() + bytes(1024), 1)
            )

        return spoil

    def sparse(folder: Path, random: Random) -> None:
        info = tarfile.TarInfo("cifar-100-python/train")
        info.pax_headers = {
            "GNU.sparse.map": f"0,1,{1 << 40},1",
            "GNU.sparse.size": str(1 << 40),
            "GNU.sparse.numblocks": "2",
        }
        info.size = 2
        raw = info.tobuf(tarfile.PAX_FORMAT) + b"xx".ljust(512, b"\0") + bytes(1024)
        (folder / "cifar-100.tar.gz").write_bytes(gzip.compress(raw, 1))

    for name, spoil in {
        "gzip bomb": bomb,
        "many members": many,
        "a huge train": huge("train"),
        "a huge readme": huge("readme"),
        "a sparse train": sparse,
        "nothing": writes("cifar-100.tar.gz", b""),
        "gzip of nothing": writes("cifar-100.tar.gz", gzip.compress(b"")),
        "gzip in gzip": writes("cifar-100.tar.gz", gzip.compress(gzip.compress(bytes(100)))),
    }.items():
        for line in ("data show cifar-100.tar.gz --json", "data convert cifar-100.tar.gz new"):
            yield finding(f"archive, {name}, {line.split()[1]}", line, "cifar-100.tar.gz", spoil)


def numbers() -> Iterator[Case]:
    def copied(new: str) -> Spoil:
        def spoil(folder: Path, random: Random) -> None:
            for kind in ("scores", "labels"):
                shutil.copy(folder / f"numpy/{kind}_test_1.npy", folder / f"numpy/{kind}_{new}.npy")

        return spoil

    for new in (
        "test_9999999999",
        "test_" + "9" * 200,
        "test_0",
        "test_00",
        "test_-1",
        "test_1000000",
        "test_\u0663",
    ):
        yield finding(
            f"a file of state {new[:20]}",
            "import-scores numpy --format numpy -o new",
            "numpy",
            copied(new),
            outputs="new",
            must="either",
        )

    def member(raw: bytes, name: str = "scores.npy") -> Spoil:
        def spoil(folder: Path, random: Random) -> None:
            with zipfile.ZipFile(folder / "scores.npz", "w") as file:
                file.writestr(name, raw)

        return spoil

    good = arrays.npy_bytes(np.ones((4, 8), np.float32))
    for what, raw in (("text", b"hello"), ("half", good[:90]), ("nothing", b"")):
        yield finding(
            f"a member of {what}",
            "correct scores.npz --bank bank.json -o new.npy",
            "bank.json",
            member(raw),
        )
        yield finding(
            f"a member of {what}, not .npy",
            "correct scores.npz --bank bank.json -o new.npy",
            "bank.json",
            member(raw, "scores"),
        )
        yield finding(
            f"images with a member of {what}",
            "data show scores.npz --json",
            "",
            member(raw, "x_train"),
        )
    for shape in arrays.HEADERS:
        if shape == "(0, 8)":
            continue
        text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}\n".encode()[:60_000]
        raw = b"\x93NUMPY\1\0" + len(text).to_bytes(2, "little") + text + bytes(128)
        yield finding(
            f"a shape of {shape[:30]}",
            "correct scores.npy --bank bank.json -o new.npy",
            "bank.json",
            writes("scores.npy", raw),
        )
        yield finding(
            f"scores of shape {shape[:30]}",
            "import-scores numpy --format numpy -o new",
            "numpy",
            writes("numpy/scores_test_2.npy", raw),
        )
    for digits in (DIGITS, f"-{DIGITS}", f"1e{DIGITS[:9]}"):
        yield finding(
            f"a bank of {digits[:9]}", "bank show bad.json", "", writes("bad.json", digits)
        )
        yield finding(
            f"an order of {digits[:9]}",
            f"correct scores.npy --bank bank.json --order {digits} -o new.npy",
            "scores.npy bank.json",
            None,
        )
        yield finding(
            f"a schedule of {digits[:9]}",
            f"import-scores numpy --format numpy --schedule {digits} -o new",
            "numpy",
            None,
        )
    for value in ("3e38", "-3e38"):

        def huge(folder: Path, random: Random, value: str = value) -> None:
            np.save(folder / "scores.npy", np.full((80, 8), float(value), np.float32))

        yield finding(
            f"scores of {value}",
            "correct scores.npy --bank bank.json -o new.npy",
            "bank.json",
            huge,
            outputs="new.npy",
            must="either",
        )
        yield finding(
            f"like scores of {value}",
            "transfer bank.json --like scores.npy --state 3 -o new.json",
            "bank.json",
            huge,
        )
    yield finding(
        "a zero byte in a list",
        "data show lists --json",
        "lists images",
        writes("lists/train.lst", "train/class0/000.png\0 0\n"),
    )
    yield finding("a zero byte in a path", "bank show a\0b", "", None)
    yield finding("half a character in a path", "bank show \ud800", "", None)


def tables() -> Iterator[Case]:
    head = "image," + ",".join(f"class{i}" for i in range(8)) + "\n"
    row = "1.png," + ",".join(["0.5"] * 8) + "\n"
    texts = {
        "a field of 200 KB": head + row + '"' + "x" * 200_000 + '",' + ",".join(["0.5"] * 8) + "\n",
        "a name of 200 KB": head.replace("image", "x" * 200_000) + row,
        "a quote without an end": head + row + '"' + row * 100,
        "zero bytes": head + row.replace("0.5", "\0"),
        "a state that is guessed from what can be read": head + row + row.replace("0.5", "x", 4),
        "cells that are empty": head + row + row.replace("0.5", ""),
        "only a head": head,
        "nothing": "",
        "columns of one name": head.replace("class1", "class0").replace("class2", "class0"),
        "rows of other lengths": head + row + "1.png,1\n",
    }
    for name, text in texts.items():
        must = (
            "either"
            if name in ("a field of 200 KB", "a name of 200 KB", "columns of one name")
            else "refused"
        )
        yield finding(
            f"table, {name}",
            "correct scores.csv --keep image --bank bank.json -o new.csv",
            "bank.json",
            writes("scores.csv", text),
            outputs="new.csv",
            must=must,
        )

    def twice(folder: Path, random: Random) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pq.read_table(folder / "scores.parquet")
        pq.write_table(
            pa.Table.from_arrays(
                [*table.columns, table.column(1)], [*table.column_names, "class0"]
            ),
            folder / "scores.parquet",
        )

    for line in (
        "correct scores.parquet --keep image --bank bank.json -o new.parquet",
        "correct scores.parquet --keep image,class0 --bank bank.json -o new.parquet",
    ):
        yield finding(
            f"a column twice, {'kept' * ('class0' in line)}",
            line,
            "scores.parquet bank.json",
            twice,
        )

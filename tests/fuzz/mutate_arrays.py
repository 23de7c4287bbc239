"""Ways to spoil files of arrays, tables, images and archives, from inside: their parts stay readable."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import pickle
import tarfile
import warnings
import zipfile
from functools import wraps
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch

from fuzz.mutate import DIGITS, Mutation, json_text, spoiled

HEADERS = (
    "(1180591620717411303424, 8)", "(-1, 8)", "(8,)", "()", "(0, 8)", "(8, 0)",
    "(4611686018427387904, 8)",
    "(2, 2, 2)", f"({DIGITS}, 8)", "'x'", "None", "(1.5, 8)", "(True, 8)", "(" * 500 + ")" * 500,
)  # fmt: skip
DTYPES = (
    "'|O'", "'<f2'", "'<f16'", "'<c16'", "'<U9'", "'|S9'", "'<M8[ns]'", "'|V8'", "'|b1'", "'|u1'",
    "'<i8'",
    "'>f4'", "[('a', '<f4'), ('b', '|O')]", "'x'", "''", "'<f4,<f4'", "'(2,)<f4'", "None", "0",
    "[('\\x1b[31m', '<f4')]", "'<f" + DIGITS + "'",
)  # fmt: skip


def _quietly(mutation: Mutation) -> Mutation:
    """Without the warnings of libraries that are made to write strange things."""

    @wraps(mutation)
    def quiet(path: Path, random: Random) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mutation(path, random)

    return quiet


def npy_bytes(array: Any) -> bytes:
    """A .npy file."""
    out = io.BytesIO()
    np.save(out, array, allow_pickle=True)
    return out.getvalue()


def odd_array(good: Any, random: Random) -> Any:
    """The array with other values, type or shape."""
    values = np.array(good)
    what = random.randrange(16)
    if what < 6 and values.size:
        flat = values.reshape(-1)
        odd = random.choice((np.nan, np.inf, -np.inf, 3e38, -3e38, 1e308, 0, -1, 2**31, 2**62))
        with np.errstate(all="ignore"):
            flat[random.randrange(len(flat))] = np.array(odd).astype(flat.dtype)
        return flat.reshape(values.shape)
    kinds = ("f2", "f8", "g", "c8", "i8", "u1", "b", "U5", "S5", "O", ">f4", "M8[s]", "V4")
    if what < 10:
        with np.errstate(all="ignore"):
            kind = random.choice(kinds)
            return np.zeros(values.shape, kind) if kind in ("M8[s]", "V4") else values.astype(kind)
    shapes = (
        (),
        (0,),
        (0, 8),
        (8, 0),
        (1, 1),
        (3, 8, 1),
        (2, 7),
        (2, 9),
        (100_000, 1),
        (1, 4),
        (1, 100),
    )
    if what < 14:
        return np.zeros(random.choice(shapes), values.dtype)
    if what == 14:
        return np.full(values.shape, random.choice((0, 1, 3e38 if values.dtype.kind == "f" else 7)))
    return np.asfortranarray(values)[::-1]


def npy_header(good: bytes, random: Random) -> bytes:
    """A .npy file whose header says something else than it has."""
    shape = np.load(io.BytesIO(good)).shape
    words = {"descr": "'<f4'", "fortran_order": "False", "shape": repr(shape)}
    what = random.randrange(5)
    if what < 2:
        words["shape"] = random.choice(HEADERS)
    elif what == 2:
        words["descr"] = random.choice(DTYPES)
    elif what == 3:
        words["fortran_order"] = random.choice(("1", "None", "'x'", "[]"))
    else:
        words[random.choice(("descr", "x", "\x1b"))] = random.choice(
            ("__import__('os')", "{}", "1 if 1 else 2")
        )
    text = "{" + ", ".join(f"{k!r}: {v}" for k, v in words.items()) + "}\n"
    version = random.choice((b"\1\0", b"\1\0", b"\2\0", b"\3\0", b"\x09\0"))
    size = 2 if version == b"\1\0" else 4
    raw = text.encode("latin-1", "replace")[:60_000]
    return b"\x93NUMPY" + version + len(raw).to_bytes(size, "little") + raw + good[128:]


def npy_of(path: Path, random: Random) -> None:
    """A .npy file."""
    raw = path.read_bytes()
    if random.random() < 0.4:
        path.write_bytes(npy_header(raw, random))
    else:
        path.write_bytes(npy_bytes(odd_array(np.load(path), random)))


@_quietly  # one name twice
def npz_of(path: Path, random: Random) -> None:
    """A .npz file by its members."""
    with zipfile.ZipFile(path) as old:
        members = [(info.filename, old.read(info)) for info in old.infolist()]
    at, what = random.randrange(len(members)), random.randrange(11)
    name, raw = members[at]
    if what < 3:
        members[at] = (name, npy_bytes(odd_array(np.load(io.BytesIO(raw)), random)))
    elif what == 3:
        members[at] = (name, npy_header(raw, random))
    elif what == 4:
        members[at] = (
            name,
            random.choice((b"", b"hello", raw[: len(raw) // 2], pickle.dumps([1]))),
        )
    elif what == 5:
        odd = (
            "x",
            "../x.npy",
            "/x.npy",
            "\x1b.npy",
            ".npy",
            "a" * 3000 + ".npy",
            "scores_test_9999999999.npy",
        )
        members[at] = (random.choice(odd), raw)
    elif what == 6:
        members.append((random.choice(("notes.txt", "file", "x.npz", name, "dir/")), b"hello"))
    elif what == 7:
        del members[at]
    elif what == 8:
        members.append((name, raw))
    elif what == 9:
        members[at] = (name, spoiled(raw, random))
    else:
        members[at] = (name, npy_bytes(np.zeros((1 << 26, 4), np.uint8)))  # 256 MB in 256 KB
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for member, content in members:
            new.writestr(member, content)


@_quietly
def torch_of(path: Path, random: Random) -> None:
    """A torch file that holds something else, or the same otherwise."""
    good = torch.load(path, weights_only=True)
    tensor = next(iter(good.values())) if isinstance(good, dict) else good
    tensor = tensor.float() if tensor.ndim == 2 else torch.ones(4, 8)
    made: list[Any] = [
        tensor.to_sparse(), tensor.to_sparse_csr(), tensor.half(), tensor.bfloat16(),
        tensor.double(),
        tensor.to(torch.complex64), tensor.int(), tensor.bool(), tensor.T, tensor[:, :0],
        tensor[:0],
        tensor.requires_grad_(True), torch.zeros(()), torch.zeros(3, 8, 1), torch.full((4, 8),
        3e38),
        torch.full((4, 8), float("nan")), torch.zeros(1, 1).expand(100_000_000, 8),
        torch.quantize_per_tensor(torch.ones(4, 8), 0.1, 0, torch.quint8),
        torch.nested.nested_tensor([torch.ones(2, 8), torch.ones(3, 8)]),
        torch.nn.Parameter(tensor),
        tensor.to(torch.float8_e5m2), torch.empty(4, 8, device="meta"), None, 1, "x", [],
        [tensor], {}, (tensor, tensor),
        {1: tensor}, {"": tensor}, {"\x1b[31m": tensor}, {"a": {"b": tensor}}, {"a": None},
        {"scores": tensor, "x": "y"},
        {None: tensor}, {(1, 2): tensor}, float("nan"), {"bias_layers.0.alpha": torch.ones(2)},
        {"bias_layers.0.alpha": float("nan"), "bias_layers.0.beta": 1.0},
    ]  # fmt: skip
    what = random.random()
    if what < 0.25:
        path.write_bytes(spoiled(path.read_bytes(), random))
    elif what < 0.35:
        path.write_bytes(pickle.dumps(random.choice(made[22:27]), random.randrange(6)))
    elif what < 0.45 and isinstance(good, dict):
        name = random.choice(sorted(good))
        torch.save({**good, name: random.choice(made)}, path)
    else:
        torch.save(random.choice(made), path)


def safetensors_header(raw: bytes, random: Random) -> bytes:
    """The JSON at the head of a safetensors file, changed."""
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    text = json_text(header, random).encode("utf-8", "surrogatepass")
    claimed = random.choice((len(text),) * 6 + (0, 2**40, 2**64 - 1))
    return claimed.to_bytes(8, "little") + text + raw[8 + length :]


def safetensors_of(path: Path, random: Random) -> None:
    """A safetensors file by its header, or its bytes."""
    change = safetensors_header if random.random() < 0.7 else spoiled
    path.write_bytes(change(path.read_bytes(), random))


def facts_of(path: Path, random: Random) -> None:
    """The facts in the header of a checkpoint: JSON in JSON."""
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    facts = header["__metadata__"]
    facts["transil"] = json_text(json.loads(facts["transil"]), random)
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + raw[8 + length :])


def store_data_of(path: Path, random: Random) -> None:
    """A data file of a store, with a manifest that agrees with it."""
    manifest = path.parent / "store.json"
    safetensors_of(path, random)
    data, raw = json.loads(manifest.read_text()), path.read_bytes()
    for states in data["splits"].values():
        for entry in states.values():
            if entry["file"] == path.name:
                entry |= {"bytes": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}
    manifest.write_text(json.dumps(data))


def labels_of_entry(path: Path, random: Random) -> None:
    """The labels of decoded images, with a record that agrees with them."""
    npy_of(path, random)
    record = path.parent / "meta.json"
    data = json.loads(record.read_text())
    split = path.name.split(".")[0]
    data["splits"][split]["labels_sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    record.write_text(json.dumps(data))


# -- tables ------------------------------------------------------------------------------------


def csv_of(path: Path, random: Random) -> None:
    """A CSV file by its cells."""
    delimiter = "\t" if path.suffix == ".tsv" else ","
    rows = [line.split(delimiter) for line in path.read_text().splitlines()]
    odd = ("", "nan", "inf", "1e999", "x", '"', '""', '"a\nb"', "\0", "0x10", "1,5", "\u0661",
    "1" * 400,
           "x" * 200_000, "\x1b[31m", "1e-999", "-", "3e38", "1e308", " ", "true", "2001-01-01",
           "=1+1")  # fmt: skip
    at, what = random.randrange(len(rows)), random.randrange(12)
    column = random.randrange(len(rows[0]))
    if what < 4:
        rows[at][column] = random.choice(odd)
    elif what == 4:
        for row in rows:
            row[column] = random.choice(odd)
    elif what == 5:
        for row in rows:
            del row[column]
    elif what == 6:
        del rows[at][column]
    elif what == 7:
        rows[at] *= random.choice((2, 50))
    elif what == 8:
        rows[0] = [rows[0][column]] * len(rows[0])
    elif what == 9:
        rows = rows[: random.choice((0, 1, 2))]
    elif what == 10:
        delimiter = random.choice((";", "|", " ", "\t", ",,", "\0"))
    else:
        rows[at] = [""] * random.choice((0, 1, len(rows[0])))
    text = random.choice(("\n", "\n", "\r\n", "\r")).join(delimiter.join(row) for row in rows)
    raw = text.encode(random.choice(("utf-8", "utf-8", "utf-8-sig", "utf-16", "utf-8")))
    path.write_bytes(spoiled(raw, random) if random.random() < 0.2 else raw)


def parquet_of(path: Path, random: Random) -> None:
    """A Parquet file by its columns."""
    import pyarrow.parquet as pq

    if random.random() < 0.25:
        path.write_bytes(spoiled(path.read_bytes(), random))
        return
    pq.write_table(_odd_table(pq.read_table(path), random), path)


def arrow_of(path: Path, random: Random) -> None:
    """A file or stream of Arrow's by its columns, or by its bytes."""
    import pyarrow as pa
    from pyarrow import feather

    if random.random() < 0.4:
        path.write_bytes(spoiled(path.read_bytes(), random))
        return
    if path.suffix == ".feather":
        made = _odd_table(feather.read_table(path), random)
        kind = random.choice(("lz4", "zstd", "uncompressed"))
        feather.write_feather(made, str(path), compression=kind)
        return
    with pa.OSFile(str(path)) as file:
        made = _odd_table(pa.ipc.open_stream(file).read_all(), random)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, made.schema) as stream:
        stream.write_table(made)


def _odd_table(table: Any, random: Random) -> Any:
    """A table with a column that is none of scores, or without one."""
    import decimal

    import pyarrow as pa

    rows, at = table.num_rows, random.randrange(table.num_columns)
    odd: list[Any] = [
        pa.nulls(rows), pa.array([float("nan")] * rows), pa.array([1e308] * rows),
        pa.array(["x"] * rows),
        pa.array([b"\xff"] * rows), pa.array([[1.0, 2.0]] * rows),
        pa.array([[1.0]] * (rows - 1) + [None]),
        pa.array([[]] * rows, pa.list_(pa.float32())), pa.array([{"bytes": b"x",
        "path": None}] * rows),
        pa.array([decimal.Decimal("1.5")] * rows), pa.array([2**63] * rows, pa.uint64()),
        pa.array([True] * rows), pa.array([0] * rows, pa.timestamp("s")),
        pa.array([[[1.0]]] * rows),
        pa.array(["x"] * rows).dictionary_encode(), pa.array([[None, 1.0]] * rows),
        pa.array(list(range(rows))), pa.array([-1] * rows), pa.array([2**62] * rows),
        pa.array([1.5] * rows, pa.float16()) if hasattr(np, "float16") else None,
    ]  # fmt: skip
    what = random.randrange(6)
    if what < 3:
        table = table.set_column(at, table.column_names[at], random.choice(odd))
    elif what == 3:
        names = list(table.column_names)
        names[at] = random.choice((names[0], "", "\x1b[31m", "x" * 5000, "label"))
        table = table.rename_columns(names)
    elif what == 4:
        table = (
            table.slice(0, random.choice((0, 1)))
            if random.random() < 0.5
            else table.remove_column(at)
        )
    else:
        table = table.append_column(
            random.choice((table.column_names[0], "more")), random.choice(odd)
        )
    return table


# -- images and archives -----------------------------------------------------------------------

EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n%%EOF\n"


def image_of(path: Path, random: Random) -> None:
    """An image of another format, size or mode, or none."""
    import zlib

    from PIL import Image

    what = random.randrange(9)
    if what < 2:
        path.write_bytes(spoiled(path.read_bytes(), random))
    elif what == 2:
        path.write_bytes(
            random.choice((EPS, b"", b"%PDF-1.4\n", b"GIF89a", b"<svg/>", b"BM" + b"\xff" * 60))
        )
    elif what == 3:  # a PNG that says it has gigapixels
        head = b"IHDR" + (60_000).to_bytes(4, "big") * 2 + b"\x08\x02\0\0\0"
        crc = zlib.crc32(head).to_bytes(4, "big")
        path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"\0\0\0\x0d" + head + crc + path.read_bytes()[33:])
    else:
        size = random.choice(((1, 1), (8, 8), (1, 5000), (5000, 1), (30, 20), (8, 9)))
        mode = random.choice(("1", "L", "P", "RGB", "RGBA", "CMYK", "I;16", "F", "LA"))
        image, out = Image.new(mode, size), io.BytesIO()
        kind = random.choice(
            ("PNG", "TIFF", "JPEG", "GIF", "BMP", "WEBP", "PPM", "ICO", "TGA", "PCX")
        )
        try:
            image.save(out, format=kind)
        except (OSError, ValueError, KeyError):
            image.convert("RGB").save(out, format="PNG")
        path.write_bytes(out.getvalue())


class _HiddenObjects:
    """A dtype whose state says that it holds no objects, though it does."""

    def __reduce__(self) -> Any:
        hidden = (3, "|", None, ("f0",), {"f0": (np.dtype("O"), 0)}, 8, 1, 0)
        return np.dtype, ("V8", False, True), hidden


class _Crafted:
    """An array of raw bytes of such a dtype."""

    def __init__(self, kind: Any, raw: Any, shape: tuple[int, ...]) -> None:
        self.state = (1, shape, kind, False, raw)

    def __reduce__(self) -> Any:
        from numpy.core.multiarray import _reconstruct

        return _reconstruct, (np.ndarray, (0,), b"b"), self.state


class _Runs:
    """What a careless reader would run."""

    def __reduce__(self) -> Any:
        return os.mkdir, ("executed",)


def odd_objects(random: Random) -> Any:
    """What may stand in a pickle in place of an array, a list or a name."""
    deep: Any = []
    for _ in range(500):
        deep = [deep]
    loop: list[Any] = []
    loop.append(loop)
    return random.choice(
        (
            _Crafted(_HiddenObjects(), b"\x41" * 64, (8,)), _Crafted(np.dtype("u1"), b"x",
            (10**12,)),
            _Crafted(np.dtype("u1"), b"x" * 10, (2, 5)), _Crafted(np.dtype("O"), [1, 2], (2,)),

            _Crafted(np.dtype("f8,i4"), b"x" * 24, (2,)), _Runs(), deep, loop, {}, [], (), b"",
            "x", None, 1.5,
            10**5000, np.arange(4), np.zeros((4, 3072), np.uint8), np.zeros((4, 3072), np.float32),
            np.zeros((4, 3071), np.uint8), np.array([1, "x", None], dtype=object), np.array(5),
            [0, 1, 2, 2**70],
            [b"\x1b[31m", b"b"], ["x", None], [1.5, 2], [True, False, True, True], [-1, 0, 1, 2],
            [0, 1, 2, 10**8],
            np.dtype("V8"), np.zeros(4, "M8[s]"), {1, 2}, frozenset("a"), bytearray(b"x"),
            complex(1, 2),
        )
    )  # fmt: skip


def pickle_of(path: Path, random: Random) -> None:
    """A pickle of CIFAR with one thing changed."""
    raw = path.read_bytes()
    if random.random() < 0.3:
        path.write_bytes(spoiled(raw, random))
        return
    data = pickle.loads(raw, encoding="bytes")
    odd = odd_objects(random)
    if random.random() < 0.15:
        data = odd
    else:
        data[random.choice(list(data))] = odd
    path.write_bytes(pickle.dumps(data, random.choice((2, 2, 3, 4, 5))))


def tar_of(path: Path, random: Random) -> None:
    """An archive by its members, or a bomb in its place."""
    what = random.randrange(9)
    raw = gzip.decompress(path.read_bytes())
    if what == 0:
        path.write_bytes(spoiled(path.read_bytes(), random))
        return
    if what == 1:
        path.write_bytes(gzip.compress(spoiled(raw, random), 1))
        return
    if what == 2:
        path.write_bytes(gzip.compress(bytes(300 << 20), 1))
        return
    with tarfile.open(fileobj=io.BytesIO(raw)) as old:
        members = [(m, old.extractfile(m).read() if m.isfile() else b"") for m in old]  # type: ignore[union-attr]
    files = [i for i, (m, _) in enumerate(members) if m.isfile()]
    at = random.choice(files)
    member, content = members[at]
    if what == 3:
        members[at] = (member, pickle.dumps({b"data": odd_objects(random), b"fine_labels": [0]}, 2))
    elif what == 4:
        member.name = random.choice(("../" * 8 + "tmp/x", "/tmp/x", "x" * 300, "\x1b[31m", ""))
    elif what == 5:
        member.type = random.choice(
            (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE)
        )
        member.linkname = random.choice(("/dev/zero", member.name, "../../kept.txt"))
    elif what == 6:
        del members[at]
    elif what == 7:
        members.append((tarfile.TarInfo("big"), bytes(200 << 20)))
    else:
        members[at] = (member, spoiled(content, random))
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as new:
        for info, data in members:
            info.size = len(data) if info.isfile() else 0
            new.addfile(info, io.BytesIO(data) if info.isfile() else None)
    path.write_bytes(gzip.compress(out.getvalue(), 1))

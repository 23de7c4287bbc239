"""Small image sets on disk, for the tests of sources, cache and stream."""

from __future__ import annotations

import io
import json
import pickle
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from transil import TransilError
from transil.data import Images, ImageSplit, open_images

SIZE = 8


def picture(number: int, size: tuple[int, int] = (SIZE, SIZE), mode: str = "RGB") -> Image.Image:
    """A picture of random pixels; the same for the same number."""
    channels = {"RGB": 3, "L": 1, "RGBA": 4}[mode]
    shape = (size[1], size[0], channels) if channels > 1 else (size[1], size[0])
    pixels = np.random.default_rng(number).integers(0, 256, shape, dtype=np.uint8)
    return Image.fromarray(pixels)


def pixels(number: int) -> Any:
    return np.asarray(picture(number))


def png(number: int) -> bytes:
    out = io.BytesIO()
    picture(number).save(out, format="PNG")
    return out.getvalue()


def make_folder(root: Path, classes: int = 3, train: int = 4, test: int = 2) -> Path:
    """split/class/file."""
    number = 0
    for split, count in (("train", train), ("test", test)):
        for label in range(classes):
            folder = root / split / f"class{label}"
            folder.mkdir(parents=True)
            for i in range(count):
                picture(number).save(folder / f"{i:03d}.png")
                number += 1
    return root


def make_parquet(root: Path, shards: int = 2, names: bool = True) -> Path:
    """3 classes, 8 training images in two shards, 3 test images."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    root.mkdir(parents=True)
    features = {"image": {"_type": "Image"}, "label": {"names": ["a", "b", "c"]}}
    metadata = {"huggingface": json.dumps({"info": {"features": features}})} if names else {}
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    schema = pa.schema([("image", kind), ("label", pa.int64())], metadata=metadata)

    def write(path: Path, numbers: list[int]) -> None:
        rows = [{"bytes": png(n), "path": None} for n in numbers]
        table = pa.table({"image": rows, "label": [n % 3 for n in numbers]}, schema=schema)
        pq.write_table(table, path)

    parts = np.array_split(np.arange(8), shards)
    for i, part in enumerate(parts):
        write(root / f"train-{i:05d}-of-{shards:05d}.parquet", part.tolist())
    write(root / "test-00000-of-00001.parquet", [9, 10, 11])
    return root


def make_cifar(root: Path, kind: int, version: str) -> Path:
    """A small set in the layout of CIFAR-10's or CIFAR-100's official files."""
    root.mkdir(parents=True)
    random = np.random.default_rng(kind)
    label_key = b"fine_labels" if kind == 100 else b"labels"
    names = [f"name{i}" for i in range(4)]
    parts = {"train": 8} if kind == 100 else {f"data_batch_{i}": 4 for i in range(1, 6)}
    parts |= {"test" if kind == 100 else "test_batch": 4}
    for name, count in parts.items():
        data = random.integers(0, 256, (count, 3072), dtype=np.uint8)
        labels = (np.arange(count) % 4).tolist()
        if version == "python":
            with open(root / name, "wb") as file:
                pickle.dump({b"data": data, label_key: labels, b"filenames": [b"x"]}, file, 2)
        else:
            head = np.array(labels, dtype=np.uint8)[:, None]
            head = np.hstack([head * 0 + 9, head]) if kind == 100 else head
            (root / f"{name}.bin").write_bytes(np.hstack([head, data]).tobytes())
    if version == "python":
        meta = "meta" if kind == 100 else "batches.meta"
        key = b"fine_label_names" if kind == 100 else b"label_names"
        with open(root / meta, "wb") as file:
            pickle.dump({key: [n.encode() for n in names]}, file, 2)
    else:
        meta = "fine_label_names.txt" if kind == 100 else "batches.meta.txt"
        (root / meta).write_text("\n".join(names) + "\n")
    return root


def make_places(root: Path, names: Iterable[str], layout: str, train: int = 3) -> Path:
    """Places365 as it is published: `train` and 2 test images of every class, in either layout."""
    lines: dict[str, list[str]] = {"categories_places365": []}
    number = 0
    for label, name in enumerate(names):
        nested = f"{name[0]}/{name.replace('-', '/')}"
        lines["categories_places365"].append(f"/{nested} {label}")
        for split, count in (("train", train), ("val", 2)):
            for i in range(count):
                number += 1
                file = f"{i:08d}.jpg" if split == "train" else f"Places365_val_{number:08d}.jpg"
                inside = f"{nested}/{file}" if split == "train" else file
                path = root / split / name / file
                if layout != "easy":
                    path = root / (layout if split == "train" else "val_256") / inside
                path.parent.mkdir(parents=True, exist_ok=True)
                picture(number).save(path)
                listed = "places365_train_standard" if split == "train" else "places365_val"
                lines.setdefault(listed, []).append(f"/{inside} {label}".replace("/Pl", "Pl"))
    if layout == "easy":  # lists of its own lie beside it, without labels
        lines = {"train": [f"train/{name}/00000000.jpg" for name in names]}
    for name, listed_lines in lines.items():
        (root / f"{name}.txt").write_text("\n".join(listed_lines) + "\n")
    return root


def make_archive(folder: Path) -> Path:
    path = folder.parent / f"cifar-{folder.name}.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        tar.add(folder, arcname=folder.name)
    return path


def images_in_memory(
    classes: int = 10, train: int = 6, test: int = 2, val: int = 0, size: int = 4
) -> Images:
    """Images whose first pixel tells split and label, and whose second the number in the class."""
    splits = {}
    for tag, (split, count) in enumerate((("train", train), ("val", val), ("test", test))):
        if count:
            labels = np.tile(np.arange(classes), count)  # classes are interleaved
            data = np.zeros((len(labels), size, size, 3), dtype=np.uint8)
            data[:, 0, 0, 0], data[:, 0, 0, 1] = tag, labels
            data[:, 0, 1, 0] = np.repeat(np.arange(count), classes)
            splits[split] = ImageSplit(data, labels)
    names = tuple(f"class{label}" for label in range(classes))
    return Images("memory", names, splits, fingerprint="memory")


def write_lists(folder: Path, images: Path, **files: list[str]) -> Path:
    folder.mkdir(parents=True)
    for name, lines in files.items():
        (folder / f"{name}.lst").write_text("\n".join(lines))  # no final newline, as released
    return folder


def refuses(words: str, spec: Any, **options: Any) -> None:
    with pytest.raises(TransilError, match=words) as raised:
        open_images(spec, **options)
    assert "\n" not in str(raised.value)

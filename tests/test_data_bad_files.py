"""What can be wrong with image files, each told in one line."""

from __future__ import annotations

import os
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest

from image_files import (
    make_archive,
    make_cifar,
    make_folder,
    make_parquet,
    picture,
    pixels,
    png,
    refuses,
    write_lists,
)
from transil.data import open_images
from transil.errors import DataWarning


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRANSIL_CACHE", str(tmp_path / "cache"))


def test_unreadable_and_cut_images(tmp_path: Path) -> None:
    root = make_folder(tmp_path / "set")
    bad = root / "train" / "class1" / "002.png"
    bad.write_bytes(bad.read_bytes()[:60])
    refuses(r"class1/002.png: cannot be decoded .*--skip-bad", root)
    (root / "test" / "class0" / "000.png").write_text("hello")
    with pytest.warns(DataWarning, match=r"2 image\(s\) could not be decoded .*class1/002.png"):
        images = open_images(root, skip_bad=True)
    assert images.counts("train").tolist() == [4, 3, 4]
    assert images.counts("test").tolist() == [1, 2, 2]
    np.testing.assert_array_equal(images.splits["train"].pixels[6], pixels(7))


def test_bad_images_in_parquet_are_named_by_shard_and_row(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    root = make_parquet(tmp_path / "set")
    path = root / "train-00001-of-00002.parquet"
    table = pq.read_table(path)
    rows = table.column("image").to_pylist()
    rows[2] = {"bytes": b"broken", "path": None}
    pq.write_table(
        table.set_column(
            0, table.schema.field("image"), pa.array(rows, table.schema.field("image").type)
        ),
        path,
    )
    refuses(r"train-00001-of-00002.parquet, row 2: cannot be decoded", root)


def test_empty_class_and_label_gaps(tmp_path: Path) -> None:
    root = make_folder(tmp_path / "a")
    (root / "train" / "empty").mkdir()
    refuses(r"class 3 \('empty'\) has no training images", root)
    root = make_folder(tmp_path / "b")
    (root / "test" / "new").mkdir()
    refuses("test/new: a class that has no training images", root)
    picture(0).save(tmp_path / "0.png")
    folder = write_lists(
        tmp_path / "c", tmp_path, train=[f"{tmp_path}/0.png 0", f"{tmp_path}/0.png 2"]
    )
    refuses(r"class 1 \('1'\) has no training images.*no gap", folder)
    np.savez(tmp_path / "d.npz", x_train=np.zeros((2, 4, 4, 3), np.uint8), y_train=[0, 5],
             class_names=["a", "b"])  # fmt: skip
    refuses("label 5, but there are 2 classes", tmp_path / "d.npz")


def test_list_lines_without_a_label(tmp_path: Path) -> None:
    folder = write_lists(tmp_path / "a", tmp_path, train=["x.png 0", "y.png"])
    refuses(r"train.lst, line 2: 'y.png' has no label", folder)
    folder = write_lists(tmp_path / "b", tmp_path, train=["x.png zero"])
    refuses(r"train.lst, line 1: 'x.png zero' has no label", folder)
    folder = write_lists(tmp_path / "c", tmp_path, train=[])
    refuses(r"train.lst: no images in it", folder)
    folder = write_lists(tmp_path / "d", tmp_path, train=["missing.png 0"])
    refuses(r"missing.png \(train.lst, image 1\): cannot be decoded", folder)


def test_duplicates_of_train_in_test_are_counted(tmp_path: Path) -> None:
    root = make_folder(tmp_path / "set")
    for i in (0, 1):
        shutil.copy(root / "train/class0" / f"00{i}.png", root / "test/class1" / f"00{i}.png")
    with pytest.warns(DataWarning, match=r"set: 2 image\(s\) are both in train and in test"):
        assert open_images(root).duplicates == 2


def test_parquet_mistakes(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    for number, (columns, words) in enumerate(
        [
            ({"image": [b"x"]}, "columns 'image' and 'label' are needed, found image"),
            ({"picture": [b"x"], "label": [0]}, "found picture, label"),
            ({"image": [b"x"], "label": [0]}, "column 'image' must hold {bytes, path}, not binary"),
            ({"image": [{"bytes": png(0), "path": ""}], "label": ["a"]}, "must hold whole numbers"),
            (
                {"image": [{"bytes": png(0), "path": ""}], "label": pa.array([None], pa.int64())},
                "column 'label' has empty cells",
            ),
        ]
    ):
        (tmp_path / str(number)).mkdir()
        pq.write_table(pa.table(columns), tmp_path / str(number) / "train.parquet")
        refuses(words, tmp_path / str(number))
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "train.parquet").write_bytes(b"PAR1 no")
    refuses("train.parquet: not a Parquet file, or cut short", tmp_path / "x")
    root = make_parquet(tmp_path / "y")
    (root / "test-00000-of-00001.parquet").rename(root / "strange name.parquet")
    refuses(r"strange name.parquet: name it SPLIT.parquet", root)


def test_other_mistakes(tmp_path: Path) -> None:
    refuses("no such folder or file, and no named data set; did you mean 'cifar100'", "cifar10")
    (tmp_path / "empty").mkdir()
    refuses("no folders of classes", tmp_path / "empty")
    (tmp_path / "x.bin").write_bytes(b"x")
    refuses("x.bin: unknown kind of file", tmp_path / "x.bin")
    refuses("at least 1 pixel", make_folder(tmp_path / "set"), size=0)
    picture(0, (8, 9)).save(tmp_path / "set/train/class2/003.png")
    refuses("8 x 9 pixels; images that differ in size .* need a common --size", tmp_path / "set")
    folder = make_cifar(tmp_path / "100-binary", 100, "binary")
    (folder / "train.bin").write_bytes((folder / "train.bin").read_bytes()[:-5])
    refuses("train.bin: .* bytes, not a multiple of 3074", folder)
    (tmp_path / "cifar-x.tar.gz").write_bytes(b"no tar")
    refuses("cifar-x.tar.gz: not a tar archive", tmp_path / "cifar-x.tar.gz")
    archive = make_archive(make_cifar(tmp_path / "100-python", 100, "python"))
    damaged = bytearray(archive.read_bytes())
    damaged[len(damaged) // 2] ^= 255
    archive.write_bytes(bytes(damaged))
    refuses("cut short or altered", archive)


def test_labels_and_images_must_belong_together(tmp_path: Path) -> None:
    folder = make_cifar(tmp_path / "c", 100, "python")
    data = np.zeros((8, 3072), np.uint8)
    for labels in ([0] * 9, [0] * 3, [0.5] * 8, [[0]] * 8):
        (folder / "train").write_bytes(pickle.dumps({b"data": data, b"fine_labels": labels}, 2))
        refuses("'fine_labels' must be a whole number an image", folder)


def test_validation_images_of_the_lists_are_not_trained_on(tmp_path: Path) -> None:
    for n in range(4):
        picture(n).save(tmp_path / f"{n}.png")
    lines = [f"{n}.png {n % 2}" for n in range(4)]
    folder = write_lists(tmp_path / "a", tmp_path, train=lines, val=lines[2:])
    images = open_images(folder, root=tmp_path)
    assert {k: len(v) for k, v in images.splits.items()} == {"train": 2, "val": 2}
    folder = write_lists(tmp_path / "b", tmp_path, train=["\ufeff0.png\t0", "1.png   1"])
    assert len(open_images(folder, root=tmp_path).splits["train"]) == 2
    (tmp_path / "b" / "train.lst").write_bytes("ü.png 0".encode("latin-1"))
    refuses("not a text in UTF-8", folder)


def test_a_class_that_loses_all_its_images(tmp_path: Path) -> None:
    root = make_folder(tmp_path / "set")
    for file in (root / "train/class1").iterdir():
        file.write_bytes(b"no image")
    refuses("no training image of class 'class1' can be decoded; the first", root, skip_bad=True)


def test_names_of_folders(tmp_path: Path) -> None:
    for name in ("bus", "train", "car", ".hidden"):  # CIFAR-100 has a class 'train'
        (tmp_path / "a" / name).mkdir(parents=True)
        picture(len(name)).save(tmp_path / "a" / name / "0.jfif", format="JPEG")
    assert open_images(tmp_path / "a").class_names == ("bus", "car", "train")
    root = make_folder(tmp_path / "b")
    (root / "train").rename(root / "val")
    refuses("no folder 'train' beside", root)
    root = make_folder(tmp_path / "c")
    for name in ("val", "validation"):
        shutil.copytree(root / "test", root / name)
    refuses("'val' and 'validation' are the same split", root)
    (tmp_path / "d" / "x").mkdir(parents=True)
    picture(0).save(tmp_path / "d" / "x" / "0.png")
    os.mkfifo(tmp_path / "d" / "x" / "pipe.png")  # would block for ever
    (tmp_path / "d" / "x" / "loop.png").symlink_to("loop.png")
    (tmp_path / "d" / "x" / "circle").symlink_to(tmp_path / "d")
    refuses("loop.png: cannot be decoded", tmp_path / "d")
    with pytest.warns(DataWarning, match=r"1 image\(s\) could not be decoded"):
        assert len(open_images(tmp_path / "d", skip_bad=True).splits["train"]) == 1


def test_labels_made_to_exhaust_memory(tmp_path: Path) -> None:
    pictures = np.zeros((1, 4, 4, 3), np.uint8)
    np.savez(tmp_path / "a.npz", x_train=pictures, y_train=np.array([2**40]))
    refuses("is too large", tmp_path / "a.npz")
    folder = write_lists(tmp_path / "b", tmp_path, train=["x.png 99999999999"])
    refuses("has no label", folder)
    refuses("at most 100,000 classes", "formula:radial?classes=1000000000")
    np.savez(tmp_path / "c.npz", x_train=pictures[:0], y_train=np.zeros(0, int))
    refuses("no training images in it", tmp_path / "c.npz")
    np.savez(tmp_path / "d.npz", x_train=pictures[:, :0, :0], y_train=[0])
    refuses("x_train must be uint8", tmp_path / "d.npz")
    np.savez(tmp_path / "e.npz", x_train=pictures, y_train=[0], class_names="a")
    refuses("class_names must be a list", tmp_path / "e.npz")


def test_splits_of_another_size_are_told(tmp_path: Path) -> None:
    np.savez(
        tmp_path / "a.npz",
        x_train=np.zeros((2, 8, 8, 3), np.uint8),
        y_train=[0, 1],
        x_test=np.zeros((1, 9, 9, 3), np.uint8),
        y_test=[0],
    )
    refuses("9 x 9 pixels; images that differ in size", tmp_path / "a.npz")


def test_a_folder_that_happens_to_hold_a_meta_file(tmp_path: Path) -> None:
    root = make_folder(tmp_path / "set")
    (root / "meta.json").write_text('{"mine": 1}')
    assert len(open_images(root).splits["train"]) == 12

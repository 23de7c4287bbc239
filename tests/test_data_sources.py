"""Every source gives the same object, and says in one line what is wrong with its files."""

from __future__ import annotations

import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from image_files import (
    make_archive,
    make_cifar,
    make_folder,
    make_parquet,
    picture,
    pixels,
    png,
)
from test_interop import Malicious
from transil import TransilError
from transil.data import Images, open_images
from transil.data.sources.lists import ListSource
from transil.data.sources.paper import RECIPES, WithoutClass, open_recipe
from transil.errors import DataWarning


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRANSIL_CACHE", str(tmp_path / "cache"))


def refuses(words: str, spec: Any, **options: Any) -> None:
    with pytest.raises(TransilError, match=words) as raised:
        open_images(spec, **options)
    assert "\n" not in str(raised.value)


def check_small(images: Images, classes: int, train: int, test: int) -> None:
    assert images.classes == classes
    for split, count in (("train", train), ("test", test)):
        data = images.splits[split]
        assert len(data) == count
        assert data.pixels.shape == (count, images.size, images.size, 3)
        assert data.pixels.dtype == np.uint8
        assert not data.pixels.flags.writeable
        assert data.labels.dtype == np.int64


# -- the kinds ---------------------------------------------------------------------------------


@pytest.mark.parametrize("shards", [1, 2, 3])
def test_parquet(tmp_path: Path, shards: int) -> None:
    images = open_images(make_parquet(tmp_path / "set", shards))
    check_small(images, 3, 8, 3)
    assert images.class_names == ("a", "b", "c")
    assert images.splits["train"].labels.tolist() == [n % 3 for n in range(8)]
    for n in range(8):
        np.testing.assert_array_equal(images.splits["train"].pixels[n], pixels(n))


def test_parquet_without_names(tmp_path: Path) -> None:
    assert open_images(make_parquet(tmp_path / "set", names=False)).class_names == ("0", "1", "2")


def test_folder(tmp_path: Path) -> None:
    images = open_images(make_folder(tmp_path / "set"))
    check_small(images, 3, 12, 6)
    assert images.class_names == ("class0", "class1", "class2")
    np.testing.assert_array_equal(images.splits["train"].pixels[5], pixels(5))
    np.testing.assert_array_equal(images.splits["test"].labels, [0, 0, 1, 1, 2, 2])


def test_folder_of_classes_alone(tmp_path: Path) -> None:
    root = make_folder(tmp_path / "set")
    images = open_images(root / "train")
    assert list(images.splits) == ["train"]
    assert images.classes == 3


def test_any_format_size_and_mode(tmp_path: Path) -> None:
    folder = tmp_path / "set" / "thing"
    folder.mkdir(parents=True)
    picture(0, (40, 20)).save(folder / "a.jpg", quality=95)
    picture(1, (20, 40), "L").save(folder / "b.png")
    picture(2, (30, 30), "RGBA").save(folder / "c.webp", lossless=True)
    picture(3, (9, 9)).convert("P").save(folder / "d.gif")
    Image.fromarray(np.full((12, 12), 40_000, dtype=np.uint16)).save(folder / "e.png")
    picture(4, (16, 16)).save(folder / "f.BMP")
    (folder / "notes.txt").write_text("not an image")
    images = open_images(tmp_path / "set", size=16)
    assert images.splits["train"].pixels.shape == (6, 16, 16, 3)
    grey = images.splits["train"].pixels[1].astype(int)
    assert (grey[..., 0] == grey[..., 1]).all()
    assert images.splits["train"].pixels[4].mean() == 40_000 >> 8  # 16 bits are scaled, not clipped


def test_transparency_is_laid_on_white(tmp_path: Path) -> None:
    (tmp_path / "set" / "x").mkdir(parents=True)
    clear = np.zeros((8, 8, 4), dtype=np.uint8)
    clear[:4, :, 3] = 255  # upper half opaque black
    Image.fromarray(clear).save(tmp_path / "set" / "x" / "a.png")
    image = open_images(tmp_path / "set").splits["train"].pixels[0]
    assert (image[:4] == 0).all()
    assert (image[4:] == 255).all()


def test_resize_rules(tmp_path: Path) -> None:
    (tmp_path / "set" / "x").mkdir(parents=True)
    wide = np.zeros((10, 30, 3), dtype=np.uint8)
    wide[:, 10:20] = 200  # the middle third
    Image.fromarray(wide).save(tmp_path / "set" / "x" / "a.png")
    crop = open_images(tmp_path / "set", size=10, rule="crop").splits["train"].pixels[0]
    stretch = open_images(tmp_path / "set", size=10, rule="stretch").splits["train"].pixels[0]
    assert (crop == 200).all()
    assert stretch[:, 0].max() < 20
    assert stretch[:, 5].min() > 180
    expected = np.asarray(Image.fromarray(wide).resize((10, 10), Image.Resampling.BILINEAR))
    np.testing.assert_array_equal(stretch, expected)
    refuses("resize rule 'squash' is unknown", tmp_path / "set", size=10, rule="squash")


def write_lists(folder: Path, images: Path, **files: list[str]) -> Path:
    folder.mkdir(parents=True)
    for name, lines in files.items():
        (folder / f"{name}.lst").write_text("\n".join(lines))  # no final newline, as released
    return folder


def test_image_lists(tmp_path: Path) -> None:
    for n in range(8):
        (tmp_path / "images" / "some dir").mkdir(parents=True, exist_ok=True)
        picture(n).save(tmp_path / "images" / "some dir" / f"{n}.png")
    lines = [f"/DATASET_PATH/some dir/{n}.png {n % 2}" for n in range(8)]
    folder = write_lists(
        tmp_path / "lists", tmp_path / "images", train=lines[:6], train_no_val=lines[:4],
        val=lines[4:6], test=lines[6:],
    )  # fmt: skip
    images = open_images(folder, root=tmp_path / "images")
    assert {split: len(data) for split, data in images.splits.items()} == {
        "train": 4,
        "val": 2,
        "test": 2,
    }
    np.testing.assert_array_equal(images.splits["val"].pixels[1], pixels(5))
    whole = ListSource(folder, tmp_path / "images", all_train=True)
    assert {split: len(labels) for split, labels in whole.labels.items()} == {"train": 6, "test": 2}


@pytest.mark.parametrize("kind", [10, 100])
@pytest.mark.parametrize("version", ["python", "binary"])
@pytest.mark.parametrize("packed", [False, True])
def test_cifar(tmp_path: Path, kind: int, version: str, packed: bool) -> None:
    folder = make_cifar(tmp_path / f"{kind}-{version}", kind, version)
    images = open_images(make_archive(folder) if packed else folder)
    check_small(images, 4, 8 if kind == 100 else 20, 4)
    assert images.name == f"cifar{kind}"
    assert images.class_names == ("name0", "name1", "name2", "name3")
    # The first row of the files, plane by plane.
    flat = np.random.default_rng(kind).integers(0, 256, (8 if kind == 100 else 4, 3072), np.uint8)
    first = images.splits["train"].pixels[0]
    np.testing.assert_array_equal(first[0, :5, 0], flat[0, :5])
    np.testing.assert_array_equal(first[0, :5, 2], flat[0, 2048:2053])


def test_a_crafted_cifar_pickle_is_refused(tmp_path: Path) -> None:
    folder = make_cifar(tmp_path / "100-python", 100, "python")
    mark = tmp_path / "executed"
    (folder / "train").write_bytes(pickle.dumps({b"data": Malicious(mark)}, protocol=2))
    refuses("train: refused, not a file of arrays .*nothing was executed", folder)
    assert not mark.exists()


def test_npz(tmp_path: Path) -> None:
    x = np.stack([pixels(n) for n in range(6)])
    grey = np.zeros((2, 8, 8), dtype=np.uint8)
    np.savez(tmp_path / "a.npz", x_train=x, y_train=np.arange(6) % 2, x_test=grey, y_test=[0, 1],
             class_names=["yes", "no"])  # fmt: skip
    images = open_images(tmp_path / "a.npz")
    check_small(images, 2, 6, 2)
    assert images.class_names == ("yes", "no")
    np.testing.assert_array_equal(images.splits["train"].pixels, x)
    np.savez(tmp_path / "b.npz", x_train=x.astype(float), y_train=np.arange(6))
    refuses("x_train must be uint8", tmp_path / "b.npz")
    np.savez(tmp_path / "c.npz", x_train=x)
    refuses("x_train and y_train are needed together", tmp_path / "c.npz")
    np.savez(tmp_path / "d.npz", x_train=x, y_train=np.arange(5))
    refuses("y_train must be 6 whole numbers", tmp_path / "d.npz")


def test_formula() -> None:
    images = open_images("formula:radial?classes=5&train=6&test=2&seed=3", size=16)
    check_small(images, 5, 30, 10)
    assert images.size == 16
    assert images.counts("train").tolist() == [6] * 5
    again = open_images("formula:radial?classes=5&train=6&test=2&seed=3&size=16")
    np.testing.assert_array_equal(images.splits["test"].pixels, again.splits["test"].pixels)
    more = open_images("formula:radial?classes=7&train=9&test=2&seed=3&size=16")
    np.testing.assert_array_equal(
        images.splits["train"].pixels[:6], more.splits["train"].pixels[:6]
    )  # a class does not change when the set grows
    refuses("did you mean 'radial'", "formula:radail")
    refuses("no setting 'clases'; did you mean 'classes'", "formula:radial?clases=3")
    refuses("classes must be a whole number", "formula:radial?classes=x")
    refuses("classes=0 is too small", "formula:radial?classes=0")
    refuses("settings are written as", "formula:radial?classes")


def test_torchvision_is_optional() -> None:
    # On the CPU build torchvision is absent or does not import; where it works, the name is wrong.
    refuses("torchvision", "torchvision:Fud101?root=nowhere")


# -- the paper's sets --------------------------------------------------------------------------


def test_named_sets_say_what_they_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRANSIL_DATA", str(tmp_path))
    assert {"cifar100", "food100", "places100", "imn100", "birds100", "ref1", "ref10"} <= set(
        RECIPES
    )
    for name in RECIPES:
        refuses(f"{name}: not found in .* needs .*train_no_val.lst.*TRANSIL_DATA", name)


@pytest.mark.parametrize("place", ["cifar-100-python", "cifar-100-binary", "archive", "parquet"])
def test_named_cifar100(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    monkeypatch.setenv("TRANSIL_DATA", str(tmp_path))
    if place == "parquet":
        make_parquet(tmp_path / "cifar100")
    elif place == "archive":
        folder = make_cifar(tmp_path / "100-python", 100, "python")
        make_archive(folder)
        shutil.rmtree(folder)
    else:
        make_cifar(tmp_path / place, 100, place.rsplit("-", 1)[1])
    assert open_images("cifar100").name == "cifar100"


def test_named_set_from_the_authors_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRANSIL_DATA", str(tmp_path))
    (tmp_path / "images").mkdir()
    for n in range(4):
        picture(n).save(tmp_path / "images" / f"{n}.png")
    lines = [f"/DATASET_PATH/{n}.png {n % 2}" for n in range(4)]
    write_lists(
        tmp_path / "image_lists/reference/3mixed100",
        tmp_path,
        train_no_val=lines[:2],
        test=lines[2:],
    )
    source = open_recipe("ref3")
    assert source.name == "ref3"
    assert len(open_images("ref3").splits["train"]) == 2


def test_leaving_a_class_out(tmp_path: Path) -> None:
    from transil.data.opening import find_source

    less = WithoutClass(find_source(make_folder(tmp_path / "set")), "class1")
    assert less.class_names == ("class0", "class2")
    assert less.labels["train"].tolist() == [0] * 4 + [1] * 4
    items = [item for block in less.blocks("train") for item in block]
    assert [item.parent.name for item in items if isinstance(item, Path)] == ["class0"] * 4 + [
        "class2"
    ] * 4
    assert "class2" in less.where("train", 5)


# -- what can be wrong -------------------------------------------------------------------------


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


# -- real sets ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "train", "test", "first"),
    [
        ("cifar100", 50_000, 10_000, "apple"),
        ("mini-imagenet", 50_000, 10_000, "n02091831"),
        ("tiny-a", 50_000, 5_000, "n03617480 kimono"),
        ("tiny-b", 50_000, 5_000, "n03424325 gasmask"),
    ],
)
def test_real_sets_have_what_their_readme_says(
    shared: Path, name: str, train: int, test: int, first: str
) -> None:
    from transil.data.opening import find_source

    source = find_source(shared / "data" / name).check()
    assert len(source.class_names) == 100
    assert source.class_names[0] == first
    assert np.bincount(source.labels["train"]).tolist() == [train // 100] * 100
    assert np.bincount(source.labels["test"]).tolist() == [test // 100] * 100
    block = next(iter(source.blocks("test")))
    from transil.data.decode import decode

    assert decode(block[0], None, "crop").shape == (32, 32, 3)

"""Every source gives the same object, and says in one line what is wrong with its files."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

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
    refuses,
    write_lists,
)
from test_interop import Malicious
from transil.data import Images, open_images
from transil.data.decode import decode
from transil.data.sources.paper import RECIPES, open_recipe
from transil.errors import DataWarning


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRANSIL_CACHE", str(tmp_path / "cache"))


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


@pytest.mark.parametrize(("train", "test"), [("Train", "TEST"), ("training", "testing")])
def test_folders_of_splits_may_be_called_otherwise(tmp_path: Path, train: str, test: str) -> None:
    """As classes they would put test images among those of training."""
    root = make_folder(tmp_path / "set")
    plain = open_images(root)
    (root / "train").rename(root / "x")  # not all file systems know upper from lower case
    (root / "x").rename(root / train)
    (root / "test").rename(root / "y")
    (root / "y").rename(root / test)
    images = open_images(root)
    assert images.class_names == plain.class_names
    assert {k: len(v.labels) for k, v in images.splits.items()} == {"train": 12, "test": 6}


def test_a_folder_beside_the_splits_is_told(tmp_path: Path) -> None:
    root = make_folder(tmp_path / "set")
    (root / "test").rename(root / "eval")
    with pytest.warns(DataWarning, match="'eval' is not used; folders of splits are called"):
        images = open_images(root)
    assert list(images.splits) == ["train"]


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
    for path, image in zip(sorted(folder.glob("?.*")), images.splits["train"].pixels, strict=True):
        np.testing.assert_array_equal(decode(path.read_bytes(), 16, "crop"), image)


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
    whole = open_images(folder, root=tmp_path / "images", all_train=True)
    assert {split: len(data) for split, data in whole.splits.items()} == {"train": 6, "test": 2}


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


def test_named_food100(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRANSIL_DATA", str(tmp_path))
    (tmp_path / "food-101/meta").mkdir(parents=True)
    lines = []
    for number, name in enumerate(("apple_pie", "waffles", "zucchini")):
        (tmp_path / "food-101/images" / name).mkdir(parents=True)
        for i in range(3):
            picture(3 * number + i).save(tmp_path / f"food-101/images/{name}/{i}.jpg", quality=95)
            lines.append(f"{name}/{i}")
    (tmp_path / "food-101/meta/train.txt").write_text("\n".join(lines[::3] + lines[1::3]))
    (tmp_path / "food-101/meta/test.txt").write_text("\n".join(lines[2::3]))
    images = open_images("food100")
    assert images.class_names == ("apple_pie", "zucchini")
    assert images.splits["train"].labels.tolist() == [0, 1, 0, 1]
    assert images.splits["test"].labels.tolist() == [0, 1]
    (tmp_path / "food-101/meta/test.txt").write_text("../../secret\n")
    refuses(r"test.txt, line 1: '../../secret' is not CLASS/ID", "food100")
    (tmp_path / "food-101/meta/test.txt").unlink()
    refuses("cannot read .*test.txt", "food100")


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

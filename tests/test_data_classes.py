"""A source restricted to classes by name, and the paper's sets that follow from it."""

from __future__ import annotations

import json
import shutil
import sys
from importlib import resources
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from image_files import (
    make_archive,
    make_cifar,
    make_folder,
    make_parquet,
    make_places,
    picture,
    pixels,
    refuses,
    write_lists,
)
from support import ok_here, run_here
from transil.data import Images, open_images
from transil.data.cache import convert
from transil.data.class_lists import find_classes, read_names
from transil.data.opening import find_source, split_spec
from transil.data.source import Source
from transil.data.sources import paper
from transil.data.sources.subset import ClassSubset
from transil.errors import TransilError
from transil.experiment.plan import set_config
from transil.experiment.recipe import load_experiment

PLACES = (resources.files("transil.data") / "places100.txt").read_text().split()


@pytest.fixture(autouse=True)
def _own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRANSIL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TRANSIL_DATA", str(tmp_path / "data"))


def check_part(part: Images, whole: Images, names: list[str]) -> None:
    """The images of `part` are those of these classes, in the order in which `whole` has them."""
    assert list(part.class_names) == names
    old = [whole.class_names.index(name) for name in names]
    assert part.splits.keys() == whole.splits.keys()
    for split, data in whole.splits.items():
        rows = np.flatnonzero(np.isin(data.labels, old))
        np.testing.assert_array_equal(part.splits[split].pixels, data.pixels[rows])
        wanted = [old.index(int(label)) for label in data.labels[rows]]
        assert part.splits[split].labels.tolist() == wanted


# -- every kind of source ----------------------------------------------------------------------


def _npz(path: Path) -> Path:
    x = np.stack([pixels(n) for n in range(12)])
    names = np.array(["cat", "dog", "emu", "fox"])
    np.savez(path, x_train=x[:8], y_train=np.arange(8) % 4, x_test=x[8:], y_test=range(4),
             class_names=names)  # fmt: skip
    return path


def _lists(folder: Path) -> Path:
    folder.mkdir()
    for n in range(12):
        picture(n).save(folder / f"{n}.png")
    lines = [f"../{n}.png {n % 4}" for n in range(12)]
    return write_lists(folder / "lists", folder, train=lines[:8], test=lines[8:])


def _food(folder: Path) -> Path:
    (folder / "meta").mkdir(parents=True)
    names = ("apple_pie", "pizza", "waffles", "zucchini")
    for number, name in enumerate(names):
        (folder / "images" / name).mkdir(parents=True)
        for i in range(3):
            picture(3 * number + i).save(folder / f"images/{name}/{i}.jpg")
    for split, numbers in (("train", (0, 1)), ("test", (2,))):
        lines = [f"{name}/{i}" for name in names for i in numbers]
        (folder / f"meta/{split}.txt").write_text("\n".join(lines))
    return folder


def _converted(folder: Path) -> Path:
    source = find_source(make_folder(folder / "tree", classes=4))
    convert(source, folder / "decoded", size=8, rule="crop")
    return folder / "decoded"


KINDS: dict[str, tuple[Any, list[str]]] = {
    "folder": (lambda at: make_folder(at, classes=4), ["class3", "class1"]),
    "parquet": (make_parquet, ["c", "a"]),
    "npz": (lambda at: _npz(at.with_suffix(".npz")), ["fox", "cat"]),
    "cifar": (lambda at: make_cifar(at / "cifar", 100, "python"), ["name2", "name0"]),
    "cifar archive": (lambda at: make_archive(make_cifar(at / "10", 10, "binary")), ["name3"]),
    "lists": (_lists, ["3", "1"]),
    "food101": (_food, ["waffles", "apple_pie"]),
    "places365": (
        lambda at: make_places(at, ["airplane_cabin", "arena-hockey", "zoo"], "data_256"),
        ["zoo", "arena-hockey"],
    ),
    "converted": (_converted, ["class2", "class0"]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_source(tmp_path: Path, kind: str) -> None:
    make, names = KINDS[kind]
    path = make(tmp_path / "set")
    whole = open_images(path)
    part = open_images(f"{path}?classes={','.join(names)}")
    check_part(part, whole, names)
    check_part(open_images(path, classes=names), whole, names)
    assert part.fingerprint != whole.fingerprint


def test_a_named_set() -> None:
    make_cifar(paper.data_dir() / "cifar-100-python", 100, "python")
    part = open_images("cifar100?classes=name3,name1")
    assert part.name == "cifar100"
    check_part(part, open_images("cifar100"), ["name3", "name1"])


def test_formulas_keep_their_number_of_classes() -> None:
    drawn = "formula:radial?classes=4&train=2&test=1&size=16"
    names = ["radial-0-0002", "radial-0-0001"]
    check_part(open_images(drawn, classes=names), open_images(drawn), names)
    refuses("classes must be a whole number, not '@names.txt'", "formula:radial?classes=@names.txt")


class _Drawn:
    """A set as torchvision has them, which counts what is decoded."""

    classes = ("/c/cat", "/d/dog", "/e/emu")
    decoded: list[int] = []  # noqa: RUF012

    def __init__(self, root: str, split: str) -> None:
        self.first = 0 if split == "train" else 6
        self.targets = [0, 1, 2, 0, 1, 2] if split == "train" else [2, 1, 0]

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, row: int) -> tuple[Image.Image, int]:
        self.decoded.append(self.first + row)
        return picture(self.first + row), self.targets[row]


def test_torchvision_decodes_what_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("torchvision")
    monkeypatch.setattr(module, "datasets", SimpleNamespace(Drawn=_Drawn), raising=False)
    monkeypatch.setitem(sys.modules, "torchvision", module)
    monkeypatch.setattr(_Drawn, "decoded", [])
    part = open_images("torchvision:Drawn?classes=emu,Cat&root=here")
    assert part.class_names == ("/e/emu", "/c/cat")
    assert part.splits["train"].labels.tolist() == [1, 0, 1, 0]
    assert sorted(_Drawn.decoded) == [0, 2, 3, 5, 6, 8]
    refuses("no setting 'clases'; did you mean 'classes'", "torchvision:Drawn?clases=emu")


# -- the list ----------------------------------------------------------------------------------


def test_names_in_files(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("\ufeffcat\n\n  hot dog \n")
    assert read_names(f"@{tmp_path}/names.txt") == ["cat", "hot dog"]
    (tmp_path / "list.json").write_text('["cat", "a, b"]')
    assert read_names(f"@{tmp_path}/list.json") == ["cat", "a, b"]
    (tmp_path / "more.json").write_text('{"pets": ["cat"], "birds": ["emu", "owl"]}')
    assert read_names(f"@{tmp_path}/more.json:birds") == ["emu", "owl"]
    assert read_names(" cat , dog,") == ["cat", "dog"]


@pytest.mark.parametrize(
    ("content", "asked", "words"),
    [
        (None, "names.txt", "cannot read .*names.txt: No such file"),
        (b"\xff\xfe\x00", "names.txt", "names.txt: not a text in UTF-8"),
        (b"\n \n", "names.txt", "the list of classes is empty; name one at least"),
        (b"[1, 2]", "names.json", "names.json: the classes must be a list of names"),
        (b"[", "names.json", "names.json: not a JSON file"),
        (b'{"pets": ["a"]}', "names.json", "1 lists, not one list .*@.*names.json:pets"),
        (b'{"pets": ["a"]}', "names.json:pest", "no list 'pest'; did you mean 'pets'"),
        (b'["a"]', "names.json:pets", "names.json: it holds no list 'pets'$"),
        (b'{"pets": "a"}', "names.json:pets", "the classes must be a list of names"),
    ],
)
def test_files_that_hold_no_names(
    tmp_path: Path, content: bytes | None, asked: str, words: str
) -> None:
    root = make_folder(tmp_path / "set", classes=1)
    if content is not None:
        (tmp_path / asked.partition(":")[0]).write_bytes(content)
    refuses(words, f"{root}?classes=@{tmp_path}/{asked}")


def test_names_are_found_in_other_spellings() -> None:
    known = ["apple_pie", "/b/bazaar/outdoor", "Barrow's goldeneye", "C++", "arena-hockey"]
    asked = ["Bazaar outdoor", "APPLE PIE", "arena hockey", "C++", "barrow\u2019s goldeneye"]
    assert find_classes(asked, known, "set") == [1, 0, 4, 3, 2]
    # To the letter goes before alike.
    assert find_classes(["polar bear"], ["polar_bear", "polar bear"], "set") == [1]


@pytest.mark.parametrize(
    ("names", "known", "words"),
    [
        (["kat"], ["cat", "dog"], "^set: no class is called 'kat'; did you mean 'cat'\\?$"),
        (["kat", "dgo", "cat"], ["cat", "dog"], "'kat'; .* \\(1 more of the names"),
        (["zebra"], ["cat", "dog"], "no class is called 'zebra'; there are: cat, dog$"),
        (["zebra"], list("abcdefg"), "there are: a, b, c, d, e, ... \\(7\\)"),
        (["++"], ["--", "%%"], "no class is called '\\+\\+'"),
        (["Polar-Bear"], ["polar_bear", "polar bear"], "fits 2 classes, 'polar_bear' \\(class 0\\) "
         "and 'polar bear' \\(class 1\\); write one as it stands there"),
        (["crane"], ["crane", "crane"], "'crane' fits 2 classes, .* rename one in the data set"),
        (["cat", "cat"], ["cat", "dog"], "class 'cat' is named twice; name it once"),
        (["cat", "Cat"], ["cat", "dog"], "'cat' and 'Cat' are the same class"),
        (["a\nb" + 99 * "c"], ["x"], "'a b" + 57 * "c" + "'"),
        ([], ["cat"], "the list of classes is empty"),
        ("cat", ["cat"], "the classes must be a list of names"),
        ([3], ["cat"], "the classes must be a list of names"),
    ],
)  # fmt: skip
def test_names_that_are_no_class_or_two(names: Any, known: list[str], words: str) -> None:
    with pytest.raises(TransilError, match=words) as raised:
        find_classes(names, known, "set")
    assert "\n" not in str(raised.value)


# -- the spec ----------------------------------------------------------------------------------


def test_paths_with_a_question_mark(tmp_path: Path) -> None:
    root = make_folder(tmp_path / "what?" / "is?classes=it")
    assert open_images(root).classes == 3
    assert open_images(f"{root}?classes=class2,class0").class_names == ("class2", "class0")
    assert split_spec("cifar100?classes=a?b") == ("cifar100", "classes=a?b")
    odd = make_folder(tmp_path / "set", classes=1)
    (odd / "train" / "class0").rename(odd / "train" / "a+b & c?")
    (odd / "test" / "class0").rename(odd / "test" / "a+b & c?")
    assert open_images(f"{odd}?classes=a+b%20%26 c?").class_names == ("a+b & c?",)
    refuses("no setting 'clases'; did you mean 'classes'", f"{odd}?clases=a")
    refuses(r"settings are written as '\?classes=cat,dog'", f"{odd}?a,b")
    refuses("no named data set; did you mean 'cifar100'", "cifar10?classes=cat")
    refuses("the list of classes is empty", f"{odd}?classes=")
    refuses("no file is named behind the '@'", f"{odd}?classes=@")
    refuses("a setting is given twice", f"{odd}?classes=a&classes=b")
    refuses("no such folder or file", "?classes=class0")


def test_a_long_list(tmp_path: Path) -> None:
    """Longer than the name of a file can be."""
    root = make_folder(tmp_path / "set", classes=90, train=1, test=0)
    names = [f"class{label}" for label in range(90)]
    assert list(open_images(f"{root}?classes={','.join(names)}").class_names) == names


def test_a_split_without_these_classes_is_left_out(tmp_path: Path) -> None:
    root = make_folder(tmp_path / "set")
    shutil.rmtree(root / "test" / "class1")
    assert list(open_images(f"{root}?classes=class1").splits) == ["train"]


def test_a_class_without_images_can_be_left_out_but_no_wrong_label(tmp_path: Path) -> None:
    x = np.stack([pixels(n) for n in range(4)])
    names = np.array(["cat", "dog", "emu"])
    np.savez(tmp_path / "a.npz", x_train=x, y_train=[0, 0, 2, 2], class_names=names)
    refuses(r"class 1 \('dog'\) has no training images", tmp_path / "a.npz")
    assert open_images(f"{tmp_path}/a.npz?classes=emu,cat").classes == 2
    refuses(r"class 0 \('dog'\) has no training images", f"{tmp_path}/a.npz?classes=dog,cat")
    np.savez(tmp_path / "b.npz", x_train=x, y_train=[0, 1, 2, 3], class_names=names)
    refuses("row 3: label 3, but there are 3 classes", f"{tmp_path}/b.npz?classes=cat")


def test_files_of_other_classes_are_neither_read_nor_asked_for(tmp_path: Path) -> None:
    root = make_folder(tmp_path / "set")
    source = find_source(f"{root}?classes=class2,class0")
    assert "class2" in source.where("train", 5)
    stamp = source.stamp()
    (root / "train" / "class1" / "000.png").write_bytes(b"no image")
    assert find_source(f"{root}?classes=class2,class0").stamp() == stamp
    assert open_images(f"{root}?classes=class2,class0").classes == 2
    assert find_source(f"{root}?classes=class0,class2").stamp() != stamp
    (root / "train" / "class0" / "000.png").write_bytes(b"no image")
    assert find_source(f"{root}?classes=class2,class0").stamp() != stamp
    refuses("class0/000.png: cannot be decoded", f"{root}?classes=class0")


def test_large_parts_come_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    from transil.data import source as module

    monkeypatch.setattr(module, "BLOCK", 4)
    part = ClassSubset(find_source("formula:noise?classes=3&train=9"), ["noise-0-0002"])
    assert [len(block) for block in part.blocks("train")] == [2, 4, 3]


def test_in_an_experiment(tmp_path: Path) -> None:
    root = make_folder(tmp_path / "data" / "photos", classes=4)
    (tmp_path / "e.yaml").write_text(
        "references: [one]\ntargets: [two]\nmethods: [ft]\nstates: [2]\n"
        'sets: {one: {path: "photos?classes=class0,class1"}, two: {path: "cifar100?classes=cat"}}\n'
    )
    experiment = load_experiment(str(tmp_path / "e.yaml"))
    assert set_config(experiment, "one")["path"] == f"{root}?classes=class0,class1"
    assert set_config(experiment, "two")["path"] == "cifar100?classes=cat"


def test_command_line(tmp_path: Path) -> None:
    make_folder(tmp_path / "photos")
    (tmp_path / "some.txt").write_text("class2\nclass0\n")
    for spec in ("photos?classes=class2,class0", "photos?classes=@some.txt"):
        shown = json.loads(ok_here("data", "show", spec, "--json", cwd=tmp_path))
        assert shown["class_names"] == ["class2", "class0"]
    assert "12 images of 8 px, 2 classes" in ok_here(
        "data", "convert", "photos?classes=@some.txt", "part", cwd=tmp_path
    )
    failed = run_here("data", "show", "photos?classes=clas1", cwd=tmp_path)
    assert failed.returncode == 2
    assert failed.stderr.splitlines() == [
        "error: photos: no class is called 'clas1'; did you mean 'class1'?"
    ]
    ok_here(
        "train", "--data", "photos?classes=@some.txt", "--recipe", "ft-tiny", "--states", "2",
        "-o", "run", "train.epochs=1", cwd=tmp_path,
    )  # fmt: skip
    learned = json.loads((tmp_path / "run" / "label-map.json").read_text())
    assert "class1" not in json.dumps(learned)
    assert "class2" in json.dumps(learned)


# -- the paper's sets without the authors' lists ---------------------------------------------------


@pytest.mark.parametrize(
    ("layout", "place"),
    [
        ("easy", "places365_standard"),
        ("data_256", "places365"),
        ("data_256_standard", "."),
        ("data_large", "."),
    ],
)
def test_places100(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str, place: str
) -> None:
    monkeypatch.setattr(paper, "EACH", {"train": 2, "test": 1})
    names = sorted([*PLACES, "airfield", "arena-hockey", "zoo"])
    root = make_places(tmp_path / "data" / place, names, layout)
    images = open_images("places100")
    assert list(images.class_names) == PLACES
    assert images.counts("train").tolist() == [2] * 100
    assert images.counts("test").tolist() == [1] * 100
    assert list(images.splits) == ["train", "test"]
    if place != ".":
        few = open_images(f"{root}?classes=Bazaar outdoor,zoo")
        assert few.class_names == ("bazaar-outdoor", "zoo")
        assert few.counts("train").tolist() == [3, 3]
    # The first images of a class are those that are kept.
    label, old = PLACES.index("bazaar-outdoor"), names.index("bazaar-outdoor")
    whole = find_source(root).labels["train"]
    kept = find_source("places100")
    first = kept.where("train", int(np.flatnonzero(kept.labels["train"] == label)[0]))
    assert first == find_source(root).where("train", int(np.flatnonzero(whole == old)[0]))


def test_places100_says_what_is_missing(tmp_path: Path) -> None:
    root = make_places(tmp_path / "data" / "places365", PLACES[1:], "data_256")
    refuses("no class is called 'airplane_cabin'", "places100")
    shutil.rmtree(root / "val_256")
    refuses("no images of Places365 in it; expected val_256 or val_large", "places100")
    (root / "categories_places365.txt").write_text("/a/attic 1\n/b/bar 1\n")
    refuses("categories_places365.txt: its numbers must be 0 to 1, each there once", "places100")


def test_food100(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paper, "EACH", {"train": 1, "test": 100})
    root = _food(tmp_path / "data" / "food-101")
    images = open_images("food100")
    assert images.class_names == ("apple_pie", "pizza", "zucchini")
    assert images.counts("train").tolist() == [1, 1, 1]
    assert images.counts("test").tolist() == [1, 1, 1]
    shutil.rmtree(root)
    folders = make_folder(root)
    for split in ("train", "test"):
        (folders / split / "class1").rename(folders / split / "Waffles")
    assert open_images("food100").class_names == ("class0", "class2")


def test_names_as_the_paper_prints_them(shared: Path) -> None:
    names = json.loads((shared / "paper-classes.json").read_text())["places100"]
    assert find_classes(names, PLACES, "places100") == list(range(100))
    cifar = shared / "data" / "cifar100"
    chosen = find_source(f"{cifar}?classes=@{shared}/paper-classes.json:cifar100")
    assert chosen.class_names == find_source(cifar).class_names


def test_sources_are_checked_once_chosen(tmp_path: Path) -> None:
    source: Source = ClassSubset(find_source(make_folder(tmp_path / "set")), ["class1"])
    assert source.check() is source
    assert source.by_content is False

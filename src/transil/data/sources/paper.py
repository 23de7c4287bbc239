"""The paper's data sets by name, from what the user has: official files or the authors' lists.

The authors released which images belong to which class as image lists; the images themselves come
from their owners. Three sets are known without the lists. Everything is looked for below one
folder, `$TRANSIL_DATA` or `./data`:

    image_lists/target/NAME/train_no_val.lst ...   the authors' lists, unpacked
    images/                                        what replaces /DATASET_PATH in their paths
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from transil.data.source import Source
from transil.data.sources.cifar import CifarSource, is_cifar
from transil.data.sources.folder import FolderSource
from transil.data.sources.food101 import Food101Source
from transil.data.sources.lists import ListSource, is_list_folder
from transil.data.sources.parquet import ParquetSource
from transil.data.sources.places365 import is_places365, open_places365
from transil.data.sources.subset import ClassSubset
from transil.errors import TransilError

ENVIRONMENT = "TRANSIL_DATA"
# How many images of a class the paper's targets have; of larger sets the first ones are taken.
EACH = {"train": 500, "test": 100}


@dataclass(frozen=True)
class Recipe:
    """One set of the paper: what it is, where the authors' lists of it lie, what is enough alone."""

    name: str
    what: str
    lists: str
    images: str
    alone: str = ""

    @property
    def needs(self) -> str:
        """What has to be there; `images` go with the lists."""
        return f"{self.alone}; or {self.images}" if self.alone else self.images


RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe("cifar100", "CIFAR-100, 500 train / 100 test each", "target/cifar100",
               "CIFAR-100 images",
               "the official files (cifar-100-python, or its tar.gz), or Parquet in cifar100/"),
        Recipe("food100", "Food-101 without waffles", "target/food100", "Food-101 images",
               "food-101/ with images/ and meta/, as it is published, or with train/ and test/"),
        Recipe("imn100", "IMN-100: 100 ImageNet-21k classes", "target/0mixed100",
               "ImageNet-21k images"),
        Recipe("birds100", "BIRDS-100: 100 bird classes of ImageNet-21k; shares 58 classes with "
               "the references", "target/1bird100", "ImageNet-21k images"),
        Recipe("places100", "100 classes of Places365", "target/places100", "Places365 images",
               "places365/ or places365_standard/ with train/ and val/, or with its lists and "
               "data_256/ and val_256/, as it is published"),
        *(Recipe(f"ref{n}", f"reference {n} of 10: 100 ImageNet-21k classes, 490 train / 210 val / "
                 "50 test each", f"reference/{n}mixed100", "ImageNet-21k images")
          for n in range(1, 11)),
    )
}  # fmt: skip


def data_dir() -> Path:
    """Where named sets are looked for."""
    return Path(os.environ.get(ENVIRONMENT, "data"))


def open_recipe(name: str) -> Source:
    """The source of a named set, from the first of the places where it may be."""
    recipe, folder = RECIPES[name], data_dir()
    lists = folder / "image_lists" / recipe.lists
    source: Source | None = None
    if is_list_folder(lists) and (folder / "images").is_dir():
        source = ListSource(lists, folder / "images")
    elif name in WITHOUT_LISTS:
        source = WITHOUT_LISTS[name](folder)
    if source is None:
        raise TransilError(
            f"{name}: not found in {folder}. It needs {recipe.needs} below {folder / 'images'}, "
            f"and the authors' lists in {lists} "
            f"(train_no_val.lst, val.lst, test.lst); ${ENVIRONMENT} names another folder than {folder}"
        )
    source.name = name
    return source


def _cifar(folder: Path) -> Source | None:
    parquet = folder / "cifar100"
    if parquet.is_dir() and any(parquet.glob("*.parquet")):
        return ParquetSource(parquet)
    for place in (folder / "cifar-100-python", folder / "cifar-100-binary", parquet, folder):
        if place.is_dir() and is_cifar(place):
            return CifarSource(place)
    for archive in ("cifar-100-python.tar.gz", "cifar-100-binary.tar.gz"):
        if (folder / archive).is_file():
            return CifarSource(folder / archive)
    return None


def _food(folder: Path) -> Source | None:
    place = folder / "food-101"
    if not place.is_dir():
        return None
    source = FolderSource(place) if (place / "train").is_dir() else Food101Source(place)
    names = [name for name in source.class_names if name.lower() != "waffles"]
    return ClassSubset(source, names, EACH)


def _places(folder: Path) -> Source | None:
    names = (resources.files("transil.data") / "places100.txt").read_text("utf-8").split()
    for place in (folder / "places365", folder / "places365_standard", folder):
        if is_places365(place):
            return ClassSubset(open_places365(place), names, EACH)
    return None


WITHOUT_LISTS = {"cifar100": _cifar, "food100": _food, "places100": _places}

"""The paper's data sets by name, from what the user has: official files or the authors' lists.

The authors released which images belong to which class as image lists; the images themselves come
from their owners. Everything is looked for below one folder, `$TRANSIL_DATA` or `./data`:

    image_lists/target/NAME/train_no_val.lst ...   the authors' lists, unpacked
    images/                                        what replaces /DATASET_PATH in their paths
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from transil.data.source import Source
from transil.data.sources.cifar import CifarSource, is_cifar
from transil.data.sources.food101 import Food101Source
from transil.data.sources.lists import ListSource, is_list_folder
from transil.data.sources.parquet import ParquetSource
from transil.data.sources.subset import ClassSubset
from transil.errors import TransilError

ENVIRONMENT = "TRANSIL_DATA"


@dataclass(frozen=True)
class Recipe:
    """One set of the paper: what it is, and where the authors' lists of it lie."""

    name: str
    what: str
    lists: str
    needs: str


def _reference(number: int) -> Recipe:
    return Recipe(
        f"ref{number}",
        f"reference {number} of 10: 100 ImageNet-21k classes, 490 train / 210 val / 50 test each",
        f"reference/{number}mixed100",
        "ImageNet-21k images",
    )


RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe("cifar100", "CIFAR-100, 500 train / 100 test each", "target/cifar100",
               "the official files (cifar-100-python, or its tar.gz), or Parquet in cifar100/"),
        Recipe("food100", "Food-101 without waffles", "target/food100",
               "food-101/ with images/ and meta/, as it is published; or its images"),
        Recipe("imn100", "IMN-100: 100 ImageNet-21k classes", "target/0mixed100",
               "ImageNet-21k images"),
        Recipe("birds100", "BIRDS-100: 100 bird classes of ImageNet-21k; shares 58 classes with "
               "the references", "target/1bird100", "ImageNet-21k images"),
        Recipe("places100", "100 classes of Places365", "target/places100", "Places365 images"),
        *(_reference(number) for number in range(1, 11)),
    )
}  # fmt: skip


def data_dir() -> Path:
    """Where named sets are looked for."""
    return Path(os.environ.get(ENVIRONMENT, "data"))


def open_recipe(name: str) -> Source:
    """The source of a named set, from the first of the places where it may be."""
    recipe, folder = RECIPES[name], data_dir()
    lists = folder / "image_lists" / recipe.lists
    if is_list_folder(lists) and (folder / "images").is_dir():
        source: Source = ListSource(lists, folder / "images")
    elif name == "cifar100" and (found := _cifar(folder)) is not None:
        source = found
    elif name == "food100" and (folder / "food-101").is_dir():
        food = Food101Source(folder / "food-101")
        source = ClassSubset(food, [name for name in food.class_names if name != "waffles"])
    else:
        raise TransilError(
            f"{name}: not found in {folder}. It needs {recipe.needs}"
            + (f" below {folder / 'images'}" if name != "cifar100" else f" in {folder}")
            + f", and the authors' lists in {lists} (train_no_val.lst, val.lst, test.lst)"
            + (" or none of them" if name in ("cifar100", "food100") else "")
            + f"; ${ENVIRONMENT} names another folder than {folder}"
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

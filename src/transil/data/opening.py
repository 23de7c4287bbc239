"""`open_images`: from a path, a name or a formula to decoded images."""

from __future__ import annotations

import os
import warnings
from collections.abc import Collection, Sequence
from pathlib import Path
from urllib.parse import parse_qsl

from transil._common.files import told
from transil._common.progress import Progress, no_progress
from transil._common.registry import nearest
from transil.data.cache import cached_images, open_converted
from transil.data.class_lists import read_names
from transil.data.decode import check_rule, check_size
from transil.data.entries import is_converted
from transil.data.images import Images
from transil.data.source import Source
from transil.data.sources.cifar import CifarSource, is_cifar
from transil.data.sources.decoded import DecodedSource
from transil.data.sources.folder import FolderSource
from transil.data.sources.food101 import Food101Source, is_food101
from transil.data.sources.formula import DEFAULTS, FormulaSource
from transil.data.sources.lists import ListSource, is_list_folder
from transil.data.sources.npz import NpzSource
from transil.data.sources.paper import RECIPES, open_recipe
from transil.data.sources.parquet import ParquetSource
from transil.data.sources.places365 import is_places365, open_places365
from transil.data.sources.subset import ClassSubset
from transil.data.sources.torchvision import TorchvisionSource
from transil.errors import DataWarning, TransilError


def open_images(
    spec: str | os.PathLike[str],
    *,
    size: int | None = None,
    rule: str = "crop",
    root: str | os.PathLike[str] | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    skip_bad: bool = False,
    all_train: bool = False,
    classes: Sequence[str] | None = None,
    progress: Progress = no_progress,
) -> Images:
    """The images of a data set, decoded once and mapped from the cache ever after.

    `spec` is a folder (Parquet, image folder, image lists, CIFAR), a file (.npz, CIFAR's tar.gz),
    a name (`transil data list`), `formula:FAMILY?classes=100&seed=3`, or
    `torchvision:NAME?root=DIR`. `size` scales to squares by `rule`, 'crop' or 'stretch'; without
    it images must have one size. `root` is where the paths of image lists begin; `all_train` takes
    their train.lst, validation images included. `skip_bad` leaves out what cannot be decoded.
    `classes` keeps the classes of these names, numbered in this order, as `?classes=cat,dog` or
    `?classes=@FILE` at the end of `spec` does.
    """
    if cache_dir is not None and not os.fspath(cache_dir):
        raise TransilError("the cache folder has an empty name")
    if is_converted(Path(spec)) and classes is None:
        images = _converted(Path(spec), size)
    else:
        above, cache = (Path(folder) if folder else None for folder in (root, cache_dir))
        source = find_source(spec, root=above, size=size, all_train=all_train, classes=classes)
        images = cached_images(
            source.check(), size=check_size(size), rule=check_rule(rule), cache_dir=cache,
            skip_bad=skip_bad, progress=progress,
        )  # fmt: skip
    warn_about(images)
    return images


def warn_about(images: Images) -> None:
    """Say what was left out, and what is in two splits."""
    if images.skipped:
        warnings.warn(
            f"{images.name}: {len(images.skipped)} image(s) could not be decoded and were left out; "
            f"the first: {images.skipped[0]}",
            DataWarning,
            stacklevel=3,
        )
    if images.duplicates:
        warnings.warn(
            f"{images.name}: {images.duplicates} image(s) are both in train and in test",
            DataWarning,
            stacklevel=3,
        )


def find_source(
    spec: str | os.PathLike[str],
    *,
    root: Path | None = None,
    size: int | None = None,
    all_train: bool = False,
    classes: Sequence[str] | None = None,
) -> Source:
    """The source that `spec` names; nothing is decoded yet."""
    with told(f"cannot read {os.fspath(spec)}"):
        source = _source(os.fspath(spec), root, size, all_train)
        return source if classes is None else ClassSubset(source, classes)


def split_spec(text: str, folder: Path | None = None) -> tuple[str, str]:
    """A path or a name, and the settings behind its '?'; paths begin at `folder`.

    Names of files may have a '?', too: the first place is taken before which something is there.
    """
    places = [at for at, character in enumerate(text) if character == "?" and at]
    for at in [len(text), *places]:
        if os.path.exists((folder or Path()) / text[:at]) or text[:at] in RECIPES:
            return text[:at], text[at + 1 :]
    path, _, query = text.partition("?")
    return (path, query) if path else (text, "")


def _source(text: str, root: Path | None, size: int | None, all_train: bool) -> Source:
    if text.startswith("formula:"):
        return _formula(text, size)
    source: Source
    if text.startswith("torchvision:"):
        kind, _, query = text.partition("?")
        options = _options(text, query, "classes=cat,dog", ["classes", "root", "download"])
        folder = Path(options["root"]) if "root" in options else (root or Path("data"))
        download = options.get("download") in ("1", "true", "yes")
        source = TorchvisionSource(kind.removeprefix("torchvision:"), folder, download=download)
    else:
        kind, query = split_spec(text)
        options = _options(text, query, "classes=cat,dog", ["classes"])
        source = _at(kind, root, size, all_train)
    return ClassSubset(source, read_names(options["classes"])) if "classes" in options else source


def _at(text: str, root: Path | None, size: int | None, all_train: bool) -> Source:
    """The source at a path, or of that name."""
    path = Path(text)
    if path.is_dir():
        return _in_folder(path, root, size, all_train)
    if path.is_file():
        if path.suffix == ".npz":
            return NpzSource(path)
        if is_cifar(path):
            return CifarSource(path)
        raise TransilError(
            f"{path}: unknown kind of file; give a folder, an .npz or CIFAR's tar.gz"
        )
    if text in RECIPES:
        return open_recipe(text)
    raise TransilError(
        f"{text}: no such folder or file, and no named data set; "
        f"{nearest(text, [*RECIPES, 'formula:'])}"
    )


def _in_folder(path: Path, root: Path | None, size: int | None, all_train: bool) -> Source:
    if is_converted(path):
        return DecodedSource(_converted(path, size))
    for folder in (path, path / "data"):  # the hub keeps shards in 'data'
        if any(folder.glob("*.parquet")):
            return ParquetSource(folder)
    if is_places365(path):
        return open_places365(path)
    if is_list_folder(path):
        return ListSource(path, root, all_train=all_train)
    if is_food101(path):
        return Food101Source(path)
    return CifarSource(path) if is_cifar(path) else FolderSource(path)


def _converted(path: Path, size: int | None) -> Images:
    images = open_converted(path)
    if check_size(size) not in (None, images.size):
        raise TransilError(
            f"{path}: its images have {images.size} pixels; convert the original to {size}"
        )
    return images


def _formula(text: str, size: int | None) -> Source:
    family, _, query = text.removeprefix("formula:").partition("?")
    settings: dict[str, int] = {}
    for key, value in _options(text, query, "classes=100&seed=3", DEFAULTS).items():
        if not value.isdecimal():
            raise TransilError(f"{text}: {key} must be a whole number, not '{value}'")
        settings[key] = int(value)
    if size is not None:
        settings["size"] = size  # drawn at that size, not scaled to it
    return FormulaSource(family, **settings)


def _options(text: str, query: str, example: str, known: Collection[str]) -> dict[str, str]:
    query = query.replace("+", "%2B")  # no blank, as in forms, but itself
    try:
        found = parse_qsl(query, strict_parsing=True, keep_blank_values=True) if query else []
    except ValueError:
        raise TransilError(f"{text}: settings are written as '?{example}'") from None
    options = dict(found)
    if len(options) < len(found):
        raise TransilError(f"{text}: a setting is given twice; give each once")
    if unknown := [key for key in options if key not in known]:
        raise TransilError(f"{text}: no setting '{unknown[0]}'; {nearest(unknown[0], known)}")
    return options

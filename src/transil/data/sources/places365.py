"""Places365 as its owners publish it; its labelled test images are those called `val`.

Either a folder a class (`train/airfield/ID.jpg`, `val/...`), which they call the easy format, or
lists (`categories_places365.txt`, `places365_train_standard.txt`, `places365_val.txt`) beside the
images they speak of, `data_256/a/airfield/ID.jpg` and `val_256/ID.jpg`. Torchvision keeps the latter.
"""

from __future__ import annotations

from pathlib import Path

from transil._common.files import digest
from transil.data.source import FileSource, Source, file_stamp
from transil.data.sources.folder import FolderSource
from transil.data.sources.lists import read_list
from transil.errors import TransilError

CATEGORIES = "categories_places365.txt"
LISTS = {"train": "places365_train_standard.txt", "test": "places365_val.txt"}
# Where the images are, the small ones first; torchvision renames what the archives unpack to.
FOLDERS = {
    "train": ("data_256_standard", "data_256", "data_large_standard", "data_large"),
    "test": ("val_256", "val_large"),
}
# A class by which the easy format is known from other folders.
KNOWN = "airplane_cabin"


def is_places365(folder: Path) -> bool:
    """Whether a folder holds Places365 in one of its layouts."""
    return _is_easy(folder) or (folder / CATEGORIES).is_file()


def open_places365(folder: Path) -> Source:
    """The images of such a folder."""
    if _is_easy(folder):
        return FolderSource(folder, {"train": "train", "val": "test"})
    return Places365Lists(folder)


def _is_easy(folder: Path) -> bool:
    return all((folder / split / KNOWN).is_dir() for split in ("train", "val"))


class Places365Lists(FileSource):
    """The lists and the folders of images that they speak of."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.name = folder, folder.resolve().name
        self.class_names = _categories(folder / CATEGORIES)
        self.roots = {split: _images(folder, names) for split, names in FOLDERS.items()}
        read = {split: read_list(folder / name) for split, name in LISTS.items()}
        self._paths = {split: paths for split, (paths, _) in read.items()}
        self.labels = {split: labels for split, (_, labels) in read.items()}

    def path(self, split: str, row: int) -> Path:
        return self.roots[split] / self._paths[split][row].lstrip("/")

    def index_stamp(self) -> str:
        lists = [file_stamp(self.folder / name) for name in (CATEGORIES, *LISTS.values())]
        return digest(["places365", lists])


def _categories(path: Path) -> tuple[str, ...]:
    """`/a/arena/hockey 15` is class 15, called arena-hockey as in the easy format."""
    names, labels = read_list(path)
    if sorted(labels.tolist()) != list(range(len(names))):
        raise TransilError(f"{path}: its numbers must be 0 to {len(names) - 1}, each there once")
    ordered = [name for _, name in sorted(zip(labels.tolist(), names, strict=True))]
    return tuple("-".join(name.strip("/").split("/")[1:]) or name for name in ordered)


def _images(folder: Path, names: tuple[str, ...]) -> Path:
    for name in names:
        if (folder / name).is_dir():
            return folder / name
    raise TransilError(f"{folder}: no images of Places365 in it; expected {' or '.join(names)}")

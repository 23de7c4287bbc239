"""`save_pretrained` and `from_pretrained`, as users of Hugging Face know them, with local folders."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Self

from transil._common.files import check_replaceable
from transil.errors import TransilError

CONFIG = "config.json"


class Pretrained(ABC):
    """What has `save` and `load`, in a folder that a hub can hold: all of it is in config.json."""

    _kind: ClassVar[tuple[str, int]]  # format and version of the file

    @abstractmethod
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file."""

    @classmethod
    @abstractmethod
    def load(cls, path: str | os.PathLike[str]) -> Any:
        """Read the file."""

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write it into a folder; a config.json of something else is not replaced."""
        check_replaceable(Path(folder) / CONFIG, *self._kind)
        self.save(Path(folder) / CONFIG)

    @classmethod
    def from_pretrained(cls, folder: str | os.PathLike[str]) -> Self:
        """Read what `save_pretrained` wrote. Only local folders: nothing is ever downloaded."""
        if not Path(folder).is_dir():
            raise TransilError(
                f"{folder}: no such folder, and nothing is downloaded; fetch it first: "
                "huggingface_hub.snapshot_download gives its folder"
            )
        made: Self = cls.load(Path(folder) / CONFIG)
        return made

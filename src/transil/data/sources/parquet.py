"""Parquet in the Hugging Face convention: `image` = {bytes, path}, `label`, several shards."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from transil._common.files import check_regular, digest, told
from transil.data.source import BLOCK, Block, Source, file_stamp, hashed_whole, names_for
from transil.errors import TransilError, missing, reason
from transil.schedule import IntArray
from transil.scores.zips import check_growth

# train-00000-of-00002.parquet, test.parquet; "validation" is the hub's name for val.
SHARD = re.compile(r"([A-Za-z]+)(?:-\d+-of-\d+)?\.parquet")
SPLITS = {"validation": "val", "valid": "val"}


class ParquetSource(Source):
    """A folder of Parquet shards."""

    def __init__(self, folder: Path) -> None:
        self.name = folder.resolve().name
        self.folder = folder
        self.shards: dict[str, list[Path]] = {}
        for path in sorted(folder.glob("*.parquet")):
            match = SHARD.fullmatch(path.name)
            if match is None:
                raise TransilError(f"{path}: name it SPLIT.parquet or SPLIT-00000-of-00001.parquet")
            self.shards.setdefault(SPLITS.get(match[1], match[1]), []).append(path)
        self.image_column, self.label_column, names = self._schema()
        self.labels = {split: self._labels(paths) for split, paths in self.shards.items()}
        self.class_names = tuple(names) if names else names_for(self.labels)
        self.by_content = hashed_whole(p for paths in self.shards.values() for p in paths)

    def blocks(self, split: str) -> Iterator[Block]:
        for path in self.shards[split]:
            with _opened(path) as file:
                for batch in file.iter_batches(batch_size=BLOCK, columns=[self.image_column]):
                    items = batch.column(0).to_pylist()
                    # An empty cell is an image that cannot be decoded.
                    yield [(item or {}).get("bytes") or b"" for item in items]

    def stamp(self) -> str:
        with told(f"cannot read {self.folder}"):
            shards = sorted(self.shards.items())
            stamps = [[split, *map(file_stamp, paths)] for split, paths in shards]
        return digest(["parquet", *stamps])

    def where(self, split: str, row: int) -> str:
        for path in self.shards[split]:
            with _opened(path) as file:
                rows = file.metadata.num_rows
            if row < rows:
                return f"{path}, row {row}"
            row -= rows
        return super().where(split, row)

    def _schema(self) -> tuple[str, str, list[str]]:
        """The names of the two columns, and the class names where the metadata has them."""
        path = next(iter(self.shards.values()))[0]
        with _opened(path) as file:
            schema = file.schema_arrow
        image = next((n for n in ("image", "img") if n in schema.names), None)
        label = next((n for n in ("label", "fine_label", "labels") if n in schema.names), None)
        if image is None or label is None:
            raise TransilError(
                f"{path}: columns 'image' and 'label' are needed, found {', '.join(schema.names)}"
            )
        return image, label, _class_names(schema.metadata or {}, label)

    def _labels(self, paths: list[Path]) -> IntArray:
        parts = []
        for path in paths:
            with _opened(path) as file:
                self._check(path, file)
                column = file.read(columns=[self.label_column]).column(0)
            if column.null_count:
                raise TransilError(f"{path}: column '{self.label_column}' has empty cells")
            values = column.to_numpy()
            if not np.issubdtype(values.dtype, np.integer):
                raise TransilError(f"{path}: column '{self.label_column}' must hold whole numbers")
            parts.append(values.astype(np.int64))
        return np.concatenate(parts)

    def _check(self, path: Path, file: Any) -> None:
        """An error where a shard has not the columns of the first, or unpacks to far too much."""
        from pyarrow import types

        for column in (self.image_column, self.label_column):
            if (count := file.schema_arrow.names.count(column)) != 1:
                raise TransilError(f"{path}: column '{column}' is there {count} times, not once")
        kind = file.schema_arrow.field(self.image_column).type
        place = kind.get_field_index("bytes") if types.is_struct(kind) else -1
        held = kind.field(place).type if place >= 0 else None
        if held is None or not (types.is_binary(held) or types.is_large_binary(held)):
            raise TransilError(
                f"{path}: column '{self.image_column}' must hold {{bytes, path}}, not {kind}"
            )
        rows, groups = file.metadata.num_rows, range(file.metadata.num_row_groups)
        # One byte can stand for a million labels, but not for an image.
        unpacked = sum(file.metadata.row_group(i).total_byte_size for i in groups)
        check_growth(max(8 * rows, unpacked), path.stat().st_size, str(path))


def _class_names(metadata: dict[bytes, bytes], label: str) -> list[str]:
    try:
        features = json.loads(metadata[b"huggingface"])["info"]["features"]
        return [str(name) for name in features[label]["names"]]
    except (KeyError, ValueError, TypeError, RecursionError):
        return []


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """A Parquet file; what is wrong with it is told in one line, also while it is read."""
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ModuleNotFoundError:
        raise missing("Parquet needs", "pyarrow") from None
    check_regular(path)
    try:
        with ParquetFile(path) as file:
            yield file
    except (ArrowException, OSError, MemoryError, UnicodeDecodeError, OverflowError) as error:
        raise TransilError(f"{path}: not a Parquet file, or cut short ({reason(error)})") from None

"""Scores in tables, CSV and Parquet: a row per image, beside the scores whatever names the image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from transil.arrays import FloatArray, check_finite
from transil.errors import TransilError, reason
from transil.files import atomic_file, told
from transil.registry import nearest

TABLES = (".csv", ".tsv", ".parquet")


@dataclass(frozen=True)
class Table:
    """A table of a file. `columns` are those with scores, in learning order; others stay as they are."""

    data: Any  # pyarrow.Table
    columns: tuple[int, ...]
    header: bool = True
    delimiter: str = ","

    @property
    def scores(self) -> FloatArray:
        """The scores, (rows, columns); an empty cell is NaN."""
        parts = [self.data.column(i).to_numpy() for i in self.columns]
        if not parts:
            return np.empty((self.data.num_rows, 0))
        made = np.stack(parts, axis=1)
        return made if np.issubdtype(made.dtype, np.floating) else made.astype(np.float64)

    def with_scores(self, scores: FloatArray) -> Table:
        """The same table with other scores."""
        data = self.data
        for place, i in enumerate(self.columns):
            data = data.set_column(
                i, data.column_names[i], [np.ascontiguousarray(scores[:, place])]
            )
        return Table(data, self.columns, self.header, self.delimiter)

    @property
    def others(self) -> list[str]:
        """The names of columns without scores."""
        own = set(self.columns)
        return [name for i, name in enumerate(self.data.column_names) if i not in own]


def read_table(path: Path, keep: Sequence[str] = ()) -> Table:
    """Read a table; its scores are all columns of numbers that are not named in `keep`."""
    arrow = _arrow()
    with told(f"cannot read {path}"), open(path, "rb") as file:
        first = file.readline(1 << 20)
    header, delimiter = True, ","
    try:
        if path.suffix == ".parquet":
            data = arrow.parquet.read_table(path)
        else:
            header, delimiter = _form(first.decode("utf-8-sig", "replace"), path)
            data = arrow.csv.read_csv(
                path,
                arrow.csv.ReadOptions(autogenerate_column_names=not header),
                arrow.csv.ParseOptions(delimiter=delimiter),
            )
    except arrow.ArrowException as error:
        raise TransilError(f"{path}: not a table of that kind ({reason(error)})") from None
    for name in keep:
        if name not in data.column_names:
            raise TransilError(
                f"{path}: no column '{name}' to keep; {nearest(name, data.column_names)}"
            )
    number = (arrow.types.is_floating, arrow.types.is_integer)
    columns = [
        i
        for i, field in enumerate(data.schema)
        if field.name not in keep and any(is_one(field.type) for is_one in number)
    ]
    return Table(data, tuple(columns), header, delimiter)


def write_table(path: Path, table: Table) -> None:
    """Write a table as the ending of `path` says, all of it or nothing."""
    arrow = _arrow()
    with atomic_file(path, durable=False) as file:
        if path.suffix == ".parquet":
            arrow.parquet.write_table(table.data, file)
            return
        delimiter = "\t" if path.suffix == ".tsv" else table.delimiter.replace("\t", ",")
        options = arrow.csv.WriteOptions(include_header=table.header, delimiter=delimiter)
        arrow.csv.write_csv(table.data, file, options)


def check_table(table: Table, path: Path, sizes: Sequence[int]) -> None:
    """An error where a table does not have the columns of one of the `sizes`, or a hole in them."""
    found = len(table.columns)
    if found not in sizes:
        named = [table.data.column_names[i] for i in table.columns[:2]]
        text = f", and {', '.join(table.others[:3])} without" if table.others else ""
        raise TransilError(
            f"{path}: {found} columns of numbers ({', '.join([*named, '...'][:3])}){text}, but a model "
            f"has {_listed(sizes)} classes; name columns that are no scores with --keep"
        )
    check_finite(table.scores, str(path))


def _listed(sizes: Sequence[int]) -> str:
    shown = [str(size) for size in sizes]
    return ", ".join(shown if len(shown) < 5 else [*shown[:3], "...", shown[-1]])


def _form(line: str, path: Path) -> tuple[bool, str]:
    """Whether a first line is a header, and what separates its cells."""
    delimiter = "\t" if path.suffix == ".tsv" else max(",;\t", key=line.count)
    return not all(_is_number(cell) for cell in line.split(delimiter)), delimiter


def _is_number(cell: str) -> bool:
    try:
        float(cell.strip().strip('"'))
    except ValueError:
        return False
    return True


def _arrow() -> Any:
    try:
        import pyarrow
        import pyarrow.csv
        import pyarrow.parquet
    except ModuleNotFoundError:
        raise TransilError("tables need pyarrow; run: pip install 'transil[data]'") from None
    return pyarrow

"""Scores in tables, CSV and Parquet: a row per image, beside the scores whatever names the image."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from transil.arrays import FloatArray, check_finite
from transil.errors import TransilError, missing, reason
from transil.files import atomic_file, check_regular, open_regular, told
from transil.registry import nearest

TABLES = (".csv", ".tsv", ".parquet")
LONGEST = 1 << 20  # bytes of a line that are looked at to tell what separates cells


@dataclass(frozen=True)
class Table:
    """A table of a file. `columns` are those with scores, in learning order; others stay as they are.

    In CSV those are kept as the texts they are: '007' is no number. `listed`: there is one such
    column, and each of its cells holds all scores of a row.
    """

    data: Any  # pyarrow.Table
    columns: tuple[int, ...]
    header: bool = True
    delimiter: str = ","
    listed: bool = False

    @property
    def width(self) -> int:
        """How many scores a row has."""
        return self.scores.shape[1] if self.listed else len(self.columns)

    @property
    def scores(self) -> FloatArray:
        """The scores, (rows, columns); an empty cell is NaN."""
        if self.listed:
            return _from_lists(self.data.column(self.columns[0]))
        cells = [self.data.column(i) for i in self.columns]
        texts = [_arrow().types.is_string(column.type) for column in cells]
        parts = [_numbers(c) if text else c for c, text in zip(cells, texts, strict=True)]
        made = np.stack([part.to_numpy() for part in parts], axis=1)
        return made if np.issubdtype(made.dtype, np.floating) else made.astype(np.float64)

    def with_scores(self, scores: FloatArray) -> Table:
        """The same table with other scores."""
        data = self.data
        if self.listed:
            (i,) = self.columns
            lists = _to_lists(scores, data.schema.field(i).type)
            return replace(self, data=data.set_column(i, data.column_names[i], lists))
        for place, i in enumerate(self.columns):
            data = data.set_column(
                i, data.column_names[i], [np.ascontiguousarray(scores[:, place])]
            )
        return replace(self, data=data)


def read_table(path: Path, keep: Sequence[str] = (), key: str | None = None) -> Table:
    """Read a table; its scores are all columns of numbers, but for those that `keep` names.

    Or they are the lists of the column that `key` names. A column without a name, as the index
    that pandas writes, is kept as well. The columns of a table without a header are called 1, 2, ...
    """
    check_regular(path)
    with _errors(path):
        table = _read_parquet(path) if path.suffix == ".parquet" else _read_text(path)
    names = table.data.column_names
    for name in keep:
        if name not in names:
            raise TransilError(f"{path}: no column '{name}' to keep; {nearest(name, names)}")
    if key is not None:
        return _with_lists(table, path, key)
    kept = {*keep, ""}
    return replace(table, columns=tuple(i for i in table.columns if names[i] not in kept))


def write_table(path: Path, table: Table) -> None:
    """Write a table as the ending of `path` says, all of it or nothing."""
    arrow = _arrow()
    with _errors(path), atomic_file(path, durable=False) as file:
        if path.suffix == ".parquet":
            arrow.parquet.write_table(table.data, file)
            return
        delimiter = "\t" if path.suffix == ".tsv" else table.delimiter.replace("\t", ",")
        options = arrow.csv.WriteOptions(include_header=table.header, delimiter=delimiter)
        arrow.csv.write_csv(table.data, file, options)


def check_table(table: Table, path: Path, sizes: Sequence[int]) -> None:
    """An error where a table does not have the columns of one of the `sizes`, or a hole in them."""
    found, names = table.width, table.data.column_names
    if not table.data.num_rows:
        raise TransilError(f"{path}: a table without rows")
    if table.listed and found not in sizes:
        raise TransilError(
            f"{path}: lists of {found} scores, but a model has {_listed(sizes)} classes; check the "
            "state or the bank"
        )
    if found not in sizes:
        lists = [f.name for f in table.data.schema if _is_list(f.type)]
        if len(lists) == 1:
            raise TransilError(
                f"{path}: {found} columns of numbers, but a model has {_listed(sizes)} classes; "
                f"'{lists[0]}' holds lists: where they are the scores, say --key {lists[0]}"
            )
        others = [name for i, name in enumerate(names) if i not in table.columns]
        shown = [f"{found} columns of numbers"]
        if table.columns:
            first = [names[i] for i in table.columns[:2]]
            shown[0] += f" ({', '.join([*first, '...'] if found > 2 else first)})"
        if others:
            shown.append(
                f"{len(others)} of others ({', '.join(repr(name) for name in others[:3])})"
            )
        raise TransilError(
            f"{path}: {' and '.join(shown)}, but a model has {_listed(sizes)} classes; name numbers "
            "that are no scores with --keep; a score has a decimal point, and no cell may be empty"
        )
    check_finite(table.scores, str(path))


def check_guess(table: Table, path: Path, keep: Sequence[str]) -> None:
    """An error where the number of scores tells no state: a column that is none may be a damaged one."""
    if table.listed:
        return
    names = table.data.column_names
    others = [
        name
        for i, name in enumerate(names)
        if i not in set(table.columns) and name not in {*keep, ""}
    ]
    if others:
        more = f" and {len(others) - 3} more" if len(others) > 3 else ""
        raise TransilError(
            f"{path}: not all columns are scores ({', '.join(map(repr, others[:3]))}{more}), so their "
            f"number does not tell the state; give it (--state), or name what is no score (--keep)"
        )


def _read_parquet(path: Path) -> Table:
    arrow = _arrow()
    data = arrow.parquet.read_table(path)
    is_number = (arrow.types.is_floating, arrow.types.is_integer)
    columns = [
        i for i, field in enumerate(data.schema) if any(test(field.type) for test in is_number)
    ]
    return Table(data, tuple(columns))


def _with_lists(table: Table, path: Path, key: str) -> Table:
    """The table with its scores in the lists of one column; an error where they are none."""
    names, lists = table.data.column_names, [f.name for f in table.data.schema if _is_list(f.type)]
    if not lists:
        raise TransilError(
            f"{path}: --key {key} names a column of lists of numbers, which Parquet may have; here "
            "is none"
        )
    if key not in lists:
        raise TransilError(f"{path}: no column '{key}' of lists of numbers; {nearest(key, lists)}")
    place = names.index(key)
    lengths = _arrow().compute.list_value_length(table.data.column(place)).to_pylist()
    for row, length in enumerate(lengths):
        if not length or length != lengths[0]:
            raise TransilError(
                f"{path}: '{key}' has {length or 'no'} scores in row {row} (counted from 0) and "
                f"{lengths[0] or 'none'} in the first; all rows have the scores of one model"
            )
    return replace(table, columns=(place,), listed=True)


def _is_list(kind: Any) -> bool:
    types = _arrow().types
    forms = (types.is_list, types.is_large_list, types.is_fixed_size_list)
    return any(form(kind) for form in forms) and (
        types.is_floating(kind.value_type) or types.is_integer(kind.value_type)
    )


def _from_lists(column: Any) -> FloatArray:
    """The lists of a column, which have one length, as (rows, columns); an empty cell is NaN."""
    parts = [chunk.flatten().to_numpy(zero_copy_only=False) for chunk in column.chunks]
    made = np.concatenate(parts) if parts else np.empty(0)
    made = made.reshape(len(column), -1) if len(column) else np.empty((0, 0))
    return made if np.issubdtype(made.dtype, np.floating) else made.astype(np.float64)


def _to_lists(scores: FloatArray, kind: Any) -> Any:
    """Scores (rows, columns) as a column of lists of that kind."""
    arrow = _arrow()
    rows, width = scores.shape
    values = arrow.array(np.ascontiguousarray(scores).reshape(-1))
    if arrow.types.is_fixed_size_list(kind):
        return arrow.FixedSizeListArray.from_arrays(values, width)
    large = arrow.types.is_large_list(kind)
    form = arrow.LargeListArray if large else arrow.ListArray
    starts = np.arange(0, (rows + 1) * width, width, dtype=np.int64 if large else np.int32)
    return form.from_arrays(starts, values)


def _read_text(path: Path) -> Table:
    """All cells as text first: what is no score is to be written as it was read."""
    arrow = _arrow()
    with open_regular(path) as file:
        lines = [file.readline(LONGEST).decode("utf-8-sig", "replace") for _ in range(2)]
    delimiter = "\t" if path.suffix == ".tsv" else _delimiter([line for line in lines if line])
    read, parse = (
        arrow.csv.ReadOptions(autogenerate_column_names=True),
        arrow.csv.ParseOptions(delimiter=delimiter),
    )
    with arrow.csv.open_csv(path, read, parse) as beginning:
        text = {name: arrow.string() for name in beginning.schema.names}
    convert = arrow.csv.ConvertOptions(column_types=text, strings_can_be_null=False)
    data = arrow.csv.read_csv(path, read, parse, convert)
    first = [str(data.column(i)[0]).lstrip("\ufeff") for i in range(data.num_columns)]
    below = data.slice(1) if data.num_rows > 1 else data
    columns = [i for i in range(data.num_columns) if _numbers(below.column(i)) is not None]
    header = (data.num_rows == 1 and not columns) or _is_header([first[i] for i in columns])
    data = data.slice(1) if header else data
    names = first if header else [str(i + 1) for i in range(data.num_columns)]
    return Table(data.rename_columns(names), tuple(columns), header, delimiter)


def _delimiter(lines: Sequence[str]) -> str:
    """What separates cells: of those that split both first lines alike, the most unusual in a text."""
    for delimiter in "\t;,":
        quoted = re.compile(rf'(?:^|(?<={delimiter}))"(?:[^"]|"")*(?:"|$)')
        counts = {quoted.sub("", line).count(delimiter) for line in lines}
        if len(counts) == 1 and counts.pop() > 0:
            return delimiter
    return ","


def _is_header(cells: Sequence[str]) -> bool:
    """Whether the first cells of columns of numbers are names: no numbers, or 0, 1, 2, ..."""
    try:
        values = [float(cell) for cell in cells]
    except ValueError:
        return True
    return len(values) > 1 and values in ([*range(len(values))], [*range(1, len(values) + 1)])


def _numbers(column: Any) -> Any:
    """A column of texts as numbers, None where they are none."""
    arrow = _arrow()
    try:
        return arrow.compute.cast(arrow.compute.utf8_trim_whitespace(column), arrow.float64())
    except arrow.ArrowInvalid:
        return None


def _listed(sizes: Sequence[int]) -> str:
    shown = [str(size) for size in sizes]
    return ", ".join(shown if len(shown) < 5 else [*shown[:3], "...", shown[-1]])


@contextmanager
def _errors(path: Path) -> Iterator[None]:
    try:
        with told(f"cannot use {path}"):
            yield
    except _arrow().ArrowException as error:
        raise TransilError(
            f"{path}: not a table that can be read or written so ({reason(error)})"
        ) from None


def _arrow() -> Any:
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.csv
        import pyarrow.parquet
    except ModuleNotFoundError:
        raise missing("tables need", "pyarrow") from None
    return pyarrow

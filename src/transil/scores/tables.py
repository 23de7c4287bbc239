"""Scores in tables, CSV, Parquet and Arrow: a row per image, and beside the scores what names it."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from transil._common.arrays import FloatArray, check_finite
from transil._common.files import atomic_file, check_regular, open_regular, told
from transil._common.registry import nearest
from transil.errors import TransilError, missing, reason
from transil.scores.zips import check_growth, unpacked_size

TEXTS = (".csv", ".tsv")
IPC = (".arrow", ".feather")
TABLES = (*TEXTS, ".parquet", *IPC)
STREAM = Path("-")  # standard input or output, as CSV
STREAM_NAME = Path("standard input")
LONGEST = 1 << 20  # bytes of a line that are looked at to tell what separates cells
MOST_STREAMED = 1 << 30  # bytes of standard input
# In a terminal they do more than to show: only a file may have them.
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


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

    @cached_property
    def scores(self) -> FloatArray:
        """The scores, (rows, columns); an empty cell is NaN."""
        if self.listed:
            return _from_lists(self.data.column(self.columns[0]))
        cells = [self.data.column(i) for i in self.columns]
        texts = [_arrow().types.is_string(column.type) for column in cells]
        parts = [_numbers(c) if text else c for c, text in zip(cells, texts, strict=True)]
        if not parts:
            return np.empty((self.data.num_rows, 0))
        made = np.stack([part.to_numpy() for part in parts], axis=1)
        return made if np.issubdtype(made.dtype, np.floating) else made.astype(np.float64)

    def numbers(self, name: str, where: str) -> NDArray[Any]:
        """The numbers of a column that holds no scores, such as labels."""
        names = self.data.column_names
        if name not in names:
            raise TransilError(f"{where}: no column '{name}'; {nearest(name, names)}")
        column, types = self.data.column(names.index(name)), _arrow().types
        found = _numbers(column) if types.is_string(column.type) else column
        if found is None or not (types.is_floating(found.type) or types.is_integer(found.type)):
            raise TransilError(f"{where}: not all cells of column '{name}' are numbers")
        return np.asarray(found.to_numpy())

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
    stream = path == STREAM
    path = STREAM_NAME if stream else path
    if not stream:
        check_regular(path)
    with _errors(path):
        if path.suffix in TEXTS or stream:
            table = _read_text(path, _standard_input() if stream else None)
        else:
            table = _typed(_read_parquet(path) if path.suffix == ".parquet" else _read_ipc(path))
    names = table.data.column_names
    for name in keep:
        if name not in names:
            raise TransilError(f"{path}: no column '{name}' to keep; {nearest(name, names)}")
    if key is not None:
        return _with_lists(table, path, key)
    kept = {*keep, ""}
    return replace(table, columns=tuple(i for i in table.columns if names[i] not in kept))


def table_of(scores: FloatArray) -> Table:
    """A table of nothing but scores, in columns score_0, score_1, ..."""
    columns = {f"score_{i}": np.ascontiguousarray(column) for i, column in enumerate(scores.T)}
    return Table(_arrow().table(columns), tuple(range(scores.shape[1])))


def write_table(path: Path, table: Table) -> None:
    """Write a table as the ending of `path` says, all of it or nothing."""
    arrow = _arrow()
    if path == STREAM:
        text = io.BytesIO()
        with _errors(Path("standard output")):
            _write_text(text, table, table.delimiter)
        _print(text.getvalue().decode())
        return
    with _errors(path), atomic_file(path, durable=False) as file:
        if path.suffix == ".parquet":
            arrow.parquet.write_table(table.data, file)
        elif path.suffix in IPC:
            with arrow.ipc.new_file(file, table.data.schema) as made:
                made.write_table(table.data)
        else:
            comma = table.delimiter.replace("\t", ",")
            _write_text(file, table, "\t" if path.suffix == ".tsv" else comma)


def _write_text(file: IO[bytes], table: Table, delimiter: str) -> None:
    options = _arrow().csv.WriteOptions(include_header=table.header, delimiter=delimiter)
    _arrow().csv.write_csv(table.data, file, options)


def _print(text: str) -> None:
    if CONTROL.search(text):
        raise TransilError(
            "standard output: some names or texts of the table hold control characters; write to a file"
        )
    print(text, end="")


def _standard_input() -> bytes:
    raw = bytearray()
    if sys.stdin is None:
        raise TransilError("standard input: it is closed; give a file")
    while part := sys.stdin.buffer.read(LONGEST):  # all at once would take the memory beforehand
        raw += part
        if len(raw) > MOST_STREAMED:
            raise TransilError(f"standard input: more than {MOST_STREAMED >> 30} GiB; give a file")
    return bytes(raw)


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


def _typed(data: Any) -> Table:
    """A table whose columns have types: those of numbers are scores."""
    types = _arrow().types
    numbers = [types.is_floating(kind) or types.is_integer(kind) for kind in data.schema.types]
    return Table(data, tuple(i for i, is_number in enumerate(numbers) if is_number))


def _read_parquet(path: Path) -> Any:
    arrow = _arrow()
    facts = arrow.parquet.read_metadata(path)
    check_growth(8 * facts.num_rows * facts.num_columns, path.stat().st_size, str(path))
    return arrow.parquet.read_table(path)


def _read_ipc(path: Path) -> Any:
    """Arrow's files (Feather, too) and streams: a file is a stream between two marks."""
    arrow = _arrow()
    with arrow.memory_map(str(path)) as file:
        begin = 8 if file.read(6) == b"ARROW1" else 0
        file.seek(begin)
        unpacked = sum(map(unpacked_size, arrow.ipc.MessageReader.open_stream(file)))
        check_growth(unpacked, path.stat().st_size, str(path))
        file.seek(begin)
        data = arrow.ipc.open_stream(file).read_all()
    data.validate(full=True)
    return data


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


def _read_text(path: Path, raw: bytes | None) -> Table:
    """All cells as text first: what is no score is to be written as it was read.

    `raw`: what is read in place of the file.
    """
    arrow = _arrow()
    with open_regular(path) if raw is None else io.BytesIO(raw) as file:
        lines = [file.readline(LONGEST).decode("utf-8-sig", "replace") for _ in range(2)]
    delimiter = "\t" if path.suffix == ".tsv" else _delimiter([line for line in lines if line])
    read, parse = (
        arrow.csv.ReadOptions(autogenerate_column_names=True),
        arrow.csv.ParseOptions(delimiter=delimiter),
    )

    def opened() -> Any:
        return path if raw is None else io.BytesIO(raw)

    with arrow.csv.open_csv(opened(), read, parse) as beginning:
        text = {name: arrow.string() for name in beginning.schema.names}
    convert = arrow.csv.ConvertOptions(column_types=text, strings_can_be_null=False)
    data = arrow.csv.read_csv(opened(), read, parse, convert)
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
    except TransilError:
        raise
    except (_arrow().ArrowException, ValueError) as error:
        raise TransilError(
            f"{path}: not a table that can be read or written so ({reason(error)})"
        ) from None


def _arrow() -> Any:
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.csv
        import pyarrow.ipc
        import pyarrow.parquet
    except ModuleNotFoundError:
        raise missing("tables need", "pyarrow") from None
    return pyarrow

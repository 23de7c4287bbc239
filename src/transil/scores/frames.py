"""Scores in DataFrames of pandas, polars and pyarrow, and in what is built like theirs.

None of these packages is imported: what is asked for is asked of the object itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeGuard, TypeVar, cast

import numpy as np

from transil._common.arrays import FloatArray
from transil.errors import TransilError, reason

if TYPE_CHECKING:
    import torch


class Frame(Protocol):
    """A table with named columns."""

    @property
    def columns(self) -> Any:
        """The columns, or their names."""


AnyFrame = TypeVar("AnyFrame", bound=Frame)
# A function over `AnyScores` gives back the kind it was given.
AnyScores = TypeVar("AnyScores", bound="FloatArray | torch.Tensor | Frame")


def is_frame(x: object) -> TypeGuard[Frame]:
    """Whether `x` is a DataFrame (pandas, polars) or a table of pyarrow."""
    of = type(x)  # an object may have to work for an answer
    return hasattr(of, "columns") and (hasattr(of, "dtypes") or hasattr(of, "schema"))


def array_of(x: Any, where: str = "scores") -> Any:
    """The scores (rows, columns) of a DataFrame, all of whose columns are scores; others as they are."""
    if not is_frame(x):
        return x
    if hasattr(type(x), "collect"):
        raise TransilError(f"{where}: a table that is not computed yet; call collect() first")
    for name, kind in _columns(x):
        if not kind.lower().startswith(("float", "double", "halffloat")):
            raise TransilError(
                f"{where}: column '{name}' is of type {kind}, and scores are floating-point numbers; "
                "give the columns of scores alone"
            )
    try:
        made: FloatArray = np.asarray(x)
        if made.dtype == object:  # numbers that may be missing
            given: Any = x
            made = given.to_numpy(dtype=np.float64, na_value=np.nan)
    except Exception as error:  # whatever the conversion of somebody's object raises
        raise TransilError(f"{where}: not a table of numbers ({reason(error)})") from None
    return made


def like_frame(frame: AnyFrame, scores: FloatArray) -> AnyFrame:
    """The same kind of table with other scores: index and names of columns are kept."""
    given: Any = frame
    of: Any = type(frame)
    made: Any
    if hasattr(of, "column_names"):  # pyarrow
        made = of.from_arrays(list(map(np.ascontiguousarray, scores.T)), schema=given.schema)
    elif hasattr(of, "index"):  # pandas
        made = of(scores, index=given.index, columns=given.columns)
        kinds = {kind for _, kind in _columns(frame)}
        if len(kinds) == 1 and kinds != {scores.dtype.name}:  # numbers that may be missing
            made = made.astype(given.dtypes.iloc[0])
    else:  # polars
        made = of(np.ascontiguousarray(scores), schema=list(given.columns))
    return cast(AnyFrame, made)


def column_names(frame: Frame) -> list[str]:
    """The names of the columns."""
    return [name for name, _ in _columns(frame)]


def _columns(frame: Any) -> list[tuple[str, str]]:
    """The name and the type of each column."""
    arrow = hasattr(type(frame), "column_names")
    names, types = (
        (frame.column_names, frame.schema.types) if arrow else (frame.columns, frame.dtypes)
    )
    return [(str(name), str(kind)) for name, kind in zip(names, types, strict=True)]

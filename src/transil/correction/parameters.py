"""What is fitted in a state: named vectors of numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from transil._common.arrays import Float64Array
from transil.errors import TransilError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


class Parameters:
    """Vectors by name, float64: `parameters["alpha"]`, or `parameters.alpha`."""

    def __init__(self, values: Mapping[str, ArrayLike]) -> None:
        self._values: dict[str, Float64Array] = {}
        for name, given in values.items():
            vector = np.array(given, dtype=np.float64)
            if vector.ndim != 1:
                raise TransilError(f"{name}: expected a list of numbers")
            if not np.isfinite(vector).all():
                raise TransilError(f"{name}: NaN or infinite parameter")
            self._values[name] = vector

    @classmethod
    def cut(cls, vector: Float64Array, counts: Mapping[str, int]) -> Parameters:
        """A vector cut into named ones; `Pairs` where these are alpha and beta, one of each."""
        ends = np.cumsum(list(counts.values()))[:-1]
        values = dict(zip(counts, np.split(vector, ends), strict=True))
        if list(counts) == ["alpha", "beta"] and counts["alpha"] == counts["beta"]:
            return Pairs(values["alpha"], values["beta"])
        return Parameters(values)

    @property
    def vector(self) -> Float64Array:
        """All of them, one after the other."""
        return np.concatenate(list(self._values.values()))

    @property
    def counts(self) -> dict[str, int]:
        """How many numbers each name has."""
        return {name: len(vector) for name, vector in self._values.items()}

    def items(self) -> Iterator[tuple[str, Float64Array]]:
        """Names and vectors."""
        return iter(self._values.items())

    def replaced(self, vector: Float64Array) -> Parameters:
        """The same names with other numbers."""
        return Parameters.cut(vector, self.counts)

    def __getitem__(self, name: str) -> Float64Array:
        return self._values[name]

    def __getattr__(self, name: str) -> Float64Array:
        values = self.__dict__.get("_values", {})
        if name not in values:
            raise AttributeError(f"no parameter '{name}' (there are: {', '.join(values)})")
        found: Float64Array = values[name]
        return found

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Parameters)
            and self.counts == other.counts
            and np.array_equal(self.vector, other.vector)
        )

    __hash__ = None  # type: ignore[assignment]  # the vectors may be changed

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={vector.tolist()}" for name, vector in self.items())
        return f"{type(self).__name__}({shown})"


class Pairs(Parameters):
    """Pairs (alpha, beta), one per row; float64 arrays of shape (m,)."""

    alpha: Float64Array
    beta: Float64Array

    def __init__(self, alpha: Any, beta: Any) -> None:
        super().__init__({"alpha": alpha, "beta": beta})
        if len(self["alpha"]) != len(self["beta"]):
            raise TransilError(
                f"pairs: {len(self['alpha'])} values of alpha but {len(self['beta'])} of beta"
            )

    @classmethod
    def identity(cls, count: int) -> Pairs:
        """`count` pairs that change nothing: (1, 0)."""
        return cls(np.ones(count), np.zeros(count))

    def __len__(self) -> int:
        return len(self["alpha"])

"""How the fitted parameters of a state become the pair (alpha, beta) of each group.

alpha and beta of the groups are affine in the parameters, so the scores that are corrected are, too,
and the likelihood has one optimum (see `objective`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from transil._common.arrays import Float64Array
from transil.correction.parameters import Pairs, Parameters
from transil.errors import TransilError


@dataclass(frozen=True, eq=False)
class Design:
    """[alpha_1..s, beta_1..s] = matrix @ parameters + offset.

    matrix (2s, m), offset (2s,); `counts`: how many parameters each name has, m in all; `start`: the
    parameters that change nothing (m,).
    """

    matrix: Float64Array
    offset: Float64Array
    counts: Mapping[str, int]
    start: Float64Array

    @classmethod
    def of_pairs(cls, follows: Float64Array) -> Design:
        """Pairs that groups follow as they are.

        `follows` (s, p): row k has a 1 where group k follows a pair; a row of zeros leaves it as it is.
        """
        s, p = follows.shape
        matrix = np.zeros((2 * s, 2 * p))
        matrix[:s, :p] = matrix[s:, p:] = follows
        offset = np.concatenate([1.0 - follows.sum(axis=1), np.zeros(s)])
        start = np.repeat([1.0, 0.0], p)
        return cls(matrix, offset, {"alpha": p, "beta": p}, start)

    @classmethod
    def of_coefficients(cls, alpha: Mapping[str, Any], beta: Mapping[str, Any]) -> Design:
        """Coefficients of what is known of the groups: alpha = 1 + sum_j c_j x_j, beta = sum_j d_j y_j.

        `alpha` and `beta` give x and y by the coefficient's name: (s,) for one number, (s, p) for a
        vector. A name in both stands for the same coefficient.
        """
        tables = [{name: _columns(x) for name, x in given.items()} for given in (alpha, beta)]
        counts = {name: x.shape[1] for table in tables for name, x in table.items()}
        groups = {len(x) for table in tables for x in table.values()}
        widths = {(name, x.shape[1]) for table in tables for name, x in table.items()}
        if len(groups) != 1 or len(widths) != len(counts):
            raise TransilError(
                "a design's coefficients: give each as (s,) or (s, p), one row a group"
            )
        (s,) = groups
        parts = [
            np.vstack([table.get(name, np.zeros((s, counts[name]))) for table in tables])
            for name in counts
        ]
        matrix = np.hstack(parts)
        return cls(matrix, np.repeat([1.0, 0.0], s), counts, np.zeros(matrix.shape[1]))

    @property
    def follows(self) -> Float64Array:
        """Which pair each group follows, (s, p); the whole matrix where it has no such pairs."""
        s, p = self.groups, self.matrix.shape[1] // 2
        half = self.matrix[:s, :p]
        return (
            half
            if self.matrix.shape[1] == 2 * p
            and np.array_equal(self.matrix, np.kron(np.eye(2), half))
            else self.matrix
        )

    @property
    def groups(self) -> int:
        """How many groups there are (s)."""
        return len(self.offset) // 2

    @property
    def moves_alpha(self) -> Any:
        """Which parameters reach the alpha of some group, (m,)."""
        return (self.matrix[: self.groups] != 0).any(axis=0)

    @property
    def moves_beta(self) -> Any:
        """Which parameters reach the beta of some group, (m,)."""
        return (self.matrix[self.groups :] != 0).any(axis=0)

    @cached_property
    def is_identity(self) -> bool:
        """Whether each group has a pair of its own: nothing is to be multiplied then."""
        return not self.offset.any() and np.array_equal(self.matrix, np.eye(len(self.matrix)))

    def pairs_of(self, parameters: Parameters) -> Pairs:
        """The pair of each group."""
        alpha, beta = np.split(self.spread(parameters.vector), 2)
        return Pairs(alpha, beta)

    def spread(self, vector: Float64Array) -> Float64Array:
        """[alpha_1..s, beta_1..s] of a vector of parameters (m,)."""
        return vector if self.is_identity else self.matrix @ vector + self.offset

    def gather(self, values: Float64Array) -> Float64Array:
        """From [alpha_1..s, beta_1..s] along the first axis to the parameters: gradients go this way."""
        return values if self.is_identity else self.matrix.T @ values

    def parameters(self, vector: Float64Array) -> Parameters:
        """A vector of parameters (m,) by name."""
        return Parameters.cut(vector, self.counts)

    def identity(self) -> Parameters:
        """The parameters that change nothing."""
        return self.parameters(self.start.copy())


def _columns(values: Any) -> Float64Array:
    array = np.asarray(values, dtype=np.float64)
    return array[:, None] if array.ndim == 1 else array

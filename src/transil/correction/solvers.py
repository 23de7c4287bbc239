"""What all solvers share: the interface and the fit record.

Three solvers, always named with a result, because they give different numbers (docs/solvers.md):

- `authors`: Adam exactly as in the released code;
- `paper`: Adam as the paper's text says;
- `newton`: the exact optimum of the penalised objective.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from transil._common.progress import Progress, no_progress
from transil.correction.objective import Penalty, Problem
from transil.correction.parameters import Parameters
from transil.errors import TransilError


@dataclass(frozen=True)
class FitRecord:
    """How one fit went.

    `objective` (penalty included) and `gradient_norm` (Euclidean) are those of the kept pairs,
    on all fitting data, whatever the solver looked at. `converged` is None for a solver that
    does not seek the optimum. `kept` is the epoch the pairs were taken from, where there is one.
    """

    objective: float
    gradient_norm: float
    iterations: int
    seconds: float = math.nan  # not in files: the same fit gives the same bytes
    converged: bool | None = None
    kept: int | None = None


@dataclass(frozen=True)
class Fit:
    """The fitted pairs, or other parameters, of one state, and how the fit went."""

    pairs: Parameters
    record: FitRecord


@dataclass(frozen=True)
class Solver(ABC):
    """A way to fit the pairs of one state. Instances hold settings only."""

    name: ClassVar[str]
    slow: ClassVar[bool] = False  # takes seconds, so that many fits want several processes

    penalty: Penalty = field(default_factory=Penalty)

    def __post_init__(self) -> None:
        if not isinstance(self.penalty, Penalty):
            raise TransilError(
                f"{self.name}: penalty is {self.penalty!r}; give Penalty(alpha=..., beta=...)"
            )

    @abstractmethod
    def fit(
        self, problem: Problem, previous: Parameters | None = None, progress: Progress = no_progress
    ) -> Fit:
        """Fit one state. `previous` holds the pairs fitted in the state before, if any."""

    def settings(self) -> dict[str, Any]:
        """The settings as plain values, to be kept with the result."""
        return asdict(self)

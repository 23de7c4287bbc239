"""Transfer rules: how the parameters of several references become those of a target, state by state.

A rule is a function from the references' parameters of one state to one set of parameters. Other
packages add theirs by decorator, or announce them as entry points in `transil.transfers`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

import numpy as np

from transil._common.registry import Registry
from transil.correction.parameters import Parameters

# What a rule wants to be told: the name of one reference, or a target with labels, on which the best
# reference of each state is sought: an upper bound.
Wants = Literal["reference", "target"]


class Rule(Protocol):
    """A registered rule. `fitted`: the parameters of each reference in use, in one state."""

    name: str
    wants: Wants | None

    def __call__(self, fitted: Sequence[Parameters]) -> Parameters: ...


RULES: Registry[Rule] = Registry("transfer", "transil.transfers")


def register_transfer(name: str, *, wants: Wants | None = None) -> Callable[[Any], Any]:
    """Make a function a transfer rule of that name."""

    def register(function: Any) -> Any:
        function.name, function.wants = name, wants
        return RULES.register(function)

    return register


@register_transfer("mean")
def mean(fitted: Sequence[Parameters]) -> Parameters:
    """The mean over references (the paper, Sec. 3.3)."""
    return fitted[0].replaced(np.mean(np.stack([one.vector for one in fitted]), axis=0))


@register_transfer("median")
def median(fitted: Sequence[Parameters]) -> Parameters:
    """The median over references, each number for itself."""
    return fitted[0].replaced(np.median(np.stack([one.vector for one in fitted]), axis=0))


@register_transfer("single", wants="reference")
def single(fitted: Sequence[Parameters]) -> Parameters:
    """The parameters of the reference that is named."""
    return fitted[0]


@register_transfer("oracle", wants="target")
def oracle(fitted: Sequence[Parameters]) -> Parameters:
    """Those of the reference that is best on the target's test labels, state by state: a bound."""
    return fitted[0]

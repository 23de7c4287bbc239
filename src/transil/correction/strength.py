"""How strongly a bank corrects: one factor on (alpha - 1, beta) of every group.

Corrected scores are affine in it, so a half of the strength is half-way to the raw scores. Models of one
method differ in how strong their bias is more than in its form.
"""

from __future__ import annotations

from numbers import Real
from typing import Any

from transil._common.typed import short
from transil.correction.parameters import Pairs
from transil.errors import TransilError

AS_FITTED = 1.0
MOST = 2.0  # another training of one method was seen to have a bias up to twice as strong


def read_strength(value: Any) -> float:
    """A strength that is one; an error in one line else."""
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not number or not 0.0 <= value <= MOST:
        shown = f"{float(value):g}" if number else short(value)
        raise TransilError(
            f"strength: a number from 0 (no correction) to {MOST:g}, 1 is as fitted; not {shown}"
        )
    return float(value)


def at_strength(pairs: Pairs, strength: float) -> Pairs:
    """(1 + strength * (alpha - 1), strength * beta): at 1 to the byte what they are, at 0 nothing."""
    if strength == AS_FITTED:  # 1 + (alpha - 1) need not be alpha
        return pairs
    return Pairs(1.0 + strength * (pairs.alpha - 1.0), strength * pairs.beta)

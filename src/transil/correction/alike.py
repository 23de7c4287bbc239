"""Parameters may only be joined where they were made in the same way."""

from __future__ import annotations

import statistics
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from transil.errors import ScoreScaleWarning, TransilError

if TYPE_CHECKING:
    from transil.correction.references import Reference

# References whose scores spread so many times as much as others' should not be averaged. Trained
# alike they differ by up to 1.4 on photographs, and by 2 on the demo's formulas.
APART = 3.0


def check_alike(
    first: Mapping[str, Any], other: Mapping[str, Any], names: tuple[str, str], remedy: str
) -> None:
    """An error that names the first fact in which the two differ. `names` are theirs."""
    for what, value in first.items():
        if other[what] != value:
            if what == "method" and None in (other[what], value):
                remedy = (
                    f"where both are of {value or other[what]}, say so when the scores of "
                    f"{names[0] if value is None else names[1]} are imported (--method, method=)"
                )
            raise TransilError(
                f"{names[1]}: its {what} is not that of {names[0]} ({other[what]} and {value}); "
                f"{remedy}"
            )


def check_ratios(own: Sequence[int], sizes: Sequence[int]) -> None:
    """An error where groups of these sizes do not compare as a bank's own do."""
    if len(sizes) != len(own):
        raise TransilError(
            f"bank: it is for {len(own)} groups, not {len(sizes)}; "
            "give the sizes of all, also of those still to come"
        )
    for k, (size, fitted) in enumerate(zip(sizes, own, strict=True), start=1):
        if size * own[0] != fitted * sizes[0]:
            raise TransilError(
                f"bank: group {k} has {size} classes and group 1 {sizes[0]}, the bank's have "
                f"{fitted} and {own[0]}; pairs only hold where groups compare alike in size"
            )


def check_scales(references: Sequence[Reference]) -> None:
    """Warn where scores of references that are averaged are of quite different size."""
    spread = {
        r.name: statistics.median(r.scale.values())
        for r in references
        if r.scale and all(r.scale.values())  # not all files know it
    }
    if len(spread) < 2:
        return
    small, large = (pick(spread, key=spread.__getitem__) for pick in (min, max))
    ratio = spread[large] / spread[small]
    if ratio > APART:
        warnings.warn(
            f"the scores of reference '{large}' spread {ratio:.2g} times as much as those of "
            f"'{small}': their mean fits neither; use references trained alike, or bring them to "
            "one scale (Bank.at_scale)",
            ScoreScaleWarning,
            stacklevel=3,
        )

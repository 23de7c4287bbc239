"""Colours and markers of figures: one for each method, correction and control, in all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

Style: TypeAlias = tuple[str, str]  # colour and marker

# Okabe and Ito's colours, which colour-blind readers can tell apart.
BLUE, ORANGE, GREEN, PINK = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
SKY, AMBER, GREY = "#56B4E9", "#E69F00", "#7F7F7F"
METHOD_STYLES: tuple[Style, ...] = (
    (BLUE, "o"), (ORANGE, "s"), (GREEN, "^"), (PINK, "D"), (AMBER, "v"), (SKY, "P"), (GREY, "X"),
)  # fmt: skip
# Those of the package have their own, whatever stands beside them; others take what is left.
CORRECTIONS: dict[str, Style] = {
    "bic": (ORANGE, "s"),
    "adbic": (BLUE, "o"),
    "adbic-centred": (GREEN, "D"),
    "bic-past": (AMBER, "^"),
    "bic-all": (PINK, "v"),
}
CONTROLS: dict[str, Style] = {"align": (GREY, "x"), "shift": (PINK, "+")}
PRIORS: dict[str, Style] = {
    "none": (PINK, "v"),
    "none+ledger": (GREEN, "D"),
    "uniform": (ORANGE, "s"),
    "remembered": (AMBER, "^"),
    "known": (SKY, "P"),
}
SPARE: tuple[Style, ...] = ((SKY, "P"), (PINK, "*"), (AMBER, "p"), (GREEN, "h"))
SPARE_CONTROLS: tuple[Style, ...] = ((SKY, "1"), (AMBER, "2"), (GREEN, "3"))


def method_style(methods: Sequence[str], method: str) -> Style:
    """Colour and marker of a method."""
    return METHOD_STYLES[list(methods).index(method) % len(METHOD_STYLES)]


def correction_styles(names: Sequence[str]) -> dict[str, Style]:
    """Colour and marker of each correction."""
    return _styles(names, CORRECTIONS, SPARE)


def control_styles(names: Sequence[str]) -> dict[str, Style]:
    """Colour and marker of each control: thin crosses."""
    return _styles(names, CONTROLS, SPARE_CONTROLS)


def prior_styles(names: Sequence[str]) -> dict[str, Style]:
    """Colour and marker of each prior."""
    return _styles(names, PRIORS, SPARE)


def bank_styles(banks: Mapping[str, str]) -> dict[str, Style]:
    """Colour and marker of each bank, given its correction: that one's, or one that is free."""
    own = correction_styles(list(banks.values()))
    free = [s for s in (*SPARE, *CORRECTIONS.values()) if s not in own.values()]
    styles: dict[str, Style] = {}
    for name, correction in banks.items():
        taken = own[correction] in styles.values()
        styles[name] = free.pop(0) if taken and free else own[correction]
    return styles


def _styles(
    names: Sequence[str], own: Mapping[str, Style], spare: Sequence[Style]
) -> dict[str, Style]:
    others = [name for name in dict.fromkeys(names) if name not in own]
    left = {name: spare[i % len(spare)] for i, name in enumerate(others)}
    return {name: own.get(name) or left[name] for name in names}

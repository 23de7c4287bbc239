"""The numbers of the TransIL paper (WACV 2022), to stand beside ours.

Average incremental accuracy (%) over states 2..S, for S = 5, 10 and 20, with ResNet-18 at 224
pixels. A data set is matched by its exact name only: other images are another experiment. The file
`paper.json` has one block per data set, in it one number per S; PLACES-100 is from the supplement,
without BiC and the oracle.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

_DATA: dict[str, Any] = json.loads(
    files("transil.report").joinpath("paper.json").read_text("utf-8")
)
TARGETS: dict[str, str] = _DATA["targets"]


def _parse(rows: dict[str, str]) -> dict[str, float]:
    return {
        f"{row} {target} {states}": float(number)
        for row, text in rows.items()
        for target, block in zip(TARGETS, text.split("|"), strict=False)
        for states, number in zip(_DATA["states"], block.split(), strict=True)
    }


_ONE, _TWO, _THREE = (
    next(v for k, v in _DATA.items() if k.startswith(f"table {n}")) for n in (1, 2, 3)
)
_TABLES = {1.0: _parse(_ONE), 0.5: _parse(_TWO)}


def accuracy(method: str, target: str, states: int, fraction: float, line: str) -> float | None:
    """The paper's average accuracy (%); `line`: 'raw', 'bic', 'adbic' or 'oracle' (of adBiC)."""
    row = f"{method.lower()} {line} {_plain(target)} {states}"
    return _TABLES.get(fraction, {}).get(row)


def with_references(
    method: str, target: str, states: int, count: int
) -> tuple[float, float | None] | None:
    """Mean and standard deviation (%) over draws of `count` references, adBiC, all images."""
    found = _THREE.get(f"{method.lower()} {_plain(target)} {states}", {}).get(str(count))
    return None if found is None else (found[0], found[1])


def joint(target: str) -> float | None:
    """The accuracy (%) of a model that learned all classes at once."""
    found: float | None = _DATA["joint"].get(_plain(target))
    return found


def _plain(target: str) -> str:
    return target.lower().replace("-", "").replace("_", "")

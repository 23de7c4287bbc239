"""Banks that come with the package, found by name, and `load_bank` for these and for files.

They lie in `transil/banks`, named METHOD-sSTATES-CORRECTION-SOLVER.json: `lwf-s10-adbic-newton.json`.
`defaults.json` beside them says which correction and solver a method's short name stands for.
"""

from __future__ import annotations

import operator
import os
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from transil.correction.bank import Bank
from transil.correction.registry import CORRECTIONS, SOLVERS
from transil.errors import TransilError
from transil.files import read_json

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

DEFAULT = ("adbic", "newton")  # correction and solver of methods that the table does not name
DEFAULTS_FILE = "defaults.json"

# Pairs of another method or number of states do not do, so there is one thing left.
_FIT = "; for others fit one on references (transil fit, docs/correct-scores.md)"
REMEDY = {"method": _FIT, "states": _FIT}

# The names of solvers hold no '-', those of methods and corrections may.
_FILE = r"(.+)-s([1-9][0-9]{0,3})-(.+)-([^-]+)\.json"
_NAME = r"(.+)-s([1-9][0-9]{0,3})(?:-(.+))?"


class ShippedBank(NamedTuple):
    """What the name of a shipped bank says; `load` reads the file."""

    method: str
    states: int
    correction: str
    solver: str
    default: bool = False  # the one that METHOD-sSTATES stands for

    @property
    def name(self) -> str:
        """The full name, which is that of the file without its ending."""
        return f"{self.method}-s{self.states}-{self.correction}-{self.solver}"

    @property
    def short_name(self) -> str:
        """The shortest name that stands for it: METHOD-sSTATES for the default."""
        return f"{self.method}-s{self.states}" if self.default else self.name

    def load(self) -> Bank:
        """Read the bank."""
        from importlib import resources

        with resources.as_file(folder().joinpath(f"{self.name}.json")) as path:
            return Bank.load(path)


def load_bank(
    bank: str | os.PathLike[str],
    *,
    states: int | None = None,
    correction: str | None = None,
    solver: str | None = None,
) -> Bank:
    """A shipped bank by name, or a bank file.

    `load_bank("lwf", states=10)`, `load_bank("lwf-s10")` and `load_bank("lwf-s10-adbic-newton")`
    find a shipped one. What is not said is taken as: the only number of states there is, and the
    method's default correction and solver; 'adbic' where that correction has no bank of the solver
    that is named. Upper and lower case are alike. A text that ends in .json, holds a path separator
    or names a file that exists is a file, and so is every `Path`: `load_bank("lucir-s10.json")`.
    """
    if isinstance(bank, str) and not _is_file(bank):
        return find_shipped(bank, states=states, correction=correction, solver=solver).load()
    if any(choice is not None for choice in (states, correction, solver)):
        raise TransilError(
            f"{bank}: this is a file; states, correction and solver choose among shipped banks only"
        )
    return Bank.load(bank)


def shipped_banks() -> list[ShippedBank]:
    """All banks of the package, in the order of their names' parts."""
    usual = defaults()
    found = []
    for file in folder().iterdir():
        parts = re.fullmatch(_FILE, file.name)
        if parts:
            method, states, correction, solver = parts.groups()
            default = (correction, solver) == usual.get(method, DEFAULT)
            found.append(ShippedBank(method, int(states), correction, solver, default))
    return sorted(found)


def find_shipped(
    name: str,
    *,
    states: int | None = None,
    correction: str | None = None,
    solver: str | None = None,
) -> ShippedBank:
    """The shipped bank of that method, or of that whole name; an error says which there are."""
    there = shipped_banks()
    if not there:
        raise TransilError(
            f"bank '{name}': no such file, and this transil ships no banks; give a bank file"
        )
    given = {"states": _whole(states), "correction": correction, "solver": solver}
    asked = _read_name(name.lower())
    for what, value in given.items():
        if value is not None and asked.get(what) is not None:
            raise TransilError(f"bank '{name}': the name says its {what}; do not give it again")
    asked |= {what: value for what, value in given.items() if value is not None}
    method = asked["method"]
    # Not the nearest name, but all: 'lwf' is not what one wants who asks for 'lwf-t'.
    there = _with(there, "method", method, f"bank '{name}': no such file, and no shipped bank")
    if asked.get("states") is None:
        numbers = sorted({bank.states for bank in there})
        if len(numbers) > 1:
            shown = ", ".join(map(str, numbers))
            raise TransilError(
                f"bank '{name}': say how many states, for {method} there are: {shown} "
                f"(states={numbers[0]}, or '{method}-s{numbers[0]}')"
            )
        asked["states"] = numbers[0]
    usual, usual_solver = defaults().get(method, DEFAULT)
    if asked.get("correction") is None:
        fits = (asked["states"], usual, asked.get("solver", usual_solver))
        known = any((b.states, b.correction, b.solver) == fits for b in there)
        asked["correction"] = usual if known else DEFAULT[0]
    so_far = method
    solvers = {
        b.solver
        for b in there
        if (b.states, b.correction) == (asked["states"], asked["correction"])
    }
    asked.setdefault("solver", next(iter(solvers)) if len(solvers) == 1 else usual_solver)
    for what, mark in (("states", "s"), ("correction", ""), ("solver", "")):
        there = _with(there, what, asked[what], f"bank '{name}': no shipped bank of {so_far}")
        so_far += f"-{mark}{asked[what]}"
    return there[0]


def defaults() -> dict[str, tuple[str, str]]:
    """By method: the correction and the solver whose bank is taken when none is named."""
    from importlib import resources

    with resources.as_file(folder().joinpath(DEFAULTS_FILE)) as path:
        table: dict[str, str] = read_json(path)
    split = {method: text.rpartition("-") for method, text in table.items()}
    return {method: (correction, solver) for method, (correction, _, solver) in split.items()}


def folder() -> Traversable:
    """Where the banks of the package are."""
    from importlib import resources

    return resources.files("transil.banks")


def _is_file(text: str) -> bool:
    if text.lower().endswith(".json") or "/" in text or os.sep in text:
        return True
    return os.path.exists(text) and not os.path.isdir(text)


def _read_name(name: str) -> dict[str, Any]:
    """The parts that a name holds; one without '-sSTATES' is a method."""
    parts = re.fullmatch(_NAME, name)
    if parts is None:
        return {"method": name}
    method, states, rest = parts.groups()
    asked = {"method": method, "states": int(states)}
    if rest is None:
        return asked
    correction, _, solver = rest.rpartition("-")
    if rest in SOLVERS.names():
        return {**asked, "solver": rest}
    if not correction or rest in CORRECTIONS.names():  # 'bic-past' is one word
        return {**asked, "correction": rest}
    return {**asked, "correction": correction, "solver": solver}


def _with(banks: list[ShippedBank], what: str, value: Any, lead: str) -> list[ShippedBank]:
    """Those banks whose `what` is `value`; where there are none, an error that begins with `lead`."""
    found = [bank for bank in banks if getattr(bank, what) == value]
    if not found:
        known = ", ".join(str(v) for v in sorted({getattr(bank, what) for bank in banks}))
        raise TransilError(f"{lead} has {what} '{value}'; there are: {known}{REMEDY.get(what, '')}")
    return found


def _whole(states: Any) -> int | None:
    if states is None:
        return None
    if isinstance(states, bool) or not hasattr(states, "__index__"):
        raise TransilError(f"states must be a whole number, not {states!r}")
    return operator.index(states)

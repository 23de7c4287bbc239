"""Banks that come with the package, found by name, and `load_bank` for these and for files.

They lie in `transil/banks`, named METHOD-sSTATES-CORRECTION-SOLVER.json: `lwf-s10-adbic-newton.json`.
`defaults.json` beside them says which correction and solver a method's short name stands for.
METHOD-any.json holds for any schedule, generic-any.json for methods that nobody listed.
"""

from __future__ import annotations

import operator
import os
import re
from importlib import resources
from typing import TYPE_CHECKING, Any, NamedTuple

from transil._common.files import read_json, read_json_as
from transil.correction.bank import Bank
from transil.correction.bank_json import any_bank_from_json
from transil.correction.open_bank import GENERIC, OpenBank
from transil.correction.registry import CORRECTIONS, SOLVERS
from transil.errors import TransilError
from transil.schedule import Schedule, ScheduleLike

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

DEFAULT = ("adbic", "newton")  # correction and solver of methods that the table does not name
DEFAULTS_FILE = "defaults.json"

ANY = "-any"  # the end of the name of a bank for any schedule
_UNLISTED = (
    "; 'transil bank list' has those for any schedule, too; 'generic' is for methods that are not "
    "listed, or fit one on references (transil fit)"
)
# Pairs of another method or number of states do not do.
REMEDY = {
    "method": _UNLISTED,
    "states": "; for others give the schedule (schedule=[12, 5, 5], --schedule 12,5,5)",
}

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
        with resources.as_file(folder().joinpath(f"{self.name}.json")) as path:
            return Bank.load(path)


def load_bank(
    bank: str | os.PathLike[str] | None = None,
    *,
    schedule: ScheduleLike | None = None,
    states: int | None = None,
    correction: str | None = None,
    solver: str | None = None,
) -> Bank:
    """A shipped bank by name, or a bank file.

    `load_bank("lwf-t", schedule=[12, 5, 5, 8])` makes the bank of a schedule, whatever its groups;
    `load_bank(None, schedule=...)` or "generic" where the method is not known, which knows less.

    `load_bank("lwf", states=10)`, `load_bank("lwf-s10")` and `load_bank("lwf-s10-adbic-newton")`
    find a bank that was fitted on that number of equal groups. What is not said is taken as: the
    only number of states there is, and the method's default correction and solver; 'adbic' where
    that correction has no bank of the solver that is named. With `schedule` the sizes of its groups
    are changed (`Bank.for_schedule`). Upper and lower case are alike. A text that ends in .json,
    holds a path separator or names a file that exists is a file, and so is every `Path`:
    `load_bank("lucir-s10.json")`.
    """
    choices = {"states": states, "correction": correction, "solver": solver}
    groups = None if schedule is None else Schedule.of(schedule)
    found = find_bank(bank, any_schedule=groups is not None, **choices)
    if groups is not None:
        return found.for_schedule(groups)
    if isinstance(found, OpenBank):
        raise TransilError(
            f"bank '{GENERIC if bank is None else bank}': it holds for any schedule; say which one: "
            "--schedule 12,5,5,8, or load_bank(..., schedule=[12, 5, 5, 8])"
        )
    return found


def bank_for(bank: Bank | str | os.PathLike[str], schedule: Schedule) -> Bank:
    """A bank, a file or a name, for scores of a schedule: one for any schedule is made for it."""
    if isinstance(bank, Bank):
        return bank
    found = find_bank(bank)
    return found.for_schedule(schedule) if isinstance(found, OpenBank) else found


def find_bank(
    bank: str | os.PathLike[str] | None, *, any_schedule: bool = True, **choices: Any
) -> Bank | OpenBank:
    """As `load_bank`, but one for any schedule as it is.

    `any_schedule`: whether the name of a method alone stands for that.
    """
    chosen = any(choice is not None for choice in choices.values())
    if bank is None or (isinstance(bank, str) and not _is_file(bank)):
        name = GENERIC if bank is None else bank.lower()
        method = name.removesuffix(ANY)
        known = shipped_any()
        # A method that has no other bank can mean nothing else.
        other = any(item.method == method for item in shipped_banks())
        alone = any_schedule or (method in known and not other)
        if name.endswith(ANY) or (not chosen and alone and re.fullmatch(_NAME, name) is None):
            if method not in known:
                raise TransilError(
                    f"bank '{bank}': no such file, and no shipped bank has method '{method}'; there "
                    f"are: {', '.join(known)}{_UNLISTED}"
                )
            if chosen:
                raise TransilError(
                    f"bank '{bank}': states, correction and solver do not go with it"
                )
            with resources.as_file(folder().joinpath(f"{method}{ANY}.json")) as path:
                return read_json_as(path, any_bank_from_json)
        return find_shipped(name, **choices).load()
    if chosen:
        raise TransilError(
            f"{bank}: this is a file; states, correction and solver choose among shipped banks only"
        )
    return read_json_as(bank, any_bank_from_json)


def shipped_any() -> list[str]:
    """The methods that have a bank for any schedule, the generic one last."""
    names = {f.name.removesuffix(f"{ANY}.json") for f in folder().iterdir() if ANY in f.name}
    return sorted(names, key=lambda name: (name == GENERIC, name))


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
                f"(states={numbers[0]}, or '{method}-s{numbers[0]}'); or give the schedule "
                "(schedule=[12, 5, 5], --schedule 12,5,5)"
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
    with resources.as_file(folder().joinpath(DEFAULTS_FILE)) as path:
        table: dict[str, str] = read_json(path)
    split = {method: text.rpartition("-") for method, text in table.items()}
    return {method: (correction, solver) for method, (correction, _, solver) in split.items()}


def folder() -> Traversable:
    """Where the banks of the package are."""
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

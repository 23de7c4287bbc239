"""Commands on banks: bank list, bank show, bank compare, bank make, bank check."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from typer import Argument, Option

from transil._common.files import check_replaceable
from transil.adaptation.score_files import like_file
from transil.cli.options import Groups, Keep, Key, read_names
from transil.cli.output import (
    check_apart,
    note,
    print_facts,
    print_json,
    print_matrix,
    print_table,
    read_schedule,
    say,
)
from transil.correction.bank import FORMAT, SHOWN, VERSION, Bank
from transil.correction.bank_json import open_to_json
from transil.correction.open_bank import OpenBank
from transil.correction.parameters import Pairs, Parameters
from transil.correction.shipped import ANY, find_bank, load_bank, shipped_any, shipped_banks
from transil.correction.strength import AS_FITTED
from transil.correction.transfers import transfer
from transil.errors import TransilError


def list_command(
    beginning: Annotated[
        str, Argument(metavar="[NAME]", help="Only those whose name begins so.")
    ] = "",
    as_json: Annotated[bool, Option("--json", help="As JSON.")] = False,
) -> None:
    """List the banks that come with transil.

    METHOD-any holds for any schedule: give yours with --schedule. The others were fitted on 5, 10 or
    20 equal groups; the default one of a method and number of states has a short name: lwf-s10. Scale
    is how far the references' scores spread, the smallest and the largest of the states.

    \b
    Examples:
      transil bank list
      transil bank list lucir-s20
      transil bank list --json
    """
    beginning = beginning.lower()
    names = [item.name for item in shipped_banks()] + [f"{name}{ANY}" for name in shipped_any()]
    if names and not any(name.startswith(beginning) for name in names):
        methods = ", ".join(dict.fromkeys([i.method for i in shipped_banks()] + shipped_any()))
        raise TransilError(
            f"no bank that comes with transil has a name that begins with '{beginning}'; names are "
            f"METHOD-any or METHOD-sSTATES-CORRECTION-SOLVER, such as {names[0]}, of {methods}"
        )
    found = [row for row in _shipped() if row["name"].startswith(beginning)]
    if as_json:
        print_json(found)
        return
    open_ones = [
        [row["name"], *(_range(row["seen"][key]) for key in ("states", "classes"))]
        for row in found
        if row["states"] is None
    ]
    of_one = [row for row in found if row["states"] is not None]
    if open_ones:
        print_table("for any schedule", ["name", "states seen", "classes seen"], open_ones)
    if of_one:
        _print_list([{key: _cell(value) for key, value in row.items()} for row in of_one])
    if not found:
        say("this transil ships no banks")


def _shipped() -> Iterator[dict[str, Any]]:
    """What there is to say of each shipped bank; `states` is None where it holds for any schedule."""
    for name in shipped_any():
        curve = find_bank(f"{name}{ANY}")
        assert isinstance(curve, OpenBank)
        yield {
            "name": f"{name}{ANY}",
            "default": False,
            "method": curve.method,
            "states": None,
            "correction": curve.correction.name,
            "solver": curve.solver,
            "seen": {key: list(limits) for key, limits in vars(curve.seen).items()},
            "score_kind": curve.score_kind,
            "references": list(curve.references),
            "expected": curve.expected,
        }
    for item in shipped_banks():
        bank = item.load()
        states = range(2, bank.schedule.states + 1)
        yield {
            "name": item.name,
            "default": item.default,
            "method": item.method,
            "states": item.states,
            "correction": item.correction,
            "solver": item.solver,
            "classes": bank.schedule.seen[-1],
            "score_kind": bank.score_kind,
            "score_scale": {state: bank.scale(state) for state in states},
            "references": [reference.name for reference in bank.references],
        }


def _range(limits: Sequence[float]) -> str:
    low, high = (f"{limit:.3g}" for limit in limits)
    return low if low == high else f"{low} to {high}"


def make(
    bank: Annotated[str, Argument(help="A method, 'generic', or a file of fit --any-schedule.")],
    output: Annotated[Path, Option("--output", "-o", help="The bank file to write (JSON).")],
    schedule: Groups = None,
    like: Annotated[
        Path | None,
        Option(help="Measure these scores once (any kind of file): for single images later on."),
    ] = None,
    state: Annotated[int | None, Option(help="For --like: the state of the scores.")] = None,
    key: Key = None,
    keep: Keep = None,
) -> None:
    """Make the bank of your schedule, whatever its groups, from one that holds for any.

    Its pairs depend on the scores, too: their size and moments for each group, which take no labels.
    They are measured when a file is corrected. With --like they are measured now and kept, so that
    single images can be corrected, and 'bank show' shows the pairs.

    \b
    Examples:
      transil bank make lwf-t --schedule 12,5,5,8,3,4 -o mine.json
      transil bank make lwf-t --schedule 12,5,5,8,3,4 --like scores.npy --state 6 -o mine.json
      transil bank make generic --schedule 50,10,10,10,10,10 -o mine.json
      transil bank make curve.json --schedule 100/20 -o mine.json
    """
    check_replaceable(output, FORMAT, VERSION)
    check_apart(output, bank, "the bank for other schedules would be lost")
    made = load_bank(bank, schedule=read_schedule(schedule))
    if like is not None:
        made = like_file(made, like, state, key, read_names(keep))
    elif (state, key, keep) != (None, None, None):
        raise TransilError("--state, --key and --keep go with --like")
    made.save(output)
    say(f"{output}: {made.correction.name} for {made.method or 'any method'}, {made.schedule}")
    if made.correction.measured and like is None:
        say(f"next: transil correct scores.npy --bank {output} --state {made.schedule.states} ...")


def show(
    path: Annotated[str, Argument(help="A bank: a file or a name.")],
    reference: Annotated[
        str | None, Option(help="Show this reference instead of the transferred pairs.")
    ] = None,
    schedule: Groups = None,
    as_json: Annotated[bool, Option("--json", help="What is applied, as JSON.")] = False,
) -> None:
    """Show what a bank is for, where it comes from, and its alpha and beta.

    \b
    Examples:
      transil bank show lucir-s10.json
      transil bank show bank.json --reference ref2
      transil bank show lwf-s10
      transil bank show lwf-any
    """
    groups = read_schedule(schedule)
    found = find_bank(path, any_schedule=groups is not None)
    if isinstance(found, OpenBank) and groups is None:
        if as_json:
            print_json(open_to_json(found))
        else:
            print_open(path, found)
        return
    bank = found if groups is None else found.for_schedule(groups)
    assert isinstance(bank, Bank)
    if reference:
        bank = transfer(bank, "single", reference=reference)
    states = [s for s in range(2, bank.schedule.states + 1) if bank.knows(s)]
    applied = {s: bank.applied(s) for s in states}
    unsure = {s: pairs for s in states if (pairs := bank.uncertainty(s)) is not None}
    if as_json:
        print_json(
            {s: {"alpha": p.alpha.tolist(), "beta": p.beta.tolist()} for s, p in applied.items()}
        )
        return
    print_facts(path, _facts(bank))
    if not states:
        say(
            "alpha and beta depend on your scores: measure them once, "
            "transil bank make ... --like scores.npy --state 6"
        )
        return
    print_matrix("alpha", [p.alpha.tolist() for p in applied.values()], ".4f", 8)
    print_matrix("beta", [p.beta.tolist() for p in applied.values()], "+.3f", 8)
    if unsure:
        last = max(unsure)
        rows = [
            [f"{k}", f"{a:.3f}", f"{b:.3f}"]
            for k, (a, b) in enumerate(zip(unsure[last].alpha, unsure[last].beta, strict=True), 1)
        ]
        title = f"uncertainty (standard deviation over references), state {last}"
        print_table(title, ["group", "alpha", "beta"], rows)
    fitted = [r.name for r in bank.references if r.records and reference in (None, r.name)]
    for name in fitted[:SHOWN]:
        print_records(bank, name)
    if len(fitted) > SHOWN:
        say(f"and {len(fitted) - SHOWN:,} more fits: --reference NAME shows one")
    note_turned(applied)


def print_open(name: str, curve: OpenBank) -> None:
    """What a bank for any schedule is, and where it comes from."""
    ratios = "{:.2g} to {:.2g}".format(*curve.seen.ratio)
    facts = {
        "method": curve.method
        or (f"any (of {', '.join(curve.methods)})" if curve.methods else "-"),
        "schedule": "any",
        "seen": f"{_range(curve.seen.states)} states, {_range(curve.seen.classes)} classes, groups of "
        f"{ratios} times their mean size",
        "correction": f"{curve.correction.name}: {curve.correction.summary}",
        "solver": curve.solver or "not given",
        "scores": curve.score_kind,
        "references": ", ".join(curve.references[:SHOWN]),
        "expected": curve.expected or "not measured",
    }
    print_facts(name, facts)


def compare(
    first: Annotated[str, Argument(help="A bank: a file or a name.")],
    second: Annotated[str, Argument(help="Another.")],
    as_json: Annotated[bool, Option("--json", help="The differences as JSON.")] = False,
) -> None:
    """Compare what two banks apply: facts that differ, and how far alpha and beta are apart.

    \b
    Examples:
      transil bank compare newton.json authors.json
      transil bank compare my-bank.json lwf-s10
    """
    a, b = load_bank(first), load_bank(second)
    if a.schedule.sizes != b.schedule.sizes:
        raise TransilError(
            f"{second}: its schedule ({b.schedule}) is not that of {first} ({a.schedule}); "
            "pairs of different schedules cannot be compared"
        )
    if not any(a.knows(s) and b.knows(s) for s in range(2, a.schedule.states + 1)):
        raise TransilError(
            "no state in which the pairs of both are known: those of a bank for any schedule depend on "
            "scores; measure them once (transil bank make --like scores.npy --state 6)"
        )
    facts, others = _facts(a), _facts(b)
    differ = {key: [facts[key], others[key]] for key in facts if facts[key] != others[key]}
    rows = []
    for state in range(2, a.schedule.states + 1):
        if not (a.knows(state) and b.knows(state)):
            continue
        x, y = a.applied(state), b.applied(state)
        row: dict[str, float] = {"state": state}
        for name, off in (("alpha", y.alpha - x.alpha), ("beta", y.beta - x.beta)):
            row[f"{name}_largest"] = float(np.abs(off).max())
            row[f"{name}_rms"] = float(np.sqrt(np.mean(off**2)))
        rows.append(row)
    if as_json:
        print_json({"facts": differ, "states": rows})
        return
    if differ:
        columns = ["", Path(first).name, Path(second).name]
        print_table("what differs", columns, [[key, *pair] for key, pair in differ.items()])
    headings = ["state", "largest alpha", "rms alpha", "largest beta", "rms beta"]
    cells = [[f"{v:.4f}" if isinstance(v, float) else f"{v}" for v in row.values()] for row in rows]
    print_table("differences of the applied pairs", headings, cells)


def _facts(bank: Bank) -> dict[str, str]:
    penalty = bank.settings.get("penalty", {})
    bound = " (upper bound over single references)" if bank.transfer.how == "oracle" else ""
    names = [reference.name for reference in bank.references]
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    sizes = list(bank.schedule.sizes)
    resized = bank.provenance.get("fitted_sizes", sizes) != sizes
    made_by = bank.provenance.get("versions", {}).get("transil")
    return {
        "method": bank.method or "not given",
        "schedule": f"{bank.schedule}{' (fitted on other sizes)' if resized else ''}",
        "correction": f"{bank.correction.name}: {bank.correction.summary}",
        "solver": bank.solver or "not given",
        "penalty": ", ".join(f"{c} {name}^2" for name, c in penalty.items()) or "not given",
        "scores": bank.score_kind + (", rescaled" if bank.provenance.get("rescaled") else ""),
        "score scale": _cell({s: bank.scale(s) for s in range(2, bank.schedule.states + 1)}),
        "transfer": bank.transfer.how + bound,
        "strength": f"{bank.strength:g}" + " (as fitted)" * (bank.strength == AS_FITTED),
        "references": shown + _where(bank),
        "made by": f"transil {made_by}" if made_by else "not given",
    }


def _where(bank: Bank) -> str:
    """What an experiment told of its references' runs."""
    told = {k: v for k, v in bank.provenance.items() if isinstance(v, list)}
    parts = [f"{pixels} px" for pixels in told.get("pixels", [])] + told.get("networks", [])
    if "fitted_on" in told:
        parts.append(f"fitted on {' and '.join(map(str, told['fitted_on']))}")
    return f" ({', '.join(map(str, parts))})" if parts else ""


def _print_list(rows: list[dict[str, str]]) -> None:
    """Banks in a table that fits a terminal: names say the rest, and what all share is said once."""
    columns = [key for key in rows[0] if key not in ("method", "states", "correction", "solver")]
    same = [key for key in columns[2:] if len({row[key] for row in rows}) == 1]
    columns = [key for key in columns if key not in same]
    headings = [key.replace("_", " ") for key in columns]
    print_table(None, headings, [[row[key] for key in columns] for row in rows])
    say("names: METHOD-sSTATES-CORRECTION-SOLVER")
    for key in same:
        say(f"{key.replace('_', ' ')}: {rows[0][key]}")


def _cell(value: Any) -> str:
    """A value of `bank list`; of the scales of all states the smallest and the largest."""
    if isinstance(value, bool):
        return "yes" if value else "-"
    if isinstance(value, dict):
        known = [scale for scale in value.values() if scale is not None]
        return f"{min(known):.3g} to {max(known):.3g}" if known else "-"
    return ", ".join(value) if isinstance(value, list) else str(value)


def note_turned(pairs: Mapping[int, Parameters], whose: str = "") -> None:
    """Say where alpha turns the order of a group's classes around."""
    turned = [
        f"state {s}, pair {k}"
        for s, p in pairs.items()
        if isinstance(p, Pairs)
        for k in np.flatnonzero(p.alpha <= 0) + 1
    ]
    if turned:
        more = f" and {len(turned) - 1} more" if len(turned) > 1 else ""
        note(
            f"note: {whose}alpha is not above 0 ({turned[0]}{more}), so the scores of that group are "
            "turned around or made equal: they hardly tell its classes apart. More validation images "
            "help, or the mean of several references"
        )


def print_records(bank: Bank, name: str) -> None:
    """How the fits of a reference went, state by state."""
    reference = bank.reference(name)
    headings = ["state", "objective", "gradient", "iterations", "kept", "converged", "seconds"]
    rows = [
        [
            f"{state}",
            f"{r.objective:.5f}",
            f"{r.gradient_norm:.1e}",
            f"{r.iterations}",
            "-" if r.kept is None else f"{r.kept}",
            {None: "not sought", True: "yes", False: "NO"}[r.converged],
            "-" if np.isnan(r.seconds) else f"{r.seconds:.2f}",
        ]
        for state, r in sorted(reference.records.items())
    ]
    told = [k for k in range(len(headings)) if any(row[k] != "-" for row in rows)]
    title, told_rows = f"fit of {name} by {bank.solver}", [[row[k] for k in told] for row in rows]
    print_table(title, [headings[k] for k in told], told_rows)

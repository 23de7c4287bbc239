"""Commands on banks: import-bank, fit, transfer, bank list, bank show, bank compare, bank check."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from transil.cli.check import check_command
from transil.cli.output import (
    note,
    print_facts,
    print_json,
    print_matrix,
    print_table,
    progress_bar,
    read_schedule,
    say,
)
from transil.correction.bank import SHOWN, Bank
from transil.correction.bank_json import FORMAT, VERSION
from transil.correction.fitting import fit
from transil.correction.objective import Penalty
from transil.correction.parameters import Pairs, Parameters
from transil.correction.registry import CORRECTIONS, SOLVERS, get_solver
from transil.correction.rules import RULES
from transil.correction.shipped import load_bank, shipped_banks
from transil.correction.transfers import transfer
from transil.errors import TransilError
from transil.files import check_replaceable
from transil.interop.score_files import like_file
from transil.scores import ScoreStore

Output = Annotated[Path, typer.Option("--output", "-o", help="The bank file to write (JSON).")]


def add_to(app: typer.Typer) -> None:
    """Register the commands of this file."""
    app.command("import-bank", short_help="Released parameters into a bank.")(import_bank)
    app.command("fit", short_help="Fit a correction on references.")(fit_command)
    app.command("transfer", short_help="From references to a target.")(transfer_command)
    bank = typer.Typer(help="Look at banks.", no_args_is_help=True, rich_markup_mode=None)
    bank.command("list", short_help="The banks that come with transil.")(list_command)
    bank.command("show", short_help="What a bank is, its alpha and beta.")(show)
    bank.command("compare", short_help="How far two banks are apart.")(compare)
    bank.command("check", short_help="How banks go with scores, without labels.")(check_command)
    app.add_typer(bank, name="bank")


def import_bank(
    source: Annotated[Path, typer.Argument(help="Folder of bic_model_{t}.ckpt files.")],
    output: Output,
    form: Annotated[str, typer.Option("--format", help="Only 'dkt', the authors' layout.")] = "dkt",
    method: Annotated[str | None, typer.Option(help="The method they are for.")] = None,
    correction: Annotated[
        str, typer.Option(help=f"What they are: {', '.join(CORRECTIONS.names())}.")
    ] = "adbic",
    classes: Annotated[int, typer.Option(help="Number of classes, in equal groups.")] = 100,
    schedule: Annotated[
        str | None, typer.Option(help="Group sizes where they differ, '50,10,5,1,34'.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the reference; else the folder's.")
    ] = None,
) -> None:
    """Bring correction parameters of the authors' release into a bank.

    \b
    Examples:
      transil import-bank bic_models_lucir_s10 --format dkt --method lucir -o lucir-s10.json
    """
    from transil.interop import dkt

    check_replaceable(output, FORMAT, VERSION)
    if form != "dkt":
        raise TransilError(f"--format '{form}' is unknown; banks are imported from 'dkt'")
    bank = dkt.import_bank(
        source,
        method=method,
        correction=correction,
        classes=classes,
        schedule=read_schedule(schedule),
        name=name,
    )
    bank.save(output)
    say(f"{output}: {bank.correction.name} for {bank.method or 'unnamed'}, {bank.schedule}")


def fit_command(
    stores: Annotated[list[Path], typer.Argument(help="Score stores of references.")],
    output: Output,
    split: Annotated[str, typer.Option(help="The split to fit on.")] = "val",
    correction: Annotated[
        str, typer.Option(help=f"One of: {', '.join(CORRECTIONS.names())}.")
    ] = "adbic",
    solver: Annotated[str, typer.Option(help=f"One of: {', '.join(SOLVERS.names())}.")] = "newton",
    penalty_alpha: Annotated[
        float | None,
        typer.Option(
            help="c of the penalty c * alpha^2. Default: 0 for newton, 0.0025 for the others."
        ),
    ] = None,
    penalty_beta: Annotated[
        float | None,
        typer.Option(
            help="c of the penalty c * beta^2. Default: 0 for newton, 0.0525 for the others."
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Of the shuffling, for 'paper' and 'adam'.")
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(help="For 'authors' (200), 'paper' (300) and 'adam'.")
    ] = None,
    name: Annotated[
        list[str] | None, typer.Option(help="Name of each reference, in order; repeat it.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The fit records as JSON.")] = False,
) -> None:
    """Fit a correction on the scores of references and keep it as a bank.

    'newton' finds the exact optimum, 'authors' repeats the released recipe, 'paper' the text of
    the paper. They give different accuracies: the bank says which one made it.

    \b
    Examples:
      transil fit runs/lucir --split val --correction adbic --solver newton -o my-bank.json
      transil fit runs/ref1 runs/ref2 runs/ref3 --solver authors -o bank.json
      transil fit runs/ref1 --penalty-alpha 0.0025 --penalty-beta 0.0525 -o released.json
    """
    check_replaceable(output, FORMAT, VERSION)
    opened = [ScoreStore.open(store) for store in stores]
    usual = get_solver(solver).penalty
    settings: dict[str, Any] = {
        "penalty": Penalty(
            usual.alpha if penalty_alpha is None else penalty_alpha,
            usual.beta if penalty_beta is None else penalty_beta,
        )
    }
    settings |= {k: v for k, v in (("seed", seed), ("epochs", epochs)) if v is not None}
    total = sum(max(0, store.schedule.states - 1) for store in opened)
    finished: set[tuple[str, int]] = set()
    with progress_bar(total) as update:

        def watch(reference: str, state: int, fraction: float) -> None:
            if fraction >= 1.0:
                finished.add((reference, state))
            done = len(finished) + (fraction if fraction < 1.0 else 0.0)
            update(done, f"{reference}, state {state}")

        bank = fit(
            opened,
            split=split,
            correction=correction,
            solver=solver,
            names=name or None,
            watch=watch,
            **settings,
        )
    bank.save(output)
    if as_json:
        print_json({r.name: {s: vars(x) for s, x in r.records.items()} for r in bank.references})
        return
    for reference in bank.references:
        _print_records(bank, reference.name)
        _note_turned(reference.pairs, f"{reference.name}: ")
    say(f"{output}: {bank.correction.name}, {len(bank.references)} reference(s), {bank.schedule}")


def transfer_command(
    banks: Annotated[list[str], typer.Argument(help="Banks (files or names), fitted in one way.")],
    output: Output,
    how: Annotated[str, typer.Option(help=f"One of: {', '.join(RULES.names())}.")] = "mean",
    reference: Annotated[str | None, typer.Option(help="For 'single': which one.")] = None,
    target: Annotated[
        Path | None, typer.Option(help="For 'oracle': the target's score store.")
    ] = None,
    split: Annotated[str, typer.Option(help="For 'oracle': the split with test labels.")] = "test",
    schedule: Annotated[
        str | None, typer.Option(help="The target's groups, '200/10', where sizes differ.")
    ] = None,
    like: Annotated[
        Path | None,
        typer.Option(help="Bring it to the scale of these scores (.npy or .pt; no labels needed)."),
    ] = None,
    state: Annotated[int | None, typer.Option(help="For --like: the state of the scores.")] = None,
    any_method: Annotated[
        bool, typer.Option("--any-method", help="For 'oracle': a target of another method.")
    ] = False,
) -> None:
    """Join the references of some banks and choose how they are transferred to a target.

    'oracle' takes, for each state, the one reference that does best on the target's test labels: an
    upper bound over single references (a mean of several may exceed it), never a result. --schedule
    is for groups that are all larger or smaller than the bank's by one factor. --like is for a model
    in use: the scale of its scores is measured once, for this state and those before.

    \b
    Examples:
      transil transfer ref1.json ref2.json ref3.json --how mean -o bank.json
      transil transfer bank.json --how single --reference ref2 -o one.json
      transil transfer bank.json --how oracle --target runs/target -o bound.json
      transil transfer lwf-s10 --schedule 200/10 -o lwf-200.json
      transil transfer lucir-s10 --like scores.npy --state 7 -o mine.json
    """
    check_replaceable(output, FORMAT, VERSION)
    store = ScoreStore.open(target) if target else None
    loaded = [load_bank(bank) for bank in banks]
    groups = read_schedule(schedule)
    if groups is not None:
        loaded = [bank.for_schedule(groups) for bank in loaded]
    result = transfer(
        loaded, how, reference=reference, target=store, split=split, same_method=not any_method
    )
    if like is not None:
        result = like_file(result, like, state)
    elif state is not None:
        raise TransilError("--state goes with --like")
    result.save(output)
    if how == "oracle":
        note(
            "note: the oracle looks at the target's test labels: an upper bound over single "
            "references, not a result"
        )
        rows = [[f"{s}", name] for s, name in sorted(result.transfer.choice.items())]
        print_table("best reference per state", ["state", "reference"], rows)
    say(f"{output}: {how} of {len(result.references)} reference(s), {result.schedule}")


def list_command(
    beginning: Annotated[
        str, typer.Argument(metavar="[NAME]", help="Only those whose name begins so.")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """List the banks that come with transil.

    The default one of a method and number of states has a short name: lwf-s10. Scale is how far
    the references' scores spread, the smallest and the largest of the states.

    \b
    Examples:
      transil bank list
      transil bank list lucir-s20
      transil bank list --json
    """
    found = []
    beginning, there = beginning.lower(), shipped_banks()
    if there and not any(item.name.startswith(beginning) for item in there):
        methods = ", ".join(dict.fromkeys(item.method for item in there))
        raise TransilError(
            f"no bank that comes with transil has a name that begins with '{beginning}'; "
            f"names are METHOD-sSTATES-CORRECTION-SOLVER, such as {there[0].name}, of {methods}"
        )
    for item in there:
        if not item.name.startswith(beginning):
            continue
        bank = item.load()
        states = range(2, bank.schedule.states + 1)
        found.append({
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
        })  # fmt: skip
    if as_json:
        print_json(found)
    elif found:
        _print_list([{key: _cell(value) for key, value in row.items()} for row in found])
    else:
        say("this transil ships no banks")


def show(
    path: Annotated[str, typer.Argument(help="A bank: a file or a name.")],
    reference: Annotated[
        str | None, typer.Option(help="Show this reference instead of the transferred pairs.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="What is applied, as JSON.")] = False,
) -> None:
    """Show what a bank is for, where it comes from, and its alpha and beta.

    \b
    Examples:
      transil bank show lucir-s10.json
      transil bank show bank.json --reference ref2
      transil bank show lwf-s10
    """
    bank = load_bank(path)
    if reference:
        bank = transfer(bank, "single", reference=reference)
    states = range(2, bank.schedule.states + 1)
    applied = {s: bank.applied(s) for s in states}
    if as_json:
        print_json(
            {s: {"alpha": p.alpha.tolist(), "beta": p.beta.tolist()} for s, p in applied.items()}
        )
        return
    print_facts(path, _facts(bank))
    print_matrix("alpha", [applied[s].alpha.tolist() for s in states], ".4f", 8)
    print_matrix("beta", [applied[s].beta.tolist() for s in states], "+.3f", 8)
    fitted = [
        item.name
        for item in bank.references
        if item.records and (reference is None or item.name == reference)
    ]
    for name in fitted[:SHOWN]:
        _print_records(bank, name)
    if len(fitted) > SHOWN:
        say(f"and {len(fitted) - SHOWN:,} more fits: --reference NAME shows one")
    _note_turned(applied)


def _note_turned(pairs: Mapping[int, Parameters], whose: str = "") -> None:
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


def compare(
    first: Annotated[str, typer.Argument(help="A bank: a file or a name.")],
    second: Annotated[str, typer.Argument(help="Another.")],
    as_json: Annotated[bool, typer.Option("--json", help="The differences as JSON.")] = False,
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
    facts, others = _facts(a), _facts(b)
    differ = {key: [facts[key], others[key]] for key in facts if facts[key] != others[key]}
    rows = []
    for state in range(2, a.schedule.states + 1):
        x, y = a.applied(state), b.applied(state)
        alpha, beta = y.alpha - x.alpha, y.beta - x.beta
        rows.append({
            "state": state,
            "alpha_largest": float(np.abs(alpha).max()),
            "alpha_rms": float(np.sqrt(np.mean(alpha**2))),
            "beta_largest": float(np.abs(beta).max()),
            "beta_rms": float(np.sqrt(np.mean(beta**2))),
        })  # fmt: skip
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
    how = bank.transfer.how + bound
    names = [reference.name for reference in bank.references]
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    sizes = list(bank.schedule.sizes)
    resized = bank.provenance.get("fitted_sizes", sizes) != sizes
    return {
        "method": bank.method or "not given",
        "schedule": f"{bank.schedule}{' (fitted on other sizes)' if resized else ''}",
        "correction": f"{bank.correction.name}: {bank.correction.summary}",
        "solver": bank.solver or "not given",
        "penalty": ", ".join(f"{c} {name}^2" for name, c in penalty.items()) or "not given",
        "scores": bank.score_kind + (", rescaled" if bank.provenance.get("rescaled") else ""),
        "score scale": _cell({s: bank.scale(s) for s in range(2, bank.schedule.states + 1)}),
        "transfer": how,
        "references": shown + _where(bank),
        "made by": _made_by(bank),
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


def _made_by(bank: Bank) -> str:
    versions = bank.provenance.get("versions", {})
    return f"transil {versions['transil']}" if "transil" in versions else "not given"


def _print_records(bank: Bank, name: str) -> None:
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
    print_table(
        f"fit of {name} by {bank.solver}",
        [headings[k] for k in told],
        [[row[k] for k in told] for row in rows],
    )

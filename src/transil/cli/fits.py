"""Commands that make banks: import-bank, fit, transfer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from transil._common.files import check_replaceable
from transil.adaptation.score_files import like_file
from transil.cli.banks import note_turned, print_open, print_records
from transil.cli.options import Groups, Keep, Key, Strength, read_names, strengthened
from transil.cli.output import (
    check_apart,
    note,
    print_json,
    print_table,
    progress_bar,
    read_schedule,
    say,
)
from transil.correction.bank import FORMAT, VERSION
from transil.correction.bank_json import open_to_json
from transil.correction.fitting import fit, fit_any_schedule
from transil.correction.objective import Penalty
from transil.correction.registry import CORRECTIONS, SOLVERS, get_solver
from transil.correction.rules import RULES
from transil.correction.shipped import load_bank
from transil.correction.transfers import transfer
from transil.errors import TransilError
from transil.scores.store import ScoreStore

Output = Annotated[Path, Option("--output", "-o", help="The bank file to write (JSON).")]


def import_bank(
    source: Annotated[Path, Argument(help="Folder of bic_model_{t}.ckpt files.")],
    output: Output,
    form: Annotated[str, Option("--format", help="Only 'dkt', the authors' layout.")] = "dkt",
    method: Annotated[str | None, Option(help="The method they are for.")] = None,
    correction: Annotated[
        str, Option(help=f"What they are: {', '.join(CORRECTIONS.names())}.")
    ] = "adbic",
    classes: Annotated[int, Option(help="Number of classes, in equal groups.")] = 100,
    schedule: Annotated[
        str | None, Option(help="Group sizes where they differ, '50,10,5,1,34'.")
    ] = None,
    name: Annotated[str | None, Option(help="Name of the reference; else the folder's.")] = None,
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
    stores: Annotated[list[Path], Argument(help="Score stores of references.")],
    output: Output,
    split: Annotated[str, Option(help="The split to fit on.")] = "val",
    correction: Annotated[
        str | None, Option(help=f"One of: {', '.join(CORRECTIONS.names())}. Default: adbic.")
    ] = None,
    solver: Annotated[
        str | None, Option(help=f"One of: {', '.join(SOLVERS.names())}. Default: newton.")
    ] = None,
    penalty_alpha: Annotated[
        float | None,
        Option(help="c of the penalty c * alpha^2. Default: 0 for newton, 0.0025 for the others."),
    ] = None,
    penalty_beta: Annotated[
        float | None,
        Option(help="c of the penalty c * beta^2. Default: 0 for newton, 0.0525 for the others."),
    ] = None,
    seed: Annotated[int | None, Option(help="Of the shuffling, for 'paper' and 'adam'.")] = None,
    epochs: Annotated[
        int | None, Option(help="For 'authors' (200), 'paper' (300) and 'adam'.")
    ] = None,
    name: Annotated[
        list[str] | None, Option(help="Name of each reference, in order; repeat it.")
    ] = None,
    any_schedule: Annotated[
        bool,
        Option(
            "--any-schedule", help="One bank for any schedule, from stores of different schedules."
        ),
    ] = False,
    as_json: Annotated[bool, Option("--json", help="The fit records as JSON.")] = False,
) -> None:
    """Fit a correction on the scores of references and keep it as a bank.

    'newton' finds the exact optimum, 'authors' repeats the released recipe, 'paper' the text of
    the paper. They give different accuracies: the bank says which one made it.

    --any-schedule fits 'adbic-any', a function of the schedule and of unlabelled scores, on all stores
    together. Give stores of many schedules; --name says which were trained on the same images.

    \b
    Examples:
      transil fit runs/lucir --split val --correction adbic --solver newton -o my-bank.json
      transil fit runs/ref1 runs/ref2 runs/ref3 --solver authors -o bank.json
      transil fit runs/ref1 --penalty-alpha 0.0025 --penalty-beta 0.0525 -o released.json
      transil fit runs/ref1 runs/ref2 runs/ref3 --any-schedule -o curve.json
    """
    check_replaceable(output, FORMAT, VERSION)
    opened = [ScoreStore.open(store) for store in stores]
    penalty = {"alpha": penalty_alpha, "beta": penalty_beta}
    choices: dict[str, Any] = {"correction": correction, "solver": solver}
    choices |= {"seed": seed, "epochs": epochs}
    choices |= {f"penalty-{of}": c for of, c in penalty.items()}
    given = [name for name, value in choices.items() if value is not None]
    if any_schedule and given:
        raise TransilError(f"--any-schedule has its own correction and solver: no --{given[0]}")
    if any_schedule:
        with progress_bar() as progress:
            curve = fit_any_schedule(opened, split=split, names=name or None, progress=progress)
        curve.save(output)
        if as_json:
            print_json(open_to_json(curve))
            return
        print_open(str(output), curve)
        say(f"next: transil bank make {output} --schedule 12,5,5,8 -o mine.json")
        return
    solver = solver or "newton"
    usual = vars(get_solver(solver).penalty)
    settings: dict[str, Any] = {
        "penalty": Penalty(**{of: usual[of] if c is None else c for of, c in penalty.items()})
    }
    settings |= {k: v for k, v in (("seed", seed), ("epochs", epochs)) if v is not None}
    with progress_bar() as progress:
        bank = fit(
            opened,
            split=split,
            correction=correction or "adbic",
            solver=solver,
            names=name or None,
            progress=progress,
            **settings,
        )
    bank.save(output)
    if as_json:
        print_json({r.name: {s: vars(x) for s, x in r.records.items()} for r in bank.references})
        return
    for reference in bank.references:
        print_records(bank, reference.name)
        note_turned(reference.pairs, f"{reference.name}: ")
    say(f"{output}: {bank.correction.name}, {len(bank.references)} reference(s), {bank.schedule}")


def transfer_command(
    banks: Annotated[list[str], Argument(help="Banks (files or names), fitted in one way.")],
    output: Output,
    how: Annotated[str, Option(help=f"One of: {', '.join(RULES.names())}.")] = "mean",
    reference: Annotated[str | None, Option(help="For 'single': which one.")] = None,
    target: Annotated[Path | None, Option(help="For 'oracle': the target's score store.")] = None,
    split: Annotated[str, Option(help="For 'oracle': the split with test labels.")] = "test",
    schedule: Groups = None,
    like: Annotated[
        Path | None,
        Option(help="Bring it to the scale of these scores (any kind of file; no labels needed)."),
    ] = None,
    state: Annotated[int | None, Option(help="For --like: the state of the scores.")] = None,
    key: Key = None,
    keep: Keep = None,
    any_method: Annotated[
        bool, Option("--any-method", help="For 'oracle': a target of another method.")
    ] = False,
    strength: Strength = None,
) -> None:
    """Join the references of some banks and choose how they are transferred to a target.

    'oracle' takes, for each state, the one reference that does best on the target's test labels: an
    upper bound over single references (a mean of several may exceed it), never a result. --schedule
    is for a bank of any schedule, or groups that are all larger or smaller than the bank's by one
    factor. --like is for a model in use: its scores are measured once, for this state and those before.
    --strength is kept in the bank.

    \b
    Examples:
      transil transfer ref1.json ref2.json ref3.json --how mean -o bank.json
      transil transfer bank.json --how single --reference ref2 -o one.json
      transil transfer bank.json --how oracle --target runs/target -o bound.json
      transil transfer lwf-s10 --schedule 200/10 -o lwf-200.json
      transil transfer lucir-s10 --like scores.npy --state 7 -o mine.json
      transil transfer lucir-s10 --strength 0.5 -o half.json
    """
    check_replaceable(output, FORMAT, VERSION)
    store = ScoreStore.open(target) if target else None
    groups = read_schedule(schedule)
    for bank in banks if groups is not None else ():
        check_apart(output, bank, "the bank for other schedules would be lost")
    loaded = [load_bank(bank, schedule=groups) for bank in banks]
    result = transfer(
        loaded, how, reference=reference, target=store, split=split, same_method=not any_method
    )
    result = strengthened(result, strength)
    if like is not None:
        result = like_file(
            result, like, state, key, read_names(keep),
            cost=lambda cost: say(f"rescaled the bank predicts {cost}"),
        )  # fmt: skip
    elif (state, key, keep) != (None, None, None):
        raise TransilError("--state, --key and --keep go with --like")
    result.save(output)
    if how == "oracle":
        note(
            "note: the oracle looks at the target's test labels: an upper bound over single "
            "references, not a result"
        )
        rows = [[f"{s}", name] for s, name in sorted(result.transfer.choice.items())]
        print_table("best reference per state", ["state", "reference"], rows)
    say(f"{output}: {how} of {len(result.references)} reference(s), {result.schedule}")

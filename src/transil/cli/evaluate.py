"""The command that judges scores, raw and corrected: evaluate."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from transil.cli.options import AnyMethod, Rescale, Strength, check_goes_with_bank, strengthened
from transil.cli.output import note, percent, print_csv, print_json, print_matrix, print_table, say
from transil.correction.bank import Bank
from transil.correction.scales import Newest, measured_scales
from transil.correction.shipped import bank_for
from transil.correction.strength import AS_FITTED
from transil.errors import DataWarning, ScoreScaleWarning, TransilError
from transil.evaluation.evaluate import evaluate
from transil.evaluation.gains import Gain, gains
from transil.evaluation.metrics import Metrics, StateMetrics
from transil.scores.store import ScoreStore

RESCALED = "@rescale"  # after the name of a bank: brought to the scale of the scores


def evaluate_command(
    store: Annotated[Path, Argument(help="A score store (a folder).")],
    bank: Annotated[
        list[str] | None,
        Option(
            help="Also correct with this bank (file or name, NAME@rescale); several are compared."
        ),
    ] = None,
    split: Annotated[str, Option(help="Which split to judge on.")] = "test",
    topk: Annotated[int, Option(min=2, help="The k of top-k accuracy.")] = 5,
    as_json: Annotated[bool, Option("--json", help="All metrics as JSON.")] = False,
    as_csv: Annotated[bool, Option("--csv", help="One CSV row per state.")] = False,
    figure: Annotated[
        Path | None, Option(help="Draw the result: a .png, .svg or .pdf file.")
    ] = None,
    any_method: AnyMethod = False,
    rescale: Rescale = False,
    strength: Strength = None,
) -> None:
    """Accuracy per state, averages and the accuracy matrix; raw, and corrected by a bank.

    'average incremental accuracy' is the paper's: the mean over states 2..S, without the first.

    \b
    Examples:
      transil evaluate runs/lucir
      transil evaluate runs/lucir --bank lucir-s10.json
      transil evaluate runs/lucir --bank lucir-s10.json --figure result.png
      transil evaluate runs/lucir --bank lucir-s10.json --json > result.json
      transil evaluate runs/lucir --bank lucir-s10 --rescale
      transil evaluate runs/lucir --bank lucir-s10 --strength 0.5
      transil evaluate runs/lucir --bank lucir-s10 --bank lucir-s10-bic
      transil evaluate runs/mine --bank lwf-t-any
      transil evaluate runs/lucir --bank lucir-s10@rescale --bank lucir-s10-authors
    """
    if as_json and as_csv:
        raise TransilError("give --json or --csv, not both")
    opened = ScoreStore.open(store)
    _check_split(opened, split)
    wanted = bank or []
    for name in wanted:
        if wanted.count(name) > 1:
            raise TransilError(f"--bank {name} is given twice")
    check_goes_with_bank(bool(wanted), rescale, strength)
    banks = {
        "./raw" if name == "raw" else name: strengthened(
            bank_for(name.removesuffix(RESCALED), opened.schedule), strength
        )
        for name in wanted
    }
    costs: dict[str, Newest] = {}
    results = {"raw": evaluate(opened, split=split, topk=(topk,))}
    for name, one in banks.items():
        one.check_store(opened, same_method=not any_method)
        if rescale or name.endswith(RESCALED):
            last = results["raw"].states[-1].state
            plain, banks[name] = one, one.at_scale(measured_scales(opened, split))
            one = banks[name]
            if (cost := plain.newest(opened.get(split, last).scores, last)) is not None:
                costs[name] = cost
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)  # of states to come: told already
            results["corrected" if len(banks) == 1 else name] = evaluate(
                opened, one, split=split, topk=(topk,), same_method=not any_method
            )
        if one.transfer.how == "oracle":
            note(
                f"note: {name} is an oracle, chosen on test labels: an upper bound over "
                "single references, not a result"
            )
    told_absent(results["raw"], split)
    _told_losses(dict(zip(banks, list(results.values())[1:], strict=True)), results["raw"])
    won: list[Gain] = []
    if banks and len(results["raw"].states) > 1 and not results["raw"].lost:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)
            warnings.simplefilter("ignore", ScoreScaleWarning)  # told above
            won = gains(opened, banks, split=split, same_method=not any_method)
    if figure:
        from transil.report.figures import draw_evaluation

        several = {n: b.correction.name for n, b in banks.items()} if len(banks) > 1 else None
        shown = None if several else next(iter(banks.values()), None)
        draw_evaluation(results, opened.schedule, figure, _title(opened, shown), several)
    if as_json:
        data = _as_json(opened, banks, split, results)
        print_json({**data, "gains": [vars(gain) for gain in won]} if won else data)
    elif as_csv:
        print_csv([row for name, m in results.items() for row in _csv_rows(name, m)])
    else:
        _print(opened, banks, split, topk, results, won)
        for name, cost in costs.items():
            say(f"{name}: rescaled it predicts {cost}, last state")
        if figure:
            say(f"figure: {figure}")


def _points(gain: Gain | None) -> str:
    return "" if gain is None else percent(gain.gain, sign=True)


def _interval(gain: Gain | None, text: str = ", 95 % interval ") -> str:
    if gain is None or gain.low is None or gain.high is None:
        return ""
    return f"{text}{percent(gain.low, sign=True)} to {percent(gain.high, sign=True)}"


def _print_gains(won: list[Gain]) -> None:
    """Over the raw scores, and over the first bank; on the same images."""
    over_raw = [gain for gain in won if gain.over == "raw"]
    first = over_raw[0].of
    ahead = {gain.of: gain for gain in won if gain.over == first}
    pairs = [(gain, ahead.get(gain.of)) for gain in over_raw]
    rows = [
        [one.of, *(text for gain in (one, other) for text in (_points(gain), _interval(gain, "")))]
        for one, other in pairs
    ]
    heads = ["", "over raw", "95 % interval", "over the first", "95 % interval"]
    print_table("gain of the average incremental accuracy (points)", heads, rows)


def _check_split(store: ScoreStore, split: str) -> None:
    if store.splits and split not in store.splits:
        unseen = [name for name in store.splits if name != "train"]
        others = " or ".join(f"--split {name}" for name in unseen or store.splits)
        raise TransilError(
            f"{store.name}: no split '{split}'; judge on one that is there: {others}"
        )


def told_absent(metrics: Metrics, split: str) -> None:
    """Say where averages are not over all classes seen so far, or why there are none."""
    gaps = metrics.lost or metrics.absent
    if not gaps:
        return
    (state, group), more = gaps[0], len(gaps) - 1
    note(
        f"note: split '{split}' has no images of group {group} in state {state}"
        + (f" and {more} more such gaps" if more else "")
        + (
            "; averages over states (-) need images of all classes seen so far"
            if metrics.lost
            else "; accuracies and averages are over the groups that are there"
        )
    )


def _told_losses(corrected: dict[str, Metrics], raw: Metrics) -> None:
    """Say which banks make things worse: among other numbers a minus is easily overlooked."""
    for name, metrics in corrected.items():
        change = metrics.average_incremental_accuracy - raw.average_incremental_accuracy
        if change < 0:
            note(
                f"note: {name} loses {percent(-change)} points of average incremental accuracy; take "
                "another bank, or leave these scores as they are (transil bank check, transil advise)"
            )


def describe(bank: Bank, rescaled: bool = False) -> str:
    """A bank in a few words."""
    rescaled = rescaled or bool(bank.provenance.get("rescaled"))
    solver = f", {bank.solver}" if bank.solver else ""
    count = len(bank.references)
    how = f"{bank.transfer.how} of {count} references" if count > 1 else bank.references[0].name
    strength = "" if bank.strength == AS_FITTED else f", strength {bank.strength:g}"
    return f"{bank.correction.name} ({how}{solver}{', rescaled' if rescaled else ''}{strength})"


def _title(store: ScoreStore, bank: Bank | None) -> str:
    parts = [store.dataset, store.method, bank and describe(bank)]
    return ", ".join(part for part in parts if part) or store.name


def _as_json(
    store: ScoreStore, banks: dict[str, Bank], split: str, results: dict[str, Metrics]
) -> dict[str, Any]:
    data: dict[str, Any] = {
        "store": store.name,
        "method": store.method,
        "dataset": store.dataset,
        "split": split,
        "schedule": store.schedule.to_json(),
    }
    if len(banks) > 1:
        data["raw"] = results["raw"].to_json()
        data["banks"] = {
            name: {**_bank_facts(bank), "corrected": results[name].to_json()}
            for name, bank in banks.items()
        }
        return data
    for bank in banks.values():
        data["bank"] = _bank_facts(bank)
    return {**data, **{name: metrics.to_json() for name, metrics in results.items()}}


def _bank_facts(bank: Bank) -> dict[str, Any]:
    return {
        "correction": bank.correction.name,
        "solver": bank.solver,
        "transfer": bank.transfer.how,
        "references": [reference.name for reference in bank.references],
        "rescaled": bool(bank.provenance.get("rescaled")),
        "strength": bank.strength,
    }


def _csv_rows(name: str, metrics: Metrics) -> list[dict[str, Any]]:
    last = len(metrics.states)
    return [
        {
            "scores": name,
            "state": s.state,
            "classes": s.classes,
            "images": s.images,
            "accuracy": s.accuracy,
            "accuracy_group_mean": s.accuracy_group_mean,
            **{f"top{k}": value for k, value in s.topk.items()},
            "calibration_error": s.calibration_error,
            **{
                f"group_{k}": s.group_accuracy[k - 1] if k <= s.state else None
                for k in range(1, last + 1)
            },
        }
        for s in metrics.states
    ]


def _print(
    store: ScoreStore,
    banks: dict[str, Bank],
    split: str,
    topk: int,
    results: dict[str, Metrics],
    won: list[Gain],
) -> None:
    """Tables for the terminal: what was raw, and a column for each bank."""
    say(f"{store.name}: {store.schedule}, split '{split}'")
    for name, bank in banks.items():
        say(f"{name}: {describe(bank)}" if len(banks) > 1 else f"corrected with {describe(bank)}")
    print_table("accuracy (%)", *_accuracies(results, len(banks), topk))
    each = [_values(metrics, topk) for metrics in results.values()]
    headings = ["", *results, *["change"] * (len(banks) == 1)]
    rows = [[name, *(percent(values[name]) for values in each)] for name in each[0]]
    if len(banks) == 1:
        before, after = each
        rows = [[*row, percent(after[row[0]] - before[row[0]], sign=True)] for row in rows]
    print_table("summary (%)", headings, rows)
    if len(banks) > 1:
        if won:
            _print_gains(won)
        return
    for gain in won:
        say(f"gain of the average: {_points(gain)} points{_interval(gain)}")
    for name, metrics in results.items():
        matrix = [
            [100 * value for value in row[: i + 1]]
            for i, row in enumerate(metrics.accuracy_matrix.tolist())
        ]
        print_matrix(f"accuracy per group (%), {name}", matrix, ".1f", 6)
    for name, metrics in results.items():
        print_matrix(*_confusion(name, metrics.states[-1]), ".1f", 6, square=True)


def _confusion(name: str, last: StateMetrics) -> tuple[str, list[list[float]]]:
    """Which groups the images of each group are taken for, in per cent of its images."""
    rows = [
        [100 * count / sum(row) if sum(row) else math.nan for count in row]
        for row in last.group_confusion
    ]
    return f"images of each group (row) predicted as (column, %), last state, {name}", rows


def _accuracies(
    results: dict[str, Metrics], banks: int, topk: int
) -> tuple[list[str], list[list[str]]]:
    """Headings and rows: a state a row; with several banks their accuracies alone."""
    few = banks < 2
    headings = ["state", "classes", *["images"] * few, *results, *["gain"] * (banks == 1)]
    tops = ["raw ", "corr. "] if banks else [""]
    headings += [f"{whose}top-{topk}" for whose in tops if few]
    rows = []
    for states in zip(*(metrics.states for metrics in results.values()), strict=True):
        first, last = states[0], states[-1]
        row = [f"{first.state}", f"{first.classes}", *[f"{first.images:,}"] * few]
        row += [percent(s.accuracy) for s in states]
        row += [percent(last.accuracy - first.accuracy, sign=True)] * (banks == 1)
        rows.append(row + [percent(s.topk[topk]) for s in states if few])
    return headings, rows


def _values(metrics: Metrics, topk: int) -> dict[str, float]:
    last = metrics.states[-1]
    return {
        f"average incremental accuracy (states 2..{metrics.states[-1].state})": (
            metrics.average_incremental_accuracy
        ),
        "  the same with the first state": metrics.average_incremental_accuracy_with_first,
        "  the same as mean of groups": metrics.average_incremental_accuracy_group_mean,
        "  the same, the group being known": metrics.average_incremental_accuracy_known_group,
        f"  the same, top-{topk}": metrics.average_incremental_topk[topk],
        "last accuracy": metrics.last_accuracy,
        "forgetting": metrics.forgetting,
        "backward transfer": metrics.backward_transfer,
        "calibration error, last state": last.calibration_error,
        "share predicted as newest group, last state": last.prediction_share[-1],
        "accuracy of the newest group, last state": last.group_accuracy[-1],
        "accuracy of the groups before, last state": _older(last),
    }


def _older(state: StateMetrics) -> float:
    """The accuracy over all images of past groups; NaN where there are none."""
    share = state.image_share[-1]
    newest = state.group_accuracy[-1] * share if share else 0.0
    return (state.accuracy - newest) / (1.0 - share) if share < 1.0 else math.nan

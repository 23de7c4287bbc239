"""Fit the banks for any schedule, and say how well they hold where they were not fitted.

    python tools/any_banks.py results/any-schedule

Reads METHOD.safetensors there (tools/any_schedule.py makes them) and `judged.json`, where that is there
(tools/any_judge.py). Writes METHOD-any.json and generic-any.json into the package, where
`transil.load_bank` finds them, and `forms.json`: how forms of the function compare. With --words no bank
is fitted; what `judged.json` says of them is told anew.

Forms are compared on references alone. Each run is predicted by a function that was fitted without
its images and without its schedule; `kept` is the share of the loss above the optimum that it removes,
1 for the run's own exact pairs and 0 for no correction (validation scores, quadratic around the exact
pairs, at the best size of all pairs of a state together): over all runs together, and in the worst run.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from transil._common.arrays import Float64Array
from transil._common.files import read_json, write_json
from transil._common.provenance import versions
from transil.correction.any_fit import (
    CENTRES,
    PENALTY,
    ROUNDS,
    form_of,
    levelled,
    solve,
    system_of,
)
from transil.correction.any_schedule import PLACE, SCORES, SIZE, WEIGHTS, AdBiCAny
from transil.correction.evidence import Evidence, read_evidence
from transil.correction.open_bank import GENERIC, GENERIC_PENALTY, OpenBank
from transil.correction.parameters import Pairs
from transil.correction.shipped import ANY, find_bank
from transil.errors import TransilError

Predict = Callable[[Evidence], Pairs]
Predictor = Callable[[Sequence[str]], Predict]  # from some runs

LOSS = 0.003  # of accuracy: what is less is no loss worth a word
# Methods whose heads are made of one training: to leave out one is to leave out all of them.
SAME_TRAINING = {"ft": "ft", "ft+": "ft", "siw": "ft"}
PACKAGE = Path(__file__).resolve().parents[1] / "src" / "transil" / "banks"


class Form(NamedTuple):
    """One form of the function: which features count, how much, and how it is fitted."""

    weights: Mapping[str, float] = WEIGHTS
    penalty: float = PENALTY
    centres: int = CENTRES
    rounds: int = ROUNDS


class Interpolation(NamedTuple):
    """No function: the mean of others' exact pairs, the nearer in the features the more. No likelihood.

    `width`: of the bell that says how much, against the bumps of a form.
    """

    weights: Mapping[str, float]
    width: float = 0.25  # the best of 1, 1/2, 1/3, 1/4 and of powers of the distance


TAKEN = Form()
NEIGHBOURS = {"newest size": 0.5, "after": 0.5, "before": 0.3, "behind": 0.3}
FORMS: dict[str, Form | Interpolation] = {
    "interpolation: place, size": Interpolation({**PLACE, **SIZE}),
    "interpolation: place, size, scores": Interpolation(WEIGHTS),
    "one pair for all": Form({"newest": 1e-3}, centres=1),
    "place": Form(PLACE),
    "place, size": Form({**PLACE, **SIZE}),
    "place, size, neighbours": Form({**PLACE, **SIZE, **NEIGHBOURS}),
    "scores": Form(SCORES),
    "place, size, scores (taken)": TAKEN,
    "... and neighbours": Form({**WEIGHTS, **NEIGHBOURS}),
    "... scores count half": Form({**WEIGHTS, **{k: v / 2 for k, v in SCORES.items()}}),
    "... scores count double": Form({**WEIGHTS, **{k: v * 2 for k, v in SCORES.items()}}),
    "... 40 centres": Form(centres=40),
    "... penalty a tenth": Form(penalty=PENALTY / 10),
    "... penalty ten times": Form(penalty=PENALTY * 10),
    "... sizes of all pairs as fitted": Form(rounds=0),
    "... linear": Form({k: v / 100 for k, v in WEIGHTS.items()}, penalty=1e-4),
}


def kept(
    evidence: Sequence[Evidence], form: Form | Interpolation = TAKEN
) -> dict[str, tuple[float, float]]:
    """By run: mean loss above the optimum, uncorrected and predicted from the others."""
    runs = _runs(evidence)
    predictor = fitted(evidence, form) if isinstance(form, Form) else interpolated(evidence, form)
    found = {}
    for run, states in runs.items():
        predict = predictor([n for n, of in runs.items() if not _related(of[0], states[0])])
        raw = [loss(one, Pairs.identity(one.facts.state)) for one in states]
        found[run] = (
            float(np.mean(raw)),
            float(np.mean([loss(one, predict(one)) for one in states])),
        )
    return found


def fitted(evidence: Sequence[Evidence], form: Form) -> Predictor:
    """By a function that is fitted on some runs."""
    made = form_of(evidence, weights=form.weights, centres=form.centres)
    level = levelled(made, evidence, form.penalty, form.rounds)
    systems = {run: system_of(made, states) for run, states in _runs(level).items()}

    def on(runs: Sequence[str]) -> Predict:
        found = solve(made, [systems[run] for run in runs], form.penalty)
        return lambda one: made.spread(found, one.facts)

    return on


def interpolated(evidence: Sequence[Evidence], form: Interpolation) -> Predictor:
    """By a weighted mean of the exact pairs of some runs; beta in units of the scale."""
    made = AdBiCAny(weights=form.weights, centres=np.zeros((1, len(form.weights))))
    runs = _runs(evidence)
    known = {
        run: (
            np.concatenate([made.points(one.facts) for one in states]) / form.width,
            np.concatenate([_in_units(one) for one in states]),
        )
        for run, states in runs.items()
    }

    def on(names: Sequence[str]) -> Predict:
        points, pairs = (
            np.concatenate(part) for part in zip(*(known[name] for name in names), strict=True)
        )

        def predict(one: Evidence) -> Pairs:
            away = made.points(one.facts)[:, None] / form.width - points
            squares = (away**2).sum(axis=2)
            near = np.exp(-0.5 * (squares - squares.min(axis=1, keepdims=True)))
            alpha, beta = (near @ pairs / near.sum(axis=1, keepdims=True)).T
            return Pairs(alpha, (one.facts.scale or 1.0) * beta)

        return predict

    return on


def _in_units(one: Evidence) -> Float64Array:
    """Alpha and beta / scale (state, 2); a common shift of all betas changes nothing."""
    beta = one.pairs.beta - one.pairs.beta.mean()
    return np.stack([one.pairs.alpha, beta / (one.facts.scale or 1.0)], axis=1)


def _runs(evidence: Sequence[Evidence]) -> dict[str, list[Evidence]]:
    runs: dict[str, list[Evidence]] = {}
    for one in evidence:
        runs.setdefault(one.run, []).append(one)
    return runs


def _related(one: Evidence, other: Evidence) -> bool:
    """Whether two runs share images or schedule, or a training where there are several."""
    kinds = [state.run.split("--")[1] for state in (one, other)]
    trained = one.training == other.training != ""
    return one.reference == other.reference or kinds[0] == kinds[1] or trained


def loss(one: Evidence, pairs: Pairs) -> float:
    """That of pairs, whatever the size of all of them together: it changes no prediction."""
    return one.at_level(pairs).loss(pairs)


def summary(found: Mapping[str, tuple[float, float]]) -> dict[str, float]:
    """The shares kept: of all runs together, and in the worst one."""
    raw, predicted = np.array(list(found.values())).T
    return {
        "kept": round(float(1 - predicted.sum() / raw.sum()), 4),
        "worst": round(float((1 - predicted / raw).min()), 4),
    }


def of_all(evidence: Mapping[str, Sequence[Evidence]]) -> list[Evidence]:
    """The evidence of all methods together; a run is named with its method."""
    return [
        replace(one, run=f"{one.run}--{method}", training=SAME_TRAINING.get(method, method))
        for method, states in evidence.items()
        for one in states
    ]


def expected(judged: Mapping[str, Any], name: str) -> str | None:
    """What the bank of a method, or the generic one, gained where it was judged, in words."""
    rows = judged.get("rows", [])
    key = GENERIC if name == GENERIC else "any"
    own = [row for row in rows if name in (GENERIC, row["method"])]
    rows = own or rows
    if not rows:
        return None
    sets = " and ".join(sorted({row["set"] for row in rows}))
    raw, mine = (float(np.mean([row[k] for row in rows])) for k in ("raw", key))
    lost = sum(row[key] < row["raw"] - LOSS for row in rows)
    return (
        f"from {100 * raw:.1f} to {100 * mine:.1f} % on average over {len(rows)} models of "
        f"{sets}{'' if own else ', all of other methods'} (a small network), by banks "
        f"fitted on other images{', schedules and methods' if name == GENERIC else ' and schedules'}; "
        f"{lost} of them lost more than {100 * LOSS:.1f} points"
    )


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="the evidence, a file for each method")
    parser.add_argument("--words", action="store_true", help="only tell anew what the banks gained")
    options = parser.parse_args()
    folder = options.folder
    try:
        files = sorted(folder.glob("*.safetensors"))
        evidence = {path.stem: read_evidence(path) for path in files}
        if not evidence:
            raise TransilError(f"{folder}: no evidence here (METHOD.safetensors)")
        there = folder / "judged.json"
        judged = read_json(there) if there.exists() else {}
    except TransilError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if options.words:
        for name in (*evidence, GENERIC):
            bank = find_bank(f"{name}{ANY}")
            assert isinstance(bank, OpenBank)
            replace(bank, expected=expected(judged, name)).save(PACKAGE / f"{name}{ANY}.json")
        return 0
    table: dict[str, Any] = {}
    together = of_all(evidence)
    for name, form in FORMS.items():
        table[name] = {method: summary(kept(of, form)) for method, of in evidence.items()}
        if form.weights is WEIGHTS and getattr(form, "centres", CENTRES) == CENTRES:
            # Hundreds of runs: not of all forms.
            if isinstance(form, Form):
                form = form._replace(penalty=GENERIC_PENALTY * form.penalty / PENALTY)
            table[name][GENERIC] = summary(kept(together, form))
        print(name, *(f"{method} {of['kept']:.3f}" for method, of in table[name].items()))
    write_json(folder / "forms.json", table)
    provenance = {
        "versions": versions(),
        "evidence": "results/any-schedule",
        "networks": ["resnet18-32"],
        "pixels": [32],
    }
    for method, of in {**evidence, GENERIC: together}.items():
        bank = OpenBank.of(
            of,
            method=None if method == GENERIC else method,
            methods=tuple(evidence) if method == GENERIC else (),
            expected=expected(judged, method),
            provenance=provenance,
        )
        bank.save(PACKAGE / f"{method}{ANY}.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())

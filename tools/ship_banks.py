"""Take the banks of an experiment into the package, and the default one of each method.

    python tools/ship_banks.py results/real-32

Copies results/real-32/banks/METHOD-sSTATES-CORRECTION-SOLVER-seed0.json to src/transil/banks, where
`transil.load_bank` finds them, and writes which one is each method's default, by the references
alone (`transil.experiment.choosing`): the solver that won, with a penalty of its own, and the
paper's adBiC, unless its centred form is clearly ahead.
Banks in which a reference of the experiment is missing stay behind.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from statistics import fmean

from transil import Bank
from transil._common.files import write_json
from transil.correction.shipped import DEFAULT
from transil.errors import TransilError
from transil.experiment.choosing import candidate_means
from transil.experiment.results import Results

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "transil" / "banks"
# Candidates that differ by less than this (points) transfer equally well.
EQUAL = 0.1
# Another form than the paper's must be ahead by this much on average, and nowhere behind.
CLEARLY = 0.3


def defaults(results: Results) -> dict[str, str]:
    """By method: CORRECTION-SOLVER of the bank that its short name stands for."""
    return {
        method: f"{default_form(results, method, solver)}-{solver}"
        for method, solver in default_solvers(results).items()
    }


def default_form(results: Results, method: str, solver: str) -> str:
    """The correction of a method's default bank: 'adbic', or its centred form where that leads."""
    usual, other = DEFAULT[0], "adbic-centred"
    found: dict[str, dict[tuple[int, int], float]] = {usual: {}, other: {}}
    for c in results.choices:
        if (c.method, c.candidate) == (method, solver) and c.correction in found:
            found[c.correction][c.states, c.seed] = 100 * fmean(c.left_out.values())
    leads = [found[other][place] - value for place, value in found[usual].items() if found[other]]
    return other if leads and fmean(leads) > CLEARLY and min(leads) >= 0 else usual


def default_solvers(results: Results) -> dict[str, str]:
    """The solver of each method: with its own penalty, unless another one is better by more than
    `EQUAL` points on the references that were left out.
    """
    solvers = {}
    for method, means in candidate_means(results.choices).items():
        usual = {name: value for name, value in means.items() if ":" not in name}
        if not usual:
            raise TransilError(f"{method}: no solver was tried with its own penalty")
        best, best_usual = (max(x, key=lambda name: x[name]) for x in (means, usual))
        lead = 100 * (means[best] - means[best_usual])
        if lead > EQUAL:
            raise TransilError(
                f"{method}: {best} is better than {best_usual} by {lead:.2f} points; "
                "change the penalty that the solver has by default, and fit again"
            )
        solvers[method] = best_usual
    return solvers


def fitted_banks(folder: Path, results: Results, seed: int) -> dict[str, Bank]:
    """The banks of one seed that hold all references, by the names they will have."""
    files = sorted((folder / "banks").glob(f"*-seed{seed}.json"))
    banks = {path.stem.removesuffix(f"-seed{seed}"): Bank.load(path) for path in files}
    wanted = set(results.facts["recipe"]["references"])
    whole = {n: b for n, b in banks.items() if {r.name for r in b.references} == wanted}
    if not whole:
        raise TransilError(f"{folder}: no bank of seed {seed} has all references")
    return whole


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, help="the folder of an experiment")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    try:
        results = Results.load(options.results)
        chosen = defaults(results)
        banks = fitted_banks(options.results, results, options.seed)
        for bank in banks.values():
            short = f"{bank.method}-s{bank.schedule.states}"
            if f"{short}-{chosen[str(bank.method)]}" not in banks:
                raise TransilError(
                    f"{short}: its default, {chosen[str(bank.method)]}, is not there"
                )
    except TransilError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for old in PACKAGE.glob("*-s*-*.json"):
        old.unlink()
    for name, bank in banks.items():
        bank.save(PACKAGE / f"{name}.json")
        print(f"{name}: {', '.join(r.name for r in bank.references)}")
    write_json(PACKAGE / "defaults.json", dict(sorted(chosen.items())))
    print(f"defaults: {chosen}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

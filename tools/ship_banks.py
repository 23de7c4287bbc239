"""Take the banks of an experiment into the package, and the default solver of each method.

    python tools/ship_banks.py results/real-32

Copies results/real-32/banks/METHOD-sSTATES-CORRECTION-SOLVER-seed0.json to src/transil/banks, where
`transil.load_bank` finds them, and writes which solver is each method's default: the one that won
among the references alone (`transil.experiment.choosing`). Its penalty must be the solver's own.
Banks in which a reference of the experiment is missing stay behind.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from transil import Bank
from transil.correction.shipped import DEFAULT_CORRECTION
from transil.errors import TransilError
from transil.experiment.choosing import candidate_means
from transil.experiment.results import Results
from transil.files import write_json

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "transil" / "banks"
# Candidates that differ by less than this (points) transfer equally well.
EQUAL = 0.1


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
        solvers = default_solvers(results)
        banks = fitted_banks(options.results, results, options.seed)
        for bank in banks.values():
            if bank.correction.name != DEFAULT_CORRECTION:
                continue
            wanted = f"{bank.method}-s{bank.schedule.states}-{bank.correction.name}"
            if f"{wanted}-{solvers.get(str(bank.method))}" not in banks:
                raise TransilError(f"{wanted}: no bank of its default solver")
    except TransilError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for old in PACKAGE.glob("*-s*-*.json"):
        old.unlink()
    for name, bank in banks.items():
        bank.save(PACKAGE / f"{name}.json")
        print(f"{name}: {', '.join(r.name for r in bank.references)}")
    write_json(PACKAGE / "defaults.json", dict(sorted(solvers.items())))
    print(f"default solvers: {solvers}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Take the banks of an experiment into the package, and the default solver of each method.

    python tools/ship_banks.py results/real-32

Copies results/real-32/banks/METHOD-sSTATES-CORRECTION-SOLVER-seed0.json to src/transil/banks, where
`transil.load_bank` finds them, and writes which solver is each method's default: the one that won
among the references alone (`transil.experiment.choosing`). Its penalty must be the solver's own.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from transil import Bank
from transil.errors import TransilError
from transil.experiment.choosing import choose
from transil.experiment.results import Choice, Results
from transil.files import write_json

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "transil" / "banks"
# Candidates that differ by less than this (points) transfer equally well.
EQUAL = 0.1


def default_solvers(results: Results) -> dict[str, str]:
    """The solver of each method: with its own penalty, unless another one is better by more than
    `EQUAL` points on the references that were left out.
    """
    solvers = {}
    for method in choose(results.choices):
        mine = [c for c in results.choices if c.method == method]
        usual = [c for c in mine if ":" not in c.candidate]
        best, best_usual = choose(mine)[method], choose(usual)[method]
        lead = 100 * (_mean(mine, best) - _mean(mine, best_usual))
        if lead > EQUAL:
            raise TransilError(
                f"{method}: {best} is better than {best_usual} by {lead:.2f} points; "
                "change the penalty that the solver has by default, and fit again"
            )
        solvers[method] = best_usual
    return solvers


def _mean(choices: list[Choice], candidate: str) -> float:
    values = [
        value
        for c in choices
        if (c.candidate, c.correction) == (candidate, "adbic")
        for value in c.left_out.values()
    ]
    return sum(values) / len(values)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, help="the folder of an experiment")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    try:
        solvers = default_solvers(Results.load(options.results))
    except TransilError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for old in PACKAGE.glob("*-s*-*.json"):
        old.unlink()
    for path in sorted((options.results / "banks").glob(f"*-seed{options.seed}.json")):
        bank = Bank.load(path)
        name = re.sub(rf"-seed{options.seed}$", "", path.stem)
        bank.save(PACKAGE / f"{name}.json")
        print(f"{name}: {', '.join(r.name for r in bank.references)}")
    write_json(PACKAGE / "defaults.json", dict(sorted(solvers.items())))
    print(f"default solvers: {solvers}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

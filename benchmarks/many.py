"""Fits of very many classes, states or rows: seconds and memory against dense arrays.

    python benchmarks/many.py

The baseline is the same Newton on the same data with the objective as its formulas read: all scores
in float64, three times, sums over groups by a matrix of 0 and 1, and every iteration on all rows.
Each fit has a process of its own, one thread; memory is beyond what the scores take themselves.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time

import numpy as np

from transil import Bank, Schedule
from transil._common.arrays import Float64Array
from transil.correction import AdBiC, Newton, Pairs, newton
from transil.correction.bank_json import bank_from_json, bank_to_json
from transil.correction.objective import Expansion, Objective, Penalty, Problem
from transil.correction.references import Reference

# classes, states, images per class
CASES = [(2000, 200, 20), (300, 300, 50), (100, 10, 10_000)]
REFERENCES = 100_000


class Dense(Objective):
    """The objective in whole arrays."""

    def __init__(self, problem: Problem, penalty: Penalty) -> None:
        super().__init__(problem, penalty)
        self.scores = np.ascontiguousarray(problem.scores.T, dtype=np.float64)
        self.group = problem.schedule.group_of_column(problem.state) - 1
        self.sums = (self.group == np.arange(problem.state)[:, None]).astype(np.float64)
        self.p, self.work = np.empty_like(self.scores), np.empty_like(self.scores)

    def expand(self, theta: Float64Array) -> Expansion:
        """Value, gradient and Hessian."""
        alpha, beta = np.split(theta, 2)
        z = np.multiply(self.scores, alpha[self.group, None], out=self.p)
        z += beta[self.group, None]
        peak = z.max(axis=0)
        z -= peak
        np.exp(z, out=z)
        total = z.sum(axis=0)
        likelihood = float((np.log(total) + peak).sum())
        mass = (self.sums @ z) / total
        np.multiply(z, self.scores, out=self.work)
        score = (self.sums @ self.work) / total
        np.multiply(self.work, self.scores, out=self.work)
        square = self.sums @ (self.work @ (1.0 / total)) / self.count
        factor = np.concatenate([score, mass])
        mean, groups = factor.mean(axis=1), len(alpha)
        full, k = -(factor @ factor.T) / self.count, np.arange(len(alpha))
        full[k, k] += square
        full[k, k + groups] += mean[:groups]
        full[k + groups, k] += mean[:groups]
        full[k + groups, k + groups] += mean[groups:]
        gradient = mean - self.true_share + 2.0 * self.penalty * theta
        return Expansion(
            self._value(theta, likelihood), gradient, full + np.diag(2.0 * self.penalty)
        )


def problem_of(classes: int, states: int, each: int) -> Problem:
    """Scores of a model that favours its newest groups."""
    schedule, random = Schedule.equal(classes, states), np.random.default_rng(0)
    age = states - schedule.group_of_column(states)
    columns = np.repeat(np.arange(classes), each)
    scores = random.standard_normal((len(columns), classes), dtype=np.float32)
    scores[np.arange(len(columns)), columns] += 4.0 * 0.83 ** np.minimum(age[columns], 15)
    recent = np.exp(-age / 2.0).astype(np.float32)
    scores *= 1.0 + 0.4 * recent
    scores += 2.0 * recent
    return Problem(scores, columns, schedule, states, AdBiC())


def one(how: str, *case: int) -> None:
    """Fit, and print seconds, gigabytes beyond the scores, and the objective."""
    problem = problem_of(*case)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if how == "dense":
        vars(newton).update(Objective=Dense, ENOUGH=10**9)
    began = time.perf_counter()
    record = Newton().fit(problem).record
    seconds = time.perf_counter() - began
    more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(json.dumps([seconds, more / 2**20, record.objective]))


def main() -> None:
    for case in CASES:
        found = {}
        for how in ("dense", "blocks"):
            words = [sys.executable, __file__, how, *map(str, case)]
            done = subprocess.run(words, capture_output=True, text=True, check=True)
            found[how] = json.loads(done.stdout)
        (slow, much, value), (fast, little, other) = found["dense"], found["blocks"]
        assert abs(value - other) < 1e-9
        classes, states, each = case
        print(
            f"{classes:,} classes, {states} states, {classes * each:,} rows: {slow:.1f} s and "
            f"{much:.2f} GB dense, {fast:.1f} s and {little:.2f} GB in blocks ({slow / fast:.1f}x)",
            flush=True,
        )
    pairs = {2: Pairs.identity(2)}
    names = (f"reference-{number}" for number in range(REFERENCES))
    bank = Bank(AdBiC(), Schedule.of([3, 2]), tuple(Reference(name, pairs) for name in names))
    data = bank_to_json(bank)
    began = time.perf_counter()
    bank_from_json(data)
    print(f"a bank of {REFERENCES:,} references is read in {time.perf_counter() - began:.1f} s")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        one(sys.argv[1], *map(int, sys.argv[2:]))
    else:
        main()

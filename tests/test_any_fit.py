"""The fit of the function of `adbic-any`: its evidence, its optimum, and what references tell."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from transil import ScoreStore, TransilError, evaluate, load_bank
from transil.correction.any_fit import (
    PENALTY,
    fit_any,
    levelled,
    others_of,
    solve,
    spread_out,
    system_of,
)
from transil.correction.evidence import Evidence, read_evidence
from transil.correction.facts import Facts
from transil.correction.layers import AdBiCCentred
from transil.correction.objective import Problem
from transil.correction.open_bank import OpenBank
from transil.correction.parameters import Pairs
from transil.correction.scales import FORGOTTEN
from transil.correction.shipped import find_bank
from transil.testing import biased_scores

RESULTS = Path(__file__).parents[1] / "results/any-schedule"


def scores_of(sizes: list[int], seed: int) -> Any:
    """Scores of the last state of a schedule, the newest group lifted."""
    scores = np.random.default_rng(seed).normal(0.0, 2.0, (80, sum(sizes)))
    scores[:, -sizes[-1] :] += 2.0
    return scores


def evidence_of(text: str, seed: int) -> list[Evidence]:
    """What the states of a generated reference tell."""
    store = biased_scores(text, seed=seed, images_per_class=10)
    return [
        Evidence.of(f"set{seed}", f"set{seed}--{text}", problem)
        for state in range(2, store.schedule.states + 1)
        for data in [store.get("val", state)]
        for problem in [Problem(data.scores, data.columns, store.schedule, state, AdBiCCentred())]
    ]


def test_the_fit_is_the_optimum_of_the_penalised_sum() -> None:
    """The gradient is zero there, so no other coefficients are better: the problem is convex."""
    evidence = evidence_of("12/3", 1) + evidence_of("6,3,3", 2)
    penalty = 0.1
    form, fitted = fit_any(evidence, penalty=penalty)
    norm = np.kron(np.eye(2), form.smoothness)
    level = levelled(form, evidence, penalty)

    def loss(vector: Any) -> float:
        pairs = [form.spread(fitted.replaced(vector), one.facts) for one in level]
        total = sum(one.loss(p) for one, p in zip(level, pairs, strict=True))
        return float(total + 0.5 * penalty * vector @ norm @ vector)

    best, random = fitted.vector, np.random.default_rng(0)
    for size in (1e-4, 1e-2, 1.0):
        for _ in range(5):
            assert loss(best) <= loss(best + size * random.normal(size=len(best))) + 1e-7


def test_the_quadratic_stands_for_the_loss_near_the_optimum() -> None:
    from transil.correction.evidence import NEWTON
    from transil.correction.objective import Objective

    store = biased_scores("12/3", seed=4)
    data = store.get("val", 3)
    problem = Problem(data.scores, data.columns, store.schedule, 3, AdBiCCentred())
    kept = Evidence.of("a", "a--x", problem)
    objective = Objective(problem, NEWTON.penalty.at_least(NEWTON.ridge))
    near = kept.pairs.vector + 0.02 * np.random.default_rng(0).normal(size=6)
    rise = objective.expand(near).value - objective.expand(kept.pairs.vector).value
    assert kept.loss(Pairs(*np.split(near, 2))) == pytest.approx(rise, rel=0.05)


@settings(max_examples=20)
@given(st.floats(0.1, 10.0), st.integers(0, 99))
def test_how_large_all_pairs_of_a_state_are_is_no_evidence(factor: float, seed: int) -> None:
    """Pairs times a factor predict the same; a loss that only differs in it is the same evidence."""
    random = np.random.default_rng(seed)
    facts = Facts.of(scores_of([4, 3, 5], seed), [4, 3, 5], 3)
    root = random.normal(size=(6, 6))
    pairs = Pairs(random.uniform(0.5, 1.5, 3), random.normal(size=3))
    one = Evidence("a", "a--x", facts, pairs, root @ root.T)
    larger = replace(
        one, pairs=Pairs(*np.split(factor * pairs.vector, 2)), hessian=one.hessian / factor**2
    )
    near = Pairs(random.uniform(0.5, 1.5, 3), random.normal(size=3))
    assume(near.vector @ one.hessian @ pairs.vector > 0.1)  # else they point away from each other
    found, same = one.at_level(near), larger.at_level(near)
    np.testing.assert_allclose(same.pairs.vector, found.pairs.vector, rtol=1e-6)
    np.testing.assert_allclose(same.hessian, found.hessian, rtol=1e-6)
    # No other factor of the exact pairs brings them nearer.
    for other in (0.5, 0.9, 1.1, 2.0):
        moved = Pairs(*np.split(other * near.vector, 2))
        assert found.loss(near) <= one.loss(moved) * (1 + 1e-9)


def test_each_round_of_levels_makes_the_loss_smaller() -> None:
    evidence = evidence_of("12/3", 1) + evidence_of("6,3,3", 2)
    form, _ = fit_any(evidence)

    def loss(rounds: int) -> float:
        level = levelled(form, evidence, PENALTY, rounds)
        fitted = solve(form, [system_of(form, level)], PENALTY)
        small = 0.5 * PENALTY * fitted.vector @ np.kron(np.eye(2), form.smoothness) @ fitted.vector
        return float(sum(one.loss(form.spread(fitted, one.facts)) for one in level) + small)

    found = [loss(rounds) for rounds in (1, 2, 4, 8)]
    assert found == sorted(found, reverse=True)


def test_runs_are_left_out_with_all_that_is_related() -> None:
    runs = [("a", (5, 5), ""), ("a", (6, 4), ""), ("b", (5, 5), ""), ("b", (6, 4), "")]
    assert others_of(runs[0], runs) == [runs[3]]
    assert others_of(runs[0], runs[:3]) == [runs[2]]  # one schedule is all that others have
    assert others_of(runs[0], runs[:2]) == []
    trained = [(name, sizes, how) for name, sizes, _ in runs for how in ("ft", "lwf")]
    assert others_of(trained[0], trained) == [("b", (6, 4), "lwf")]


@given(st.integers(1, 30), st.integers(1, 40), st.integers(0, 99))
def test_centres_are_points_that_were_seen_each_once(points: int, count: int, seed: int) -> None:
    given = np.random.default_rng(seed).normal(size=(points, 3))
    chosen = spread_out(np.concatenate([given, given]), count)
    assert len(chosen) == min(points, count)
    assert len(np.unique(chosen, axis=0)) == len(chosen)
    assert all((given == one).all(axis=1).any() for one in chosen)


def test_references_that_kept_nothing_are_those_that_gained_nothing() -> None:
    """What the threshold stands on: it tells plain fine-tuning from what keeps something."""
    for name in ("ft", "ft+", "siw", "lwf", "lwf-t", "lucir"):
        kept = [one.facts.kept for one in read_evidence(RESULTS / f"{name}.safetensors")]
        below = [value is not None and value < FORGOTTEN for value in kept]
        assert all(below) if name == "ft" else not any(below), name


# -- what references tell ----------------------------------------------------------------------


def test_left_out_ten_states_the_released_model_is_corrected(released: ScoreStore) -> None:
    """No reference of ten states is used: `lucir-s10`, fitted on such, gives 41.5, rescaled 43.6 %."""
    evidence = read_evidence(RESULTS / "lucir.safetensors")
    without = [one for one in evidence if one.facts.schedule.states != 10]
    assert 50 < len(without) < len(evidence)
    bank = OpenBank.of(without, method="lucir").for_schedule([10] * 10)
    assert evaluate(released, bank).average_incremental_accuracy > 0.435
    shipped = load_bank("lucir", schedule=[10] * 10)
    found = evaluate(released, shipped).average_incremental_accuracy
    assert found > 0.435
    rescaled = evaluate(released, shipped, rescale=True).average_incremental_accuracy
    assert rescaled == found  # the function looks at the size of scores anyway


def test_the_shipped_banks_are_those_of_the_committed_evidence(tmp_path: Path) -> None:
    for name in ("lwf-all", "siw"):
        evidence = read_evidence(RESULTS / f"{name}.safetensors")
        shipped = find_bank(f"{name}-any")
        assert isinstance(shipped, OpenBank)
        again = OpenBank.of(evidence, method=name)
        assert again.seen == shipped.seen
        facts = evidence[5].facts
        pairs, kept = (b.correction.spread(b.parameters, facts).vector for b in (again, shipped))
        np.testing.assert_allclose(pairs, kept, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("damage", ["none", "text", "cut", "keys"])
def test_evidence_that_cannot_be_read(tmp_path: Path, damage: str) -> None:
    from safetensors.numpy import save_file

    path = tmp_path / "lwf.safetensors"
    if damage == "text":
        path.write_text("no tensors")
    if damage == "cut":
        path.write_bytes((RESULTS / "siw.safetensors").read_bytes()[:5000])
    if damage == "keys":
        save_file({"a--b/sizes": np.array([2, 2])}, path)
    with pytest.raises(TransilError, match=r"lwf\.safetensors: (cannot be read|not a file)"):
        read_evidence(path)

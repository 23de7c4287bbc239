"""The exact solver: its derivatives, its optimum, and the mathematics the optimum must obey."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from support import UNEQUAL, random_problem
from transil import AdBiC, BiC, BiCPast, ConvergenceWarning, Penalty, Schedule, TransilError
from transil.correction import Authors, Newton, Paper, Parameters, fit_state
from transil.correction.layers import Correction
from transil.correction.objective import Objective, Problem

CORRECTIONS = [AdBiC(), BiC(), BiCPast()]
EVERY = pytest.mark.parametrize("correction", CORRECTIONS, ids=lambda c: c.name)
SIZES = st.lists(st.integers(1, 4), min_size=2, max_size=4)
# Penalties of the code, of the paper's two readings, none (but the ridge), and a strong one.
PENALTIES = [Penalty(), Penalty(0.005, 0.05), Penalty(1e-6, 1e-6), Penalty(0.3, 0.7)]


def _plain_objective(theta: torch.Tensor, problem: Problem, penalty: Penalty) -> torch.Tensor:
    """The objective written again from the formulas, with a loop, for autograd."""
    alpha, beta = theta.chunk(2)
    scores = torch.from_numpy(np.asarray(problem.scores, dtype=np.float64))
    state, parts = problem.state, []
    for k in range(1, state + 1):
        part = scores[:, problem.schedule.group_columns(k)]
        if isinstance(problem.correction, AdBiC):
            part = alpha[k - 1] * part + beta[k - 1]
        elif (k == state) == isinstance(problem.correction, BiC):  # else BiCPast: all but the last
            part = alpha[0] * part + beta[0]
        parts.append(part)
    target = torch.from_numpy(problem.columns)
    loss = torch.nn.functional.cross_entropy(torch.cat(parts, dim=1), target)
    return loss + penalty.alpha * (alpha**2).sum() + penalty.beta * (beta**2).sum()


def _corrected(problem: Problem, pairs: Parameters) -> Any:
    full = problem.correction.spread(pairs, problem.facts)
    group = problem.schedule.group_of_column(problem.state) - 1
    return problem.scores * full.alpha[group] + full.beta[group]


@EVERY
@given(sizes=SIZES, seed=st.integers(0, 10_000), penalty=st.sampled_from(PENALTIES))
def test_gradient_and_hessian_against_autograd(
    correction: Correction, sizes: list[int], seed: int, penalty: Penalty
) -> None:
    problem = random_problem(correction, sizes, rows=25, seed=seed)
    count = len(problem.design.start) // 2
    theta = np.random.default_rng(seed).normal(0.5, 1.0, 2 * count)
    ours = Objective(problem, penalty).expand(theta)

    def plain(t: torch.Tensor) -> torch.Tensor:
        return _plain_objective(t, problem, penalty)

    point = torch.from_numpy(theta)
    np.testing.assert_allclose(ours.value, plain(point).item(), rtol=1e-10)
    gradient = torch.func.grad(plain)(point)
    np.testing.assert_allclose(ours.gradient, gradient.numpy(), rtol=1e-8, atol=1e-10)
    hessian = torch.func.hessian(plain)(point)
    np.testing.assert_allclose(ours.hessian, hessian.numpy(), rtol=1e-7, atol=1e-9)


@EVERY
@pytest.mark.parametrize("penalty", PENALTIES[:3])
@pytest.mark.parametrize("sizes", [[3, 3, 3], [5, 1, 2, 6], UNEQUAL])
def test_agrees_with_scipy(correction: Correction, penalty: Penalty, sizes: list[int]) -> None:
    problem = random_problem(correction, sizes, rows=400, seed=3)
    fitted = Newton(penalty=penalty).fit(problem)

    def value_and_gradient(theta: Any) -> tuple[float, Any]:
        point = torch.from_numpy(theta).requires_grad_()
        loss = _plain_objective(point, problem, penalty)
        loss.backward()  # type: ignore[no-untyped-call]
        assert point.grad is not None
        return loss.item(), point.grad.numpy()

    start = problem.design.start
    options = {"maxiter": 5000, "maxfun": 50_000, "ftol": 0.0, "gtol": 1e-10, "maxcor": 30}
    found = minimize(value_and_gradient, start, jac=True, method="L-BFGS-B", options=options)
    # Along the flat direction of tiny penalties L-BFGS itself stops early; the value tells.
    assert fitted.record.objective <= found.fun + 1e-12
    assert fitted.record.objective == pytest.approx(found.fun, abs=1e-6)
    if penalty.beta > 1e-3:
        np.testing.assert_allclose(fitted.pairs.vector, found.x, atol=1e-6)
    assert fitted.record.gradient_norm <= 1e-8
    assert fitted.record.converged


@given(sizes=SIZES, seed=st.integers(0, 10_000), scale=st.sampled_from([0.1, 2.0, 40.0]))
def test_converges_from_saturated_and_flat_scores(
    sizes: list[int], seed: int, scale: float
) -> None:
    problem = random_problem(AdBiC(), sizes, rows=40, seed=seed, scale=scale)
    record = Newton().fit(problem).record
    assert record.converged
    assert record.gradient_norm <= 1e-8


@EVERY
@pytest.mark.parametrize("penalty", [Penalty(), Penalty(0, 0)])
def test_no_other_solver_is_below_the_optimum(correction: Correction, penalty: Penalty) -> None:
    problem = random_problem(correction, [4, 2, 3], rows=300, seed=5)
    best = Newton(penalty=penalty).fit(problem).record.objective
    floor = penalty.at_least(Newton().ridge)
    for solver in (Authors(penalty, epochs=60), Paper(penalty, epochs=60)):
        pairs = solver.fit(problem).pairs
        assert best <= Objective(problem, floor).value(pairs.vector) + 1e-12


def test_a_start_from_a_part_of_the_rows_leads_to_the_same_optimum(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = random_problem(AdBiC(), [3, 2, 4], rows=2000, seed=2)
    near = Newton(penalty=Penalty()).fit(problem)
    monkeypatch.setattr("transil.correction.newton.ENOUGH", 10**9)
    far = Newton(penalty=Penalty()).fit(problem)
    assert near.record.iterations < far.record.iterations
    np.testing.assert_allclose(near.pairs.vector, far.pairs.vector, atol=1e-7)


@pytest.mark.parametrize("sizes", [[2] * 40, [1] * 36, [1, 3] * 18])
def test_many_groups_have_the_same_optimum(
    sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = random_problem(AdBiC(), sizes, rows=3000, seed=2)
    fast = Newton().fit(problem)
    monkeypatch.setattr("transil.correction.objective.MANY", 10**9)
    exact = Newton().fit(problem)
    assert fast.record.converged
    assert fast.record.objective == pytest.approx(exact.record.objective, abs=1e-12)
    np.testing.assert_allclose(fast.pairs.alpha, exact.pairs.alpha, atol=1e-6)


@pytest.mark.parametrize("correction", ["adbic", "adbic-centred"])
def test_a_fit_needs_little_memory_beside_the_scores(correction: str) -> None:
    problem = random_problem(AdBiC(), [20] * 5, rows=40_000)
    scores = problem.scores.astype(np.float32)  # 16 MB
    tracemalloc.start()
    fit_state(scores, problem.columns, [20] * 5, correction=correction)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < scores.nbytes


def test_beta_sums_to_zero_at_the_optimum() -> None:
    # The likelihood does not change under a common shift of all betas; the penalty picks sum 0.
    for penalty in (Penalty(), Penalty(0, 0)):
        pairs = Newton(penalty=penalty).fit(random_problem(AdBiC(), [3, 2, 4], rows=200)).pairs
        assert abs(pairs.beta.sum()) < 1e-6


def test_works_without_penalty_on_separable_data() -> None:
    # Every row is classified with a wide margin: without a ridge alpha would grow for ever.
    schedule = Schedule.of("6/3")
    columns = np.repeat(np.arange(6), 5)
    scores = 10.0 * np.eye(6)[columns]
    problem = Problem(scores, columns, schedule, 3, AdBiC())
    fitted = Newton(penalty=Penalty(0, 0)).fit(problem)
    assert fitted.record.converged
    assert (fitted.pairs.alpha > 0.5).all()


def test_a_group_without_rows_is_pushed_down_not_lost() -> None:
    problem = random_problem(AdBiC(), [3, 2, 3], rows=200, seed=8)
    rows = problem.columns < 5
    problem = replace(problem, scores=problem.scores[rows], columns=problem.columns[rows])
    fitted = Newton().fit(problem)
    assert fitted.record.converged
    assert fitted.pairs.beta[2] < 0


def test_says_when_it_did_not_converge() -> None:
    problem = random_problem(AdBiC(), [3, 2, 4], rows=200)
    with pytest.warns(ConvergenceWarning, match=r"state 3: stopped after 1 iterations"):
        fitted = Newton(max_iterations=1).fit(problem)
    assert fitted.record.converged is False
    assert fitted.record.gradient_norm > 1e-9


# -- what the mathematics says of the optimum --------------------------------------------------


@EVERY
@given(seed=st.integers(0, 1000))
@settings(max_examples=15)
def test_order_of_samples_does_not_matter(correction: Correction, seed: int) -> None:
    problem = random_problem(correction, [3, 1, 4], rows=80, seed=seed)
    order = np.random.default_rng(seed).permutation(80)
    mixed = replace(problem, scores=problem.scores[order], columns=problem.columns[order])
    a, b = Newton().fit(problem).pairs, Newton().fit(mixed).pairs
    np.testing.assert_allclose(a.vector, b.vector, atol=1e-8)


@EVERY
@given(seed=st.integers(0, 1000))
@settings(max_examples=15)
def test_classes_inside_a_group_are_interchangeable(correction: Correction, seed: int) -> None:
    problem = random_problem(correction, [3, 1, 4], rows=80, seed=seed)
    random = np.random.default_rng(seed)
    order = np.concatenate([random.permutation(3), [3], 4 + random.permutation(4)])
    where = np.argsort(order)
    mixed = replace(problem, scores=problem.scores[:, order], columns=where[problem.columns])
    a, b = Newton().fit(problem).pairs, Newton().fit(mixed).pairs
    np.testing.assert_allclose(a.vector, b.vector, atol=1e-8)
    np.testing.assert_allclose(
        _corrected(problem, a)[:, order], _corrected(mixed, b), atol=1e-6, rtol=1e-6
    )


@EVERY
@given(seed=st.integers(0, 1000), shift=st.floats(-30, 30))
@settings(max_examples=15)
def test_a_common_shift_is_undone_where_beta_is_free(
    correction: Correction, seed: int, shift: float
) -> None:
    # alpha (o + c) + beta = alpha o + (beta + alpha c): a beta without penalty takes the shift
    # up, and the probabilities of the fitted model stay. (With a penalty on beta they do not.)
    problem = random_problem(correction, [3, 2, 4], rows=120, seed=seed)
    solver = Newton(penalty=Penalty(0.0025, 0.0), ridge=1e-10, tolerance=1e-11)
    moved = replace(problem, scores=problem.scores + shift)
    a, b = solver.fit(problem).pairs, solver.fit(moved).pairs
    np.testing.assert_allclose(a.alpha, b.alpha, atol=1e-5)
    before, after = (
        torch.from_numpy(_corrected(p, pairs)).softmax(dim=1).numpy()
        for p, pairs in ((problem, a), (moved, b))
    )
    np.testing.assert_allclose(before, after, atol=1e-5)
    clear = np.sort(before, axis=1)[:, -1] - np.sort(before, axis=1)[:, -2] > 1e-4
    assert (before.argmax(axis=1) == after.argmax(axis=1))[clear].all()


@given(sizes=SIZES, seed=st.integers(0, 10_000), penalty=st.sampled_from(PENALTIES))
def test_adbic_is_never_worse_than_bic(sizes: list[int], seed: int, penalty: Penalty) -> None:
    adaptive = random_problem(AdBiC(), sizes, rows=60, seed=seed)
    single = replace(adaptive, correction=BiC())
    bic = BiC().spread(Newton(penalty=penalty).fit(single).pairs, adaptive.facts)
    best = Newton(penalty=penalty).fit(adaptive).record.objective
    # BiC's solution is one that adBiC could have chosen: compare both under adBiC's objective.
    assert best <= Objective(adaptive, penalty).value(bic.vector) + 1e-10


def test_fit_state_on_arrays_and_tensors() -> None:
    problem = random_problem(AdBiC(), [3, 2, 4], rows=100)
    scores, labels = problem.scores, problem.columns
    array = fit_state(scores, labels, [3, 2, 4]).pairs
    tensor = fit_state(torch.from_numpy(np.array(scores)), torch.from_numpy(labels), "3,2,4").pairs
    assert array == tensor
    assert problem.design.parameters(array.vector) == array
    with pytest.raises(TransilError, match="no setting 'penaltie'; did you mean 'penalty'"):
        fit_state(scores, labels, [3, 2, 4], penaltie=1)
    with pytest.raises(TransilError, match=r"score nan in row 2, column 1"):
        bad = np.array(scores)
        bad[2, 1] = np.nan
        fit_state(bad, labels, [3, 2, 4])


@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf])
def test_penalties_are_checked(value: float) -> None:
    with pytest.raises(TransilError, match="penalty: beta is"):
        Penalty(0.0, value)

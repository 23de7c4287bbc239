"""`authors` and `paper` against an independent loop over groups and batches with torch's Adam."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from support import random_problem
from transil import AdBiC, BiC, BiCPast, Penalty, TransilError
from transil.correction import Adam, Authors, Newton, Pairs, Paper, Parameters
from transil.correction.layers import Correction
from transil.correction.objective import Objective, Problem


def _released_recipe(
    problem: Problem, start: Parameters, epochs: int, batch: int
) -> tuple[torch.Tensor, torch.Tensor, int]:
    """The released recipe as its description says it: one module per group, batches per group."""
    state, schedule = problem.state, problem.schedule
    alpha: list[torch.Tensor] = [torch.nn.Parameter(torch.tensor([float(a)])) for a in start.alpha]
    beta: list[torch.Tensor] = [torch.nn.Parameter(torch.tensor([float(b)])) for b in start.beta]
    optimiser = torch.optim.Adam([*alpha, *beta], lr=1e-3, weight_decay=0.005)
    scores = torch.from_numpy(problem.scores.astype(np.float32))
    target = torch.from_numpy(problem.columns)
    group = torch.from_numpy(schedule.group_of_column(state))[target]
    best, kept, when = -1.0, (torch.tensor([]), torch.tensor([])), 0
    for epoch in range(1, epochs + 1):
        hits = 0
        for k in range(1, state + 1):
            for rows in torch.split(torch.nonzero(group == k)[:, 0], batch):
                parts = []
                for j in range(1, state + 1):
                    part = scores[rows][:, schedule.group_columns(j)]
                    if len(alpha) == state:
                        part = alpha[j - 1] * part + beta[j - 1]
                    elif j == state:
                        part = alpha[0] * part + beta[0]
                    parts.append(part)
                z = torch.cat(parts, dim=1)
                loss = torch.nn.functional.cross_entropy(z, target[rows])
                loss = loss + 0.1 * torch.cat(beta).square().sum() / 2
                optimiser.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
                top = z.topk(min(5, z.shape[1]), dim=1).indices
                hits += int((top == target[rows, None]).any(dim=1).sum())
        if hits / len(scores) > best:
            best, when = hits / len(scores), epoch
            kept = torch.cat(alpha).detach().clone(), torch.cat(beta).detach().clone()
    return *kept, when


@pytest.mark.parametrize("correction", [AdBiC(), BiC()], ids=lambda c: c.name)
@pytest.mark.parametrize("sizes", [[6, 4, 5], [7, 1, 9]])
def test_authors_is_the_released_recipe(correction: Correction, sizes: list[int]) -> None:
    problem = random_problem(correction, sizes, rows=300, seed=2)
    start = problem.design.identity()
    alpha, beta, when = _released_recipe(problem, start, epochs=25, batch=32)
    fitted = Authors(epochs=25, batch_size=32).fit(problem)
    assert fitted.record.kept == when
    np.testing.assert_allclose(fitted.pairs.alpha, alpha.numpy(), atol=2e-5)
    np.testing.assert_allclose(fitted.pairs.beta, beta.numpy(), atol=2e-5)


def test_authors_starts_adbic_from_the_state_before() -> None:
    problem = random_problem(AdBiC(), [6, 4, 5], rows=200, seed=4)
    before = Pairs(np.array([0.8, 0.6]), np.array([0.3, -0.2]))
    start = Pairs(np.array([0.8, 0.6, 1.0]), np.array([0.3, -0.2, 0.0]))
    alpha, beta, _ = _released_recipe(problem, start, epochs=10, batch=128)
    fitted = Authors(epochs=10).fit(problem, before)
    np.testing.assert_allclose(fitted.pairs.alpha, alpha.numpy(), atol=2e-5)
    np.testing.assert_allclose(fitted.pairs.beta, beta.numpy(), atol=2e-5)


def test_bic_and_paper_always_start_afresh() -> None:
    before = Pairs(np.array([0.2]), np.array([3.0]))
    bic = random_problem(BiC(), [6, 4, 5], rows=200)
    assert Authors(epochs=5).fit(bic, before).pairs == Authors(epochs=5).fit(bic).pairs
    adbic = replace(bic, correction=AdBiC())
    two = Pairs(np.array([0.2, 0.3]), np.array([3.0, 1.0]))
    assert Paper(epochs=5).fit(adbic, two).pairs == Paper(epochs=5).fit(adbic).pairs


def test_rows_count_by_label_not_by_place() -> None:
    # The order of groups in the data must not matter: batches are cut by the label's group.
    problem = random_problem(AdBiC(), [6, 4, 5], rows=200, seed=6)
    group = problem.schedule.group_of_column(3)[problem.columns]
    backwards = np.argsort(-group, kind="stable")
    other = replace(problem, scores=problem.scores[backwards], columns=problem.columns[backwards])
    assert Authors(epochs=5).fit(problem).pairs == Authors(epochs=5).fit(other).pairs


def test_selection_rules() -> None:
    problem = random_problem(AdBiC(), [6, 4, 5], rows=300, seed=7)
    last = Adam(epochs=30, keep="last").fit(problem)
    assert last.record.kept == 30
    for keep in ("top5", "top1"):
        best = Adam(epochs=30, keep=keep).fit(problem)
        assert best.record.kept is not None
        assert best.record.kept <= 30
        shorter = Adam(epochs=best.record.kept, keep="last").fit(problem)
        assert shorter.pairs == best.pairs  # the pairs after that epoch's last step


def test_with_at_most_five_classes_the_first_epoch_is_kept() -> None:
    # min(5, C): every class is among the top 5, so no later epoch is strictly better.
    problem = random_problem(AdBiC(), [2, 2], rows=100)
    assert Authors(epochs=10).fit(problem).record.kept == 1


def test_seed_matters_only_where_something_is_shuffled() -> None:
    problem = random_problem(AdBiC(), [6, 4, 5], rows=300)
    assert (
        Authors(epochs=3, seed=0).fit(problem).pairs == Authors(epochs=3, seed=9).fit(problem).pairs
    )
    first = Paper(epochs=3, seed=0).fit(problem).pairs
    assert first == Paper(epochs=3, seed=0).fit(problem).pairs
    assert first != Paper(epochs=3, seed=9).fit(problem).pairs


@pytest.mark.parametrize("correction", [AdBiC(), BiC(), BiCPast()], ids=lambda c: c.name)
def test_paper_comes_close_to_the_optimum(correction: Correction) -> None:
    problem = random_problem(correction, [3, 2, 4], rows=1000, seed=3)
    fitted = Paper(epochs=900).fit(problem)  # enough steps of 1e-3 to get there
    best = Newton(penalty=Penalty()).fit(problem)
    assert fitted.record.objective <= best.record.objective + 1e-3
    np.testing.assert_allclose(fitted.pairs.vector, best.pairs.vector, atol=0.05)


def test_record_is_of_the_kept_pairs_on_all_data() -> None:
    problem = random_problem(AdBiC(), [6, 4, 5], rows=200)
    penalty = Penalty(0.01, 0.02)
    seen: list[float] = []
    fitted = Authors(penalty, epochs=4).fit(problem, progress=lambda share, _: seen.append(share))
    here = Objective(problem, penalty).expand(fitted.pairs.vector)
    assert fitted.record.objective == here.value
    assert fitted.record.gradient_norm == pytest.approx(float(np.linalg.norm(here.gradient)))
    assert fitted.record.converged is None
    assert fitted.record.iterations == 4
    assert seen == [0.25, 0.5, 0.75, 1.0]


@pytest.mark.parametrize(
    "bad",
    [{"epochs": 0}, {"batch_size": 0}, {"learning_rate": 0.0}, {"seed": -1}, {"keep": "best"}],
)
def test_settings_are_checked(bad: dict[str, Any]) -> None:
    with pytest.raises(TransilError, match=next(iter(bad))):
        Authors(**bad)

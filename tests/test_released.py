"""The numbers of the authors' release: these must come out, or the library is wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from transil import Bank, Penalty, ScoreStore, evaluate, fit
from transil.interop import dkt

# Top-1 of every state (%), from running the authors' own evaluation (states 1..10).
RAW = [89.60, 75.35, 52.93, 38.78, 32.28, 27.37, 23.19, 21.11, 16.73, 15.59]
CORRECTED = [89.60, 70.90, 59.13, 49.72, 43.06, 38.03, 35.76, 29.75, 27.99, 25.36]
AUTHORS_ADBIC = [71.85, 58.57, 48.13, 39.44, 34.18, 30.61, 24.81, 24.37, 21.09]  # states 2..10
AUTHORS_BIC = [70.70, 62.80, 45.43, 34.48, 31.70, 25.79, 22.00, 21.22, 16.25]
NEWTON_ADBIC = [71.90, 57.33, 45.40, 36.34, 29.08, 26.54, 19.70, 17.87, 15.87]


@pytest.fixture(scope="module")
def bank(shared: Path) -> Bank:
    return dkt.import_bank(shared / "released-scores" / "bic_models_lucir_s10")


def _accuracies(store: ScoreStore, bank: Bank | None = None) -> list[float]:
    return [100 * s.accuracy for s in evaluate(store, bank).states]


def test_raw(released: ScoreStore) -> None:
    metrics = evaluate(released)
    assert released.method == "lucir"
    assert released.schedule.sizes == (10,) * 10
    assert _accuracies(released) == pytest.approx(RAW, abs=0.01)
    assert 100 * metrics.average_incremental_accuracy == pytest.approx(33.70, abs=0.005)
    assert 100 * metrics.average_incremental_accuracy_group_mean == pytest.approx(33.70, abs=0.005)
    assert 100 * metrics.average_incremental_accuracy_with_first == pytest.approx(39.29, abs=0.005)
    assert 100 * metrics.average_incremental_topk[5] == pytest.approx(58.24, abs=0.005)
    last = metrics.states[-1]
    expected = [1.0, 0, 0, 0, 0, 0.1, 6.2, 16.8, 49.3, 82.5]
    assert 100 * np.array(last.group_accuracy) == pytest.approx(expected, abs=0.051)
    expected = [4.9, 25.2, 34.6, 38.8, 42.1, 44.2, 45.3, 47.5, 48.1, 48.7]
    assert last.mean_score == pytest.approx(expected, abs=0.11)


def test_released_parameters(released: ScoreStore, bank: Bank) -> None:
    metrics = evaluate(released, bank)
    assert bank.method == "lucir"
    assert _accuracies(released, bank) == pytest.approx(CORRECTED, abs=0.01)
    assert 100 * metrics.average_incremental_accuracy == pytest.approx(42.19, abs=0.005)
    assert 100 * metrics.average_incremental_accuracy_with_first == pytest.approx(46.93, abs=0.005)
    assert 100 * metrics.average_incremental_topk[5] == pytest.approx(73.91, abs=0.005)
    expected = [31.4, 2.3, 7.0, 14.1, 15.0, 15.6, 42.4, 37.8, 51.5, 36.5]
    got = 100 * np.array(metrics.states[-1].group_accuracy)
    assert got == pytest.approx(expected, abs=0.051)
    assert bank.applied(10).alpha[0] == pytest.approx(1.3290, abs=1e-4)
    assert bank.applied(10).beta[-1] == pytest.approx(-0.2642, abs=1e-4)


@pytest.mark.parametrize(
    ("correction", "solver", "penalty", "average", "per_state"),
    [
        ("adbic", "authors", Penalty(), 39.23, AUTHORS_ADBIC),
        ("bic", "authors", Penalty(), 36.71, AUTHORS_BIC),
        ("adbic", "newton", Penalty(), 35.56, NEWTON_ADBIC),
        ("adbic", "newton", Penalty(0, 0), 39.91, None),
        ("adbic", "newton", Penalty(0.0025, 0.025), 35.75, None),
        ("adbic", "newton", Penalty(0.005, 0.05), 35.54, None),
        ("bic", "newton", Penalty(), 36.12, None),
        ("bic", "newton", Penalty(0, 0), 36.50, None),
    ],
)
def test_fitted_on_the_validation_scores(
    released: ScoreStore,
    correction: str,
    solver: str,
    penalty: Penalty,
    average: float,
    per_state: list[float] | None,
) -> None:
    bank = fit(released, correction=correction, solver=solver, penalty=penalty)
    accuracies = _accuracies(released, bank)[1:]
    assert np.mean(accuracies) == pytest.approx(average, abs=0.02)
    if per_state:
        assert accuracies == pytest.approx(per_state, abs=0.02)
    for record in bank.references[0].records.values():
        if solver == "newton":
            assert record.gradient_norm <= 1e-8


@pytest.mark.parametrize("correction", ["adbic", "bic"])
def test_newton_is_below_the_others(released: ScoreStore, correction: str) -> None:
    best = fit(released, correction=correction, solver="newton").references[0].records
    other = fit(released, correction=correction, solver="authors", epochs=20).references[0].records
    assert all(best[s].objective <= other[s].objective for s in range(2, 11))


def test_half_precision_costs_little(released: ScoreStore, tmp_path: Path) -> None:
    half = released.save(tmp_path, dtype="float16")
    change = np.mean(_accuracies(half)[1:]) - np.mean(_accuracies(released)[1:])
    assert 0 < abs(change) < 0.1  # ties: measured as 0.06

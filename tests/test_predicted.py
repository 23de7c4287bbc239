"""Labels that are the scores' own predictions are refused, and honest ones of a good model are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from support import run_here
from transil import ScoreStore, TransilError, fit, fit_state
from transil.correction.fitting import fit_any_schedule
from transil.correction.predicted import refuse_predictions
from transil.testing import biased_scores

SAYS = r"all \d+ labels are what the scores predict, even in \d+ close calls: they look like pred"


def self_labelled(images_per_class: int = 20, states: tuple[int, ...] = (1, 2, 3)) -> ScoreStore:
    """Generated scores whose labels of some states are their own predictions."""
    made = biased_scores("12/3", images_per_class=images_per_class)
    store = ScoreStore.from_arrays({}, made.schedule, method="lwf", dataset="mine")
    for split, state in made:
        data = made.get(split, state)
        predicted = made.schedule.classes(state)[data.scores.argmax(axis=1)]
        store.put(split, state, data.scores, predicted if state in states else data.labels)
    return store


def honest(rows: int, separation: float, seed: int) -> tuple[Any, Any]:
    """Scores (rows, 4) of the best model of four classes, and true labels."""
    random = np.random.default_rng(seed)
    means = separation * np.eye(4)
    labels = random.integers(0, 4, rows)
    return (means[labels] + random.normal(size=(rows, 4))) @ means.T, labels


@pytest.mark.parametrize(("states", "first"), [((1, 2, 3), 2), ((3,), 3)])
def test_predictions_are_refused_wherever_one_fits(states: tuple[int, ...], first: int) -> None:
    store = self_labelled(states=states)
    for correction in ("adbic", "bic", "adbic-centred"):
        with pytest.raises(TransilError, match=f"^mine, split 'val', state {first}: {SAYS}"):
            fit(store, correction=correction)
    with pytest.raises(TransilError, match=SAYS):
        fit_any_schedule(store)
    data = store.get("val", 3)
    for form in (np.asarray, torch.from_numpy):
        with pytest.raises(TransilError, match=f"^state 3: {SAYS}"):
            fit_state(form(np.array(data.scores)), data.labels, "4,4,4")


def test_the_command_refuses_them_in_one_line(tmp_path: Path) -> None:
    self_labelled().save(tmp_path / "store")
    for more in ((), ("--any-schedule",)):
        done = run_here("fit", "store", *more, "-o", "bank.json", cwd=tmp_path)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert "state 2: all 160 labels are what the scores predict" in done.stderr
        assert not (tmp_path / "bank.json").exists()


def test_one_true_label_is_enough() -> None:
    data = self_labelled().get("val", 3)
    labels = data.labels.copy()
    labels[0] = (labels[0] + 1) % 12
    assert fit_state(data.scores, labels, "4,4,4").pairs.alpha.shape == (3,)


def test_few_rows_may_all_be_right() -> None:
    data = self_labelled().get("val", 2)
    some = np.arange(0, 160, 3)[:63]
    assert len(fit_state(data.scores[some], data.labels[some], "4,4").pairs.alpha) == 2


def test_the_first_state_is_not_fitted_and_not_judged() -> None:
    assert fit(self_labelled(states=(1,))).references


@pytest.mark.parametrize("rows", [64, 200, 1000])
def test_a_model_that_is_right_is_not_refused(rows: int) -> None:
    """Right in all rows, and sure of it: what an easy data set of a few classes gives."""
    right = refused = 0
    for seed in range(60):
        for separation in (4.0, 5.0, 6.0):
            scores, labels = honest(rows, separation, seed)
            if not (scores.argmax(axis=1) == labels).all():
                continue
            right += 1
            try:
                refuse_predictions(scores, labels, "here")
            except TransilError:
                refused += 1
    assert right > 50
    assert refused <= 0.03 * right

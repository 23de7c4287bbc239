"""Priors on the authors' LUCIR scores: adaptation and judged images in disjoint halves.

Two splits here, which differ by up to half a point from the mean of five that the bars are for;
`benchmarks/released_priors.py` has these, and those with 300 images.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from transil import ScoreStore
from transil.adaptation.traffic import Traffic
from transil.adaptation.trial import BANK, RAW, trial

TRAFFIC = {
    "1:1": Traffic(1),
    "10:1": Traffic(10),
    "100:1": Traffic(100),
    "newest half": Traffic(newest=0.5),
}
WAYS = ("none", "none+ledger", "uniform", "remembered", "known", "none+ledger+newest")
SPLITS = 0.6  # points by which two splits may lie below five
Means = dict[str, dict[str, float]]


@pytest.fixture(scope="module")
def means(released: ScoreStore) -> Means:
    """Average incremental accuracy in %, by traffic and way to correct."""
    found = {}
    for name, traffic in TRAFFIC.items():
        trials = [
            trial(released, replace(traffic, seed=seed), WAYS, bank="lucir-s10") for seed in (0, 1)
        ]
        found[name] = {
            way: 100 * float(np.mean([one.columns[way].average for one in trials]))
            for way in (RAW, BANK, *WAYS)
        }
    return found


def test_a_prior_that_is_true_gives_most(means: Means) -> None:
    for name, way, least in (
        ("1:1", "uniform", 49.0),
        ("10:1", "known", 52.0),
        ("100:1", "known", 57.5),
    ):
        assert means[name][way] > least - SPLITS
    assert means["newest half"]["known"] > means["newest half"]["raw"] + 3.0
    assert means["newest half"]["none+ledger+newest"] > means["newest half"]["raw"]


def test_what_is_remembered_needs_no_knowledge_of_the_traffic(means: Means) -> None:
    for name, least in (("1:1", 46.5), ("10:1", 47.5), ("100:1", 49.0)):
        assert means[name]["remembered"] > least - SPLITS


def test_the_default_is_never_below_the_bank(means: Means) -> None:
    gains = []
    for of in means.values():
        assert of["none"] > of["bank"] - 0.3
        assert of["none+ledger"] > of["bank"] - 0.3
        gains.append(of["none+ledger"] - of["bank"])
    assert np.mean(gains) > 1.5


def test_uniform_frequencies_where_they_are_false_cost_points(means: Means) -> None:
    assert means["100:1"]["uniform"] < means["100:1"]["bank"] - 3.0

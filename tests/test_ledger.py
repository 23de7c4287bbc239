"""The ledger: a few numbers for each class, kept from update to update, and never lost in silence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from transil import AdaptationWarning, Corrector, Ledger, Schedule, ScoreStore, TransilError
from transil.testing import biased_scores

SIZES = [12, 5, 1, 10, 12]


@pytest.fixture(scope="module")
def store() -> ScoreStore:
    return biased_scores(Schedule.of(SIZES), seed=3, images_per_class=20, splits=("test",))


def scores_of(store: ScoreStore, state: int) -> Any:
    return np.asarray(store.get("test", state).scores)


@pytest.fixture
def ledger(store: ScoreStore, tmp_path: Path) -> Ledger:
    made = Ledger(tmp_path / "ledger.json", SIZES, "lwf-t")
    for state in (1, 2, 3):
        made.record(state, scores_of(store, state))
    return made


def test_it_keeps_the_shares_within_each_new_group(store: ScoreStore, ledger: Ledger) -> None:
    again = Ledger(ledger.path)
    assert again.states == ledger.states
    assert (again.sizes, again.method) == (tuple(SIZES), "lwf-t")
    within = again.within(4)
    for group in (slice(0, 12), slice(12, 17), slice(17, 18)):
        assert within[group].sum() == pytest.approx(1.0, abs=1e-5)
    assert np.isnan(within[18:]).all()
    assert again.states[2].rows == 17 * 20
    assert len(again.states[2].groups) == 2


def test_what_is_rare_when_new_is_remembered_as_rare(store: ScoreStore, tmp_path: Path) -> None:
    data = store.get("test", 2)
    rare = np.flatnonzero((data.columns != 13) | (np.arange(len(data.columns)) % 10 == 0))
    ledger = Ledger(tmp_path / "l.json", SIZES, "lwf-t")
    ledger.record(2, np.asarray(data.scores)[rare])
    shares = ledger.within(2)[12:]
    assert shares[1] < 0.6 * np.delete(shares, 1).min()


def test_the_file_is_small_and_the_same_for_the_same_scores(
    store: ScoreStore, ledger: Ledger, tmp_path: Path
) -> None:
    other = Ledger(tmp_path / "other.json", SIZES, "lwf-t")
    for state in (1, 2, 3):
        other.record(state, scores_of(store, state))
    assert Path(other.path).read_bytes() == Path(ledger.path).read_bytes()
    assert Path(ledger.path).stat().st_size < 2000


def test_a_bank_of_ones_own_may_correct_what_is_recorded(store: ScoreStore, tmp_path: Path) -> None:
    """Without one it is the shipped bank of the method; state 1 needs none."""
    made = {name: Ledger(tmp_path / f"{name}.json", SIZES, "lwf-t") for name in ("none", "usual")}
    for state in (1, 2):
        made["none"].record(state, scores_of(store, state), bank="none")
        made["usual"].record(state, scores_of(store, state))
    assert made["none"].states[1] == made["usual"].states[1]
    # Uncorrected, the newest group is called too often.
    assert made["none"].states[2].groups[-1] > made["usual"].states[2].groups[-1] + 0.05


def test_recorded_again_the_newest_counts(store: ScoreStore, ledger: Ledger) -> None:
    ledger.record(3, scores_of(store, 3)[:100])
    assert Ledger(ledger.path).states[3].rows == 100


def test_more_groups_may_come(store: ScoreStore, ledger: Ledger) -> None:
    more = Ledger(ledger.path, [*SIZES, 5])
    assert more.sizes == (*SIZES, 5)
    assert Ledger(ledger.path, SIZES[:3]).sizes == tuple(SIZES)


def test_a_record_too_late_is_refused(store: ScoreStore, ledger: Ledger) -> None:
    before = Path(ledger.path).read_bytes()
    with pytest.raises(
        TransilError, match="state 3 is recorded already, so state 2 comes too late"
    ):
        ledger.record(2, scores_of(store, 2))
    stale = Ledger(ledger.path)
    stale.states = {}
    with pytest.raises(TransilError, match="too late"):  # another process has recorded meanwhile
        stale.record(1, scores_of(store, 1))
    assert Path(ledger.path).read_bytes() == before


@pytest.mark.parametrize(
    ("schedule", "method", "says"),
    [
        ([12, 6, 1, 10], None, "groups of 12, 5, 1, 10, 12 classes, not of 12, 6, 1, 10"),
        (SIZES, "lucir", "trained with 'lwf-t', not with 'lucir'"),
    ],
)
def test_another_model_is_refused(
    ledger: Ledger, store: ScoreStore, schedule: Any, method: str | None, says: str
) -> None:
    with pytest.raises(TransilError, match=says):
        Ledger(ledger.path, schedule, method)
    corrector = Corrector(schedule, method=method, bank="none", ledger=ledger)
    with pytest.raises(TransilError, match=says):
        corrector.fit(np.random.default_rng(0).normal(size=(80, sum(schedule))))


def test_a_new_one_needs_a_schedule(tmp_path: Path) -> None:
    with pytest.raises(TransilError, match="no such ledger; a new one needs a schedule"):
        Ledger(tmp_path / "none.json")
    assert not (tmp_path / "none.json").exists()


def damaged(text: str, how: str) -> str:
    data = json.loads(text)
    if how == "share":
        data["states"]["2"]["within"][0] = 0.9
    elif how == "length":
        data["states"]["2"]["within"] = [1.0]
    elif how == "state":
        data["states"]["9"] = data["states"]["2"]
    elif how == "type":
        data["sizes"] = "many"
    elif how == "version":
        data["version"] = 2
    else:
        return text[: len(text) // 2]
    return json.dumps(data)


@pytest.mark.parametrize("how", ["share", "length", "state", "type", "version", "cut", "lost"])
def test_a_lost_or_damaged_one_is_told_and_nothing_is_assumed(
    store: ScoreStore, ledger: Ledger, how: str
) -> None:
    path = Path(ledger.path)
    if how == "lost":
        path.unlink()
    else:
        path.write_text(damaged(path.read_text(), how))
        with pytest.raises(TransilError):
            Ledger(path)
        with pytest.raises(TransilError):  # nor is it written over
            ledger.record(3, scores_of(store, 3))
    corrector = Corrector(SIZES, bank="none", ledger=path)
    with pytest.warns(AdaptationWarning, match="nothing is remembered"):
        corrector.fit(scores_of(store, 4))
    assert corrector.prior_ is not None
    assert corrector.prior_.name == "predicted"
    assert_allclose(corrector.shifts_, 0.0)


def test_it_takes_the_place_of_no_other_file(store: ScoreStore, tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text('{"format": "transil-bank", "version": 2}')
    with pytest.raises(TransilError, match="not a ledger"):
        Ledger(path, SIZES)
    assert path.read_text().startswith('{"format": "transil-bank"')

"""Gains with paired intervals, as numbers and through the command line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support import ok_here, run_here
from transil import ScoreScaleWarning, ScoreStore, TransilError, evaluate, fit, gains
from transil.errors import CorrectionWarning
from transil.evaluation.bootstrap import Bootstrap
from transil.evaluation.gains import paired, weighted_gain
from transil.testing import biased_scores

BANKS = {
    name: fit([biased_scores("12/3", seed=seed) for seed in (1, 2)], correction=name)
    for name in ("adbic", "bic")
}


@settings(max_examples=20)
# Of a few changed images the resampled gains are so few numbers that their quantiles jump.
@given(st.integers(0, 2**32 - 1), st.floats(0.1, 0.9), st.floats(0.05, 0.5), st.integers(1, 4))
def test_the_interval_is_that_of_a_bootstrap(
    seed: int, right: float, changed: float, states: int
) -> None:
    random = np.random.default_rng(seed)
    sizes = [400 * (s + 1) for s in range(states)]
    # What an image does in one state it tends to do in the next.
    luck = random.uniform(size=sizes[-1])
    before = [luck[:n] + 0.1 * random.normal(size=n) < right for n in sizes]
    after = [np.where(random.uniform(size=len(b)) < changed, ~b, b) for b in before]
    gain, low, high = paired(before, after)
    expected = np.mean([a.mean() - b.mean() for a, b in zip(after, before, strict=True)])
    assert gain == pytest.approx(float(expected))
    assert low is not None
    assert high is not None
    resampled = Bootstrap(sizes[-1], 1000).interval(before, after)
    # Quantiles of a thousand resamples are off by some per cent themselves.
    wide = resampled[1] - resampled[0]
    assert (low, high) == pytest.approx(resampled, abs=0.12 * wide + 1e-9)


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4))
def test_weights_count_as_so_many_draws(seed: int, states: int) -> None:
    """The interval of weighted images is that of a bootstrap of images with their weights."""
    random = np.random.default_rng(seed)
    sizes = [300 * (s + 1) for s in range(states)]
    heavy = random.choice([0.0, 1.0, 1.0, 3.0], sizes[-1])
    weights = [heavy[:n] / heavy[:n].sum() for n in sizes]
    luck = random.uniform(size=sizes[-1])
    before = [luck[:n] < 0.4 for n in sizes]
    after = [
        np.where(random.uniform(size=n) < 0.3, ~b, b) for n, b in zip(sizes, before, strict=True)
    ]
    gain, low, high = weighted_gain(before, after, weights)
    assert gain == pytest.approx(
        np.mean([w[a].sum() - w[b].sum() for w, a, b in zip(weights, after, before, strict=True)])
    )
    found = []
    for _ in range(400):
        counts = np.bincount(random.integers(0, sizes[-1], sizes[-1]), minlength=sizes[-1])
        drawn = [w * counts[: len(w)] for w in weights]
        found.append(np.mean([(d @ a.astype(float) - d @ b.astype(float)) / d.sum()
                              for d, a, b in zip(drawn, after, before, strict=True)]))  # fmt: skip
    assert (high - low) / 2 == pytest.approx(1.96 * np.std(found), rel=0.2)
    alike = [np.full(n, 1.0 / n) for n in sizes]
    assert weighted_gain(before, after, alike) == paired(before, after)


def test_each_over_raw_and_over_the_first() -> None:
    store = biased_scores("12/3", seed=9)
    found = {(g.of, g.over): g for g in gains(store, BANKS)}
    assert list(found) == [("adbic", "raw"), ("bic", "raw"), ("bic", "adbic")]
    raw = evaluate(store).average_incremental_accuracy
    average = {k: evaluate(store, b).average_incremental_accuracy for k, b in BANKS.items()}
    assert found["bic", "raw"].gain == pytest.approx(average["bic"] - raw)
    assert found["bic", "adbic"].gain == pytest.approx(average["bic"] - average["adbic"])
    (alone,) = gains(store, BANKS["bic"])
    assert alone.gain == found["bic", "raw"].gain
    with pytest.raises(TransilError, match="cannot be called 'raw'"):
        gains(store, {"raw": BANKS["bic"]})
    for gain in found.values():
        assert gain.low is not None
        assert gain.high is not None
        assert gain.low < gain.gain < gain.high


def test_without_nested_images_or_a_second_state() -> None:
    made = biased_scores("12/3", seed=9)
    turned = ScoreStore.from_arrays({}, made.schedule)
    for state in (1, 2, 3):
        data = made.get("test", state)
        turned.put("test", state, data.scores[::-1], data.labels[::-1])
    (gain,) = gains(turned, {"adbic": BANKS["adbic"]}, same_method=False)
    assert gain.low is None
    assert gain.high is None
    one = ScoreStore.from_arrays({}, "4/1")
    one.put("test", 1, made.get("test", 1).scores, made.get("test", 1).labels)
    with pytest.raises(TransilError, match="no state after the first"):
        gains(one, BANKS)


def test_nothing_is_gained_where_past_groups_have_no_images() -> None:
    made = biased_scores("12/3", seed=4)
    newest = ScoreStore.from_arrays({}, "12/3")
    for state in (1, 2, 3):
        data = made.get("test", state)
        rows = made.schedule.group_of_column(state)[data.columns] == state
        newest.put("test", state, data.scores[rows], data.labels[rows])
    with pytest.raises(TransilError, match="no images of group 1 in state 2, so there is no av"):
        gains(newest, BANKS, same_method=False)


def test_banks_are_named_as_one_likes(tmp_path: Path) -> None:
    store = biased_scores("12/3", seed=5)
    path = tmp_path / "bank.json"
    BANKS["adbic"].save(path)
    expected = gains(store, BANKS["adbic"])[0].gain
    for several, name in (
        (BANKS["adbic"], "bank"),
        ([BANKS["adbic"]], "bank 1"),
        (path, str(path)),
        ({"mine": str(path)}, "mine"),
    ):
        (found,) = gains(store, several)
        assert (found.of, found.gain) == (name, expected)


def test_scores_of_another_size() -> None:
    store = biased_scores("12/3", seed=5)
    larger = ScoreStore.from_arrays({}, store.schedule)
    for split, state in store:
        larger.put(
            split, state, 5.0 * store.get(split, state).scores, store.get(split, state).labels
        )
    with pytest.warns(ScoreScaleWarning, match=r"spread .* the bank \(adbic, newton\)"):
        plain = gains(larger, BANKS["adbic"])
    rescaled = gains(larger, BANKS["adbic"], rescale=True)
    assert rescaled == pytest.approx(gains(store, BANKS["adbic"], rescale=True))
    assert rescaled[0].gain > plain[0].gain


def test_the_command_compares_banks_as_they_are_and_rescaled(tmp_path: Path) -> None:
    store = biased_scores("12/3", seed=5)
    larger = ScoreStore.create(tmp_path / "runs", store.schedule)
    for split, state in store:
        larger.put(
            split, state, 5.0 * store.get(split, state).scores, store.get(split, state).labels
        )
    path = tmp_path / "bank.json"
    BANKS["adbic"].save(path)
    done = ok_here(
        "evaluate", "runs", "--bank", path, "--bank", f"{path}@rescale", "--json", cwd=tmp_path
    )
    won = {one["of"]: one["gain"] for one in json.loads(done)["gains"] if one["over"] == "raw"}
    assert won[f"{path}@rescale"] > won[str(path)]


def test_the_command_says_them(tmp_path: Path) -> None:
    biased_scores("12/3", seed=9).save(tmp_path / "store")
    for name, bank in BANKS.items():
        bank.save(tmp_path / f"{name}.json")
    words = ("evaluate", "store", "--bank", "adbic.json")
    (gain,) = gains(tmp_path / "store", {"adbic": BANKS["adbic"]})
    said = ok_here(*words, cwd=tmp_path)
    shown = f"{100 * gain.gain:+.2f} points, 95 % interval {100 * (gain.low or 0):+.2f} to "
    assert f"gain of the average: {shown}" in said
    said = ok_here(*words, "--bank", "bic.json", cwd=tmp_path)
    assert "over the first" in said
    data = json.loads(ok_here(*words, "--bank", "bic.json", "--json", cwd=tmp_path))
    assert [(g["of"], g["over"]) for g in data["gains"]][-1] == ("bic.json", "adbic.json")
    assert "gains" not in json.loads(ok_here("evaluate", "store", "--json", cwd=tmp_path))
    one = ScoreStore.open(tmp_path / "store").get("test", 1)
    short = ScoreStore.from_arrays({"test": [(one.scores, one.labels)]}, "12/3", method="generated")
    short.save(tmp_path / "short")
    assert "gain of" not in ok_here(
        "evaluate", "short", "--bank", "adbic.json", "--bank", "bic.json", cwd=tmp_path
    )


@pytest.mark.filterwarnings("ignore::transil.ScoreScaleWarning")
def test_a_bank_that_does_harm_is_told(tmp_path: Path) -> None:
    """Where it takes the newest group away, and where it loses: in a line, beside the numbers."""
    store, bank = biased_scores("12/3", seed=9), BANKS["adbic"]
    store.save(tmp_path / "store")
    pairs = {
        s: p.replaced(np.where(np.arange(2 * s) == 2 * s - 1, -99.0, p.vector))
        for s, p in bank.references[0].pairs.items()
    }
    harmful = replace(bank, references=(replace(bank.references[0], pairs=pairs),))
    with pytest.warns(CorrectionWarning, match=r"state 3: newest group hardly .* for 0\.0% of rows "
                      r"\(33\.3% are of it\): it over-corrects; .* \(and 1 other state\)"):  # fmt: skip
        evaluate(store, harmful)
    harmful.save(tmp_path / "harmful.json")
    bank.save(tmp_path / "good.json")
    done = run_here("evaluate", "store", "--bank", "harmful.json", "--json", cwd=tmp_path)
    assert "warning: state 3: newest group hardly predicted" in done.stderr
    lost = json.loads(done.stdout)
    change = (
        lost["raw"]["average_incremental_accuracy"]
        - (lost["corrected"]["average_incremental_accuracy"])
    )
    assert f"note: harmful.json loses {100 * change:.2f} points" in done.stderr
    done = run_here("evaluate", "store", "--bank", "good.json", cwd=tmp_path)
    assert done.stderr == ""
    raw, shown = done.stdout.split("predicted as (column, %), last state, ")[1:]
    assert [line.split()[:2] for line in raw.splitlines()[2:5]] == [
        ["group", f"{k}"] for k in (1, 2, 3)
    ]
    assert shown.startswith("corrected")

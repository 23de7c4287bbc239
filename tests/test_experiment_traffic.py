"""Experiments with simulated traffic, through the command line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from report_results import made_up
from test_experiment import recipe
from transil.cli.app import run
from transil.experiment.recipe import load_experiment
from transil.experiment.results import Results
from transil.report.study import Study
from transil.report.traffic import traffic_table

TRAFFIC = (Path(__file__).parents[1] / "examples/traffic.yaml").read_text()
WAYS = ["raw", "align", "shift", "bank", "none", "none+ledger", "remembered", "known", "oracle"]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("traffic")
    words = ["run", recipe(folder, TRAFFIC), "-o", str(folder / "results"), "--processes", "1"]
    assert run(words) == 0
    return folder


def test_each_way_at_each_tail_is_kept(done: Path) -> None:
    rows = Results.load(done / "results").traffic
    assert sorted({a.name for a in rows}) == sorted(WAYS)
    assert [(a.tail, a.draw) for a in rows] == [(1, 3)] * 9 + [(10, 3)] * 9
    kinds = {a.name: a.kind for a in rows}
    assert (kinds["align"], kinds["bank"], kinds["none"]) == ("control", "bank", "prior")
    assert kinds["oracle"] == "bound"
    for a in rows:
        assert a.low <= a.average <= a.high
        assert a.accuracy == [a.average]  # of state 2
        assert a.adapted == [320] if a.tail == 1 else 64 <= a.adapted[0] < 160
    one = {a.name: a for a in rows if a.tail == 1}
    assert one["raw"].over_raw == [0, 0, 0] == one["bank"].over_bank
    assert one["known"].over_bank[0] == pytest.approx(
        one["known"].average - one["bank"].average, abs=1e-12
    )


def test_without_training_the_same_bytes_come_again(done: Path) -> None:
    path = done / "results" / "results.json"
    before = path.read_bytes()
    words = ["run", recipe(done, TRAFFIC), "-o", str(done / "results"), "--no-train"]
    assert run(words) == 0
    assert path.read_bytes() == before


def test_the_report_has_a_table_and_a_figure(done: Path) -> None:
    table = (done / "results" / "tables" / "traffic.md").read_text()
    assert "| LwF, strokes, S = 2, 10:1 |" in table
    for head in ("controls, align", "bank and prior, none, ledger", "bound, oracle"):
        assert head in table
    svg = (done / "results" / "figures" / "traffic.svg").read_text()
    for text in ("prior none, ledger", "prior known", ">10:1<", ">raw<", ">bank<"):
        assert text in svg, text
    page = (done / "results" / "report.html").read_text()
    assert 'id="traffic"' in page
    assert page.index('id="traffic"') < page.index("accuracy against skew, one line for each prior")


def test_results_from_before_are_read(done: Path, tmp_path: Path) -> None:
    data = json.loads((done / "results" / "results.json").read_text())
    del data["traffic"]
    (tmp_path / "results.json").write_text(json.dumps(data))
    assert Results.load(tmp_path).traffic == []
    assert run(["report", str(tmp_path)]) == 0
    assert not (tmp_path / "tables" / "traffic.md").exists()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"average": 7}, "traffic[0].average"),
        ({"over_raw": [0.0]}, "over_raw has 1 entries, for 3 numbers"),
        ({"accuracy": []}, "accuracy has 0 entries, for 1 states after the first"),
        ({"tail": 0.5}, "traffic[0].tail"),
    ],
)
def test_damaged_rows_are_told(
    done: Path,
    tmp_path: Path,
    change: dict[str, object],
    says: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    data = json.loads((done / "results" / "results.json").read_text())
    data["traffic"][0] |= change
    (tmp_path / "results.json").write_text(json.dumps(data))
    assert run(["report", str(tmp_path)]) == 2
    assert says in capsys.readouterr().err
    assert not (tmp_path / "report.html").exists()


def test_too_few_test_images_are_told(tmp_path: Path) -> None:
    """Two of each class: one is judged, and there is too little to adapt to."""
    text = TRAFFIC.replace("test=80", "test=2")
    words = ["run", recipe(tmp_path, text), "-o", str(tmp_path / "results"), "--processes", "1"]
    assert run(words) == 0
    results = Results.load(tmp_path / "results")
    assert results.failures == []
    assert {a.name: a.average for a in results.traffic if a.tail == 1 and a.kind == "prior"} == {
        name: next(a.average for a in results.traffic if a.name == "raw") for name in WAYS[4:8]
    }
    assert all(a.short == [1, 2] for a in results.traffic)
    table = (tmp_path / "results" / "tables" / "traffic.md").read_text()
    assert "too few images to adapt to" in table


def test_recipes_without_traffic_stay_as_they_are(tmp_path: Path) -> None:
    plain = load_experiment(recipe(tmp_path, TRAFFIC, traffic="[]"))
    assert not {"traffic", "traffic_seeds", "priors"} & set(plain.to_dict())
    asked = load_experiment(recipe(tmp_path, TRAFFIC)).to_dict()
    assert asked["traffic"] == [1.0, 10.0]
    assert asked["priors"] == ["none", "none+ledger", "remembered", "known"]


def test_the_table_has_means_over_seeds_and_marks_the_best_that_is_not_told() -> None:
    study = Study([made_up(seeds=(0, 1), traffic=True)])
    table = traffic_table(study)
    assert table is not None
    assert [head for _, head in table.columns] == [
        "raw", "shift", "bank", "none, ledger", "uniform", "known", "oracle"
    ]  # fmt: skip
    assert len(table.rows) == 16  # two targets, methods, numbers of states and tails
    assert [row.label for row in table.rows[:2]] == [
        "CIFAR-100, S = 5, 1:1",
        "CIFAR-100, S = 5, 100:1",
    ]
    averages = [a.average for a in study.traffic if a.setting == replace(a.setting, target="cifar100",
                method="lwf", states=5) and (a.tail, a.name) == (1, "uniform")]  # fmt: skip
    assert len(averages) == 2
    entry = table.rows[0].entries[4]
    assert entry.value == pytest.approx(100 * sum(averages) / 2)
    assert entry.std == pytest.approx(100 * abs(averages[0] - averages[1]) / 2**0.5)
    assert entry.gain == pytest.approx(3.0)  # times 1.5 of LwF's two points
    for row in table.rows:
        assert [e.best for e in row.entries] == [False] * 3 + [True] + [False] * 3
    assert traffic_table(Study([made_up()])) is None

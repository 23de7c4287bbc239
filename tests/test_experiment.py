"""Whole experiments: recipes, plans, studies, and the same tables however they were interrupted."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ray_processes import listening, ray_workers, stranger
from transil import Schedule, load_bank
from transil._common import provenance
from transil.adaptation.controls import align, shift
from transil.cli.app import run
from transil.data import Images, ImageSplit
from transil.engine.run_folder import RunFolder
from transil.errors import TransilError
from transil.evaluation.bootstrap import Bootstrap
from transil.experiment.overlap import allowed_references, class_key, shared_classes
from transil.experiment.plan import Plan, make_plan
from transil.experiment.recipe import experiment_names, load_experiment
from transil.experiment.results import Results
from transil.experiment.run_facts import run_facts
from transil.experiment.running import local_executor, run_experiment
from transil.experiment.schedules import load_any
from transil.scores.data_files import checked_scores

SMALL = """\
references: [a, b]
targets: [c, d]
methods: [lwf, lucir, siw]
states: [2, 4]
transfer: [mean, oracle]
candidates: [newton, "newton:0.01"]
kind: tiny
ablation: true
resamples: 200
sets:
  a: {path: "formula:radial?classes=4&train=10&test=5&size=16"}
  b: {path: "formula:noise?classes=4&train=10&test=5&size=16"}
  c: {path: "formula:strokes?classes=4&train=10&test=5&size=16"}
  d: {path: "formula:strokes?classes=4&train=10&test=5&size=16&seed=1"}
train: {epochs: 2, pad: 1}
engine: {checkpoint_minutes: 0}
"""


def recipe(folder: Path, text: str = SMALL, **changes: str) -> str:
    lines = [x for x in text.splitlines() if x.split(":")[0] not in changes]
    path = folder / f"{'-'.join(['small', *changes])}.yaml"
    path.write_text("\n".join([*lines, *(f"{k}: {v}" for k, v in changes.items())]) + "\n")
    return str(path)


def plan_of(folder: Path, **changes: str) -> Plan:
    return make_plan(load_experiment(recipe(folder, **changes)), folder / "results")


# -- recipes -----------------------------------------------------------------------------------


def test_the_experiments_of_the_package_can_be_read() -> None:
    assert {
        "any-schedule",
        "demo",
        "paper-table1",
        "paper-table2",
        "paper-table3",
        "paper-places",
        "real-32",
    } == set(experiment_names())
    for name in experiment_names():
        assert load_any(name).name == name
    assert load_experiment("paper-table2").train_fraction == (0.5,)
    assert load_experiment("paper-table3").draws == 10


def test_a_wrong_setting_of_a_set_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text(SMALL.replace("  a: {path:", "  a: {pth:"))
    line = 1 + next(i for i, x in enumerate(SMALL.splitlines()) if x.startswith("  a: {path:"))
    with pytest.raises(TransilError, match=f"line {line}: .*did you mean 'sets.a.path'"):
        load_experiment(str(tmp_path / "r.yaml"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "[lwf]"}, "unknown key 'method'; did you mean 'methods'?"),
        ({"methods": "[lvf]"}, "methods: 'lvf' is unknown; did you mean 'lwf'?"),
        ({"train": "{epoch: 2}"}, "unknown key 'train.epoch'; did you mean 'train.epochs'?"),
        ({"net": "{body: 3}"}, "net.body is 3"),
        ({"per_method": "{ft: {train: {lrr: 1}}}"}, "unknown key 'per_method.ft.train.lrr'"),
        ({"solvers_of": "{bik: [newton]}"}, "solvers_of: 'bik' is unknown; did you mean 'bic'?"),
        ({"solvers_of": "{adbic: newton}"}, "adbic: give a list of solvers"),
        ({"solvers_of": "{adbic: [[newton]]}"}, "'['newton']' is unknown"),
        (
            {"solvers_of": "{adbic: [paper]}"},
            "adbic: none of its solvers is among the experiment's",
        ),
        ({"candidates": "[newton, newton]"}, "candidates: something stands twice"),
        (
            {"per_method": "{siw: {train: {epochs: 3}}}"},
            "'siw' is not trained by itself; name 'ft'",
        ),
        ({"candidates": "['newton:x']"}, "candidates: 'newton:x': a penalty is one number or two"),
        ({"recipes": "{fd: ft-tiny}"}, "recipes: 'fd' is unknown; there are: lwf, lucir, siw, ft"),
        (
            {"recipes": "{siw: ft-tiny, ft: ft-32}"},
            "recipes: 'siw' and 'ft' share one training and name different recipes (ft-tiny, ft-32)",
        ),
        ({"methods": "[joint]"}, "write joint: true"),
        ({"methods": "[]"}, "methods: the list is empty"),
        ({"methods": "[lwf, lwf]"}, "methods: something stands twice"),
        ({"states": "[1]"}, "1 states leave nothing to correct"),
        ({"states": "[two]"}, "states is 'two', but must be a whole number"),
        ({"solvers": "[newtn]"}, "did you mean 'newton'?"),
        ({"corrections": "[adbick]"}, "did you mean 'adbic'?"),
        ({"transfer": "[meen]"}, "did you mean 'mean'?"),
        ({"train_fraction": "[2.0]"}, "2.0 is not in (0, 1]"),
        ({"kind": "33"}, "kind is '33'"),
        ({"seeds": "[-1]"}, "-1 is below 0"),
        ({"fit_on": "[train]"}, "fit_on is 'train'"),
        ({"draws": "0"}, "0 is too few"),
        ({"traffic": "[0.5]"}, "traffic: a ratio of the commonest to the rarest is 1 or more"),
        ({"traffic": "[10, 10]"}, "traffic: something stands twice"),
        ({"traffic_seeds": "[]"}, "traffic_seeds: the list is empty"),
        ({"traffic_seeds": "[-1]"}, "a seed is 0 or more, not -1"),
        ({"priors": "[unifrom]"}, "priors: prior 'unifrom' is unknown; did you mean 'uniform'?"),
        ({"priors": "[none+lodger]"}, "'+lodger' is unknown"),
    ],
)
def test_a_wrong_recipe_is_told_with_its_line(
    tmp_path: Path, changes: dict[str, str], message: str
) -> None:
    path = recipe(tmp_path, **changes)
    text = Path(path).read_text().splitlines()
    line = 1 + next(i for i, x in enumerate(text) if x.startswith(f"{next(iter(changes))}:"))
    with pytest.raises(TransilError) as error:
        load_experiment(path)
    assert message in str(error.value)
    assert f"line {line}" in str(error.value)


def test_what_needs_the_images_is_told_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(TransilError, match="4 classes cannot be cut into 3 equal groups"):
        plan_of(tmp_path, states="[3]")
    with pytest.raises(TransilError, match="nowhere: no such folder or file"):
        plan_of(tmp_path, targets="[nowhere]")
    with pytest.raises(TransilError, match="target 'a' has no reference"):
        plan_of(tmp_path, references="[a]", targets="[a]")
    with pytest.raises(TransilError, match="unknown key 'train.epoch'"):
        plan_of(tmp_path, train="{epoch: 3}")
    assert not (tmp_path / "results").exists()


# -- plans -------------------------------------------------------------------------------------


def test_every_training_is_planned_once(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, methods="[ft, ft+, siw, lwf]", targets="[c, d, a]")
    assert len(plan.tasks) == 4 * 2 * 2  # four sets, two trainings, two schedules
    assert plan.task("c", "siw", 2, 1.0, 0) is plan.task("c", "ft+", 2, 1.0, 0)
    assert len({task.name for task in plan.tasks}) == len(plan.tasks)
    again = plan_of(tmp_path, methods="[ft, ft+, siw, lwf]", targets="[c, d, a]")
    assert [t.name for t in again.tasks] == [t.name for t in plan.tasks]
    roles = {task.dataset: task.config.data.role for task in plan.tasks}
    assert roles == {"a": "reference", "b": "reference", "c": "target", "d": "target"}
    assert plan.references_of("a") == ["b"]
    assert all(task.status == "new" for task in plan.tasks)
    assert (plan.seconds_left() or 0) > 0
    # Another setting is another run, in another folder.
    other = plan_of(tmp_path, methods="[ft, ft+, siw, lwf]", train="{epochs: 3, pad: 1}")
    assert not {t.name for t in other.tasks} & {t.name for t in plan.tasks}


def named(*names: str) -> Images:
    split = ImageSplit(np.zeros((len(names), 2, 2, 3), np.uint8), np.arange(len(names)))
    return Images("x", names, {"train": split}, "x")


def test_sets_with_a_class_in_common_are_not_used() -> None:
    images = {
        "target": named("n01234567", "Red_Fox"),
        "same-id": named("n01234567 kimono", "cat"),
        "same-name": named("red fox", "dog"),
        "apart": named("n01234568", "wolf"),
    }
    assert class_key("n01234567 kimono") == "n01234567"
    assert shared_classes(images["target"], images["same-name"]) == ["red fox"]
    assert allowed_references("target", images, images) == ["apart"]


# -- controls and intervals --------------------------------------------------------------------


def test_controls_from_their_definitions() -> None:
    schedule = Schedule.from_sizes([2, 3])
    random = np.random.default_rng(0)
    rows = random.normal(size=(5, 7))
    alpha, beta = align(rows, schedule, 2)
    norms = [float(np.sqrt((row**2).sum())) for row in rows]
    assert alpha == pytest.approx(np.mean(norms[:2]) / np.mean(norms[2:]))
    assert beta == 0.0
    scores, labels = random.normal(size=(20, 5)), random.integers(2, 5, 20)
    scores[:, 2:] += 3.0
    alpha, beta = shift(checked_scores(scores, labels, schedule, 2, "x"), schedule, 2)
    old = [scores[i, c] for i in range(20) for c in (0, 1)]
    wrong = [scores[i, c] for i in range(20) for c in (2, 3, 4) if c != labels[i]]
    assert alpha == 1.0
    assert beta == pytest.approx(np.mean(old) - np.mean(wrong))
    one = Schedule.from_sizes([4, 1])
    assert shift(checked_scores(scores, np.full(20, 4), one, 2, "x"), one, 2)[1] == pytest.approx(
        scores[:, :4].mean() - scores[:, 4].mean()
    )


@given(st.integers(20, 60), st.integers(0, 5))
def test_an_interval_holds_the_gain(images: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    sizes = [images // 2, images]
    raw = [random.random(n) < 0.5 for n in sizes]
    better = [h | (random.random(len(h)) < 0.3) for h in raw]
    boot = Bootstrap(images, 300)
    low, high = boot.interval(raw, better)
    gain = np.mean([b.mean() - r.mean() for r, b in zip(raw, better, strict=True)])
    assert low <= gain <= high
    assert low >= 0.0  # nothing got worse
    assert boot.interval(raw, raw) == (0.0, 0.0)


def test_an_interval_has_the_width_of_theory() -> None:
    """One state, gains of one image in ten: the standard error is sqrt(p (1 - p) / n)."""
    raw = np.zeros(2000, dtype=bool)
    better = np.arange(2000) % 10 == 0
    low, high = Bootstrap(2000, 2000).interval([raw], [better])
    assert (high - low) / 2 == pytest.approx(1.96 * np.sqrt(0.09 / 2000), rel=0.1)


# -- from images to results --------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Results]:
    """The small experiment without any interruption, in this process."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, run_experiment(plan_of(folder), execute=local_executor(0))


# Of the small experiment: what is enough where every run costs seconds.
PART = {"states": "[2]", "methods": "[lwf, siw]"}


@pytest.fixture(scope="module")
def part(tmp_path_factory: pytest.TempPathFactory) -> Results:
    folder = tmp_path_factory.mktemp("part")
    return run_experiment(plan_of(folder, **PART), execute=local_executor(0))


def numbers(results: Results) -> dict[str, Any]:
    """All that tables are made from."""
    data = json.loads(json.dumps({k: [vars(x) for x in v] for k, v in vars(results).items()
                                  if isinstance(v, list)}, default=vars))  # fmt: skip
    assert isinstance(data, dict)
    return data


def test_results_of_the_small_experiment(whole: tuple[Path, Results]) -> None:
    folder, results = whole
    assert results.failures == []
    keys = {(c.kind, c.name, c.transfer) for c in results.cells if c.setting.method == "lwf"}
    assert keys == {
        ("raw", "raw", None), ("control", "align", None), ("control", "shift", None),
        ("transfer", "bic", "mean"), ("transfer", "adbic", "mean"),
        ("bound", "bic", "oracle"), ("bound", "adbic", "oracle"),
    }  # fmt: skip
    # Lengths of rows mean nothing to a cosine head, nor to standardised rows.
    assert not any(c.name == "align" for c in results.cells if c.setting.method != "lwf")
    assert len(results.pairs) == 3 * 2 * 2
    assert {a.setting.target for a in results.ablations} == {"c", "d"}
    assert all(a.counts == [1, 2] and a.draws == [2, 1] for a in results.ablations)
    by_key = {(c.setting, c.name, c.transfer): c for c in results.cells}
    for single in results.singles:
        assert single.gain == pytest.approx(
            single.average - by_key[single.setting, "raw", None].average
        )
    for cell in results.cells:
        assert (folder / "results" / cell.run / "run.json").exists()
        assert cell.average == pytest.approx(np.mean(cell.accuracy[1:]))
        if cell.bank is not None:
            assert (folder / "results" / cell.bank).exists()
        if cell.kind == "bound":  # the oracle is no worse than each reference alone
            alone = [s.average for s in results.singles
                     if (s.setting, s.correction) == (cell.setting, cell.name)]  # fmt: skip
            assert cell.average >= max(alone) - 1e-9
    assert numbers(Results.load(folder / "results")) == numbers(results)


def test_results_say_how_each_run_was_made(whole: tuple[Path, Results]) -> None:
    folder, results = whole
    runs = results.facts["runs"]
    assert [r["run"] for r in runs] == [task.name for task in plan_of(folder).tasks]
    for made in runs:
        path = folder / "results" / "runs" / made["run"]
        record = json.loads((path / "run.json").read_text())
        times = [json.loads(x) for x in (path / "times.jsonl").read_text().splitlines()]
        assert made["seconds"] == pytest.approx(sum(x["seconds"] for x in times))
        assert (made["seed"], made["fraction"]) == (0, 1.0)
        assert made["method"] == record["config"]["method"]
        assert made["versions"]["torch"] == record["versions"]["torch"]
        assert made["commit"] == record["versions"].get("commit")
        assert {x["device"] for x in times} == {made["device"]}
    assert results.facts["run_seconds"] == pytest.approx(sum(r["seconds"] for r in runs))
    assert Results.load(folder / "results").facts["runs"] == runs


def test_old_and_interrupted_runs_say_what_they_can(tmp_path: Path) -> None:
    """Folders of older versions, a state with two lines, a run that went on on another device."""
    task = plan_of(tmp_path).tasks[0]
    task.folder.mkdir(parents=True)
    made = run_facts(task)
    unknown = ("commit", "device", "seconds", "gpu_gigabytes")
    assert [made[k] for k in unknown] == [None] * 4
    assert (made["run"], made["versions"]) == (task.name, {})
    record = {"format": "transil-run", "version": 1, "config": {}, "data": {},
              "versions": {"torch": "2.6", "commit": "abc"}}  # fmt: skip
    (task.folder / "run.json").write_text(json.dumps(record))
    lines: list[dict[str, Any]] = [
        {"state": 1, "seconds": 2.5},
        {"state": 2, "seconds": 4.0, "device": "cpu"},
        {"state": 2, "seconds": 1.0, "device": "A100", "gpu_gigabytes": 3.0},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines) + '{"state": 3, "sec'
    (task.folder / "times.jsonl").write_text(text)
    made = run_facts(task)
    assert [made[k] for k in unknown] == ["abc", "cpu, A100", 7.5, 3.0]
    assert made["versions"] == {"torch": "2.6"}


def test_the_commit_of_a_copied_tree_is_named_by_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provenance, "ROOT", tmp_path)
    monkeypatch.delenv("TRANSIL_COMMIT", raising=False)
    assert "commit" not in provenance.versions()
    monkeypatch.setenv("TRANSIL_COMMIT", " abc123\n")
    assert provenance.versions()["commit"] == "abc123"
    monkeypatch.setenv("TRANSIL_COMMIT", "")
    assert "commit" not in provenance.versions()
    (tmp_path / ".git").mkdir()  # a checkout knows better
    monkeypatch.setenv("TRANSIL_COMMIT", "abc123")
    monkeypatch.setattr(provenance, "_commit", lambda: "def456+")
    assert provenance.versions()["commit"] == "def456+"


def test_nothing_is_done_twice(whole: tuple[Path, Results]) -> None:
    folder, results = whole
    runs = sorted((folder / "results" / "runs").rglob("*.safetensors"))
    before = {path: path.stat().st_mtime_ns for path in runs}
    banks = {p: p.stat().st_mtime_ns for p in (folder / "results" / "banks").iterdir()}
    again = run_experiment(plan_of(folder), execute=local_executor(0))
    assert numbers(again) == numbers(results)
    assert {path: path.stat().st_mtime_ns for path in runs} == before
    assert {p: p.stat().st_mtime_ns for p in banks} == banks


def test_killed_three_times_gives_the_same_tables(part: Results, tmp_path: Path) -> None:
    path = recipe(tmp_path, **PART)
    command = [sys.executable, "-m", "transil", "run", path, "-o", str(tmp_path / "results")]
    for finished, processes in ((1, "2"), (3, "1"), (5, "1")):
        words = [*command, "--processes", processes]
        process = subprocess.Popen(words, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        limit = time.monotonic() + 60
        while count_finished(tmp_path / "results") < finished and time.monotonic() < limit:
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait()
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert numbers(Results.load(tmp_path / "results")) == numbers(part)


def count_finished(folder: Path) -> int:
    return len(list(folder.glob("runs/*-s2-*/checkpoints/state-02.safetensors")))


def test_a_failed_run_does_not_stop_the_others(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, states="[2]", per_method="{lucir: {train: {lr: 1.0e+30}}}")
    results = run_experiment(plan, execute=local_executor(0))
    assert {f.what.split("-")[1] for f in results.failures} == {"lucir"}
    assert all("not a number in state 1" in f.reason for f in results.failures)
    assert {c.setting.method for c in results.cells} == {"lwf", "siw"}
    # Paths are those of the results folder, wherever that lies.
    assert all(f.reason.startswith(f"runs/{f.what}: ") for f in results.failures)
    assert str(tmp_path) not in (tmp_path / "results" / "results.json").read_text()
    assert {r["method"] for r in results.facts["runs"]} == {"lwf", "ft"}
    page = tmp_path / "page.md"
    assert run(["report", str(tmp_path / "results"), "--markdown", str(page)]) == 0
    text = page.read_text()
    assert "| LUCIR + adBiC | - |" in text
    assert "- LUCIR on c, S = 2, seed 0\n- " in text


def test_a_process_that_dies_is_replaced(tmp_path: Path) -> None:
    """Its run goes on from the checkpoint, in another process."""
    plan = plan_of(tmp_path, methods="[lwf]", states="[2]", targets="[c]",
                   train="{epochs: 30, pad: 1}")  # fmt: skip
    killed: list[int] = []

    def progress(share: float, text: str) -> None:
        import multiprocessing

        if not killed and share > 0.1:
            victim = multiprocessing.active_children()[0]
            assert victim.pid is not None
            killed.append(victim.pid)
            os.kill(victim.pid, signal.SIGKILL)

    results = run_experiment(plan, execute=local_executor(2), progress=progress)
    assert killed
    assert results.failures == []
    assert all(RunFolder(task.folder).finished() == 2 for task in plan.tasks)


def test_ray_gives_the_same_tables_though_a_worker_dies(
    part: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And it listens to nobody but this machine, which must know its token."""
    ray = pytest.importorskip("ray", reason="Ray is not installed (pip install ray)")
    from transil.experiment.cluster import ray_executor

    killed: list[int] = []
    heard: set[str] = set()
    told = ""
    monkeypatch.setenv("RAY_ADDRESS", "nowhere:1")  # of some cluster: not asked for here
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")

    def progress(share: float, text: str) -> None:
        nonlocal told
        if ray.is_initialized():
            told = told or stranger(ray.get_runtime_context().gcs_address)
            heard.update(listening())
        if not killed and share > 0.3:
            killed.extend(ray_workers()[:1])
            for pid in killed:
                os.kill(pid, signal.SIGKILL)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", "this Ray")
        plan = plan_of(tmp_path, **PART)
        results = run_experiment(plan, execute=ray_executor(), progress=progress)
    assert killed
    assert numbers(results) == numbers(part)
    assert heard
    assert all(address.endswith("0100007F") for address in heard), heard  # 127.0.0.1
    assert "InvalidAuthToken" in told
    assert os.environ["RAY_AUTH_MODE"] == "disabled"
    assert "RAY_AUTH_TOKEN" not in os.environ


def test_a_bank_says_which_runs_it_comes_from(whole: tuple[Path, Results]) -> None:
    folder = whole[0] / "results"
    told = load_bank(folder / "banks" / "siw-s2-adbic-newton-seed0.json").provenance
    assert told["fitted_on"] == ["val"]
    assert (told["pixels"], told["networks"]) == ([16], ["convnet"])
    assert list(told["runs"]) == ["a", "b"]
    for name, run_name in told["runs"].items():
        assert run_name.startswith(f"{name}-ft-s2-seed0-")
        assert (folder / "runs" / run_name / "run.json").exists()


def test_a_report_from_files_alone(whole: tuple[Path, Results], tmp_path: Path) -> None:
    page = tmp_path / "again" / "report.html"
    assert run(["report", str(whole[0] / "results"), "-o", str(page.parent)]) == 0
    assert page.stat().st_size > 10_000


def test_bad_input_to_experiments_gets_one_line(
    whole: tuple[Path, Results], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    other = shutil.copytree(whole[0], tmp_path / "other")
    broken = next((other / "results" / "runs").glob("c-lwf-s2-*"))
    altered = next(broken.glob("scores/lwf/test-*.safetensors"))
    altered.write_bytes(bytes(altered.stat().st_size))
    cut = next(broken.parent.glob("d-lucir-s2-*")) / "scores/lucir"
    next(cut.glob("test-*.safetensors")).write_bytes(b"half")  # is made again
    bank = other / "results" / "banks" / "lwf-s4-adbic-newton-seed0.json"
    results = ["-o", str(other / "results")]
    cases = [
        (["run", recipe(tmp_path, method="[lwf]"), *results], "did you mean 'methods'?"),
        (["run", recipe(tmp_path, targets="[nowhere]"), *results], "nowhere: no such folder"),
        (["run", "demoo", *results], "did you mean 'demo'?"),
        (["run", recipe(tmp_path), *results, "--executor", "slurm"], "there are: local, ray"),
        (["run", recipe(tmp_path), *results, "--address", "x"], "--address goes with"),
        (["report", str(tmp_path / "empty")], "no results here (results.json is missing)"),
        (["report", str(tmp_path / "empty"), str(tmp_path)], "name the report's own with -o"),
        (["evaluate", str(next(broken.parent.glob("d-lwf-s2-*"))), "--bank", str(bank)],
         "is not the bank's"),  # a bank from another schedule
    ]  # fmt: skip
    for words, message in cases:
        assert run(words) == 2, words
        errors = capsys.readouterr().err
        assert message in errors
        assert sum(line.startswith("error:") for line in errors.splitlines()) == 1
    assert run(["run", recipe(tmp_path), *results]) == 1  # a damaged run; the rest is done
    told = capsys.readouterr().err
    assert "failed: c, lwf, 2 states, seed 0: " in told
    assert "failed: d" not in told

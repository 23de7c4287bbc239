"""ScoreRecorder: any loop's scores become a store, state by state, whatever happens in between."""

from __future__ import annotations

import signal
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file

from support import ok_here
from transil import Schedule, ScoreRecorder, ScoreStore, TransilError
from transil.testing import biased_scores

GROUPS = [[7, 2], [0, 9, 4], [1]]


def record_state(recorder: ScoreRecorder, store: ScoreStore, batch: int = 3) -> None:
    """One state of a store as a loop gives it: batches in a buffer that is filled again."""
    state = recorder.state
    for split in store.splits:
        data = store.get(split, state)
        buffer = np.empty((batch, data.scores.shape[1]), data.scores.dtype)
        for start in range(0, len(data.labels), batch):
            rows = data.scores[start : start + batch]
            buffer[: len(rows)] = rows
            recorder.add(split, buffer[: len(rows)], data.labels[start : start + batch])
    assert recorder.next_state() == state + 1


def recorded(folder: Path, store: ScoreStore, **options: Any) -> ScoreStore:
    recorder = ScoreRecorder(folder, store.schedule, method=store.method, **options)
    while recorder.state <= store.schedule.states:
        record_state(recorder, store)
    return ScoreStore.open(folder)


def small_store() -> ScoreStore:
    store = biased_scores("5,3,4", images_per_class=5)
    store.dataset = None
    return store


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != ".store.lock"}


def test_a_recorded_store_is_the_saved_one(tmp_path: Path) -> None:
    store = small_store()
    found = recorded(tmp_path / "recorded", store)
    store.save(tmp_path / "saved")
    assert files(tmp_path / "recorded") == files(tmp_path / "saved")
    assert found.fingerprint() == store.fingerprint()
    for path in (tmp_path / "recorded").glob("*.safetensors"):  # others can read them, too
        assert set(load_file(path)) == {"scores", "labels"}
    said = ok_here("evaluate", "recorded", cwd=tmp_path)
    assert "average incremental accuracy" in said
    ok_here("fit", "recorded", "-o", "bank.json", cwd=tmp_path)


@settings(max_examples=25, deadline=None)
@given(
    portions=st.lists(st.integers(0, 9), max_size=8),
    dtype=st.sampled_from(["float16", "float32", "float64"]),
    block=st.integers(1, 200),
)
def test_portions_do_not_matter(
    tmp_path_factory: pytest.TempPathFactory, portions: list[int], dtype: str, block: int
) -> None:
    folder, random = tmp_path_factory.mktemp("portions"), np.random.default_rng(0)
    scores = random.normal(size=(31, 3)).astype(dtype)
    labels = random.integers(0, 3, 31)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("transil.scores.recorder.BLOCK", block)
        patch.setattr("transil.scores.data_files.LABELS_KEPT", block)
        recorder = ScoreRecorder(folder, [3])
        edges = [0, *np.minimum(np.cumsum(portions, dtype=int), 31).tolist(), 31]
        for start, stop in zip(edges[:-1], edges[1:], strict=True):
            recorder.add("test", scores[start:stop], labels[start:stop])
        recorder.next_state()
    whole = ScoreStore.from_arrays({"test": [(scores, labels)]}, [3])
    assert ScoreStore.open(folder).fingerprint() == whole.fingerprint()
    np.testing.assert_array_equal(ScoreStore.open(folder).get("test", 1).labels, labels)


@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy, lambda x: x.tolist()])
def test_arrays_tensors_and_lists(tmp_path: Path, kind: Callable[[Any], Any]) -> None:
    scores, labels = np.arange(6.0).reshape(3, 2), np.array([0, 1, 1])
    recorder = ScoreRecorder(tmp_path, [2, 1])
    recorder.add("val", kind(scores), kind(labels))
    recorder.next_state()
    np.testing.assert_array_equal(ScoreStore.open(tmp_path).get("val", 1).scores, scores)


def test_tensors_with_gradients_and_in_half_precision(tmp_path: Path) -> None:
    recorder = ScoreRecorder(tmp_path, [2], dtype="float16")
    recorder.add("test", torch.ones(2, 2, dtype=torch.bfloat16, requires_grad=True), [0, 1])
    recorder.add("test", np.zeros((1, 2)), [0])
    recorder.next_state()
    assert ScoreStore.open(tmp_path).get("test", 1).scores.dtype == np.float16


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("order", [None, "labels"])
def test_tensors_on_a_gpu(tmp_path: Path, order: Any) -> None:
    scores, labels = torch.randn(300, 12, device="cuda"), torch.arange(300, device="cuda") % 5
    recorder = ScoreRecorder(tmp_path, "12/1" if order else "5,7", width=12, order=order)
    for start in range(0, 300, 128):
        recorder.add("test", scores[start : start + 128], labels[start : start + 128])
    recorder.next_state()
    found = ScoreStore.open(tmp_path).get("test", 1)
    np.testing.assert_array_equal(found.scores, scores.cpu().numpy()[:, : 12 if order else 5])
    np.testing.assert_array_equal(found.labels, labels.cpu().numpy())


# -- heads -------------------------------------------------------------------------------------


def output(scores: Any, places: Any, width: int, each: int = 1) -> Any:
    """What a head gives whose places hold these scores; in all other columns, large numbers."""
    made = np.full((len(scores), width), 99.0)
    made[:, each * np.asarray(places)] = scores
    return made


@pytest.mark.parametrize("each", [1, 4])
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("order", [None, "labels", [5, 0, 3, 1, 2, 4]])
def test_heads_of_all_kinds(tmp_path: Path, order: Any, whole: bool, each: int) -> None:
    schedule, random = Schedule.of(GROUPS), np.random.default_rng(1)
    places = schedule.classes(3).tolist() if order == "labels" else (order or list(range(6)))
    width = each * 10 if whole else None
    recorder = ScoreRecorder(tmp_path, GROUPS, width=width, order=order, columns=each)
    wanted, given = {}, {}
    for state in (1, 2, 3):
        seen = schedule.columns(state)
        labels = np.repeat(schedule.classes(state), 2)
        wanted[state] = (random.normal(size=(len(labels), seen)), labels)
        needed = each * (max(places[:seen]) + 1)
        given[state] = (
            output(wanted[state][0], places[:seen], width or needed, each),
            labels,
        )
        recorder.add("test", torch.from_numpy(given[state][0][:1]), labels[:1])
        recorder.add("test", given[state][0][1:], labels[1:])
        recorder.next_state()
    expected = ScoreStore.from_arrays({"test": wanted}, GROUPS).fingerprint()
    assert ScoreStore.open(tmp_path).fingerprint() == expected
    again = ScoreStore.from_arrays({"test": given}, GROUPS, width=width, order=order, columns=each)
    assert again.fingerprint() == expected


@pytest.mark.parametrize(
    ("columns", "options", "says"),
    [
        (400, {}, "where it has 4 columns for each class, also of those to come, say so (width=400, "
                  "columns=4); where it has 20 columns for each class"),
        (80, {}, "where it has 4 columns for each class, of which the first is the score, say so "
                 "(columns=4)"),
        (100, {}, "80 columns of the classes seen so far"),
        (40, {}, "state 2 has so many: check the state"),
        (21, {}, "21 columns, but state 1 has 20 classes seen so far; check the state or the schedule"),
        (20, {"width": 100}, "in a head of 100 columns (width)"),
        (20, {"columns": 4}, "the last of which ends at column 80"),
        (400, {"columns": 4}, "(width=400)"),
        (20, {"width": 10}, "20 columns"),
        (10, {"width": 10}, "10 columns"),
        (100, {"order": list(range(99, -1, -1)), "width": 99}, "100 columns"),
        (20, {"order": [1, 2]}, "order: it names 2 columns, but the schedule has 100 classes"),
        (20, {"order": [0] * 100}, "order: a column is named twice"),
        (20, {"order": "label"}, "order: a list of columns, or 'labels', not 'label'"),
        (20, {"order": [0.5] * 100}, "order: expected a list of whole numbers"),
        (20, {"width": 0}, "width: expected a whole number from 1, not 0"),
        (20, {"columns": 2.5}, "columns: expected a whole number from 1, not 2.5"),
    ],
)  # fmt: skip
def test_heads_of_other_widths_are_refused_with_a_hint(
    tmp_path: Path, columns: int, options: dict[str, Any], says: str
) -> None:
    says = says.replace("80 columns of the", "20 columns of the")
    scores, labels = np.zeros((2, columns)), [0, 1]
    with pytest.raises(TransilError) as told:
        ScoreRecorder(tmp_path, "100/5", **options).add("test", scores, labels)
    assert says in str(told.value)
    with pytest.raises(TransilError) as told:
        ScoreStore.from_arrays({"test": [(scores, labels)]}, "100/5", **options)
    assert says in str(told.value)


# -- interruptions -----------------------------------------------------------------------------

KILLED = """
import os, signal, sys
from transil import ScoreRecorder
from transil.testing import biased_scores
count, moment = 0, int(sys.argv[2])
def counted(real):
    def call(*words, **more):
        global count
        count += 1
        if count == moment:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*words, **more)
    return call
for name in ("write", "replace", "fsync", "lseek", "open"):
    setattr(os, name, counted(getattr(os, name)))
store = biased_scores("5,3,4", images_per_class=5)
recorder = ScoreRecorder(sys.argv[1], store.schedule, method=store.method)
for state in (1, 2, 3):
    for split in store.splits:
        data = store.get(split, state)
        for start in range(0, len(data.labels), 20):
            recorder.add(split, data.scores[start:start + 20], data.labels[start:start + 20])
    recorder.next_state()
print(count)
"""


def run_killed(folder: Path, moment: int) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-c", KILLED, str(folder), str(moment)]
    return subprocess.run(words, timeout=60, capture_output=True, text=True)


def test_killed_at_any_moment_finished_states_are_whole(tmp_path: Path) -> None:
    store = small_store()
    done = run_killed(tmp_path / "whole", 0)
    assert done.returncode == 0, done.stderr
    steps, whole, reached = int(done.stdout), files(tmp_path / "whole"), set()
    for moment in range(5, steps + 1, steps // 9):
        folder = tmp_path / f"killed-{moment}"
        done = run_killed(folder, moment)
        assert done.returncode == -signal.SIGKILL, done.stderr
        if (folder / "store.json").exists():
            found = ScoreStore.open(folder)
            for split, state in found:
                a, b = found.get(split, state), store.get(split, state)
                np.testing.assert_array_equal(a.scores, b.scores)
                np.testing.assert_array_equal(a.labels, b.labels)
            assert found.states("val") == found.states("test")  # all of a state, or nothing
            reached.add(len(found.states("test")))
        recorded(folder, store)
        assert files(folder) == whole
    assert reached == {0, 1, 2}


def test_an_unfinished_state_is_dropped_and_recorded_again(tmp_path: Path) -> None:
    store = small_store()
    recorder = ScoreRecorder(tmp_path, store.schedule, method=store.method)
    record_state(recorder, store)
    recorder.add("val", np.zeros((5000, 8)), np.zeros(5000, dtype=int))
    assert len(list(tmp_path.iterdir())) > 4
    del recorder
    assert sorted(p.suffix for p in tmp_path.iterdir() if p.name != ".store.lock") == [
        ".json",
        ".safetensors",
        ".safetensors",
    ]
    assert recorded(tmp_path, store).fingerprint() == store.fingerprint()


def test_a_schedule_grows(tmp_path: Path) -> None:
    scores = np.zeros((4, 2))
    recorder = ScoreRecorder(tmp_path, [[3, 1]])
    recorder.add("test", scores, [3, 1, 3, 1])
    recorder.next_state()
    with pytest.raises(TransilError, match="all 1 states are recorded; .* a longer schedule"):
        recorder.add("test", scores, [3, 1, 3, 1])
    recorder = ScoreRecorder(tmp_path, [[3, 1], [5]])
    assert recorder.state == 2
    recorder.add("test", np.zeros((3, 3)), [3, 1, 5])
    recorder.next_state()
    assert ScoreStore.open(tmp_path).schedule.groups == ((3, 1), (5,))
    assert ScoreRecorder(tmp_path, [[3, 1]]).state == 3  # what is known stays known
    with pytest.raises(TransilError, match="of another schedule"):
        ScoreRecorder(tmp_path, [[3, 1], [6]])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"method": "lwf"}, "their method is generated, not lwf; record into another folder"),
        ({"method": "generated", "kind": "cosine"}, "their score_kind is logit, not cosine"),
        ({"method": "generated", "dataset": "x"}, "their dataset is None, not x"),
    ],
)
def test_another_model_is_refused(tmp_path: Path, options: dict[str, Any], says: str) -> None:
    store = small_store()
    recorded(tmp_path, store)
    with pytest.raises(TransilError, match=says):
        ScoreRecorder(tmp_path, store.schedule, **options)


# -- mistakes ----------------------------------------------------------------------------------


def add(split: Any, scores: Any, labels: Any) -> Callable[[ScoreRecorder], Any]:
    return lambda recorder: recorder.add(split, scores, labels)


ROWS, LABELS = np.zeros((2, 2), dtype=np.float32), [0, 1]


@pytest.mark.parametrize(
    ("calls", "says"),
    [
        ([], "state 1: nothing is recorded; add scores before the state is closed"),
        ([add("a b", ROWS, LABELS)], "split 'a b': use letters"),
        ([add("test", ROWS[0], LABELS)], r"must be a table \(rows, columns\), not \(2,\)"),
        ([add("test", ROWS, [0])], "split 'test', state 1: 2 rows of scores but labels of shape"),
        ([add("test", ROWS.astype(int), LABELS)], "scores of type int64; use float16"),
        ([add("test", ROWS, LABELS), add("test", ROWS.astype(float), LABELS)],
         "scores of type float64 after others of float32; .*dtype='float32'"),
        ([add("test", ROWS, LABELS), add("test", ROWS, [0, 2])],
         "label 2 in row 3 is not one of the 2 classes seen in state 1"),
        ([add("test", ROWS, LABELS), add("test", ROWS, [0, 0.5])], "label 0.5 in row 3"),
        ([add("test", ROWS, ["a", "b"])], "labels must be whole numbers"),
        ([add("test", ROWS, LABELS), add("test", ROWS - np.inf, LABELS)], "score -inf in row 2, col"),
        ([add("test", np.zeros((0, 2)), [])], "no image of the classes of group 1"),
    ],
)  # fmt: skip
def test_mistakes_are_told_and_nothing_is_stored(
    tmp_path: Path, calls: list[Callable[[ScoreRecorder], Any]], says: str
) -> None:
    recorder = ScoreRecorder(tmp_path, [2, 2])
    with pytest.raises(TransilError, match=says):
        for call in [*calls, ScoreRecorder.next_state]:
            call(recorder)
    del recorder
    assert list(ScoreStore.open(tmp_path)) == []
    assert not list(tmp_path.glob("*.safetensors"))


def test_probabilities_are_refused(tmp_path: Path) -> None:
    rows = torch.rand(20, 4, generator=torch.Generator().manual_seed(0)).softmax(1)
    for kind, good in (("logit", False), ("probability", True)):
        recorder = ScoreRecorder(tmp_path / str(good), [4], kind=kind)
        recorder.add("test", rows, np.arange(20) % 4)
        if good:
            assert recorder.next_state() == 2
        else:
            with pytest.raises(
                TransilError, match="the scores are probabilities; give those before"
            ):
                recorder.next_state()


def test_a_loop_begun_again_is_noticed(tmp_path: Path) -> None:
    """Whole heads have one width: the model of state 1 would be taken for that of state 2."""
    store = small_store()
    record_state(ScoreRecorder(tmp_path, store.schedule, method=store.method), store)
    recorder = ScoreRecorder(tmp_path, store.schedule, method=store.method, width=12)
    recorder.add("test", np.zeros((5, 12)), np.arange(5))
    with pytest.raises(TransilError, match="no image of the classes of group 2 in any split"):
        recorder.next_state()


def test_two_recorders_of_one_folder(tmp_path: Path) -> None:
    store = small_store()
    one, other = (ScoreRecorder(tmp_path, store.schedule, method=store.method) for _ in range(2))
    record_state(one, store)
    with pytest.raises(TransilError, match="another process has recorded it meanwhile"):
        record_state(other, store)
    assert ScoreStore.open(tmp_path).states("test") == (1,)


def test_a_full_disk_leaves_the_finished_states(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = small_store()
    recorder = ScoreRecorder(tmp_path, store.schedule, method=store.method)
    record_state(recorder, store)

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(TransilError, match="cannot write .*: No space left on device"):
            record_state(recorder, store)
    assert ScoreStore.open(tmp_path).states("test") == (1,)
    record_state(recorder, store)  # the same state, again
    assert ScoreStore.open(tmp_path).states("test") == (1, 2)


def test_memory_does_not_grow_with_the_rows(tmp_path: Path) -> None:
    scores, labels = np.zeros((128, 50), dtype=np.float32), np.arange(128) % 50
    peaks = []
    for batches in (500, 3000):
        recorder = ScoreRecorder(tmp_path / str(batches), [50])
        tracemalloc.start()
        for _ in range(batches):
            recorder.add("test", scores, labels)
        recorder.next_state()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 4_000_000  # of 77 MB
    assert peaks[1] < 1.1 * peaks[0]

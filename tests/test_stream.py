"""ClassStream: index arithmetic that is right, and images that cannot leak."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_files import images_in_memory
from transil import TransilError
from transil.data import ClassStream, State, Subset
from transil.data.orders import AUTHORS_CIFAR100, class_order
from transil.errors import LeakError

TRAIN, VAL, TEST = 0, 1, 2  # the tags in the first pixel


def seen(subset: Subset) -> set[tuple[int, int, int]]:
    """(split tag, original label, number in the class) of every image of a subset."""
    data = subset.read()
    return {(int(x[0, 0, 0]), int(x[0, 0, 1]), int(x[0, 1, 0])) for x in data}


def test_states_of_a_target() -> None:
    stream = ClassStream(images_in_memory(), states=5, order="label", val_per_class=2)
    for state in stream:
        new = {2 * state.number - 2, 2 * state.number - 1}
        assert seen(state.train) == {(TRAIN, c, i) for c in new for i in (2, 3, 4, 5)}
        assert seen(state.val) == {(TRAIN, c, i) for c in new for i in (0, 1)}
        assert seen(state.test) == {(TEST, c, i) for c in range(2 * state.number) for i in (0, 1)}
        assert state.classes == tuple(f"class{c}" for c in sorted(new))
    assert stream.current == 5
    assert len(stream) == 5


def test_a_reference_keeps_its_validation_memory() -> None:
    stream = ClassStream(
        images_in_memory(), states=5, order="label", val_per_class=2, role="reference"
    )
    state = stream.enter(3)
    assert seen(state.val) == {(TRAIN, c, i) for c in range(6) for i in (0, 1)}
    assert seen(state.train) == {(TRAIN, c, i) for c in (4, 5) for i in (2, 3, 4, 5)}


def test_labels_are_numbered_in_learning_order() -> None:
    order = [7, 3, 0, 9, 1, 2, 4, 8, 5, 6]
    stream = ClassStream(images_in_memory(), schedule=[5, 1, 4], order=order)
    for state in stream:
        for subset in (state.train, state.test):
            original = subset.read()[:, 0, 0, 1]
            np.testing.assert_array_equal(np.array(order)[subset.labels], original)
    assert stream.class_names[:2] == ("class7", "class3")


@given(
    sizes=st.lists(st.integers(1, 3), min_size=1, max_size=4),
    seed=st.integers(0, 99),
    val=st.integers(0, 4),
    rule=st.sampled_from(["first", "last", "seed:3"]),
    fraction=st.sampled_from([1.0, 0.5, 0.1]),
)
def test_splits_are_disjoint_and_complete(
    sizes: list[int], seed: int, val: int, rule: str, fraction: float
) -> None:
    classes = sum(sizes)
    stream = ClassStream(
        images_in_memory(classes), schedule=sizes, order=f"seed:{seed}", val_per_class=val,
        val_from=rule, train_fraction=fraction,
    )  # fmt: skip
    everything: set[tuple[int, int, int]] = set()
    for state in stream:
        train, aside = seen(state.train), seen(state.val)
        assert not train & aside
        assert not (train | aside) & everything
        everything |= train | aside
        kept = max(1, round(fraction * (6 - val)))
        assert len(train) == kept * sizes[state.number - 1]
        assert len(aside) == val * sizes[state.number - 1]
    if fraction == 1.0:
        assert everything == {(TRAIN, c, i) for c in range(classes) for i in range(6)}


def test_choices_of_validation_images() -> None:
    def numbers(**options: Any) -> set[int]:
        stream = ClassStream(images_in_memory(2), states=1, order="label", **options)
        return {i for _, c, i in seen(stream.enter(1).val) if c == 0}

    assert numbers(val_per_class=2) == {0, 1}
    assert numbers(val_per_class=2, val_from="last") == {4, 5}
    assert numbers(val_fraction=0.5) == {0, 1, 2}
    assert numbers(val_per_class=0, val_from="last") == set()
    drawn = numbers(val_per_class=3, val_from="seed:1")
    assert drawn == numbers(val_per_class=3, val_from="seed:1")
    assert len({frozenset(numbers(val_per_class=3, val_from=f"seed:{s}")) for s in range(8)}) > 1


def test_a_validation_split_of_the_data_set_is_used() -> None:
    images = images_in_memory(val=3)
    state = ClassStream(images, states=5, order="label").enter(1)
    assert seen(state.val) == {(VAL, c, i) for c in (0, 1) for i in range(3)}
    state = ClassStream(images, states=5, order="label", val_per_class=1).enter(1)
    assert seen(state.val) == {(TRAIN, c, 0) for c in (0, 1)}
    assert len(ClassStream(images_in_memory(), states=5).enter(1).val) == 0


def test_orders() -> None:
    assert class_order("label", 4).tolist() == [0, 1, 2, 3]
    assert sorted(AUTHORS_CIFAR100) == list(range(100))
    assert class_order("authors-cifar100", 100)[:3].tolist() == [8, 12, 75]
    assert class_order("seed:3", 50).tolist() == class_order("seed:3", 50).tolist()
    assert class_order("seed:3", 50).tolist() != class_order("seed:4", 50).tolist()


# -- no leak -----------------------------------------------------------------------------------


def _public_values(thing: Any, depth: int = 0) -> list[Any]:
    """Everything that public attributes and methods without arguments give, recursively."""
    found = []
    for name in dir(thing):
        if name.startswith("_") and name not in ("__iter__",):
            continue
        try:
            value = getattr(thing, name)
            if callable(value) and name not in ("enter", "__iter__", "save_label_map"):
                value = value()
        except (LeakError, TransilError, TypeError):
            continue
        found.append(value)
        if depth < 2 and isinstance(value, State | Subset):
            found += _public_values(value, depth + 1)
    return found


def _images_in(values: list[Any]) -> set[tuple[int, int, int]]:
    found = set()
    for value in values:
        if isinstance(value, Subset):
            try:
                found |= seen(value)
            except LeakError:
                continue
        elif isinstance(value, np.ndarray) and value.dtype == np.uint8 and value.ndim == 4:
            found |= {(int(x[0, 0, 0]), int(x[0, 0, 1]), int(x[0, 1, 0])) for x in value}
    return found


@pytest.mark.parametrize("number", [1, 2, 4, 5])
def test_a_target_gives_no_past_or_future_images(number: int) -> None:
    """In state s every public attribute and method is tried, old state objects included."""
    stream = ClassStream(images_in_memory(val=2), states=5, order="label", val_per_class=2)
    held = [stream.enter(s) for s in range(1, number + 1)]
    current = {2 * number - 2, 2 * number - 1}
    values = _public_values(stream)
    for state in held:
        values += [state, *_public_values(state)]
        values += [v for subset in (state.train, state.val) for v in _public_values(subset)]
    got = _images_in(values)
    assert {c for tag, c, _ in got if tag in (TRAIN, VAL)} == current
    assert {c for tag, c, _ in got if tag == TEST} <= set(range(2 * number))
    for earlier in range(1, number):
        with pytest.raises(LeakError, match=f"state {earlier} is past"):
            stream.enter(earlier)
        for subset in (held[earlier - 1].train, held[earlier - 1].val):
            with pytest.raises(LeakError, match=f"images of state {earlier} were asked for"):
                subset.read([0])
            with pytest.raises(LeakError):
                subset.labels  # noqa: B018
    # A second loop goes on with the next state; it never starts over.
    assert [s.number for s in stream] == list(range(number + 1, 6))


def test_no_view_leads_to_the_rest_of_the_data_set() -> None:
    images = images_in_memory()
    train = ClassStream(images, states=5).enter(3).train
    everything = images.splits["train"].pixels
    for index in (0, -1, np.int64(0), np.array(0), [0], slice(0, 2), np.arange(2), slice(None)):
        got = train.read(index)
        assert got.ndim == 4
        assert got.base is None
        assert not np.shares_memory(got, everything)
    assert not np.shares_memory(train.labels, train.labels)
    for wrong in (True, None, np.True_):
        with pytest.raises(TransilError, match="is no position"):
            train.read(wrong)


def test_a_stream_cannot_be_changed_or_copied() -> None:
    stream = ClassStream(images_in_memory(), states=5, order="label", val_per_class=1)
    stream.enter(2)
    for name, value in (
        ("role", "reference"),
        ("order", np.arange(10)),
        ("schedule", None),
        ("settings", {}),
        ("class_names", ()),
        ("current", 0),
    ):
        with pytest.raises(AttributeError):
            setattr(stream, name, value)
    with pytest.raises(ValueError, match="read-only"):
        stream.order[2:4] = stream.order[:2]
    stream.settings["role"] = "reference"
    assert stream.settings["role"] == "target"
    for make in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(LeakError, match="the copy could go back"):
            make(stream)


def test_class_lists_are_an_order() -> None:
    backwards = ClassStream(images_in_memory(), states=5, order=np.arange(10)[::-1])  # type: ignore[arg-type]
    assert backwards.order[0] == 9
    stream = ClassStream(images_in_memory(), schedule=[[5, 6], [8, 7]])
    assert [row["original"] for row in stream.label_map()] == [5, 6, 8, 7]
    assert seen(stream.enter(2).train) == {(TRAIN, c, i) for c in (8, 7) for i in range(6)}
    with pytest.raises(TransilError, match="an order is one too many"):
        ClassStream(images_in_memory(), schedule=[[5, 6]], order="label")
    with pytest.raises(TransilError, match="has no class 99"):
        ClassStream(images_in_memory(), schedule=[[5, 99]])
    assert len(ClassStream(images_in_memory(), schedule=np.array([5, 5]))) == 2  # type: ignore[arg-type]


def test_a_subset_cannot_be_asked_for_rows_of_others() -> None:
    state = ClassStream(images_in_memory(), states=5).enter(1)
    with pytest.raises(IndexError):
        state.train.read([len(state.train)])
    before = state.train.read([0]).copy()
    state.train.read([0])[:] = 0  # a copy: the data set does not change
    np.testing.assert_array_equal(state.train.read([0]), before)


def test_statistics_are_of_the_first_state_only() -> None:
    images = images_in_memory()
    pixels = images.splits["train"].pixels
    pixels[:] = 255
    pixels[images.splits["train"].labels < 2] = 51
    stream = ClassStream(images, states=5, order="label")
    stream.enter(4)
    np.testing.assert_allclose(stream.statistics.mean, 0.2)
    assert max(stream.statistics.std) < 1e-5
    random = np.random.default_rng(0).integers(0, 256, pixels.shape, dtype=np.uint8)
    pixels[:] = random
    first = random[images.splits["train"].labels < 2] / 255
    fresh = ClassStream(images, states=5, order="label").statistics
    np.testing.assert_allclose(fresh.mean, first.mean(axis=(0, 1, 2)))
    np.testing.assert_allclose(fresh.std, first.std(axis=(0, 1, 2)))


# -- label map and mistakes --------------------------------------------------------------------


def test_the_label_map_is_shown_and_saved(tmp_path: Path) -> None:
    stream = ClassStream(images_in_memory(), schedule=[7, 3], order="seed:1", val_per_class=2)
    text = str(stream)
    assert "7, 3" in text
    assert stream.class_names[0] in text
    stream.save_label_map(tmp_path / "map.json")
    data = json.loads((tmp_path / "map.json").read_text())
    assert data["labels"][7]["group"] == 2
    assert data["labels"][0]["class"] == f"class{data['labels'][0]['original']}"
    assert data["settings"]["order"] == "seed:1"
    assert data["settings"]["val_per_class"] == 2
    assert data["images"] == {"train": [28, 12], "val": [14, 6], "test": [14, 6]}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "one of the two"),
        ({"states": 3}, "cannot be cut into 3 equal groups"),
        ({"schedule": [6, 6]}, "the schedule has 12 classes, memory only 10"),
        ({"states": 5, "order": "random"}, "'random' is not understood"),
        ({"states": 5, "order": [0, 1]}, "must name each of 0..9 once"),
        ({"states": 5, "order": [0] * 10}, "must name each of 0..9 once"),
        ({"states": 5, "order": "authors-cifar100"}, "100 labels given"),
        ({"states": 5, "val_per_class": 6}, "class 'class0' has 6 training images, too few"),
        ({"states": 5, "val_per_class": -1}, "not a whole number from 0"),
        ({"states": 5, "val_per_class": 2.5}, "not a whole number from 0"),
        ({"states": 5, "fraction_seed": -1}, "not a whole number from 0"),
        ({"states": 5.0}, "not a whole number"),
        ({"states": 5, "val_per_class": 1, "val_fraction": 0.1}, "not both"),
        ({"states": 5, "val_fraction": 1.0}, r"not in \[0, 1\)"),
        ({"states": 5, "val_per_class": 1, "val_from": "middle"}, "'middle' is not understood"),
        ({"states": 5, "train_fraction": 0.0}, r"not in \(0, 1\]"),
        ({"states": 5, "role": "teacher"}, "role 'teacher' is unknown"),
    ],
)
def test_mistakes_are_told(options: dict[str, Any], words: str) -> None:
    with pytest.raises(TransilError, match=words):
        ClassStream(images_in_memory(), **options)


def test_fewer_classes_than_the_set_has() -> None:
    stream = ClassStream(images_in_memory(), schedule=[2, 3], order="label")
    assert [len(state.train) for state in stream] == [12, 18]

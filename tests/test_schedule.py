from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support import UNEQUAL
from transil import Schedule, TransilError


def wrong(value: Any) -> Any:
    """A value whose type the type checker shall not see."""
    return value


def test_equal_parts() -> None:
    schedule = Schedule.equal(100, 10)
    assert schedule.states == 10
    assert schedule.sizes == (10,) * 10
    assert schedule.columns(3) == 30
    assert schedule.group_columns(3) == slice(20, 30)
    assert str(schedule) == "100 classes, 10 groups of 10"


def test_unequal_sizes() -> None:
    schedule = Schedule.from_sizes(UNEQUAL)
    assert schedule.seen == (50, 60, 65, 66, 100)
    assert schedule.group_columns(4) == slice(65, 66)
    assert schedule.group_of_column(3).tolist() == [1] * 50 + [2] * 10 + [3] * 5
    assert [schedule.state_with(n) for n in schedule.seen] == [1, 2, 3, 4, 5]


def test_class_lists_keep_their_order() -> None:
    schedule = Schedule.from_groups([[7, 2], [0, 9, 1]])
    assert schedule.classes(1).tolist() == [7, 2]
    assert schedule.classes(2).tolist() == [7, 2, 0, 9, 1]
    assert schedule.column_of([9, 7, 1], 2).tolist() == [3, 0, 4]


@pytest.mark.parametrize(
    "spec", ["50,10,5,1,34", UNEQUAL, tuple(UNEQUAL), np.array(UNEQUAL), Schedule.of(UNEQUAL)]
)
def test_of_accepts_every_form(spec: Any) -> None:
    assert Schedule.of(spec) == Schedule.from_sizes(UNEQUAL)


def test_of_reads_equal_parts_and_lists() -> None:
    assert Schedule.of("100/10") == Schedule.equal(100, 10)
    assert Schedule.of([[3, 1], [2]]) == Schedule.from_groups([[3, 1], [2]])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Schedule.equal(100, 7), "cannot be cut into 7 equal groups"),
        (lambda: Schedule.equal(0, 1), "at least 1"),
        (lambda: Schedule.from_sizes([3, 0, 2]), "group 2 has size 0"),
        (lambda: Schedule.from_sizes([]), "no groups"),
        (lambda: Schedule.from_sizes([2, wrong(1.5)]), "whole number, not 1.5"),
        (lambda: Schedule.from_sizes([2, True]), "whole number, not True"),
        (lambda: Schedule.from_groups([[1, 2], [2]]), "class 2 is in group 1 and again in group 2"),
        (lambda: Schedule.from_groups([[1], []]), "group 2 has no classes"),
        (lambda: Schedule.from_groups([[-1]]), "class -1 in group 1; class labels are"),
        (lambda: Schedule.of("ten"), "write '100/10'"),
        (lambda: Schedule.of("1/2/3"), "write '100/10'"),
        (lambda: Schedule.of(wrong(5)), "give sizes or lists"),
        (lambda: Schedule.from_json({"size": 3}), "'sizes' or 'groups'"),
        (lambda: Schedule.from_json([1]), "'sizes' or 'groups'"),
        (lambda: Schedule.of("4/2").columns(3), "has the states 1 to 2"),
        (lambda: Schedule.of("4/2").columns(0), "has the states 1 to 2"),
        (lambda: Schedule.of("4/2").state_with(3), "have 2, 4"),
        (lambda: Schedule.of("4/2").column_of([0, 3], 1), "label 3 in row 1"),
        (lambda: Schedule.of("4/2").column_of([0, -1], 2), "label -1 in row 1"),
        (lambda: Schedule.of("4/2").check_columns(4, 1), "keep the 2 columns"),
        (lambda: Schedule.of("4/2").check_columns(3, 1), "check the state or the schedule"),
    ],
)
def test_mistakes_are_told(make: Any, words: str) -> None:
    with pytest.raises(TransilError, match=words.replace("(", r"\(")) as raised:
        make()
    assert "\n" not in str(raised.value)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_columns_and_labels_agree(sizes: list[int], random: Any) -> None:
    labels = list(range(3 * sum(sizes)))
    random.shuffle(labels)
    cuts = np.cumsum([0, *sizes]).tolist()
    schedule = Schedule.from_groups([labels[a:b] for a, b in zip(cuts, cuts[1:], strict=False)])
    assert Schedule.from_json(schedule.to_json()) == schedule
    for state in range(1, schedule.states + 1):
        classes = schedule.classes(state)
        assert schedule.column_of(classes, state).tolist() == list(range(len(classes)))
        assert schedule.state_with(len(classes)) == state
        groups = schedule.group_of_column(state)
        assert [int((groups == k).sum()) for k in range(1, state + 1)] == sizes[:state]


def test_a_shorter_process_starts_like_a_longer_one() -> None:
    assert Schedule.of("50,10").starts_like(Schedule.of(UNEQUAL))
    assert not Schedule.of("50,11").starts_like(Schedule.of(UNEQUAL))
    assert not Schedule.of(UNEQUAL).starts_like(Schedule.of("50,10"))

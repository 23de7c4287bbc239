"""Every option and argument of every command, with values that nobody should give."""

from __future__ import annotations

import pytest

from fuzz import options
from fuzz.conftest import Bench
from fuzz.sizes import EACH_OPTION, PARTS, STEP


@pytest.mark.parametrize("part", range(PARTS))
def test_odd_values(part: int, bench: Bench) -> None:
    bench.hold(list(options.cases(EACH_OPTION))[::STEP][part::PARTS])


def test_the_commands_without_them(bench: Bench) -> None:
    bench.hold(options.right())


def test_every_command_is_here() -> None:
    assert set(options.commands()) == set(options.BASES)

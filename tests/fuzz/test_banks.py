"""Files that the commands on banks read, spoiled."""

from __future__ import annotations

import pytest

from fuzz.cases import BANKS, cases_of, right
from fuzz.conftest import Bench
from fuzz.sizes import EACH_FILE, PARTS, STEP


@pytest.mark.parametrize("part", range(PARTS))
def test_spoiled_files(part: int, bench: Bench) -> None:
    bench.hold(list(cases_of(BANKS, EACH_FILE))[::STEP][part::PARTS])


def test_the_same_files_unspoiled(bench: Bench) -> None:
    bench.hold(right(BANKS))

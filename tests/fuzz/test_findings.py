"""What people have found must not come back."""

from __future__ import annotations

import pytest

from fuzz.conftest import Bench
from fuzz.findings import FINDINGS, GROUPS
from fuzz.sizes import ALL

# Of the long groups, those that `make test` runs.
SOME = {
    "values": 16,
    "yaml": 10,
    "pipes": 10,
    "surroundings": 8,
    "pickles": 2,
    "kept": 2,
    "remembered": 3,
    "numbers": 2,
    "archives": 2,
}


@pytest.mark.parametrize("group", GROUPS)
def test_findings(group: str, bench: Bench) -> None:
    cases = list(GROUPS[group]())
    bench.hold(cases if ALL else cases[:: SOME.get(group, 1)])


def test_each_has_a_name_of_its_own() -> None:
    assert len(FINDINGS) == sum(len(list(group())) for group in GROUPS.values())

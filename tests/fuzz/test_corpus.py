"""Inputs that once reached new code of a parser, or broke it, read again."""

from __future__ import annotations

import pytest

from fuzz.parsers import CORPUS, PARSERS, check


@pytest.mark.parametrize("name", PARSERS)
def test_inputs_of_the_search(name: str) -> None:
    paths = sorted((CORPUS / name).iterdir())
    assert paths
    for path in paths:
        try:
            check(name, path.read_bytes())
        except BaseException as error:
            raise AssertionError(f"{path.name} ({name}) raises {type(error).__name__}") from error

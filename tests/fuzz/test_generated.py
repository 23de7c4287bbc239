"""Texts, values and bytes that hypothesis makes up, and makes smaller where they break something."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz import options
from fuzz.boxes import Case
from fuzz.conftest import Bench
from fuzz.sizes import EXAMPLES

EXAMPLE_SETTINGS = settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow])
PLAIN: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(
        ["newton", "adbic", "lwf", "radial", "strokes", "mean", "val", 10**30, "\x1b[31m"]
    ),
)
TREES = st.recursive(
    PLAIN,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)
CELLS = st.text(alphabet="0123456789.,;\t-+eE\"' \n\rnaif\0x\u00e9", max_size=60)


def _replaced(line: str, needs: str, file: str, outputs: str = "") -> Callable[[bytes], Case]:
    """A case from the bytes of one file."""

    def case(raw: bytes) -> Case:
        def spoil(folder: Path, random: Random) -> None:
            (folder / file).write_bytes(raw)

        words = tuple(line.split(" "))
        name = f"made up : {line} < {file} : {raw[:2000]!r}"
        return Case(name, words, tuple(needs.split()), spoil, tuple(outputs.split()))

    return case


def _changed(line: str, needs: str, file: str, outputs: str = "") -> Callable[[bytes], Case]:
    """A case from what is put at a place of a JSON file: `[number of the place, value]`."""
    from fuzz.mutate import paths_in

    def case(raw: bytes) -> Case:
        place, value = json.loads(raw)

        def spoil(folder: Path, random: Random) -> None:
            data = json.loads((folder / file).read_text())
            ways = [way for way in paths_in(data) if way]
            way = ways[place % len(ways)]
            inner = data
            for key in way[:-1]:
                inner = inner[key]
            inner[way[-1]] = value
            (folder / file).write_text(json.dumps(data))

        name = f"made up : {line} < {file} : {raw[:2000]!r}"
        return Case(
            name, tuple(line.split(" ")), tuple(needs.split()), spoil, tuple(outputs.split())
        )

    return case


VALUES = st.tuples(st.integers(0, 999), TREES).map(lambda pair: json.dumps(pair).encode())
YAML = st.dictionaries(
    st.sampled_from(
        [
            "references",
            "targets",
            "methods",
            "states",
            "schedules",
            "data",
            "sets",
            "train",
            "x",
            "kind",
        ]
    ),
    TREES,
    max_size=5,
).map(lambda data: "\n".join(f"{k}: {json.dumps(v)}" for k, v in data.items()).encode())
FILES = {
    "recipes": (_replaced("run bad.yaml -o new --plan", "", "bad.yaml", "new"), YAML),
    "texts as recipes": (
        _replaced("run bad.yaml -o new --plan", "", "bad.yaml", "new"),
        st.text(alphabet="ab:-[]{}&*!?|>'\"#%@` \n\t1.", max_size=40).map(str.encode),
    ),
    "settings": (
        _replaced(
            "train --recipe bad.yaml --data images --states 1 -o new", "images", "bad.yaml", "new"
        ),
        YAML,
    ),
    "banks": (_changed("bank show bank.json", "bank.json", "bank.json"), VALUES),
    "banks for any schedule": (
        _changed("bank make curve.json --schedule 4,2,2 -o new", "curve.json", "curve.json", "new"),
        VALUES,
    ),
    "measured banks": (
        _changed("bank show measured.json", "measured.json", "measured.json"),
        VALUES,
    ),
    "manifests": (_changed("evaluate store", "store", "store/store.json"), VALUES),
    "results": (
        _changed("report results -o new", "results", "results/results.json", "new"),
        VALUES,
    ),
    "records": (_changed("predict run photo.png", "run photo.png", "run/run.json"), VALUES),
    "label maps": (
        _changed("predict run photo.png", "run photo.png", "run/label-map.json"),
        VALUES,
    ),
    "entries": (_changed("data show converted --json", "converted", "converted/meta.json"), VALUES),
    "tables": (
        _replaced("correct bad.csv --bank bank.json -o new.csv", "bank.json", "bad.csv", "new.csv"),
        CELLS.map(str.encode),
    ),
    "lists": (
        _replaced("data show lists --json", "lists images", "lists/train.lst"),
        st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass")),
    ),
    "arrays": (
        _replaced("correct bad.npy --bank bank.json -o new.npy", "bank.json", "bad.npy", "new.npy"),
        st.binary(max_size=200).map(lambda raw: b"\x93NUMPY\1\0\x76\0" + raw),
    ),
    "pickles": (
        _replaced("data show cifar --json", "cifar", "cifar/test_batch"),
        st.binary(max_size=100).map(lambda raw: b"\x80\x02" + raw),
    ),
}


@pytest.mark.parametrize("kind", FILES)
def test_made_up_files(kind: str, bench: Bench) -> None:
    case, strategy = FILES[kind]

    @EXAMPLE_SETTINGS
    @given(strategy)
    def holds(raw: bytes) -> None:
        bench.holds(case(raw))

    holds()


def test_made_up_values(bench: Bench) -> None:
    """Any text for any option; outputs may be made wherever the text says, within the box."""
    pairs = [
        (name, parameter)
        for name, command in sorted(options.commands().items())
        for parameter in options.parameters(command)
        if not options.BASES[name].long and not getattr(parameter, "is_flag", False)
    ]

    inside = st.text(max_size=30).filter(lambda text: text[:1] != "/" and ".." not in text)

    @EXAMPLE_SETTINGS
    @given(st.sampled_from(pairs), inside)
    def holds(pair: Any, text: str) -> None:
        command, parameter = pair
        name = f"made up : {command} : {parameter.name} : {text!r}"
        bench.holds(options.case_of(command, parameter, text, name))

    holds()

"""Recipes as nobody should write them: one line with the file's line, at once."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from support import run_here
from transil import TransilError
from transil._common.settings import read_overrides
from transil._common.yaml_files import read_yaml
from transil.engine.recipes import load_recipe
from transil.experiment.recipe import load_experiment

BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 9)
)
CASES = {
    "aliases of aliases": (BOMB, "line 1: more than 100,000 values, aliases counted"),
    "a list that holds itself": ("a: &a [*a]", "line 1: nested more than 32 deep"),
    "a group that holds itself": ("x: 1\na: &a {b: *a}", "line 2: nested more than 32 deep"),
    "deep lists": ("a: 1\nb: " + "[" * 10_000, "line 2: nested more than 32 deep"),
    "deep groups": ("{a: " * 10_000, "line 1: nested more than 32 deep"),
    "deep items": ("- " * 10_000, "line 1: nested more than 32 deep"),
    "a date": ("x: 1\na: 2001-01-01", "line 2: the date '2001-01-01' cannot be read"),
    "no date": ("a: !!timestamp x", "line 1: the date 'x' cannot be read"),
    "no bool": ("a: !!bool x", "line 1: 'x' cannot be read as true or false"),
    "no number": ("a: !!int abc", "line 1: 'abc' cannot be read as a whole number"),
    "no digits": ("a: 0b_", "line 1: '0b_' cannot be read as a whole number"),
    "a set": ("a: !!set {x}", "line 1: 'set' cannot be read"),
    "bytes": ("a: !!binary aGVsbG8=", "line 1: 'binary' cannot be read"),
    "pairs": ("a: !!omap [b: 1]", "line 1: 'omap' cannot be read"),
    "code": ("a: !!python/object/apply:os.system [x]", "line 1: 'python/object/apply:os.system'"),
    "another kind": ("a: !mine x", "line 1: '!mine' cannot be read"),
    "an equals sign": ("a: =", "line 1: 'value' cannot be read"),
    "merged groups": ("a: &x {b: 1}\nc:\n  <<: *x", "line 3: a key must be a plain name"),
    "a list as a key": ("? [1]\n: 1", "line 1: a key must be a plain name"),
    "many digits": ("a: " + "9" * 5_000, "line 1: a number of 5,000 characters"),
    "many digits in hex": ("a: 0x" + "f" * 5_000, "line 1: a number of 5,002 characters"),
    "a zero byte": ('x: 1\na: "b\0"', "line 2: not YAML (the character '\\x00')"),
    "an escape": ("a: \x1b[31m", "line 1: not YAML (the character '\\x1b')"),
    "no character": ('a: "\\UFFFFFFFF"', "not YAML ("),
    "no version": ("%YAML 1." + "9" * 5_000 + "\n---\na: 1", "not YAML ("),
    "two documents": ("a: 1\n---\nb: 2", "line 2: not YAML (expected a single document"),
    "no anchor": ("a: *b", "line 1: not YAML (found undefined alias 'b')"),
    "twice": ("a: 1\n'a': 2", "line 2: key 'a' stands twice"),
}


@pytest.mark.parametrize("case", CASES)
def test_one_line_tells_where(case: str) -> None:
    text, says = CASES[case]
    begun = time.process_time()
    with pytest.raises(TransilError) as error:
        read_yaml(text, "own.yaml")
    assert str(error.value).startswith("own.yaml")
    assert says in str(error.value)
    assert "\n" not in str(error.value)
    assert time.process_time() - begun < 3


def test_values_and_lines_come_from_one_pass() -> None:
    text = "a: {b: 1, c: [x, {d: null}]}\non: 1e5\n12: [0x10, 1_000, .5, yes, ~]\ne: '2001-01-01'\n"
    assert read_yaml(text, "x") == (
        {"a": {"b": 1, "c": ["x", {"d": None}]}, "on": "1e5", "12": [16, 1000, 0.5, True, None],
         "e": "2001-01-01"},
        {"a": 1, "a.b": 1, "a.c": 1, "a.c.d": 1, "on": 2, "12": 3, "e": 4},
    )  # fmt: skip
    assert read_yaml("", "x") == read_yaml("# nothing\n", "x") == (None, {})
    assert read_yaml("\ufeffa: &x [1]\nb: *x\n", "x")[0] == {"a": [1], "b": [1]}


@pytest.mark.parametrize("read", [load_recipe, load_experiment])
def test_files_that_are_no_recipes(read: object, tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"

    def told() -> str:
        with pytest.raises(TransilError) as error:
            read(str(path))  # type: ignore[operator]
        return str(error.value)

    path.write_bytes("name: x\n# größer\n".encode("latin-1"))
    assert told() == f"{path}, line 2: not UTF-8; save the file as UTF-8"
    path.write_text("name: x\n", encoding="utf-16")
    assert "line 1: not UTF-8" in told()
    path.write_bytes(b"#" * ((1 << 20) + 1))
    assert told() == f"{path}: larger than 1 MiB; this is no file of this kind"
    path.unlink()
    assert told() == f"cannot read {path}: No such file or directory"
    os.mkfifo(path)
    assert "is a device or pipe, not a plain file" in told()


@pytest.mark.parametrize(
    ("word", "says"),
    [
        (".".join("a" * 10_000) + "=1", "nested more than 32 deep"),
        ("a=" + "[" * 10_000, "nested more than 32 deep"),
        ("seed=" + "9" * 5_000, "a number of 5,000 characters"),
        ("seed=!!binary aGVsbG8=", "'binary' cannot be read"),
        ("train.lr=\x1b[31m", "not YAML (the character"),
        ("train.lr=.inf", "train.lr is inf; it must be a finite number"),
        ("resamples=1000000000000", "resamples: 1000000000000 is too many"),
        ("recipes={lwf: .nan}", "recipes.lwf is nan; it must be a finite number"),
        ("recipes={lwf: \"\\ud800\"}", "halves of characters"),
        ("sets={1: {path: 3}}", "sets.1.path is 3, but must be a text"),
    ],
)  # fmt: skip
def test_overrides_that_are_no_settings(word: str, says: str, tmp_path: Path) -> None:
    done = run_here("run", "demo", "-o", "out", word, "--plan", cwd=tmp_path)
    assert done.returncode == 2
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert len(done.stderr) < 700
    assert not list(tmp_path.iterdir())


def test_overrides_are_read_as_before() -> None:
    over = read_overrides(["a.b=[1, x]", "a.c={d: 1e-3}", "e=", "f='7'"])
    assert over == {"a": {"b": [1, "x"], "c": {"d": "1e-3"}}, "e": None, "f": "7"}

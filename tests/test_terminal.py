"""Names from files are text: no command lets them reach the terminal as anything else."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from image_files import make_folder
from report_results import made_up
from support import run_here, unequal_store
from transil import fit
from transil._common.files import read_json, write_json
from transil.cli import output

# A terminal's title, a colour, the direction of reading, a line of its own, markup, an emoji code.
EVIL = "\x1b]0;pwned\x07 \x9b31m \u202e \u2028 \x7f [red] :smile: \\"


def plain(text: str) -> bool:
    return all(c.isprintable() or c == "\n" for c in text)


def replaced(data: Any, old: str) -> Any:
    """A JSON value with an evil name in place of another, wherever that stands."""
    if isinstance(data, dict):
        return {key: replaced(value, old) for key, value in data.items()}
    if isinstance(data, list):
        return [replaced(value, old) for value in data]
    return EVIL if data == old else data


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store, a bank, a run, images and results, all with evil names."""
    folder = tmp_path_factory.mktemp("template")
    store = unequal_store(1)
    store.save(folder / "good")
    store.dataset = EVIL
    saved = store.save(folder / "store")
    fit(saved).save(folder / "bank.json")
    bank = read_json(folder / "bank.json")
    write_json(folder / "bank.json", {**bank, "method": EVIL})
    write_json(folder / "other.json", {**bank, "provenance": {"made": EVIL, EVIL: "x"}})
    root = make_folder(folder / "images")
    for split in ("train", "test"):
        (root / split / "class1").rename(root / split / EVIL)
    results = made_up(targets=("cifar100",), methods=("lwf",), states=(5,))
    results.save(folder / "results")
    write_json(
        folder / "results" / "results.json",
        replaced(replaced(read_json(folder / "results" / "results.json"), "cifar100"), "made-up"),
    )
    (folder / EVIL).write_text("nothing")
    sets = {name: {"path": "images"} for name in (EVIL, "a", "b")}
    recipe = {"references": ["a", "b"], "targets": [EVIL], "methods": ["lwf"], "states": [3],
              "corrections": ["adbic"], "kind": "tiny", "sets": sets, "allow_overlap": True}  # fmt: skip
    (folder / "recipe.yaml").write_text(json.dumps(recipe))  # which is YAML
    done = run_here(
        "train", "--data", "images", "--recipe", "lwf-tiny", "--states", "3", "-o", f"run{EVIL}",
        "train.epochs=1", "train.first_epochs=1", cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert plain(done.stdout + done.stderr)
    return folder


@pytest.fixture
def work(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRANSIL_CACHE", str(tmp_path / "cache"))
    return Path(shutil.copytree(template, tmp_path / "work"))


RUN = f"run{EVIL}"


@pytest.mark.parametrize(
    "words",
    [
        ["bank", "show", "bank.json"],
        ["bank", "show", "bank.json", "--json"],
        ["bank", "show", "other.json", "--reference", EVIL],
        ["bank", "compare", "bank.json", "other.json"],
        ["bank", "compare", "bank.json", "other.json", "--json"],
        ["bank", "list", EVIL],
        ["evaluate", "store"],
        ["evaluate", "store", "--json"],
        ["evaluate", "store", "--csv"],
        ["evaluate", "store", "--bank", "bank.json"],
        ["evaluate", "store", "--bank", "other.json", "--bank", "lwf-s10"],
        ["evaluate", RUN],
        ["fit", "store", "-o", EVIL],
        ["fit", "store", "--solver", "newton", "-o", f"{EVIL}.json"],
        ["transfer", "bank.json", "-o", f"{EVIL}.json"],
        ["transfer", "other.json", "--how", "median", "-o", f"{EVIL}.json"],
        ["data", "show", "images"],
        ["data", "show", "images", "--json"],
        ["data", "show", f"images/train/{EVIL}"],
        ["data", "convert", "images", EVIL],
        ["data", "convert", "images", f"{EVIL}-32", "--size", "8"],
        ["data", "cache", "--name", EVIL],
        ["predict", RUN, "images/train"],
        ["predict", RUN, "images/train", "--json"],
        ["predict", RUN, "images/train", "--csv"],
        ["train", "--data", "images", "-o", RUN],
        ["train", "--data", EVIL, "-o", "new"],
        ["train", "--data", "images", "--recipe", EVIL, "-o", "new"],
        ["train", "--data", "images", "--method", EVIL, "-o", "new"],
        ["run", EVIL, "-o", "out"],
        ["report", "results", "-o", "out"],
        ["report", EVIL, "-o", "out"],
        ["run", "recipe.yaml", "-o", "out", "--plan"],
        ["run", "recipe.yaml", "-o", EVIL, "--plan", "--json"],
        [EVIL],
        ["bank", "show", EVIL, f"--{EVIL}"],
        ["--import", EVIL, "bank", "list"],
    ],
)
def test_no_control_character_reaches_the_terminal(words: list[str], work: Path) -> None:
    done = run_here(*words, cwd=work)
    assert done.returncode in (0, 2), done.stderr
    assert plain(done.stdout), repr(done.stdout)
    assert plain(done.stderr), repr(done.stderr)
    assert done.stdout + done.stderr
    if done.returncode == 2:
        assert done.stderr.startswith("error: ")
        assert done.stderr.count("\n") == 1


def test_markup_and_emoji_codes_stay_as_they_are(work: Path) -> None:
    for words in (["bank", "show", "bank.json"], ["evaluate", "store", "--bank", "bank.json"],
                  ["report", EVIL], ["bank", "compare", "bank.json", "other.json"]):  # fmt: skip
        done = run_here(*words, cwd=work)
        assert "[red] :smile: \\" in done.stdout + done.stderr, words


def test_json_holds_the_names_as_they_are(work: Path) -> None:
    done = run_here("evaluate", "store", "--json", cwd=work)
    assert json.loads(done.stdout)["dataset"] == EVIL
    for name in (EVIL, "\ud800", "\U000e0001 \U0001f600", "caf\u00e9", "a\nb\tc\rd"):
        text = output.json_text({name: [name]})
        assert plain(text)
        assert json.loads(text) == {name: [name]}
    assert "caf\u00e9" in output.json_text("caf\u00e9")


def test_csv_has_one_line_a_row() -> None:
    text = output.csv_text([{"name": f"a\n{EVIL}", "x": 0.5}, {"name": "caf\u00e9", "x": None}])
    assert plain(text)
    rows = list(csv.reader(io.StringIO(text)))
    assert [len(row) for row in rows] == [2, 2, 2]
    assert rows[2] == ["caf\u00e9", ""]


def test_nor_does_it_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where colours are on, all escapes are rich's own."""
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, color_system="truecolor", **output.PLAIN)
    monkeypatch.setattr(output, "stdout", console)
    monkeypatch.setattr(output, "stderr", console)
    output.print_table(EVIL, [EVIL, EVIL], [[EVIL, EVIL]])
    output.print_facts(EVIL, {"name": EVIL})
    output.print_matrix(EVIL, [[0.5]], ".1f", 6)
    output.say(EVIL)
    output.note(EVIL)
    output.complain("error", "bold red", EVIL)
    with output.progress_bar() as update:
        update(0.5, EVIL)
    shown = screen.getvalue()
    for part in ("\x1b]0", "\x07", "\x9b", "\u202e", "\u2028", "\x7f"):
        assert part not in shown
    assert "[red] :smile:" in shown

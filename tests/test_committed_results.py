"""Results in the repository: tables and pages are what `transil report` makes of their numbers."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from transil._common.files import sha256
from transil.cli.app import run
from transil.report.written import FILE

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = sorted(path.parent for path in ROOT.glob("results/*/results.json"))
PAGE = ROOT / "results" / "real-32" / "report.md"
KINDS = ("*.md", "*.csv", "*.tex")


def copied(folder: Path, root: Path) -> Path:
    """A results folder with what is written by hand or by an experiment, and no report."""
    to = root / folder.relative_to(ROOT)
    to.mkdir(parents=True)
    for name in ("results.json", "reading.md"):
        if (folder / name).exists():
            shutil.copy(folder / name, to / name)
    return to


def tables(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for kind in KINDS for p in (folder / "tables").glob(kind)}


@pytest.mark.skipif(not FOLDERS, reason="no results are committed (results/*/results.json)")
def test_tables_and_page_are_those_of_the_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib", reason="the page has figures, which need matplotlib")
    text = PAGE.read_text()
    command = re.search(r"^transil (report .*)$", text, re.M)
    assert command is not None
    words = shlex.split(command[1])
    for folder in FOLDERS:
        copied(folder, tmp_path)
    monkeypatch.chdir(tmp_path)
    assert run(words) == 0
    assert (tmp_path / PAGE.relative_to(ROOT)).read_text() == text, f"write it again: {command[0]}"
    for link in re.findall(r"\]\((figures/[^)]*)\)", text):
        assert (PAGE.parent / link).is_file(), link
    for folder in FOLDERS:
        name = folder.relative_to(ROOT).as_posix()
        if name in words and "-o" in words and words[words.index("-o") + 1] != name:
            continue  # its numbers are in the tables of another
        if name not in words:
            assert run(["report", name]) == 0
        assert tables(folder), f"{name}: its tables are not committed"
        assert tables(tmp_path / name) == tables(folder), f"write it again: transil report {name}"


def test_what_lies_beside_the_list_is_what_was_written() -> None:
    """So that the command writes it again, and asks where somebody has changed it."""
    root = PAGE.parent
    files = json.loads((root / FILE).read_text())["files"]
    files |= json.loads((root / "figures" / FILE).read_text())["files"]
    made = [p for place in ("figures", "tables") for p in (root / place).glob("*")]
    found = {p.relative_to(root).as_posix() for p in made if p.name != FILE}
    assert found
    assert found | {PAGE.name} <= set(files)
    for name, sums in files.items():
        if name != "report.html":  # is not committed, only its checksum
            assert [sha256(root / name)] == sums, f"{name}: write it again, see {PAGE.name}"

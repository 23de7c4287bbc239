"""The tables of the page about any schedule are those of the committed numbers."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from support import tool_named
from transil._common.files import read_json
from transil.errors import TransilError

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results/any-schedule"
PAGE = RESULTS / "tables.md"
PAGES = (ROOT / "docs/any-schedule.md", PAGE)


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    return tool_named("any_tables")


def test_the_tables_are_those_of_the_numbers(tool: ModuleType) -> None:
    there = set()
    for page in PAGES:
        text = page.read_text()
        assert tool.written(text, RESULTS) == text, "write them again: python tools/any_tables.py"
        there |= {heading for heading in tool.TABLES if f"\n## {heading}\n" in text}
    assert there == set(tool.TABLES)


def test_a_number_that_was_changed_by_hand_is_found(tool: ModuleType) -> None:
    text = PAGE.read_text()
    before, after = text.split("## Every model")
    changed = before + "## Every model" + after.replace("(+", "(+1", 1)
    assert changed != text
    assert tool.written(changed, RESULTS) == text


def test_a_page_without_a_table_is_told(tool: ModuleType) -> None:
    with pytest.raises(TransilError, match="no heading of a table: How well it holds"):
        tool.written("# Any schedule\n", RESULTS)


def test_the_command_writes_them(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "\n" + "".join(f"## {heading}\n\n| x |\n| --- |\n\n" for heading in tool.TABLES)
    )
    monkeypatch.setattr(sys, "argv", ["any_tables.py", str(RESULTS), str(page)])
    assert tool.main() == 0
    assert tool.summary(tool.read_json(RESULTS / "judged.json")) in page.read_text()


def test_what_is_said_of_kinds_of_schedules_is_so() -> None:
    data, page = read_json(RESULTS / "kinds.json"), PAGE.read_text()
    lose = [row for row in data["rows"] if row["kept"] < 0]
    warned = [2 * row["warns"] >= len(row["sizes"]) - 1 for row in lose]
    found = [(row["method"], len(row["sizes"])) for row in lose]
    assert sorted(zip(found, warned, strict=True)) == [(("lwf", 6), False), (("lwf-all", 25), True)]
    (gain,) = (row["exact"] - row["raw"] for row in lose if row["method"] == "lwf")
    assert f"its own exact pairs gain {100 * gain:.1f} points" in page
    gained = [row for row in data["judged"] if row["gain_bound"] > 0.01]
    loss = [row["kept"] for row in gained]
    gains = [row["gain"] / row["gain_bound"] for row in gained]
    assert f"of {len(data['judged'])} models of the" in page
    assert f"({len(gained)} models)" in page
    assert f"removes {min(loss):.2f} to {max(loss):.2f} of the loss and has" in page
    assert f"has {min(gains):.2f} to {max(gains):.2f} of the bound's gain" in page


def test_the_authors_model_is_told_as_measured() -> None:
    page, found = PAGES[0].read_text(), read_json(RESULTS / "networks.json")["released"]
    assert f"it has {100 * found['large']:.1f} %" in page
    assert f"serve it worse: {100 * found['small']:.1f} %" in page

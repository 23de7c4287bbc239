"""The study of priors over many models: its tool, and what of it is committed."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from support import tool_named
from transil.testing import biased_scores

ROOT = Path(__file__).resolve().parents[1]
STUDY = ROOT / "results" / "adaptation"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    return tool_named("adapt_study")


def test_models_are_tried_once(tool: ModuleType, tmp_path: Path) -> None:
    store = biased_scores("6,6", seed=3, images_per_class=100, splits=("test",))
    store.method = "lwf"
    place = tmp_path / "runs" / "made--pair--lwf" / "scores" / "lwf"
    store.save(place)
    path = tmp_path / "out" / "trials.json"
    rows = tool.study([tmp_path / "runs"], path, 1)
    assert len(rows) == len(tool.TRAFFIC) * len(tool.SEEDS)
    assert {(r["set"], r["schedule"], r["method"]) for r in rows} == {("made", "pair", "lwf")}
    assert tool.read(path) == rows
    one = next(r for r in rows if (r["traffic"], r["seed"]) == ("classes 1:1", 0))
    assert list(one["columns"]) == list(tool.WAYS)
    average, half, gain, _, _, _ = one["columns"]["known"]
    assert gain == pytest.approx(average - one["columns"]["raw"][0], abs=2e-4)
    assert 0 < half < 0.2
    # Nothing is left to do: the rows are those that were written.
    marked = [{**row, "columns": {**row["columns"], "raw": [0.5] * 6}} for row in rows]
    tool.write(path, marked)
    assert tool.study([tmp_path / "runs"], path, 1) == marked
    store.put("test", 1, store.get("test", 1).scores * np.float32(2), store.get("test", 1).labels)
    store.save(place)
    assert tool.study([tmp_path / "runs"], path, 1)[0]["columns"]["raw"] != [0.5] * 6


@pytest.mark.skipif(not STUDY.exists(), reason="no study is committed")
def test_the_summary_is_that_of_the_rows(tool: ModuleType) -> None:
    rows = tool.read(STUDY / "trials.json")
    assert (STUDY / "summary.md").read_text() == tool.summary(rows)


@pytest.mark.skipif(not STUDY.exists(), reason="no study is committed")
def test_the_page_has_the_tables_of_the_study(tool: ModuleType, tmp_path: Path) -> None:
    names = set()
    for page in (ROOT / "docs" / "adaptation.md", STUDY / "README.md"):
        copy = tmp_path / page.name
        copy.write_text(page.read_text())
        tool.write_page(copy, tool.tables(tool.read(STUDY / "trials.json")))
        rows = (STUDY / "variants.md").read_text().split("\n\n")[2].strip()
        tool.write_page(copy, {"variants": rows})
        assert copy.read_text() == page.read_text()
        names |= set(re.findall(r"<!-- table: ([\w-]+) -->\n\n\|", page.read_text()))
    assert {"short", "means", "gains", "worst", "wider", "ones", "ft", "variants"} == names

"""Results that are well typed and absurd: a sound page, or one line, in bounded time."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from report_results import made_up
from test_report import Balanced
from transil._common.typed import read_record
from transil.errors import TransilError
from transil.experiment.results import Results, Setting
from transil.report import figures_accuracy, figures_gains, figures_scores
from transil.report.drawing import Grid, Picture, TooLargeError, drawing
from transil.report.markdown_page import markdown_files
from transil.report.page import NAMES, report_files
from transil.report.parts import check_panels, parts_of
from transil.report.reading import read_reading, to_html
from transil.report.study import MOST, Study
from transil.report.tables import Entry, Row, Table, accuracy_table
from transil.report.texts import UNPRINTABLE, cleaned
from transil.report.wanted import wanted_by
from transil.report.writers import to_csv

RECIPE: dict[str, Any] = {
    "targets": ["cifar100"], "methods": ["lwf"], "states": [3], "seeds": [0, 1],
    "corrections": ["adbic"], "solvers": ["newton"], "transfer": ["mean"], "references": ["glyphs"],
    "ablation": True, "joint": True, "own_bound": True,
}  # fmt: skip
FACTS: dict[str, Any] = {
    "recipe": RECIPE, "classes_in_common": {"a and b": ["cat"]}, "same_names": {"a and b": ["cat"]},
    "references_of": {"cifar100": ["glyphs"]},
    "data_sets": {"cifar100": {"classes": ["a"], "images": {"train": 4}, "size": 32}},
    "runs": [{"run": "a", "seed": 0, "commit": "0123", "seconds": 1.5, "gpu_gigabytes": 2.0,
              "versions": {"torch": "2"}}],
}  # fmt: skip


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transil.report.parts._pictures", lambda _: ([], ""))


@pytest.fixture
def sketched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are put together, but not rendered."""

    def finish(grid: Grid, name: str, title: str, caption: str) -> Picture:
        return Picture(name, title, caption, '<svg width="1pt" viewBox="0 0 1 1"></svg>', b"")

    for module in (figures_accuracy, figures_gains, figures_scores):
        monkeypatch.setattr(module, "finish", finish)


@cache
def small() -> Results:
    made = made_up(targets=("cifar100",), methods=("lwf",), states=(3,), name="small")
    return replace(made, facts={**made.facts, **FACTS})


def pages(results: Results | list[Results]) -> dict[str, bytes]:
    """All files of both pages, which must be sound."""
    parts = parts_of(results)
    report, page = report_files(parts, Path("x")), markdown_files(parts, Path("y/z.md"))
    files = {**report.files, **page.files}
    assert all(report.names.fullmatch(name) or page.names.fullmatch(name) for name in files)
    for name, data in files.items():
        if name.endswith(".png"):
            continue
        text = data.decode()
        assert not UNPRINTABLE.search(text), name
        if name.endswith(".csv"):
            rows = list(csv.reader(io.StringIO(text)))
            assert {len(row) for row in rows} == {16}, name
    Balanced().check(report.files["report.html"].decode())
    for table in re.findall(r"(?:^\|.*\|\n)+", page.files["z.md"].decode(), re.M):
        assert len({line.count("|") for line in table.splitlines()}) == 1
    return files


def outcome(results: Results | Callable[[], Results]) -> str:
    """'page', or the one line of an error: of results as a file would have them."""
    try:
        data = asdict(results if isinstance(results, Results) else results())
        pages(read_record(json.loads(json.dumps(data)), Results, "results.json"))
    except TransilError as error:
        said = str(error)
    else:
        return "page"
    assert len(said.splitlines()) == 1
    assert len(said) < 300
    return said


def first(part: str, **changes: Any) -> Results:
    """Results in which the first entry of a part is another one."""
    results = small()
    entries = getattr(results, part)
    one = entries[0]
    at = {k: v for k, v in changes.items() if k in Setting.__dataclass_fields__}
    inner = {k: v for k, v in changes.items() if k not in at}
    if at and hasattr(one, "setting"):
        inner["setting"] = replace(one.setting, **at)
    else:
        inner |= at
    changed: dict[str, Any] = {part: [replace(one, **inner), *entries[1:]]}
    return replace(results, **changed)


@pytest.mark.parametrize(
    "changes",
    [
        {"cells": []}, {"details": []}, {"pairs": []}, {"cells": [], "details": [], "pairs": []},
        {"cells": [], "ablations": [], "singles": []}, {"joints": [], "failures": []},
        {"facts": {}},
    ],
)  # fmt: skip
@pytest.mark.usefixtures("sketched")
def test_what_is_not_there_is_left_out(changes: dict[str, Any]) -> None:
    assert outcome(replace(small(), **changes)) == "page"


@pytest.mark.parametrize(
    "part",
    [("cells", {"accuracy": []}), ("cells", {"states": 4}), ("cells", {"references": []}),
     ("cells", {"gain": None}), ("cells", {"kind": "other"}),
     ("cells", {"solver": None}), ("cells", {"target": ""}), ("cells", {"seed": 2**63 - 1}),
     ("pairs", {"references": [], "alpha": [], "beta": []}), ("cells", {"states": 10_000_000}),
     ("pairs", {"method": "other"}),
     ("ablations", {"counts": [], "mean": [], "std": [], "draws": []}),
     ("ablations", {"counts": [1, 1, 1, 1]}), ("ablations", {"target": "other"}),
     ("details", {"target": "other"}), ("details", {"name": "other"}),
     ("details", {"score_deviation": [0.0] * 3, "group_accuracy": [[None] * n for n in (1, 2, 3)]}),
     ("singles", {"target": "other"}), ("singles", {"fraction": 0.5}),
     ("joints", {"target": "other", "seed": 7})],
)  # fmt: skip
@pytest.mark.usefixtures("sketched")
def test_what_may_be_is_drawn(part: tuple[str, dict[str, Any]]) -> None:
    parts = parts_of(first(part[0], **part[1]))
    assert parts.tables
    assert not parts.undrawn
    assert len(parts.pictures) >= 5


@pytest.mark.usefixtures("undrawn")
def test_states_of_one_and_duplicates() -> None:
    results = small()
    assert outcome(replace(results, cells=results.cells * 2, joints=results.joints * 3)) == "page"
    # There is no mean over states 2..S.
    cells = [replace(c, setting=replace(c.setting, states=1), accuracy=c.accuracy[:1], gain=None)
             for c in results.cells]  # fmt: skip
    assert outcome(replace(results, cells=cells)) == "page"


NASTY = ("../../etc/passwd", "a/b\\c", "x" * 5000, "\x1b[31mred\x07\x00", "a\r\nb\tc", "\ud800\uffff",
         "\u202egnp.exe", "<script>alert(1)</script>", "</style><img src=x onerror=y>",
         "$x$ \\input{/etc/passwd} %^~_&#{}", "=cmd|'/c calc'!A1", "@SUM(1+1)*cmd|x", "+1-1|x!y",
         "|a|b|\n\n# x", "```\n~~~\n---", "[a](javascript:x) ![b](http://x)", "猫 ü 👩‍👩‍👧 \u0301", "",
         " ", "-", "#", "%s{0}{x}", "nan", "left out")  # fmt: skip


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("name", NASTY)
def test_nasty_names_stay_text(name: str) -> None:
    made = made_up(
        targets=(name,), methods=(name,), states=(3,), solvers=(name,), name=name, traffic=True
    )
    traffic = [replace(a, correction=name, name=a.name + name) for a in made.traffic]
    cells = [replace(c, name=name, run=name, bank=name, references=[name]) if c.kind == "transfer"
             else c for c in made.cells]  # fmt: skip
    facts = {name: name, "limits": [name], "differs": name, "runs": [{"run": name, "commit": name}],
             "data_sets": {name: {"fingerprint": name}}, "recipe": {**RECIPE, name: [name]},
             "classes_in_common": {name: name}, "versions": {name: name}}  # fmt: skip
    files = pages(replace(made, cells=cells, traffic=traffic, facts=facts))
    for file in (n for n in files if n.endswith((".html", ".md"))):
        text = re.sub(r"^```.*?^```$", "", files[file].decode(), flags=re.S | re.M)
        assert "<script>alert" not in text
        assert "<img" not in text
        assert not re.search(r"(?<!\\)\]\(javascript:", text) or file.endswith(".html")
    for text in (files[n].decode() for n in files if n.endswith(".tex")):
        assert "\\input{" not in text
    for text in (files[n].decode() for n in files if n.endswith(".csv")):
        for cell in (cell for row in csv.reader(io.StringIO(text)) for cell in row):
            assert not re.match(r"[=@\t\r]", cell)
            assert cell[:1] not in ("+", "-") or not re.search(r"[|!=\"/]", cell)


@pytest.mark.usefixtures("undrawn")
def test_links_stay_in_the_place() -> None:
    files = pages(first("joints", run="//evil.example/x"))
    assert 'href="//evil' not in files["report.html"].decode()
    assert 'href="/evil.example/x"' in files["report.html"].decode()


def test_nasty_names_are_drawn() -> None:
    """All at once: drawing takes long."""
    results = small()
    details = [replace(results.details[0], name="\x1b$x$" * 900), *results.details[1:]]
    name = "".join(NASTY)
    singles = [replace(s, reference=s.reference + name) for s in results.singles]
    cells = [replace(c, setting=replace(c.setting, target=name)) for c in results.cells]
    results = replace(results, details=details, singles=singles, cells=results.cells + cells)
    rows = made_up(states=(5,), traffic=True).traffic
    results = replace(results, traffic=[replace(a, name=a.name + name) for a in rows])
    files = pages(results)
    assert len([n for n in files if n.startswith("figures/") and n.endswith(".svg")]) >= 5
    assert not any(b"<script" in files[n] for n in files if n.endswith(".svg"))


@pytest.mark.parametrize(
    ("text", "written"),
    [("=1+1", "'=1+1"), ("@x", "'@x"), ("\tx", "'\tx"), ("+x|y", "'+x|y"), ("-2+cmd!A1", "'-2+cmd!A1"),
     ("+ adBiC, oracle (newton)", "+ adBiC, oracle (newton)"), ("-1.5", "-1.5"), ("-", "-"),
     ("a=b", "a=b"), ("'=x", "'=x")],
)  # fmt: skip
def test_no_cell_of_a_csv_is_a_formula(text: str, written: str) -> None:
    table = Table("t", "T", "s", (("", text),), (Row(text, text, (Entry(text=text),)),))
    row = next(csv.DictReader(io.StringIO(to_csv(table))))
    assert [row[key] for key in ("block", "row", "column", "text")] == [written] * 4


def test_fractions_that_look_alike_have_tables_of_their_own() -> None:
    made = made_up(targets=("t",), methods=("m",), states=(2,), fractions=(0.1234567, 0.1234568))
    found = [accuracy_table(Study([made]), f).name for f in (0.1234567, 0.1234568, 0.25)]
    assert found == ["table-2-0_1234567", "table-2-0_1234568", "table-2-0_25"]
    assert all(NAMES.fullmatch(f"tables/{name}.csv") for name in [*found, "table-2-1e-07"])


# Facts are free: whatever stands there must not stop a page.
leaf = st.none() | st.booleans() | st.integers(-9, 10**20) | st.floats() | st.text(max_size=4)
free = st.recursive(
    leaf, lambda x: st.lists(x, max_size=3) | st.dictionaries(st.text(max_size=3), x, max_size=3),
    max_leaves=6,
)  # fmt: skip


def paths(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places in a tree of facts."""
    yield at
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(
        value, list) else ()  # fmt: skip
    for key, inner in items:
        yield from paths(inner, (*at, key))


def put(value: Any, at: tuple[Any, ...], new: Any) -> Any:
    if not at:
        return new
    made = dict(value) if isinstance(value, dict) else list(value)
    made[at[0]] = put(value[at[0]], at[1:], new)
    return made


PLACES = [at for at in paths(small().facts) if at]


@settings(max_examples=50)
@given(st.sampled_from(PLACES), free)
def test_facts_of_any_kind(at: tuple[Any, ...], new: Any) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("transil.report.parts._pictures", lambda _: ([], ""))
        results = small()
        found = outcome(replace(results, facts=put(results.facts, at, new)))
    assert found == "page" or "facts" in found or "first_classes" in found


number = st.sampled_from((0.0, 1.0, 0.5, -0.5, 7.0, 1e-320, 1e308, math.nan, math.inf, 1 + 1e-10))
MUTATIONS: tuple[Callable[[Any], st.SearchStrategy[Any]], ...] = (
    lambda old: st.just(old),
    lambda old: number if isinstance(old, float) else st.integers(-1, 6) if isinstance(old, int)
    else st.sampled_from(NASTY) if isinstance(old, str) or old is None else st.just(old),
    lambda old: st.just(old[:-1] if isinstance(old, list) else old),
    lambda old: st.just(old + old[:1] if isinstance(old, list) else old),
    lambda old: st.just([] if isinstance(old, list) else old),
)  # fmt: skip


@settings(max_examples=60)
@given(st.data())
def test_mutations_give_a_page_or_one_line(data: st.DataObject) -> None:
    """Any field of any entry, of the right type and a wrong kind; entries twice or missing."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("transil.report.parts._pictures", lambda _: ([], ""))
        outcome(lambda: mutated(data))


def mutated(data: st.DataObject) -> Results:
    results = small()
    for _ in range(data.draw(st.integers(1, 3))):
        part = data.draw(st.sampled_from(
            ("cells", "details", "pairs", "ablations", "singles", "joints", "failures")))  # fmt: skip
        entries = list(getattr(results, part))
        if not entries:
            continue
        i = data.draw(st.integers(0, len(entries) - 1))
        one = entries[i]
        key = data.draw(st.sampled_from(sorted(vars(one))))
        change = data.draw(st.sampled_from(MUTATIONS))
        old = getattr(one, key)
        if isinstance(old, Setting):
            inner = data.draw(st.sampled_from(sorted(vars(old))))
            new: Any = replace(old, **{inner: data.draw(change(getattr(old, inner)))})
        else:
            new = data.draw(change(old))
        entries[i] = replace(one, **{key: new})
        changed: dict[str, Any] = {part: data.draw(st.just(entries) | change(entries))}
        results = replace(results, **changed)
    return results


@pytest.mark.parametrize(
    "recipe",
    [{"targets": ["t"] * 3000, "seeds": [0] * 3000, "methods": [], "joint": True},
     {"corrections": ["c"] * 200, "solvers": ["s"] * 200, "transfer": ["t"] * 200}],
)  # fmt: skip
def test_a_recipe_that_would_be_counted_for_ever(recipe: dict[str, Any]) -> None:
    with pytest.raises(TransilError, match="the recipe in these results asks for [0-9,]+ numbers"):
        wanted_by([{"recipe": {**RECIPE, **recipe}}])


@pytest.mark.usefixtures("undrawn")
def test_large_results_take_bounded_time() -> None:
    began = time.process_time()
    setting = Setting("t", "m", 3)
    cell = replace(small().cells[0], kind="transfer")
    apart = [replace(cell, setting=replace(setting, target=f"t{i}", method=f"m{i}"))
             for i in range(5000)]  # fmt: skip
    with pytest.raises(TransilError, match="5,001 methods and .* do not fit into a table; "):
        Study([Results("x", apart), replace(small(), facts={})])
    rows = [replace(cell, name=f"n{i}", setting=replace(setting, target=f"t{i}"))
            for i in range(1000)]  # fmt: skip
    found = outcome(replace(small(), cells=rows))
    assert re.search(r"rows and [\d,]+ columns do not fit into a table", found)
    fractions = [replace(small().cells[0], setting=replace(setting, fraction=1 / (i + 1)))
                 for i in range(100)]  # fmt: skip
    assert "different shares of training images" in outcome(replace(small(), cells=fractions))
    assert time.process_time() - began < 5


@pytest.mark.usefixtures("undrawn")
def test_thousands_of_settings_make_a_page() -> None:
    """Ten thousand settings took minutes; the time must grow no faster than their number."""
    many = tuple(f"n{i}" for i in range(5))
    results = made_up(targets=many, methods=many, states=tuple(range(2, 7)), seeds=tuple(range(4)))
    results = replace(results, cells=[replace(c, references=[]) for c in results.cells])
    assert len({c.setting for c in results.cells}) == 500
    began = time.process_time()
    parts = parts_of(results)
    assert time.process_time() - began < 3
    table = next(t for t in parts.tables if t.name == "table-1")
    assert len(table.rows) == 5 * 7 + 1
    assert len(table.rows) * len(table.columns) < MOST


@pytest.mark.usefixtures("sketched")
def test_figures_that_nobody_could_look_at_are_not_drawn() -> None:
    results = small()
    before, after = results.details
    details = [replace(d, setting=replace(d.setting, target=f"t{i}"))
               for i in range(500) for d in (before, after)]  # fmt: skip
    parts = parts_of(replace(results, details=details))
    assert parts.pictures == []
    assert parts.undrawn.startswith("No figures: 501 targets, 1 method and 1 number of states")
    check_panels(Study([results]))
    lines = [replace(results.cells[3], name=f"n{i}") for i in range(5000)]
    one = replace(
        results, cells=results.cells + lines, ablations=[], details=[], pairs=[], singles=[]
    )
    parts = parts_of(one)
    assert parts.undrawn == "Too large to be drawn: Table 1 as a picture."
    assert [p.name for p in parts.pictures] == ["figure-5"]
    with drawing():
        for rows, columns, legend in ((1000, 1, 0), (40, 40, 0), (1, 2, 3000)):
            with pytest.raises(TooLargeError, match="panels is too large"):
                Grid([""] * rows, [""] * columns, (1.0, 1.0), legend=["a"] * legend)


@pytest.mark.parametrize("text", [
    "**a " * 60_000, "```x\n" * 60_000, "[a](" * 60_000, "*a " * 60_000, "`" * 300_000,
    "\n \n" * 100_000, "- " * 100_000,
])  # fmt: skip
def test_a_nasty_reading_takes_bounded_time(text: str) -> None:
    began = time.process_time()
    assert len(to_html(text)) < 10_000_000
    assert time.process_time() - began < 9


def test_a_reading_is_a_plain_file_of_some_pages(tmp_path: Path) -> None:
    (tmp_path / "reading.md").write_bytes(b"a\x1b[31m\xff\r\nb")
    assert read_reading(tmp_path) == "a�[31m�\nb"
    (tmp_path / "reading.md").write_bytes(b"a" * 1_100_000)
    with pytest.raises(TransilError, match=r"reading\.md: larger than 1 MiB"):
        read_reading(tmp_path)
    assert "fence" in to_html("```\nnever closed fence")


def test_clean_results_stay_themselves() -> None:
    results = small()
    assert cleaned(results).cells is results.cells
    dirty = replace(results, name="a\x1bb")
    assert cleaned(dirty).name == "a�b"
    assert json.dumps(cleaned(dirty).facts) == json.dumps(results.facts)

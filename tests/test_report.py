"""The report: right numbers in every format, nothing from outside, the same bytes twice."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from statistics import fmean, stdev

import numpy as np
import pytest

from report_results import REFERENCES, made_up
from support import probed
from transil.errors import TransilError
from transil.experiment.results import Cell, Failure, Results, Setting
from transil.report import paper, write_report
from transil.report.headline import Headline, headlines, summary_table
from transil.report.more_tables import ablation_table, matrix_table
from transil.report.names import Line, interval, signed
from transil.report.study import Study
from transil.report.tables import Entry, Table, accuracy_table
from transil.report.writers import to_csv, to_markdown, to_tex

ODD = "<script>alert(1)</script> 50%_a&b #1 $x$ {y} \\z ~^ [*|` ü 猫"


def cell(
    setting: Setting, kind: str = "raw", average: float = 0.5, gain: float | None = None,
    name: str = "raw", run: str = "runs/a", bank: str | None = None,
) -> Cell:  # fmt: skip
    solver, transfer = ("newton", "mean") if kind == "transfer" else (None, None)
    low, high = (None, None) if gain is None else (gain - 0.01, gain + 0.01)
    return Cell(setting, kind, name, solver, transfer, [], [0.9, average], average, gain,
                low, high, run, bank)  # fmt: skip


def entry(table: Table, name: str, column: tuple[str, str]) -> Entry:
    row = next(r for r in table.rows if r.name == name)
    return row.entries[table.columns.index(column)]


@pytest.fixture(scope="module")
def small() -> Results:
    return made_up(seeds=(0, 1), fractions=(1.0, 0.5))


@pytest.fixture(scope="module")
def page(small: Results, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(small, tmp_path_factory.mktemp("report"))


def test_paper_numbers() -> None:
    assert paper.accuracy("lucir", "cifar100", 10, 1.0, "adbic") == 42.2
    assert paper.accuracy("lwf", "imn100", 5, 1.0, "bic") == 54.7
    assert paper.accuracy("ft+", "food100", 20, 1.0, "oracle") == 14.5
    assert paper.accuracy("siw", "birds100", 20, 1.0, "raw") == 14.9
    assert paper.accuracy("lucir", "places100", 10, 0.5, "adbic") == 33.6
    assert paper.accuracy("siw", "imn100", 20, 0.5, "adbic") == 12.2
    assert paper.with_references("lucir", "food100", 20, 1) == (17.6, 1.2)
    assert paper.with_references("ft+", "cifar100", 10, 10) == (23.6, None)
    assert paper.joint("food100") == 71.03


@pytest.mark.parametrize(
    ("method", "target", "states", "fraction", "line"),
    [
        ("lwf", "mini-imagenet", 10, 1.0, "raw"),  # other images than the paper's IMN-100
        ("lwf-t", "cifar100", 10, 1.0, "raw"),
        ("lwf", "cifar100", 4, 1.0, "raw"),
        ("lwf", "cifar100", 10, 0.25, "raw"),
        ("lwf", "places100", 10, 1.0, "bic"),
        ("ft+", "places100", 10, 0.5, "raw"),  # not given
    ],
)
def test_the_paper_has_no_such_number(
    method: str, target: str, states: int, fraction: float, line: str
) -> None:
    assert paper.accuracy(method, target, states, fraction, line) is None


def test_table_1_holds_means_over_seeds(small: Results) -> None:
    table = accuracy_table(Study([small]), 1.0)
    cells = [c for c in small.cells if c.setting.target == "cifar100"
             and c.setting.method == "lucir" and c.setting.states == 10
             and c.setting.fraction == 1.0 and (c.name, c.transfer) == ("adbic", "mean")]  # fmt: skip
    found = entry(table, "LUCIR + adBiC", ("CIFAR-100", "S = 10"))
    averages = [100 * c.average for c in cells]
    assert len(averages) == 2
    assert found.value == pytest.approx(fmean(averages))
    assert found.std == pytest.approx(stdev(averages))
    assert found.gain == pytest.approx(100 * fmean(c.gain or 0 for c in cells))
    assert found.low == pytest.approx(100 * fmean(c.low or 0 for c in cells))
    assert found.paper == 42.2
    assert [s.run for s in found.sources] == [c.run for c in cells]
    assert [r.name for r in table.rows[:7]] == [
        "LwF", "LwF + align (control)", "LwF + shift (control)", "LwF + BiC", "LwF + adBiC",
        "LwF + adBiC, oracle", "LwF + adBiC, own validation",
    ]  # fmt: skip
    assert entry(table, "LwF", ("mini-imagenet", "S = 5")).paper is None
    oracle = entry(table, "LwF + adBiC, oracle", ("CIFAR-100", "S = 5"))
    assert oracle.paper == 54.9
    assert not oracle.best


def test_table_2_is_its_own(small: Results) -> None:
    table = accuracy_table(Study([small]), 0.5)
    assert table.name == "table-2"
    found = entry(table, "LwF + adBiC", ("CIFAR-100", "S = 5"))
    assert found.paper == 42.1
    assert entry(table, "LwF + BiC", ("CIFAR-100", "S = 5")).paper is None


def test_best_of_method_and_column() -> None:
    a, b = Setting("t", "lwf", 5), Setting("t", "lucir", 5)
    results = Results("r", [
        cell(a, average=0.50), cell(a, "transfer", 0.52, 0.02, "adbic"),
        cell(a, "control", 0.51, 0.01, "align"),
        cell(b, average=0.60), cell(b, "transfer", 0.55, -0.05, "adbic"),
    ])  # fmt: skip
    table = accuracy_table(Study([results]), 1.0)
    marks = {r.name: (r.entries[0].best, r.entries[0].top) for r in table.rows}
    assert marks == {
        "LwF": (False, False), "LwF + align (control)": (False, False),
        "LwF + adBiC": (True, False), "LUCIR": (True, True), "LUCIR + adBiC": (False, False),
    }  # fmt: skip
    found = {h.method: h for h in headlines(Study([results]))}
    assert found["lwf"].leads == [pytest.approx(1.0)]
    assert found["lwf"].verdict == "yes, everywhere"
    assert (found["lwf"].better, found["lucir"].worse) == (1, 1)
    assert found["lucir"].verdict == "no control was run"
    assert "\N{MINUS SIGN}5.0 points" in found["lucir"].sentence
    # A control that harms is no excuse: leaving the scores alone is one, too.
    results.cells.append(cell(b, "control", 0.50, -0.10, "align"))
    harmed = next(h for h in headlines(Study([results])) if h.method == "lucir")
    assert harmed.leads == [pytest.approx(-5.0)]
    assert harmed.verdict == "no, nowhere"


@pytest.mark.parametrize(
    ("better", "worse", "leads", "said"),
    [
        (1, 0, [1.25], "This is more than chance. It is 1.2 points ahead of the best control."),
        (0, 1, [], "This loss is more than chance. No control was run."),
        (
            0,
            0,
            [-1.0],
            "This may be chance. The best control does as well or better (\N{MINUS SIGN}1.0 points).",
        ),
    ],
)
def test_the_sentence_of_one_setting(
    better: int, worse: int, leads: list[float], said: str
) -> None:
    found = Headline("lwf", [2.0], 1.0, 3.0, better, worse, leads)
    assert found.sentence == f"+2.0 points of average accuracy, 95 % interval [+1.0, +3.0]. {said}"


@pytest.mark.parametrize(
    ("better", "worse", "said"),
    [
        (3, 0, "More than chance in all 3 settings."),
        (0, 3, "A loss in all 3 settings, more than chance."),
        (1, 2, "More than chance in 1 of 3 settings, a loss in 2."),
        (0, 1, "More than chance in none of 3 settings, a loss in 1; the others may be chance."),
    ],
)
def test_the_sentence_of_several(better: int, worse: int, said: str) -> None:
    found = Headline("lwf", [2.0] * 3, None, None, better, worse, [1.0, -1.0, 3.0])
    ahead = "Ahead of the best control in 2 of 3 settings (+1.0 points on average)."
    assert found.sentence == f"+2.0 points of average accuracy. {said} {ahead}"


def test_four_numbers_and_the_best_row(small: Results) -> None:
    """What the newest group pays stands in the headline; the best row is marked whichever it is."""
    study = Study([small])
    table = summary_table(study)
    assert table is not None
    assert [c for _, c in table.columns] == [
        "average",
        "last state",
        "newest group",
        "earlier groups",
    ]
    raw, better = (row.entries for row in table.rows[:2])
    of = [c for c in small.cells if (c.setting.method, c.setting.fraction) == ("lwf", 1.0)]
    plain = [c for c in of if c.kind == "raw"]
    newest = [fmean(row[-1] or 0 for row in d.group_accuracy[1:]) for d in small.details
              if d.setting.method == "lwf" and d.name == "raw"]  # fmt: skip
    assert raw[0].value == pytest.approx(100 * fmean(c.average for c in plain))
    assert raw[1].value == pytest.approx(100 * fmean(c.accuracy[-1] for c in plain))
    assert raw[2].value == pytest.approx(100 * fmean(newest))
    assert better[2].gain == pytest.approx((better[2].value or 0) - (raw[2].value or 0))
    assert [row.best for row in table.rows[:2]] == [False, True]
    # Another correction than the main one.
    lifted = [replace(c, average=c.average + 0.2) if c.name == "shift" else c for c in small.cells]
    study = Study([replace(small, cells=lifted)])
    table = summary_table(study)
    assert table is not None
    assert [row.name for row in table.rows if row.best] == [
        "LwF + shift (control)",
        "LUCIR + shift (control)",
    ]
    best = [row.name for row in accuracy_table(study, 1.0).rows if row.best]
    assert best == ["LwF + shift (control)", "LUCIR + shift (control)"]


def test_missing_cells_stay_missing(tmp_path: Path) -> None:
    cells = [cell(Setting("a", "lwf", 5)), cell(Setting("b", "siw", 10), run="runs/b")]
    table = accuracy_table(Study([Results("r", cells)]), 1.0)
    assert [[e.value for e in r.entries] for r in table.rows] == [[50.0, None], [None, 50.0]]
    assert "| LwF | 50.0 | - |" in to_markdown(table)
    assert "SIW & - & 50.0" in to_tex(table)
    text = write_report(Results("r", cells), tmp_path).read_text()
    assert text.count('none">-</td>') == 2


def test_missing_cells_are_not_filled_by_the_paper() -> None:
    cells = [cell(Setting("cifar100", "lwf", 5)), cell(Setting("food100", "lucir", 5))]
    table = accuracy_table(Study([Results("r", cells)]), 1.0)
    assert table.rows[0].entries[1] == Entry()


def test_ablation_and_matrix(small: Results) -> None:
    study = Study([small])
    table = ablation_table(study)
    assert table is not None
    known = next(a for a in small.ablations if a.setting.method == "lwf"
                 and a.setting.target == "cifar100" and a.setting.states == 5)  # fmt: skip
    row = next(r for r in table.rows if r.name == "LwF, CIFAR-100, S = 5")
    assert [e.value for e in row.entries[1:]] == pytest.approx([100 * m for m in known.mean])
    assert row.entries[1].std == pytest.approx(100 * known.std[0])
    raw = next(c for c in small.cells if c.setting == known.setting and c.kind == "raw")
    assert row.entries[0].value == pytest.approx(100 * raw.average)  # of the same seed
    assert row.entries[1].gain == pytest.approx(100 * (known.mean[0] - raw.average))
    assert row.entries[-1].std is None  # one draw has no spread
    assert (row.entries[1].paper, row.entries[1].paper_std) == (54.3, 0.2)
    matrix = matrix_table(study)
    assert matrix is not None
    assert [r.label for r in matrix.rows[:5]] == REFERENCES
    assert entry(matrix, "LwF, textures_1", ("CIFAR-100", "S = 5")) == Entry()
    single = next(s for s in small.singles if s.reference == "glyphs"
                  and s.setting == Setting("cifar100", "lucir", 10))  # fmt: skip
    found = entry(matrix, "LUCIR, glyphs", ("CIFAR-100", "S = 10"))
    assert (found.value, found.gain) == pytest.approx((100 * single.average, 100 * single.gain))


def test_csv_parses_back(small: Results) -> None:
    table = accuracy_table(Study([small]), 1.0)
    lines = list(csv.DictReader(io.StringIO(to_csv(table))))
    assert len(lines) == len(table.rows) * len(table.columns)
    entries = [e for r in table.rows for e in r.entries]
    for line, e in zip(lines, entries, strict=True):
        assert (float(line["value"]) if line["value"] else None) == (
            None if e.value is None else pytest.approx(e.value, abs=1e-4)
        )
        assert line["runs"] == "; ".join(s.run for s in e.sources)


def test_odd_names(tmp_path: Path) -> None:
    setting = Setting(ODD, ODD, 2)
    odd_run = 'runs/a b"<x>:%'
    results = Results(
        ODD,
        [cell(setting, run=odd_run), cell(setting, "transfer", 0.6, 0.1, ODD, odd_run, "b#.json")],
        failures=[Failure(ODD, ODD, ODD)],
        facts={ODD: ODD, "limits": [ODD], "nested": {"a_b": [{"x": ODD}]}},
    )
    text = write_report(results, tmp_path).read_text()
    assert "<script>alert" not in text
    assert text.count("&lt;script&gt;") > 5
    assert 'href="runs/a%20b%22%3Cx%3E%3A%25"' in text
    assert 'href="b%23.json"' in text
    Balanced().check(text)
    table = accuracy_table(Study([results]), 1.0)
    latex = to_tex(table)
    for piece in (r"50\%\_a\&b \#1 \$x\$ \{y\} \textbackslash{}z", "ü 猫", r"\textless{}script"):
        assert piece in latex
    for line in latex.splitlines():
        unescaped = re.sub(r"\\.", "", line).replace("{!}{%", "")
        assert "%" not in unescaped or line.startswith("% needs")
        assert unescaped.count("{") == unescaped.count("}") or "resizebox" in line or "}}" in line
    markdown = to_markdown(table)
    assert "<script>" not in markdown
    assert "&#124;" in markdown
    columns = [x.count("|") for x in markdown.splitlines() if x[:1] == "|"]
    assert len(set(columns)) == 1
    assert next(csv.DictReader(io.StringIO(to_csv(table))))["group"] == ODD


class Balanced(HTMLParser):
    """Tags close in the order in which they open; collects ids, links and sources."""

    VOID = frozenset(("meta", "br", "hr", "img", "link", "input"))

    def __init__(self) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {k: v or "" for k, v in attrs}
        self.ids += [values["id"]] if "id" in values else []
        if tag == "a":
            self.links.append(values["href"])
        else:
            self.loaded += [values[k] for k in ("src", "href", "xlink:href", "data") if k in values]
        if tag not in self.VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.stack.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag

    def check(self, text: str) -> None:
        self.feed(text)
        self.close()
        assert self.stack == []
        assert len(self.ids) == len(set(self.ids))


def test_page_stands_alone(page: Path, small: Results) -> None:
    text = page.read_text()
    seen = Balanced()
    seen.check(text)
    assert "http" not in text
    assert "@import" not in text
    assert "url(" not in re.sub(r"url\(#[^)]*\)", "", text)
    assert all(x.startswith(("#", "data:image/png;base64")) for x in seen.loaded)
    inside = [x[1:] for x in seen.links + seen.loaded if x.startswith("#")]
    assert set(inside) <= set(seen.ids)
    used = set(re.findall(r"url\(#([^)]*)\)", text))
    assert used <= set(seen.ids)
    outside = {x for x in seen.links if not x.startswith("#")}
    assert {c.run for c in small.cells} <= outside
    assert {c.bank for c in small.cells if c.bank} <= outside
    files = [x for x in outside if x.startswith(("tables/", "figures/"))]
    assert files
    assert all((page.parent / x).is_file() for x in files)


def test_page_says_what_it_should(page: Path) -> None:
    text = page.read_text()
    for piece in (
        '<html lang="en">', 'name="viewport"', "prefers-color-scheme:dark", 'scope="row"',
        "Images have 32 pixels, the paper&#39;s 224.", "CUDA out of memory", "epoch 39: loss",
        "paper 42.2", "here: 32 pixels, 5 references, epochs in a state: LwF 70, LUCIR 160.",
        "Table 2: average accuracy with 50% of the training images", "the last 20 of 40 lines",
        "Figure 3: what is transferred", "targets: [cifar100]", 'role="img" aria-label="Figure 2',
    ):  # fmt: skip
        assert piece in text, piece
    assert "epoch 19: loss" not in text  # only the tail of a log
    assert text.count("<figure") == text.count("<figcaption")
    names = {p.stem for p in (page.parent / "figures").glob("*.svg")}
    assert names == {"gains", "figure-2", "figure-3", "figure-4", "figure-4-2", "figure-5",
                     "table-3-references", "transfer-matrix"}  # fmt: skip
    captions = (page.parent / "figures" / "captions.md").read_text()
    for name in names:
        assert f"**{name}**" in captions
        assert (page.parent / "figures" / f"{name}.png").read_bytes()[:4] == b"\x89PNG"


def test_links_lead_from_the_report_to_the_runs(tmp_path: Path) -> None:
    setting = Setting("cifar100", "lwf", 5)
    better = cell(setting, "transfer", 0.6, 0.1, "adbic", "runs/a", "b.json")
    results = Results("r", [cell(setting), better])
    text = write_report(results, tmp_path / "1").read_text()
    assert '<a href="runs/a">60.0</a>' in text
    assert '<a href="b.json">+10.0</a>' in text
    moved = results.seen_from(tmp_path / "1", tmp_path / "2" / "deep")
    text = write_report(moved, tmp_path / "2" / "deep").read_text()
    assert '<a href="../../1/runs/a">60.0</a>' in text
    assert '<a href="../../1/b.json">+10.0</a>' in text


def test_same_bytes(small: Results, page: Path, tmp_path: Path) -> None:
    small.save(tmp_path)
    write_report(Results.load(tmp_path), tmp_path / "again")
    first = {p.relative_to(page.parent): p.read_bytes() for p in page.parent.rglob("*.*")}
    again = tmp_path / "again"
    assert first == {p.relative_to(again): p.read_bytes() for p in again.rglob("*.*")}


@pytest.mark.parametrize("results", [[], [Results("a")], Results("b", facts={"commit": "x"})])
def test_nothing_to_report(results: Results | list[Results], tmp_path: Path) -> None:
    with pytest.raises(TransilError, match="^no results to report[^\n]*$"):
        write_report(results, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_an_earlier_report_had_is_taken_away(
    small: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transil.report.parts._pictures", lambda _: ([], ""))
    write_report(small, tmp_path)
    (tmp_path / "tables" / "mine.csv").write_text("kept")
    (tmp_path / "figures").mkdir()
    for name in ("transfer-matrix.svg", "figure-4-2.png", "mine.png"):
        (tmp_path / "figures" / name).write_text("of somebody else")
    before = {p.name for p in (tmp_path / "tables").iterdir()}
    write_report(replace(small, ablations=[], singles=[]), tmp_path)
    gone = before - {p.name for p in (tmp_path / "tables").iterdir()}
    kinds = ("md", "csv", "tex")
    assert gone == {f"{t}.{k}" for t in ("table-3", "transfer-matrix") for k in kinds}
    assert len(list((tmp_path / "figures").iterdir())) == 3


def test_only_failures(tmp_path: Path) -> None:
    results = Results("r", failures=[Failure("lwf on x", "no such folder")])
    assert "no such folder" in write_report(results, tmp_path).read_text()


def test_merged(tmp_path: Path) -> None:
    a, b = Setting("a", "lwf", 5), Setting("b", "lwf", 5)
    old = Results("first", [cell(a, average=0.1), cell(b, average=0.2)], facts={"commit": "111"})
    new = Results("second", [cell(a, average=0.3, run="runs/new"),
                             cell(Setting("c", "siw", 10), average=0.4)],
                  facts={"commit": "222", "limits": "one sentence"})  # fmt: skip
    study = Study([old, new])
    assert (study.targets, study.methods) == (["a", "b", "c"], ["lwf", "siw"])
    raw = Line("raw", "raw")
    values = [study.get((t, m, s, 1.0), raw) for t, m, s in
              (("a", "lwf", 5), ("b", "lwf", 5), ("c", "siw", 10))]  # fmt: skip
    assert [v.average for v in values if v] == [0.3, 0.2, 0.4]
    text = write_report([old, new], tmp_path).read_text()
    for piece in ("first and second", "111", "222", "one sentence", 'href="runs/new"'):
        assert piece in text


def test_solvers_have_rows_and_the_first_is_shown() -> None:
    results = made_up(targets=("cifar100",), methods=("lwf",), states=(5,),
                      solvers=("authors", "newton"))  # fmt: skip
    study = Study([results])
    table = accuracy_table(study, 1.0)
    assert [r.label for r in table.rows[3:7]] == [
        "+ BiC (authors)", "+ BiC (newton)", "+ adBiC (authors)", "+ adBiC (newton)",
    ]  # fmt: skip
    assert study.main == Line("transfer", "adbic", "authors", "mean")


def test_a_long_table_shows_bounds_and_other_solvers_apart(tmp_path: Path) -> None:
    results = made_up(methods=("lwf", "lucir", "siw"), states=(5,), solvers=("newton", "authors"))
    table = accuracy_table(Study([results]), 1.0)
    first, rest = table.parts()
    assert rest is not None
    assert first.notes[:-1] == table.notes
    assert not rest.notes
    assert set(first.rows) | set(rest.rows) == set(table.rows)
    assert {row.kind for row in first.rows} == {"raw", "control", "transfer", "joint"}
    assert not any("authors" in row.label for row in first.rows)
    assert all("authors" in row.label or row.kind == "bound" for row in rest.rows)
    page = write_report(results, tmp_path).read_text()
    folded = page.split("<summary>Bounds and other solvers</summary>")[1].split("</details>")[0]
    assert all(f">{row.label}<" in folded for row in rest.rows)
    assert "Pairs are transferred to CIFAR-100 from fractals-a, fractals-b" in page
    written = (tmp_path / "tables" / "table-1.md").read_text()
    assert "BiC, oracle" in written
    assert "authors" in written
    short = accuracy_table(Study([made_up(methods=("lwf",), states=(5,))]), 1.0)
    assert short.parts() == (short, None)


def test_holes_in_details(tmp_path: Path) -> None:
    """A group without test images, one target without a method, a part without its raw model."""
    results = made_up(targets=("a", "b"), states=(4,))
    details = [
        replace(d, group_accuracy=[[None] * (s + 1) for s in range(4)])
        if d.setting.target == "a" else d
        for d in results.details
        if not (d.setting.target == "b" and d.setting.method == "lwf")
    ]  # fmt: skip
    cells = [c for c in results.cells if not (c.setting.target == "a" and c.kind == "raw")]
    text = write_report(replace(results, details=details, cells=cells), tmp_path).read_text()
    assert "not run" in text
    assert "nan" not in text.lower().replace("finance", "")


def test_a_control_far_outside_does_not_squeeze_the_gains(tmp_path: Path) -> None:
    from transil.report.figures_gains import _limits, _Point

    transfer, control = Line("transfer", "adbic", "newton", "mean"), Line("control", "shift")
    points = {(transfer, 5): [_Point(0.0, 2.0, 1.5, 2.5)]}
    assert _limits(points) == pytest.approx((-0.125, 2.625))
    near = {**points, (control, 5): [_Point(0.2, -1.0, -1.5, -0.5)]}
    assert _limits(near) == pytest.approx((-1.7, 2.7))
    far = {**points, (control, 5): [_Point(0.2, -18.0, -19.0, -17.0)]}
    assert _limits(far) == pytest.approx((-0.4, 2.625))
    assert _limits({(control, 5): far[control, 5]})[0] < -19  # nothing else to be squeezed
    setting = Setting("t", "lwf", 5)
    results = Results("r", [
        cell(setting), cell(setting, "transfer", 0.52, 0.02, "adbic"),
        cell(setting, "control", 0.32, -0.18, "shift"), cell(setting, "control", 0.9, 0.4, "align"),
    ])  # fmt: skip
    write_report(results, tmp_path)
    assert (tmp_path / "figures" / "gains.png").stat().st_size > 1000


def test_a_correction_has_one_style_whatever_stands_beside_it() -> None:
    from transil.report.figures_gains import _styles
    from transil.report.palette import bank_styles

    lines = [Line("transfer", name, "newton", "mean") for name in ("bic", "own", "adbic", "mine")]
    together = _styles([Line("control", "align"), *lines])
    assert len(set(together.values())) == 5
    for line in lines[:3]:
        assert _styles([line]) == {line: together[line]}
    median = Line("transfer", "adbic", "newton", "median")
    assert _styles([median])[median][0] == together[lines[2]][0]  # another marker, one colour
    assert _styles([median])[median] != together[lines[2]]
    several = bank_styles({"a": "adbic", "b": "adbic", "c": "bic"})
    assert (several["a"], several["c"]) == (together[lines[2]], together[lines[0]])
    assert len(set(several.values())) == 3


def test_signs() -> None:
    assert [signed(x, minus="-") for x in (0.04, -0.04, 1.26, -0.05001)] == [
        "±0.0", "±0.0", "+1.3", "-0.1",
    ]  # fmt: skip
    # An interval says on which side of zero it ends.
    assert interval(0.04, 1.26) == "[+0.04, +1.3]"
    assert interval(-0.3, 0.0) == "[\N{MINUS SIGN}0.3, ±0.00]"


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    text = write_report(Results("r", [cell(Setting("a", "lwf", 5))]), tmp_path).read_text()
    assert "No figures: figures need matplotlib; run: pip install matplotlib" in text


PROBE = """<script>
var wide=document.documentElement.scrollWidth>innerWidth,
 dark=matchMedia("(prefers-color-scheme:dark)").matches,
 ink=getComputedStyle(document.querySelector("figure svg text")).fill,
 all=q=>[...document.querySelectorAll(q)], shown=q=>all(q).filter(e=>e.offsetParent).length;
all("details").forEach(e=>{e.open=true});
var out=all("figure, figure > div, table, pre").filter(
  e=>(e.tagName=="TABLE"?e.parentNode:e).getBoundingClientRect().right>innerWidth+1).length,
 small=all("body *").filter(e=>{
  if(![...e.childNodes].some(n=>n.nodeType==3&&n.data.trim())||/script|style/i.test(e.tagName))return;
  var m=e.ownerSVGElement&&e.getScreenCTM(), size=parseFloat(getComputedStyle(e).fontSize);
  return size*(m?Math.sqrt(Math.abs(m.a*m.d-m.b*m.c)):1)<10.99}).length,
 asked=performance.getEntriesByType("resource").length;
var cell=all("#table-1 ~ * td[title]").find(e=>/gain/.test(e.title));
cell.dispatchEvent(new MouseEvent("mouseover",{bubbles:true}));
var tip=document.getElementById("tip"),
 told=!tip.hidden&&/95 % interval .*seed 1: runs/s.test(tip.innerText);
var box=all("#choose input").find(e=>e.value=="S = 5"),
 before=[shown("thead th[data-k]"),shown(".panel")];
box.click();
var after=[shown("thead th[data-k]"),shown(".panel")], fewer=after[0]<before[0]&&after[1]<before[1]&&
 !all("thead th[data-k]").some(e=>e.offsetParent&&e.innerText=="S = 5");
parent.postMessage([innerWidth,wide,dark,out,ink,small,asked,told,fewer].join(";"),"*")</script>"""


@pytest.mark.parametrize(("dark", "width"), [(False, 1280), (True, 1680), (True, 390)])
def test_in_a_browser(page: Path, tmp_path: Path, dark: bool, width: int) -> None:
    """Nothing is cut, small or asked for; a cell tells its interval and runs; a choice hides."""
    image = pytest.importorskip("PIL.Image")
    seen = probed(page.read_text(), PROBE, width, dark, tmp_path)
    ink = "rgb(230, 232, 235)" if dark else "rgb(27, 31, 36)"
    assert seen == [str(width), "false", str(dark).lower(), "0", ink, "0", "0", "true", "true"]
    shot = tmp_path / "shot.png"
    if shot.is_file():  # some versions either dump or draw
        corner = np.asarray(image.open(shot).convert("L"))[:4, :4].mean()
        assert corner < 40 if dark else corner > 240

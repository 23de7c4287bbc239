"""The report as a Markdown page: nothing left out, links that lead somewhere, the same text twice."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from report_results import made_up
from transil.cli.app import run
from transil.errors import TransilError
from transil.experiment.results import Results
from transil.report import write_markdown, write_report
from transil.report.more_tables import ablation_table, matrix_table
from transil.report.parts import missing_texts
from transil.report.reading import joined, to_html
from transil.report.study import Study
from transil.report.tables import accuracy_table
from transil.report.wanted import wanted_by
from transil.report.writers import to_markdown

METHODS, STATES, SOLVERS = ("lwf", "lucir"), (5, 10), ("authors", "newton")
RECIPE: dict[str, Any] = {
    "targets": ["cifar100", "mini-imagenet"], "methods": ["lwf", "siw", "lucir"],
    "states": [10, 5, 20], "seeds": [0, 1], "corrections": ["adbic"], "solvers": list(SOLVERS),
    "transfer": ["mean", "oracle"], "own_bound": True, "train_fraction": [1.0, 0.5],
    "ablation": True, "joint": True, "references": ["fractals-a", "never-there"],
}  # fmt: skip
RUN = {"run": "cifar100-lwf-s5-seed0-0a1b2c3d", "dataset": "cifar100", "method": "lwf",
       "states": 5, "fraction": 1.0, "seed": 0, "commit": "0123456789abcdef+",
       "versions": {"torch": "2.13"}, "device": "NVIDIA H200", "seconds": 1234.5,
       "gpu_gigabytes": 6.25}  # fmt: skip
OLD = {**RUN, "run": "old", "commit": None, "versions": {}, "device": None, "seconds": None,
       "gpu_gigabytes": None}  # fmt: skip


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """No figures: they take seconds."""
    monkeypatch.setattr("transil.report.parts._pictures", lambda _: ([], ""))


@pytest.fixture(scope="module")
def holes() -> Results:
    """The recipe asks for SIW, S = 20, half of the images and a second joint; none is there."""
    results = made_up(methods=METHODS, states=STATES, solvers=SOLVERS, seeds=(0, 1))
    cells = [c for c in results.cells
             if (c.setting.target, c.setting.method, c.setting.states, c.setting.seed)
             != ("cifar100", "lucir", 10, 1)
             and not (c.setting.method == "lwf" and c.setting.states == 5 and c.kind == "bound"
                      and c.solver == "newton")]  # fmt: skip
    facts = {**results.facts, "recipe": RECIPE, "runs": [RUN, OLD]}
    return replace(results, name="holes", cells=cells, facts=facts)


@pytest.fixture(scope="module")
def folder(holes: Results, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results folder with a reading."""
    where = tmp_path_factory.mktemp("markdown") / "results"
    where.mkdir()
    holes.save(where)
    (where / "reading.md").write_text("adBiC **wins** <b>here</b>.\n\n- once\n- twice\n")
    return where


@pytest.fixture(scope="module")
def page(folder: Path) -> Path:
    path = folder.parent / "docs" / "found.md"
    assert run(["report", str(folder), "--markdown", str(path)]) == 0
    return path


def section(page: Path, heading: str) -> str:
    return page.read_text().split(f"\n## {heading}")[1].split("\n## ")[0]


def test_the_page_has_its_parts(page: Path) -> None:
    headings = re.findall(r"^## (.*)$", page.read_text(), re.M)
    assert headings == [
        "Reading", "In short", "Limits of this experiment",
        "Table 1: average accuracy with all training images",
        "Table 2: average accuracy with 50% of the training images",
        "Table 3: how many references are needed", "Transfer matrix: one reference alone",
        "Figures of the paper", "What failed or is missing", "How it was made",
    ]  # fmt: skip
    assert "- **LUCIR**: +" in section(page, "In short")
    assert "- Images have 32 pixels, the paper's 224." in section(page, "Limits")
    for name in ("figure-2", "figure-3", "figure-4", "figure-4-2", "figure-5"):
        assert f"](found/{name}.svg)\n\n*Figure " in section(page, "Figures")


def test_every_table_is_rectangular_and_fits(page: Path) -> None:
    tables = re.findall(r"(?:^\|.*\|\n)+", page.read_text(), re.M)
    assert (
        len(tables) == 1 + 4 + 2 + 1 + 2 + 1
    )  # the wide ones once for each target, a long one twice
    for table in tables:
        assert len({line.count("|") for line in table.splitlines()}) == 1
        assert table.splitlines()[0].count("|") <= 8


def test_numbers_stand_with_interval_and_paper(page: Path, holes: Results) -> None:
    table = accuracy_table(Study([holes]), 1.0)
    row = next(r for r in table.rows if r.name == "LUCIR + adBiC (authors)")
    e = row.entries[table.columns.index(("CIFAR-100", "S = 5"))]
    assert e.value is not None
    assert e.gain is not None
    assert e.low is not None
    assert e.high is not None
    line = next(x for x in page.read_text().splitlines() if x.startswith(f"| {row.name} |"))
    first = line.split(" | ")[1].replace("\N{NO-BREAK SPACE}", " ").split("<br>")
    assert first[0].replace("*", "").removeprefix("★ ") == f"{e.value:.1f} ± {e.std:.1f}"
    assert first[1:] == [f"+{e.gain:.1f} (+{e.low:.1f} to +{e.high:.1f})", "paper: 54.8"]


def test_missing_cells_are_marked(page: Path, holes: Results) -> None:
    pieces = section(page, "Table 1").split("### ")
    first, more = (text for text in pieces if text.startswith("CIFAR-100"))
    assert more.startswith("CIFAR-100, bounds and other solvers\n")
    assert "| method | S = 5 | S = 10 | S = 20 |" in first
    lines = [line for line in (first + more).splitlines() if line[:2] == "| "]
    rows = {line.split(" | ")[0][2:]: line for line in lines}
    # A method of which nothing is finished has all the rows that the recipe asks for.
    for name in ("SIW", "SIW + adBiC (authors)", "*SIW + adBiC, oracle (newton)*"):
        assert rows[name].endswith("| - | - | - |")
    assert list(rows).index("SIW") < list(rows).index("LUCIR")  # the recipe's order
    assert rows["LwF"].endswith(" | - |")  # S = 20
    assert rows["*LwF + adBiC, oracle (newton)*"].split(" | ")[1] == "-"
    assert "Not all seeds are finished: LUCIR on CIFAR-100, S = 10 (1 of 2)." in section(
        page, "Table 1"
    )
    half = section(page, "Table 2")
    assert set(re.findall(r" \| (.*?)(?= \|)", half.split("---:|\n")[1].split("\n\n")[0])) == {"-"}
    missing = section(page, "What failed")
    for text in (
        "- CUDA out of memory: ft+ on food100, S = 20, seed 2",
        "- SIW on CIFAR-100, S = 5, 10, 20, seeds 0, 1\n",
        "- LUCIR on CIFAR-100, S = 10, seed 1\n",
        "- LUCIR on CIFAR-100, S = 20, seeds 0, 1\n",
        "- LwF on CIFAR-100, S = 5, seeds 0, 1: adBiC, oracle (newton); adBiC, own validation (newton)",
        "- LUCIR on mini-imagenet, S = 5, 10, 20, 50% of the training images, seeds 0, 1\n",
        "- Joint on mini-imagenet, seed 1",
    ):
        assert text in missing, text
    # The same in the other forms.
    study = Study([holes])
    assert "| SIW + adBiC (authors) | - | - | - | - | - | - |" in to_markdown(
        accuracy_table(study, 1.0)
    )
    ablation, matrix = ablation_table(study), matrix_table(study)
    assert ablation is not None
    assert matrix is not None
    assert "| SIW, mini-imagenet, S = 20 | - | - | - | - | - |" in to_markdown(ablation)
    assert "| LwF, never-there | - | - | - | - | - | - |" in to_markdown(matrix)
    text = (page.parents[1] / "results" / "report.html").read_text()
    assert "<li>SIW on CIFAR-100, S = 5, 10, 20, seeds 0, 1</li>" in text


def test_nothing_is_missing_where_everything_is_there() -> None:
    results = made_up()
    recipe = {"targets": ["cifar100", "mini-imagenet"], "methods": ["lwf", "lucir"],
              "states": [5, 10], "corrections": ["bic", "adbic"], "solvers": ["newton"],
              "transfer": ["mean"], "references": [], "joint": True}  # fmt: skip
    results = replace(results, failures=[], facts={**results.facts, "recipe": recipe})
    study = Study([results])
    assert missing_texts(study) == []
    plain = Study([replace(results, facts={})])
    assert accuracy_table(study, 1.0).rows == accuracy_table(plain, 1.0).rows


@pytest.mark.parametrize("recipe", [None, "name: x\n", {}])
def test_a_recipe_that_is_not_told_in_full_asks_for_nothing(recipe: Any) -> None:
    wanted = wanted_by([{"recipe": recipe}, {}])
    assert (wanted.seeds, wanted.joints, wanted.references) == ({}, (), ())


def test_a_recipe_of_another_form_is_told() -> None:
    with pytest.raises(TransilError, match=r"facts.recipe.states\[0\] is 'many', but must be a"):
        wanted_by([{"recipe": {**RECIPE, "states": ["many"]}}])


@pytest.mark.usefixtures("undrawn")
def test_results_that_say_nothing_of_themselves_are_reported(
    holes: Results, tmp_path: Path
) -> None:
    text = write_markdown(replace(holes, facts={}), tmp_path / "silent.md").read_text()
    assert text.endswith("## How it was made\n")


def test_runs_and_their_total(page: Path) -> None:
    made = section(page, "How it was made")
    run_name = RUN["run"]
    assert f"| {run_name} | 0 | 012345678+ | NVIDIA H200 | 1,234 | 6.2 |" in made
    assert "| old | 0 | - | - | - | - |" in made
    assert "| all, 2 runs |  |  |  | 1,234 |  |" in made
    assert "their sum is not the time that has passed" in made
    assert "Trained with torch 2.13 (1 run)." in made
    assert 'methods: ["lwf", "siw", "lucir"]' in made
    html = (page.parents[1] / "results" / "report.html").read_text()
    assert f'<th scope="row" class="method">{run_name}</th>' in html
    assert html.count("NVIDIA H200") == made.count("NVIDIA H200") + 1  # the made-up gpu fact


def test_links_lead_to_files(page: Path) -> None:
    links = re.findall(r"\]\(([^)]*)\)", page.read_text())
    assert len(links) == 8
    for link in links:
        assert (page.parent / link).read_text().startswith("<?xml")
    assert {p.name for p in page.with_suffix("").glob("*.svg")} == {x.split("/")[1] for x in links}


@pytest.mark.usefixtures("undrawn")
def test_the_same_text_again(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page quotes its command as it is given below the current folder, whatever that is."""
    for place in ("here", "there"):
        (tmp_path / place / "results").mkdir(parents=True)
        for name in ("results.json", "reading.md"):
            (tmp_path / place / "results" / name).write_bytes((folder / name).read_bytes())
    page = tmp_path / "here" / "docs" / "found.md"
    monkeypatch.chdir(tmp_path / "here")
    assert run(["report", str(tmp_path / "here" / "results"), "--markdown", str(page)]) == 0
    first = page.read_text()
    command = re.search(r"```text\ntransil (.*)\n```", first)
    assert command is not None
    assert command[1] == "report results --markdown docs/found.md"
    assert str(tmp_path.parent) not in first
    monkeypatch.chdir(tmp_path / "there")
    assert run(command[1].split()) == 0
    assert (tmp_path / "there" / "docs" / "found.md").read_text() == first


def test_the_reading_stands_near_the_top(page: Path, folder: Path) -> None:
    text = page.read_text()
    assert "\n## Reading\n\nadBiC **wins** <b>here</b>.\n\n- once\n- twice\n\n## In short" in text
    html = (folder / "report.html").read_text()
    assert html.index('id="headline"') < html.index('id="reading"') < html.index('id="table-1"')
    assert "<p>adBiC <strong>wins</strong> &lt;b&gt;here&lt;/b&gt;.</p>" in html
    assert "<ul>\n<li>once</li>\n<li>twice</li>\n</ul>" in html


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("a\nb\n\nc", "<p>a\nb</p>\n<p>c</p>"),
        ("so:\n- x\n  y\n- z", "<p>so:</p>\n<ul>\n<li>x\ny</li>\n<li>z</li>\n</ul>"),
        ("### A *b*\ntext", "<h3>A <em>b</em></h3>\n<p>text</p>"),
        (
            "`<i>**x**` **`y`**",
            "<p><code>&lt;i&gt;**x**</code> <strong><code>y</code></strong></p>",
        ),
        ("```\na  <b>\n\n- c\n```", "<pre><code>a  &lt;b&gt;\n\n- c\n</code></pre>"),
        ("[a](https://x.org/?a=1&b)", '<p><a href="https://x.org/?a=1&amp;b">a</a></p>'),
        ("[a](tables/t.md#x)", '<p><a href="tables/t.md#x">a</a></p>'),
        ("[a](javascript:x)", "<p>[a](javascript:x)</p>"),
        ("[a](\x01javascript:x)", "<p>[a](\x01javascript:x)</p>"),
        ("[a](//x.org)", "<p>[a](//x.org)</p>"),
        ('[a](x"onclick="y)', '<p><a href="x%22onclick=%22y">a</a></p>'),
        ("2 * 3 * 4, a**b", "<p>2 * 3 * 4, a**b</p>"),
        ("<script>alert(1)</script>", "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>"),
        ("", ""),
    ],
)
def test_a_little_markdown_as_html(text: str, html: str) -> None:
    assert to_html(text) == html


@pytest.mark.usefixtures("undrawn")
def test_several_folders_make_one_page(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    made_up(targets=("food100",), name="second").save(other)
    path = tmp_path / "page.md"
    words = ["report", str(folder), str(other), "-o", str(tmp_path / "both"), "--markdown"]
    assert run([*words, str(path)]) == 0
    text = path.read_text()
    assert text.startswith("# Results: holes and second\n")
    assert "## Reading\n\n### holes\n\nadBiC **wins**" in text
    assert "### FOOD-100" in text
    assert "## How it was made\n\n### holes" in text
    assert f"-o {tmp_path / 'both'} --markdown" in text
    assert joined(["", "b"], ["one", "two"]) == "### two\n\nb"
    assert joined([""], ["one"]) == ""


@pytest.mark.usefixtures("undrawn")
def test_seeds_in_folders_of_their_own_make_one_experiment(tmp_path: Path) -> None:
    words = ["report"]
    for seed, states in ((0, (5, 10)), (1, (5,))):
        place = tmp_path / f"seed{seed}"
        place.mkdir()
        made_up(targets=("food100",), states=states, seeds=(seed,), name="one").save(place)
        words.append(str(place))
    (tmp_path / "seed0" / "reading.md").write_text("Both.\n")
    path = tmp_path / "page.md"
    assert run([*words, "-o", str(tmp_path / "both"), "--markdown", str(path)]) == 0
    text = path.read_text()
    assert text.startswith("# Results: one\n")
    assert "## Reading\n\nBoth.\n" in text
    assert "\n### one, seed 0\n" in text
    assert "\n### one, seed 1\n" in text


def test_odd_names_stay_text(tmp_path: Path) -> None:
    odd = "<script>a|b</script> $x$ ~y~ _z_ `c` [l](x)"
    results = made_up(targets=(odd,), methods=("lwf",), states=(5,), name=odd)
    text = write_markdown(results, tmp_path / "odd page.md").read_text()
    assert "<script" not in text
    assert "&lt;script&gt;a&#124;b&lt;/script&gt; &#36;x&#36; &#126;y&#126;" in text
    assert "](odd%20page/gains.svg)" in text
    assert (tmp_path / "odd page" / "gains.svg").exists()
    for table in re.findall(r"(?:^\|.*\|\n)+", text, re.M):
        assert len({line.count("|") for line in table.splitlines()}) == 1


def test_without_matplotlib(
    holes: Results, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    text = write_markdown(holes, tmp_path / "page.md").read_text()
    assert "No figures: figures need matplotlib" in text
    assert "](" not in text


def test_bad_places_get_one_line_and_nothing_is_written(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "page").write_text("")
    (tmp_path / "folder.md").mkdir()
    for name, message in (
        ("file/page.md", "file is not a folder"),
        ("page.txt", "the name of a Markdown page ends in .md"),
        ("page.md", "page, for its figures, is not a folder"),
        ("folder.md", "it is a folder, not a plain file"),
    ):
        out = tmp_path / "out"
        words = ["report", str(folder), "-o", str(out), "--markdown", str(tmp_path / name)]
        assert run(words) == 2, name
        errors = capsys.readouterr().err
        assert message in errors
        assert len(errors.splitlines()) == 1
        assert not out.exists()
    with pytest.raises(TransilError, match="no results to report"):
        write_markdown([], tmp_path / "none.md")


def test_reading_in_the_page_of_the_library(tmp_path: Path) -> None:
    results = made_up(targets=("cifar100",), methods=("lwf",), states=(5,))
    assert 'id="reading"' not in write_report(results, tmp_path / "a").read_text()
    text = write_report(results, tmp_path / "b", ["What *I* think."]).read_text()
    assert "<p>What <em>I</em> think.</p>" in text

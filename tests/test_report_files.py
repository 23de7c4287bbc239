"""A report overwrites and takes away its own files, and no others."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from report_results import made_up
from support import run_here
from transil.errors import TransilError
from transil.experiment.results import Results
from transil.report import written
from transil.report.page import NAMES, check_folder, report_files
from transil.report.written import FILE, Output, write_outputs

ANY = re.compile(r"page\.html|figures/\w+\.svg")


def output(root: Path, *names: str, text: str = "one") -> Output:
    files = {f"figures/{name}.svg": f"{name} {text}".encode() for name in names}
    links = "".join(f'<a href="{name}">' for name in files)
    page = f"{links}<footer>Made by transil. {text}</footer>".encode()
    return Output(root, "page.html", ANY, {**files, "page.html": page})


def there(root: Path) -> dict[str, bytes]:
    """All files, without the list."""
    return {p.relative_to(root).as_posix(): p.read_bytes()
            for p in root.rglob("*") if p.is_file() and p.name != FILE}  # fmt: skip


def listed(root: Path) -> Mapping[str, list[str]]:
    files = json.loads((root / FILE).read_text())["files"]
    assert isinstance(files, dict)
    return files


def refused(one: Output, says: str) -> None:
    """One line, and nothing changed."""
    before = there(one.root), (one.root / FILE).exists() and (one.root / FILE).read_bytes()
    with pytest.raises(TransilError, match=says) as error:
        write_outputs([one])
    assert len(str(error.value).splitlines()) == 1
    assert before == (
        there(one.root),
        (one.root / FILE).exists() and (one.root / FILE).read_bytes(),
    )


def test_only_what_was_written_is_overwritten_or_taken_away(tmp_path: Path) -> None:
    write_outputs([output(tmp_path, "a", "b", "c", "d")])
    assert list(listed(tmp_path)) == [f"figures/{x}.svg" for x in "abcd"] + ["page.html"]
    for name in ("mine.svg", "a-old.svg", "e.svg"):  # names that a report may have, too
        (tmp_path / "figures" / name).write_text("mine")
    (tmp_path / "figures" / "c.svg").write_text("mine now")
    second = output(tmp_path, "a", "d", text="two")
    write_outputs([second])
    kept = {f"figures/{x}.svg": b"mine" for x in ("mine", "a-old", "e")}
    assert there(tmp_path) == {**second.files, **kept, "figures/c.svg": b"mine now"}
    assert set(listed(tmp_path)) == set(second.files)
    write_outputs([output(tmp_path)])
    assert {*there(tmp_path)} == {*kept, "figures/c.svg", "page.html"}


def test_files_of_others_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "figures").mkdir()
    for name in ("a", "b"):
        (tmp_path / "figures" / f"{name}.svg").write_text("mine")
    one = output(tmp_path, "a", "b", "c")
    refused(
        one,
        r"figures/a\.svg: not written by transil, or changed since \(and 1 more\); .*--force$",
    )
    write_outputs([one], force=True)
    assert there(tmp_path) == one.files
    (tmp_path / "figures" / "b.svg").write_text("edited")
    refused(
        output(tmp_path, "b", text="two"), r"b\.svg: not written by transil, or changed since; "
    )
    (tmp_path / "figures" / "b.svg").write_bytes(b"b two")  # as it would be written
    write_outputs([output(tmp_path, "b", text="two")])
    assert set(there(tmp_path)) == {"figures/b.svg", "page.html"}


def test_nothing_is_written_where_one_of_several_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "second").mkdir()
    (tmp_path / "second" / "page.html").write_text("mine")
    with pytest.raises(TransilError, match="second/page.html: not written"):
        write_outputs([output(tmp_path / "first"), output(tmp_path / "second")])
    assert not (tmp_path / "first").exists()


@pytest.mark.parametrize("after", range(5))
def test_an_interrupted_report_knows_all_its_files(
    after: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Old or new, each file is in the list whenever the process dies."""
    write_outputs([output(tmp_path, "a", "b", "c")])
    left = [after]

    def dying(plain: Callable[..., Any]) -> Callable[..., Any]:
        def made(*words: Any, **options: Any) -> Any:
            if left[0] == 0:
                raise KeyboardInterrupt
            left[0] -= 1
            return plain(*words, **options)

        return made

    second = output(tmp_path, "a", "b", text="two")
    for name in ("atomic_file", "_remove"):
        monkeypatch.setattr(written, name, dying(getattr(written, name)))
    try:
        write_outputs([second])
    except KeyboardInterrupt:
        assert set(there(tmp_path)) == {f"figures/{x}.svg" for x in "abc"} | {"page.html"}
    monkeypatch.undo()
    third = output(tmp_path, "b", text="three")
    write_outputs([third])
    assert there(tmp_path) == third.files


def test_a_list_names_nothing_outside_of_the_report(tmp_path: Path) -> None:
    root = tmp_path / "root"
    first = output(root, "a")
    write_outputs([first])
    (root / "results.json").write_text("a one")
    (tmp_path / "outside.svg").write_text("a one")
    mark = listed(root)["figures/a.svg"]
    names = ("results.json", "../outside.svg", str(tmp_path / "outside.svg"), "figures/../a.svg",
             "figures/link.svg", "figures/a.svg")  # fmt: skip
    (root / "figures" / "link.svg").symlink_to(tmp_path / "outside.svg")
    data = {**json.loads((root / FILE).read_text()), "files": dict.fromkeys(names, mark)}
    (root / FILE).write_text(json.dumps(data))
    refused(output(root), "page.html: not written")
    (root / "page.html").unlink()
    write_outputs([output(root)])
    assert (tmp_path / "outside.svg").read_text() == "a one"
    assert set(there(root)) == {"results.json", "page.html", "figures/link.svg"}


def test_links_that_lead_out_of_the_folder_are_not_followed(tmp_path: Path) -> None:
    root = tmp_path / "root"
    for name in ("away", "root"):
        (tmp_path / name).mkdir()
    (root / "figures").symlink_to(tmp_path / "away")
    refused(output(root, "a"), "figures/a.svg: not written by")
    (root / "figures").unlink()
    (root / "page.html").symlink_to(tmp_path / "away" / "new")  # dangling
    refused(output(root), "page.html: not written by")
    (root / "page.html").unlink()
    (root / FILE).symlink_to(tmp_path / "away" / "list.json")
    refused(output(root), f"{FILE}: a link that leads elsewhere; ")
    assert list((tmp_path / "away").iterdir()) == []


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"format": "other"}', '{"format": "transil-report-files", "version": 2}',
     '{"format": "transil-report-files", "version": 1, "files": ["page.html"]}',
     '{"format": "transil-report-files", "version": 1, "files": {"page.html": "abc"}}',
     '{"format": "transil-report-files", "version": 1, "files": {"page.html": [1]}}'],
)  # fmt: skip
def test_a_list_that_is_none_gets_one_line(text: str, tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(text)
    one = output(tmp_path, "a")
    refused(one, rf"{FILE}: not a .*--force$")
    write_outputs([one], force=True)
    assert there(tmp_path) == one.files


def test_what_is_no_file_is_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "page.html").mkdir()
    for force in (False, True):
        with pytest.raises(TransilError, match=r"page\.html: it is a folder"):
            write_outputs([output(tmp_path)], force)
    (tmp_path / "page.html").rmdir()
    os.mkfifo(tmp_path / "page.html")
    with pytest.raises(TransilError, match=r"page\.html: it is a device or pipe"):
        write_outputs([output(tmp_path)], force=True)
    assert not (tmp_path / FILE).exists()


@pytest.fixture(scope="module")
def results() -> Results:
    return made_up(targets=("cifar100",), methods=("lwf",), states=(5,), fractions=(1, 0.123))


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transil.report.parts._pictures", lambda _: ([], ""))


@pytest.mark.usefixtures("undrawn")
def test_files_of_users_survive_the_commands(results: Results, tmp_path: Path) -> None:
    folder = tmp_path / "results"
    folder.mkdir()
    results.save(folder)
    mine = ("figures/figure-architecture.png", "figures/gains-old.svg", "figures/gains.svg",
            "tables/table-ablation.tex", "tables/table-9.csv", "page/gains.svg")  # fmt: skip
    for name in mine:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("mine")
    page = folder / "page.md"
    for changed in (results, replace(results, singles=[], ablations=[])):
        changed.save(folder)
        done = run_here("report", folder, "--markdown", page, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
    assert all((folder / name).read_text() == "mine" for name in mine)
    assert not (folder / "tables" / "table-3.csv").exists()
    assert (folder / "figures" / FILE).exists()  # the page shows the report's own figures
    page.write_text("my own page")
    results.save(folder)
    before = there(folder)
    done = run_here("report", folder, "--markdown", page, cwd=tmp_path)
    assert done.returncode == 2
    assert re.fullmatch(r"error: \S*page\.md: not written by .*--force\n", done.stderr)
    assert there(folder) == before
    assert run_here("report", folder, "--markdown", page, "--force", cwd=tmp_path).returncode == 0
    assert page.read_text().startswith("# Results")
    reading = folder / "reading.md"
    reading.write_text("mine")
    assert run_here("report", folder, "--markdown", reading, cwd=tmp_path).returncode == 2
    assert reading.read_text() == "mine"


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("command", ["run", "demo"])
def test_an_experiment_asks_before_it_begins(command: str, tmp_path: Path) -> None:
    (tmp_path / "out" / "tables").mkdir(parents=True)
    (tmp_path / "out" / "tables" / "table-1.csv").write_text("mine")
    words = ["run", "demo"] if command == "run" else ["demo"]
    done = run_here(*words, "-o", "out", cwd=tmp_path)
    assert done.returncode == 2
    assert re.fullmatch(r"error: out/tables/table-1\.csv: not written by .*\n", done.stderr)
    assert set(there(tmp_path)) == {"out/tables/table-1.csv"}


def test_asking_before_looks_at_names_of_reports_alone(results: Results, tmp_path: Path) -> None:
    check_folder(tmp_path / "none")
    for name in ("results.json", "figures/figure-architecture.png", "tables/table-mine.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("mine")
    check_folder(tmp_path)
    (tmp_path / "tables" / "table-2-0_123.md").write_text("mine")
    with pytest.raises(TransilError, match="table-2-0_123.md: not written by"):
        check_folder(tmp_path)
    check_folder(tmp_path, force=True)
    files = report_files(results, tmp_path).files
    assert len(files) == 1 + 3 * 6 + 2 * 7 + 1
    assert all(NAMES.fullmatch(name) for name in files)

"""The pages of the documentation site: what they show runs, and what they link to is there.

Blocks of a page run in order, in one temporary folder: `python` in one namespace, `sh` and `console`
lines that begin with `transil` through the command line's own entry, `yaml title="NAME"` is written
to that file, `python title="NAME"` as well. A block after `<!-- not run: reason -->` is left alone; a
`text` block after `<!-- output -->` must be what the block before it printed.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import re
import shlex
import signal
import sys
import warnings
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from support import tool_named
from transil import plugins
from transil.cli.app import run
from transil.experiment.recipe import Experiment

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
# Pages with a test of their own in test_documents.py.
OTHERS = {"bias", "data", "training"}
GENERATED = {"api.md", "commands.md", "settings.md"}  # when the site is built
PAGES = sorted(path.stem for path in DOCS.glob("*.md") if path.stem not in OTHERS)
FENCE = re.compile(r"^(?:<!-- (.*?) -->\n\n?)?```(\w*)([^\n]*)\n(.*?)^```$", re.S | re.M)


class Block(NamedTuple):
    remark: str
    language: str
    title: str
    text: str
    line: int


def _blocks(page: str) -> list[Block]:
    text = (DOCS / f"{page}.md").read_text()
    found = []
    for match in FENCE.finditer(text):
        title = re.search(r'title="([^"]+)"', match[3])
        line = text.count("\n", 0, match.start(4)) + 1
        found.append(Block(match[1] or "", match[2], title[1] if title else "", match[4], line))
    return found


def _commands(text: str) -> Iterator[list[str]]:
    """The words of each `transil` line; a `$` before it and `\\` at its end are understood."""
    for line in text.replace("\\\n", " ").splitlines():
        line = line.removeprefix("$ ")
        if line.startswith("transil "):
            yield shlex.split(line, comments=True)[1:]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty current folder, a cache of its own, and registries that forget what is added."""
    from transil.correction.registry import CORRECTIONS
    from transil.interop.loggers import LOGGERS
    from transil.methods import METHODS

    for registry in (CORRECTIONS, METHODS, LOGGERS):
        registry.names()  # those of entry points are found before the copy
        monkeypatch.setattr(registry, "_things", dict(registry._things))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("TRANSIL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.delenv("TRANSIL_DATA", raising=False)
    monkeypatch.setenv(plugins.ENVIRONMENT, "")
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    old = signal.getsignal(signal.SIGTERM)
    yield work
    signal.signal(signal.SIGTERM, old)


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_shows_runs(
    page: str,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Dataclasses look up the module they are made in.
    module = ModuleType(f"docs_{page.replace('-', '_')}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    names: dict[str, Any] = vars(module)
    printed = ""
    for block in _blocks(page):
        if block.remark.startswith("not run: "):
            continue
        where = f"docs/{page}.md, line {block.line}"
        if block.language == "python":
            # Empty lines before the code give tracebacks the line of the page.
            text = "\n" * (block.line - 1) + block.text
            exec(compile(text, str(DOCS / f"{page}.md"), "exec", dont_inherit=True), names)
            if block.title:
                (folder / block.title).write_text(block.text)
            printed = capsys.readouterr().out
        elif block.language in ("sh", "console"):
            printed = ""
            commands = list(_commands(block.text))
            assert commands, f"{where}: no command to run; say why before it"
            for words in commands:
                code = run(words)
                out, err = capsys.readouterr()
                assert code == 0, f"{where}: transil {shlex.join(words)}\n{err}"
                printed += out
        elif block.language == "yaml" and block.title:
            (folder / block.title).write_text(block.text)
        elif block.remark == "output":
            assert block.text.split() == printed.split(), where


def test_remarks_say_what_they_mean() -> None:
    """A misspelt remark would run, or leave out, what it should not."""
    for page in PAGES:
        text = (DOCS / f"{page}.md").read_text()
        remarks = re.findall(r"<!--(.*?)-->", text, re.S)
        # Tables that a tool writes stand between two remarks of their own.
        remarks = [r for r in remarks if not re.fullmatch(r" (table: [\w-]+|end) ", r)]
        assert all(re.fullmatch(r" (not run: \S.*|output) ", r) for r in remarks), page
        assert len(remarks) == sum(bool(block.remark) for block in _blocks(page)), page
        languages = {block.language for block in _blocks(page)}
        known = {"python", "sh", "console", "yaml", "text", "json", "toml"}
        assert languages <= known, f"{page}: {languages - known}"


def _nav() -> list[str]:
    text = (ROOT / "mkdocs.yml").read_text().split("\nnav:\n")[1]
    return re.findall(r": (\S+\.md)$", text, re.M)


@pytest.fixture(scope="module")
def site() -> ModuleType:
    pytest.importorskip("mkdocs")
    return tool_named("site_pages")


def test_generated_pages_hold_every_setting_command_and_public_name(site: ModuleType) -> None:
    settings = site.settings()
    for field in fields(Experiment):
        assert f"| `{field.name}` |" in settings
    assert "| `train.epochs` | `1` |" in settings
    commands = site.commands()
    for words in ("transil train", "transil bank make", "transil ledger record", "transil demo"):
        assert f"\n## {words}\n" in commands
    api = site.api()
    for package in site.PACKAGES:
        for name in importlib.import_module(package).__all__:
            if not name.startswith("__"):
                assert f"::: {package}.{name}\n" in api or f"- `{name}`: see above" in api


def test_the_examples_of_corrections_are_short_files() -> None:
    sizes = {b.title: len(b.text.splitlines()) for b in _blocks("add-correction") if b.title}
    assert {"new_and_past.py", "tilt.py"} <= set(sizes)
    assert all(lines <= 80 for lines in sizes.values()), sizes


def test_the_navigation_holds_every_page_once() -> None:
    assert sorted(_nav()) == sorted(GENERATED | {path.name for path in DOCS.glob("*.md")})
    assert {"index", "tour", "faq", "results-format"} <= set(PAGES)


def test_no_page_names_a_place_on_this_machine() -> None:
    for path in [*DOCS.glob("*.md"), ROOT / "mkdocs.yml"]:
        found = re.findall(r"(?<![\w.])/(?:work|home|root|tmp|mnt|Users)/\S*", path.read_text())
        assert not found, f"{path.name}: {found}"
        assert str(ROOT) not in path.read_text(), path.name


def test_the_faq_has_a_dozen_questions() -> None:
    questions = re.findall(r"^## .*\?$", (DOCS / "faq.md").read_text(), re.M)
    assert len(questions) >= 12


def test_the_site_builds_without_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Links between pages, anchors included, are checked by mkdocs itself."""
    if importlib.util.find_spec("mkdocs") is None or importlib.util.find_spec("material") is None:
        pytest.skip("mkdocs-material is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of other packages, at import
        from mkdocs.commands.build import build
        from mkdocs.config import load_config

        with caplog.at_level(logging.WARNING, logger="mkdocs"):
            config = load_config(
                str(ROOT / "mkdocs.yml"), site_dir=str(tmp_path / "site"), strict=True
            )
            config.plugins.on_startup(command="build", dirty=False)
            try:
                build(config)
            finally:
                config.plugins.on_shutdown()
    assert [r.getMessage() for r in caplog.records if r.name.startswith("mkdocs")] == []
    for name in _nav():
        page = tmp_path / "site" / name.replace(".md", ".html")
        text = page.read_text()
        # Nothing is fetched from elsewhere when a page is opened.
        assert not re.search(r'(?:src|<link[^>]*href)="(?:https?:)?//', text), name

"""Figures are the same whatever matplotlib is told by its user, and say nothing about it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from transil.errors import TransilError
from transil.evaluation.evaluate import evaluate
from transil.report.drawing import Grid, drawing, finish
from transil.report.figures import draw_evaluation
from transil.report.plotting import figure_class
from transil.testing import biased_scores

SETTINGS = """\
text.usetex: True
backend: bogus
font.family: no such font
font.size: 30
svg.fonttype: path
savefig.dpi: 17
axes.grid: True
axes.prop_cycle: cycler('color', ['k'])
this is no setting
"""


def draw(folder: Path) -> None:
    """A figure of a report and those of `evaluate --figure`."""
    with drawing():
        grid = Grid(["a"], ["b"], (2.0, 1.0), legend=["a"])
        handles = grid.panels[0].plot([1, 2, 3], [3, 1, 2], label="a")
        grid.legend(handles)
        picture = finish(grid, "x", "Title", "Caption")
    (folder / "picture.svg").write_text(picture.svg)
    (folder / "picture.png").write_bytes(picture.png)
    store = biased_scores("4/2", seed=0, images_per_class=4, splits=("test",))
    for name in ("one.svg", "one.pdf"):
        draw_evaluation({"raw": evaluate(store)}, store.schedule, folder / name, "a $x_1$ title")


def drawn(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir()}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Those of this process."""
    pytest.importorskip("matplotlib")
    folder = tmp_path_factory.mktemp("plain")
    draw(folder)
    return drawn(folder)


def test_figures_do_not_depend_on_the_settings_of_the_user(
    plain: dict[str, bytes], tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "matplotlibrc").write_text(SETTINGS)
    (tmp_path / "file").write_text("")
    named = {**os.environ, "MPLBACKEND": "bogus", "MATPLOTLIBRC": str(tmp_path / "matplotlibrc"),
             "MPLCONFIGDIR": str(tmp_path / "file" / "no-folder")}  # fmt: skip
    named["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    named.pop("HOME", None)
    code = (
        "import os, sys, pathlib; from test_figure_settings import draw; before = dict(os.environ); "
        "draw(pathlib.Path(sys.argv[1])); assert dict(os.environ) == before"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "out")],
        env=named, cwd=tmp_path, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert len(plain) == 4
    assert drawn(tmp_path / "out") == plain


def test_settings_that_were_made_before_change_nothing(
    plain: dict[str, bytes], tmp_path: Path
) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    with matplotlib.rc_context({"text.usetex": True, "font.size": 30, "axes.grid": True}):
        draw(tmp_path)
        assert matplotlib.rcParams["text.usetex"]  # theirs again
    assert drawn(tmp_path) == plain


def test_a_title_of_any_kind_is_drawn(tmp_path: Path) -> None:
    store = biased_scores("4/2", seed=0, images_per_class=4, splits=("test",))
    title = "\x1b[31m </text><script> $\\x$ \ud800 " + "x" * 5000
    draw_evaluation({"raw": evaluate(store)}, store.schedule, tmp_path / "x.svg", title)
    svg = (tmp_path / "x.svg").read_text()
    ElementTree.fromstring(svg)
    assert "\x1b" not in svg
    assert "<script" not in svg


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            ModuleNotFoundError("no", name="matplotlib"),
            "^figures need matplotlib; run: pip install",
        ),
        (ModuleNotFoundError("No module named 'kiwisolver'", name="kiwisolver"), "'kiwisolver'$"),
        (
            ImportError("numpy.core.multiarray\nfailed"),
            "^matplotlib does not work here: numpy.core",
        ),
        (OSError("no folder for caches"), "^matplotlib does not work here: no folder"),
    ],
)
def test_a_matplotlib_that_does_not_work_gets_one_line(
    error: Exception, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken:
        def find_spec(self, name: str, *_: object) -> None:
            if name == "matplotlib.figure":
                raise error

    monkeypatch.delitem(sys.modules, "matplotlib.figure", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Broken(), *sys.meta_path])
    with pytest.raises(TransilError, match=message):
        figure_class()

"""The notebooks run, and print what they are kept with.

The code cells of one run in order in one namespace, in an empty folder, without Jupyter. Where a cell
has the tag `numbers-vary`, its numbers may be others, as on another CPU.
"""

from __future__ import annotations

import base64
import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import matplotlib
import pytest

from transil import plugins

NOTEBOOKS = sorted((Path(__file__).resolve().parents[1] / "notebooks").glob("*.ipynb"))
MOST_PICTURES, MOST_BYTES = 2, 40_000
NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")


def code_of(path: Path) -> list[dict[str, Any]]:
    """The code cells."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def kept(cell: dict[str, Any]) -> tuple[str, list[bytes]]:
    """The text that a cell printed, and its pictures."""
    text, pictures = "", []
    for output in cell["outputs"]:
        if output["output_type"] == "stream":
            text += "".join(output["text"])
        else:
            pictures.append(base64.b64decode("".join(output["data"]["image/png"])))
    return text, pictures


def plain(text: str, cell: dict[str, Any]) -> list[str]:
    vary = "numbers-vary" in cell["metadata"].get("tags", ())
    return (NUMBER.sub("#", text) if vary else text).split()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_prints_what_it_is_kept_with(
    path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    plt.close("all")
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("TRANSIL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv(plugins.ENVIRONMENT, "")
    module = ModuleType(path.stem.replace("-", "_"))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for cell in code_of(path):
        source = "".join(cell["source"])
        exec(compile(source, f"{path.name}, {cell['id']}", "exec"), vars(module))
        text, pictures = kept(cell)
        assert plain(capsys.readouterr().out, cell) == plain(text, cell), cell["id"]
        assert len(plt.get_fignums()) == len(pictures), cell["id"]
        plt.close("all")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_what_is_kept_is_whole_and_small(path: Path) -> None:
    cells = code_of(path)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    pictures = [picture for cell in cells for picture in kept(cell)[1]]
    assert 1 <= len(pictures) <= MOST_PICTURES
    assert all(len(picture) < MOST_BYTES for picture in pictures)
    assert not re.search(r"/(home|root|tmp|work)/", path.read_text(encoding="utf-8"))


def test_the_table_has_all_notebooks() -> None:
    assert len(NOTEBOOKS) == 2
    text = (NOTEBOOKS[0].parent / "README.md").read_text()
    assert re.findall(r"\]\((\S+\.ipynb)\)", text) == [path.name for path in NOTEBOOKS]

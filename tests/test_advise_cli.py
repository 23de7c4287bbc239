"""`transil advise`, `transil ledger`, and correctors on files, through the command line."""

from __future__ import annotations

import html
import json
import re
import shlex
import shutil
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from support import ok_here, probed, refused_here
from transil import Corrector, Ledger
from transil.testing import biased_scores

SIZES = "12,5,5,8,3,4"
WORDS = ("advise", "scores.npy", "--schedule", SIZES, "--method", "lwf-t")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Scores of the last state, labels of half of the newest images, scores of older images."""
    work = tmp_path_factory.mktemp("advise")
    store = biased_scores(SIZES, seed=3, images_per_class=30)
    for state in range(1, 7):
        np.save(work / f"state{state}.npy", store.get("test", state).scores)
    made = store.get("test", 6)
    np.save(work / "scores.npy", made.scores)
    known = (made.labels >= 33) & (np.arange(len(made.labels)) % 2 == 0)
    np.save(work / "labels.npy", np.where(known, made.labels, -1))
    np.save(work / "before.npy", made.scores[made.labels < 33][::2])
    return work


def commands(said: str) -> list[list[str]]:
    """The lines to paste, as words without the program's name."""
    lines = [line.strip() for line in said.splitlines() if line.startswith("  transil ")]
    return [shlex.split(line)[1:] for line in lines]


def test_what_it_says_and_the_next_command(folder: Path) -> None:
    said = ok_here(*WORDS, cwd=folder)
    for part in (
        "scores.npy: 1,110 rows of state 6: 37 classes, 6 groups of 12, 5, 5, 8, 3, 4",
        "How much of your traffic is of the newest group (group 6, 4 classes)?",
        "--newest 0.3",
        "They are no probabilities",
        "Use the LwF-T bank, made for your schedule.",
        "as the scores predict *",
        "newest twice as common",
        "The risk: if the newest group is more than about",
    ):
        assert part in " ".join(said.split()), part
    (next_one,) = commands(said)
    assert next_one[:4] == ["correct", "scores.npy", "--bank", "lwf-t"]
    ok_here(*next_one, cwd=folder)
    corrected = np.load(folder / "corrected.npy")
    expected = Corrector(SIZES, method="lwf-t").fit_transform(np.load(folder / "scores.npy"))
    np.testing.assert_allclose(corrected, expected, rtol=1e-5, atol=1e-5)
    assert max(map(len, said.splitlines())) <= 96 or "transil correct" in said


def test_all_next_commands_can_be_pasted(folder: Path) -> None:
    order = list(map(int, np.random.default_rng(0).permutation(37)))
    given = np.load(folder / "scores.npy")[:, np.argsort(order)]
    (folder / "order.json").write_text(json.dumps(order))
    np.savez(folder / "two files.npz", logits=given, other=np.zeros(3))
    words = ("advise", "two files.npz", "--key", "logits", "--order", "order.json", "--schedule", SIZES,
             "--newest", "0.3", "--method", "lwf-t")  # fmt: skip
    again, correct = commands(ok_here(*words, cwd=folder))
    assert again[-2:] == ["--bank-out", "mine.json"]
    said = ok_here(*again, cwd=folder)
    assert commands(said) == [correct]
    ok_here(*correct, cwd=folder)
    corrector = Corrector(SIZES, method="lwf-t", newest=0.3, order=order).fit(given)
    np.testing.assert_allclose(
        np.load(folder / "corrected.npy"), corrector.transform(given), rtol=1e-5, atol=1e-5
    )


def test_labels_of_the_newest_group(folder: Path) -> None:
    words = (*WORDS, "--newest-labels", "labels.npy")
    said = " ".join(ok_here(*words, cwd=folder).split())
    assert re.search(r"So it is at most \d+% of the traffic", said)
    assert "--before before.npy" in said
    found = json.loads(ok_here(*words, "--before", "before.npy", "--json", cwd=folder))
    share = 60 / (1110 - 60)
    assert found["estimate"]["low"] <= share <= found["estimate"]["high"]
    assert found["newest_from"] == "estimated"
    assert found["assumptions"][0]["advised"]
    assert len(found["groups"]) == 6


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--newest", "2"), "between 0 and 1"),
        (("--newest", "nan"), "between 0 and 1"),
        (("--prior", "flat"), "prior 'flat' is unknown"),
        (("--prior", "wrong.json"), "the share of class"),
        (("--prior", "number.json"), "expected a list of shares"),
        (("--prior", "remembered"), "nothing is remembered"),
        (("--state", "9"), "state 9 does not exist"),
        (("--newest-labels", "before.npy"), "but labels of shape"),
        (("--newest-labels", "old.npy"), "is of an old class"),
        (("--newest-labels", "short.npy"), "1,110 rows of scores, but labels of shape"),
        (("--before", "before.npy"), "it goes with labels"),
        (("--ledger", "other.json"), "this ledger is of groups of 12, 25"),
        (("-o", "page.txt"), "the page is written as .html"),
        (("--bank-out", "mine.txt"), "the correction is written as .json"),
        (("--bank-out", "wrong.json"), "is not a transil-corrector file"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(folder: Path, words: tuple[str, ...], says: str) -> None:
    (folder / "wrong.json").write_text("[-1, 1, 1, 1, 1, 1]")
    (folder / "number.json").write_text("5")
    np.save(folder / "old.npy", np.repeat([-1, 3], 555))
    np.save(folder / "short.npy", np.full(3, -1))
    other = Ledger(folder / "other.json", "12,25")
    other.record(1, np.load(folder / "state1.npy"))
    # Without a method a warning would come first, were it not kept until the end.
    refused_here("advise", "scores.npy", "--schedule", SIZES, *words, says=says, cwd=folder)


def test_a_ledger_is_taken_into_account(folder: Path) -> None:
    ledger = Ledger(folder / "ledger.json", SIZES, "lwf-t")
    for state in range(1, 7):
        ledger.record(state, np.load(folder / f"state{state}.npy"))
    found = json.loads(ok_here(*WORDS, "--ledger", "ledger.json", "--json", cwd=folder))
    assert (found["prior"], found["next"][0].split()[-1]) == ("cautious", "mine.json")
    rows = [row["name"] for row in found["assumptions"]]
    assert rows[:4] == ["cautious", "predicted", "uniform", "remembered"]


def test_where_nothing_helps_nothing_is_written(folder: Path) -> None:
    scores = np.load(folder / "scores.npy")
    scores[:, :33] = -9.0 + np.random.default_rng(0).normal(0, 0.01, (len(scores), 33))
    np.save(folder / "lost.npy", scores)
    said = ok_here("advise", "lost.npy", "--schedule", SIZES, "--method", "ft", "-o", "lost.html",
                   "--bank-out", "lost.json", cwd=folder)  # fmt: skip
    assert "Leave the scores as they are." in said
    assert "keeps nothing of its old classes" in said
    assert "not written: lost.json" in said
    assert not commands(said)
    assert not (folder / "lost.json").exists()
    assert "Leave the scores as they are." in (folder / "lost.html").read_text()


class Tags(HTMLParser):
    """That tags close in order, and what they name."""

    VOID = ("meta", "br", "hr", "path", "use", "rect", "line")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.outside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.VOID:
            self.open.append(tag)
        named = dict(attrs)
        if named.get("id"):
            self.ids.append(str(named["id"]))
        self.outside += [str(v) for k, v in attrs if k in ("src", "href") and "//" in str(v)]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag


@pytest.fixture(scope="module")
def page(folder: Path) -> Path:
    words = ("--newest-labels", "labels.npy", "--before", "before.npy", "-o", "<b>&.html")
    shutil.copy(folder / "scores.npy", folder / "<i>&.npy")
    ok_here("advise", "<i>&.npy", *WORDS[2:], *words, cwd=folder)
    return folder / "<b>&.html"


def test_the_page_stands_alone(page: Path) -> None:
    text = page.read_text()
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    assert len(set(tags.ids)) == len(tags.ids)
    assert tags.outside == []
    assert "<script" not in text
    assert "<i>&.npy" not in text
    assert html.escape("<i>&.npy") in text
    for name in ("shares", "scores", "risk"):
        assert f'id="fig-{name}"' in text
    for heading in ("First, one number", "What the scores show", "What to do",
                    "If class frequencies are others", "Next"):  # fmt: skip
        assert f"{heading}</h2>" in text


def test_a_page_without_matplotlib_has_the_words(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    ok_here(*WORDS, "-o", "bare.html", cwd=folder)
    assert "No pictures: figures need matplotlib" in (folder / "bare.html").read_text()


def test_many_groups_are_shown_in_part(tmp_path: Path) -> None:
    made = biased_scores("120/60", seed=1, images_per_class=2).get("test", 60)
    np.save(tmp_path / "scores.npy", made.scores)
    said = ok_here("advise", "scores.npy", "--schedule", "120/60", "-o", "a.html", cwd=tmp_path)
    assert "\n ...  " in said
    assert "\n 60  " in said


PROBE = """<script>
var page=document.documentElement,
 inside=[...document.querySelectorAll(".scroll, .picture, pre")],
 out=inside.filter(e=>e.getBoundingClientRect().right>innerWidth||e.scrollWidth>e.clientWidth+1).length,
 small=[...document.querySelectorAll("figure svg text")].filter(
  e=>e.getBoundingClientRect().height<9).length;
parent.postMessage([innerWidth,page.scrollWidth>innerWidth,
 matchMedia("(prefers-color-scheme:dark)").matches,out,small,
 getComputedStyle(document.querySelector("figure svg text")).fill].join(";"),"*")</script>"""


@pytest.mark.parametrize(
    ("dark", "width"), [(False, 1280), (True, 1280), (False, 390), (True, 390)]
)
def test_in_a_browser(page: Path, tmp_path: Path, dark: bool, width: int) -> None:
    """Nothing is wider than the screen, nothing scrolls sideways, and all text can be read."""
    seen = probed(page.read_text(), PROBE, width, dark, tmp_path)
    ink = "rgb(230, 232, 235)" if dark else "rgb(27, 31, 36)"
    assert seen == [str(width), "false", str(dark).lower(), "0", "0", ink]

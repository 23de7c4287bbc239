"""Documents are short and plain: how many words there are, how long sentences are, words to avoid."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
PAGES += sorted((ROOT / "docs").glob("*.md"))
LONG, LONGEST = 25, 40  # words of a sentence: as a rule, and at the most
RULE = 0.1  # the share of sentences that may be longer than the rule
# What says little, or flatters.
AVOID = (
    "in order to", "utilize", "utilise", "leverage", "seamless", "seamlessly", "cutting-edge",
    "state-of-the-art", "powerful", "obviously", "of course", "simply", "easily", "very",
    "robust", "it should be noted", "please note",
)  # fmt: skip
# Page and words that may stand there: as names of the field, or quoted.
EXCEPTIONS: dict[str, tuple[str, ...]] = {}


def prose(text: str) -> list[str]:
    """The sentences of a page; code, tables, headings and formulas are none."""
    text = re.sub(r"^```.*?^```$", "\n", text, flags=re.S | re.M)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.S)
    text = re.sub(r"^(\||#|!\[|    ).*$", "\n", text, flags=re.M)
    text = re.sub(r"^\s*([-*]|\d+\.) ", "\n\n", text, flags=re.M)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"`[^`]*`", "code", text)
    found = []
    for paragraph in re.split(r"\n\s*\n", text):
        plain = " ".join(paragraph.split())
        found += [s for s in re.split(r"(?<=[.!?:])[*)\"']*\s+", plain) if len(s.split()) > 1]
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_sentences_are_short_and_words_plain(page: Path) -> None:
    sentences = prose(page.read_text(encoding="utf-8"))
    lengths = {sentence: len(sentence.split()) for sentence in sentences}
    longest = [s for s, words in lengths.items() if words > LONGEST]
    assert not longest, longest
    long = [s for s, words in lengths.items() if words > LONG]
    assert len(long) <= max(2, RULE * len(sentences)), long
    text = " ".join(sentences).lower()
    found = [w for w in AVOID if re.search(rf"\b{re.escape(w)}\b", text)]
    assert set(found) <= set(EXCEPTIONS.get(page.name, ())), found


def test_there_are_not_too_many_words() -> None:
    def words(path: Path) -> int:
        return len(path.read_text(encoding="utf-8").split())

    assert words(ROOT / "README.md") <= 900
    assert words(ROOT / "docs" / "results.md") <= 2000
    assert sum(words(path) for path in (ROOT / "docs").rglob("*.md")) <= 18_000

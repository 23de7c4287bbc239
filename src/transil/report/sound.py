"""Results that can be shown: numbers that can be so, parts that agree, texts that can be printed.

Everything that makes a page goes through here, wherever the results come from; what comes after need
not ask again.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass, replace
from typing import TYPE_CHECKING, Any

from transil.errors import TransilError
from transil.report.names import shorten

if TYPE_CHECKING:
    from transil.experiment.results import Results, Setting

# Beyond these nothing was measured, and nobody can draw it.
MOST_STATES, MOST, DEEPEST = 100_000, 1e100, 30
NUMBERS = frozenset((float, int, type(None)))
# Rounding may take a mean of shares a little beyond 1.
SLACK = 1e-9
# Characters that terminals and browsers act upon, or XML forbids; lines and tabs are text.
UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


def sound(results: Results, where: str | None = None) -> Results:
    """The same results with texts that can be printed; an error where they cannot be.

    `where` is what the error calls them, a file for example.
    """
    for entry, wrong in _wrong(results):
        named = where or f"results '{shorten(printable(results.name), 60)}'"
        raise TransilError(f"{named}: {entry} {wrong}")
    clean: Results = cleaned(results)
    return clean


def printable(text: str) -> str:
    """Characters that do something, rather than show, as the mark of an unknown one."""
    return UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", re.sub("\r\n?", "\n", text))


def cleaned(value: Any) -> Any:
    """The same with every text in it as it can be printed; itself where there is nothing to do."""
    if isinstance(value, str):
        return value if value.isascii() and value.isprintable() else printable(value)
    if value is None or isinstance(value, (int, float)):
        return value
    if isinstance(value, (list, tuple)):
        if NUMBERS.issuperset(map(type, value)):
            return value
        made = [cleaned(v) for v in value]
        return value if all(map(operator.is_, made, value)) else made
    if isinstance(value, Mapping):
        return {cleaned(k): cleaned(v) for k, v in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        new = {k: v for k, old in vars(value).items() if (v := cleaned(old)) is not old}
        return replace(value, **new) if new else value
    return value


def _wrong(r: Results) -> Iterator[tuple[str, str]]:
    """What cannot be: an entry, and what is wrong with it."""
    for i, c in enumerate(r.cells):
        at = f"cells[{i}]"
        yield from _setting(at, c.setting)
        yield from _within(f"{at}.accuracy", c.accuracy)
        yield from _within(f"{at}.average", [c.average])
        if len(c.accuracy) > c.setting.states:
            yield f"{at}.accuracy", f"has {len(c.accuracy)} entries for {c.setting.states} states"
        for key in ("gain", "low", "high"):
            yield from _within(f"{at}.{key}", [getattr(c, key)], low=-1.0)
    for i, d in enumerate(r.details):
        at, states = f"details[{i}]", d.setting.states
        yield from _setting(at, d.setting)
        yield from _within(f"{at}.mean_score", d.mean_score, -MOST, MOST)
        yield from _within(f"{at}.score_deviation", d.score_deviation, 0.0, MOST)
        for key in ("mean_score", "score_deviation", "group_accuracy"):
            yield from _many(f"{at}.{key}", getattr(d, key), states)
        for s, row in enumerate(d.group_accuracy):
            yield from _many(f"{at}.group_accuracy[{s}]", row, s + 1)
            yield from _within(f"{at}.group_accuracy[{s}]", row)
    for i, p in enumerate(r.pairs):
        at = f"pairs[{i}]"
        yield from _whole(f"{at}.states", p.states)
        for key in ("alpha", "beta"):
            rows = getattr(p, key)
            yield from _many(f"{at}.{key}", rows, len(p.references))
            for j, row in enumerate(rows):
                yield from _many(f"{at}.{key}[{j}]", row, len(p.alpha[0]))
                yield from _within(f"{at}.{key}[{j}]", row, -MOST, MOST)
    for i, a in enumerate(r.ablations):
        at = f"ablations[{i}]"
        yield from _setting(at, a.setting)
        for key in ("mean", "std", "draws"):
            yield from _many(f"{at}.{key}", getattr(a, key), len(a.counts))
        yield from _within(f"{at}.mean", a.mean)
        yield from _within(f"{at}.std", a.std)
        for n in a.counts:
            yield from _whole(f"{at}.counts", n)
        yield from _within(f"{at}.draws", a.draws, 0.0, 1e15)
    for i, x in enumerate(r.singles):
        yield from _setting(f"singles[{i}]", x.setting)
        yield from _within(f"singles[{i}].average", [x.average])
        yield from _within(f"singles[{i}].gain", [x.gain], low=-1.0)
    for i, joint in enumerate(r.joints):
        yield from _within(f"joints[{i}].accuracy", [joint.accuracy])
    for i, k in enumerate(r.choices):
        at = f"choices[{i}]"
        yield from _whole(f"{at}.states", k.states)
        for key in ("left_out", "raw", "targets"):
            yield from _within(f"{at}.{key}", getattr(k, key).values())
        if k.left_out and not k.raw:
            yield f"{at}.raw", "is empty"
    yield from _facts(r.facts)


def _setting(at: str, setting: Setting) -> Iterator[tuple[str, str]]:
    yield from _whole(f"{at}.setting.states", setting.states)
    if not 0.0 < setting.fraction <= 1.0:
        yield f"{at}.setting.fraction", f"is {setting.fraction}, not a share of the images"


def _whole(at: str, value: int) -> Iterator[tuple[str, str]]:
    if not 1 <= value <= MOST_STATES:
        yield at, f"is {_shown(value)}, not between 1 and {MOST_STATES:,}"


def _within(
    at: str, values: Iterable[float | None], low: float = 0.0, high: float = 1.0
) -> Iterator[tuple[str, str]]:
    """None is no value; a share may be a rounding beyond its ends."""
    for value in values:
        if value is not None and not low - SLACK <= value <= high + SLACK:
            yield at, f"holds {_shown(value)}, not between {low:g} and {high:g}"


def _shown(value: float) -> str:
    """A number in a message; of thousands of digits nobody wants to read all."""
    return f"{value:.12g}" if not abs(value) > MOST else "a number that is too large"


def _many(at: str, values: Sequence[Any], count: int) -> Iterator[tuple[str, str]]:
    if len(values) != count:
        yield at, f"has {len(values)} entries, not {count}"


def _facts(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Facts are free, but nobody nests them so deep, or counts so far."""
    level: list[Any] = list(facts.values())
    for _ in range(DEEPEST):
        if not level:
            return
        for value in level:
            if isinstance(value, (int, float)) and not -MOST < value < MOST:
                yield "facts", "hold a number that is none or too large"
        inner = (v.values() if isinstance(v, Mapping) else v for v in level
                 if isinstance(v, (Mapping, list, tuple)))  # fmt: skip
        level = [x for values in inner for x in values]
    yield "facts", f"are nested more than {DEEPEST} levels deep"

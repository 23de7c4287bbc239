"""Templates: three kinds of text, each with its own escaping, so that no name can become markup."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from transil.report import names

_TEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#",
    "%": r"\%", "_": r"\_", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "\N{MINUS SIGN}": "$-$", "±": r"$\pm$",
    "≈": r"$\approx$", names.STAR: r"$\star$", "[": "{[}", "]": "{]}", "*": "{*}",
    "\N{GREEK SMALL LETTER ALPHA}": r"$\alpha$", "β": r"$\beta$",
}  # fmt: skip
# What may stand in a template of LaTeX, where braces mean something else.
_MARKS: dict[str, Any] = {
    "block_start_string": "<%", "block_end_string": "%>", "variable_start_string": "<<",
    "variable_end_string": ">>", "comment_start_string": "<#", "comment_end_string": "#>",
}  # fmt: skip
# These facts have a place of their own on a page.
PLACED = ("limits", "differs", "runs", "run_seconds")


def md(text: str) -> str:
    """A text that both GitHub and mkdocs show as it is; they differ in what may be escaped."""
    text = re.sub(r"([\\`*_{}\[\]#])", r"\\\1", " ".join(text.split()))
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"[|$~]", lambda m: f"&#{ord(m[0])};", text)


def tex(text: str) -> str:
    """A text that LaTeX shows as it is."""
    return "".join(_TEX.get(c, c) for c in " ".join(text.split()))


@cache
def templates(kind: str) -> Environment:
    """Those whose names end in .html, .md, .tex or .txt (which is escaped where it is shown)."""
    escape = {"md": md, "tex": tex}.get(kind)

    def escaped(value: Any) -> Any:
        # What has been escaped passes; the engine itself escapes for HTML alone.
        return value if escape is None or isinstance(value, Markup) else Markup(escape(str(value)))

    made = Environment(
        loader=PackageLoader("transil.report"), autoescape=kind != "txt", finalize=escaped,
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        extensions=["jinja2.ext.do"], **(_MARKS if kind == "tex" else {}),
    )  # fmt: skip
    made.globals["names"] = names
    made.filters |= {
        "scalar": scalar,
        "code": code,
        "json": to_json,
        "without_placed": without_placed,
    }
    made.tests |= {"records": records, "brief": brief}
    return made


def render(name: str, **context: Any) -> str:
    """A text from a template; what it is of says its name."""
    return templates(name.rsplit(".")[-1]).get_template(name).render(context)


def macro(name: str, part: str) -> Any:
    """One macro of a template."""
    return getattr(templates(name.rsplit(".")[-1]).get_template(name).module, part)


def notes(part: str, **context: Any) -> tuple[str, ...]:
    """What is said beside a table, in plain text."""
    lines = macro("words.txt", part)(**context).splitlines()
    return tuple(line for line in lines if line.strip())


def words(figure: str, **context: Any) -> tuple[str, str]:
    """The title and the caption of a figure."""
    title, *caption = notes(figure.replace("-", "_"), **context)
    return title, " ".join(caption)


def code(text: str) -> Markup:
    """What stands between fences of Markdown as it is; it cannot close them."""
    return Markup(text.replace("```", "` ` `"))


def to_json(value: Any) -> Markup:
    """The same for data: JSON is YAML, so it can be used as a recipe again."""
    return code(json.dumps(value, ensure_ascii=False))


def without_placed(facts: dict[str, Any]) -> dict[str, Any]:
    """Facts that have no other place on a page."""
    return {k: v for k, v in facts.items() if k not in PLACED}


def scalar(value: Any) -> str:
    """Whatever an experiment says of itself, if it is one thing."""
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    return f"{value:,.6g}" if isinstance(value, float) else str(value)


def brief(value: Any) -> bool:
    """Whether a list of facts fits into one line."""
    return all(isinstance(v, (str, int, float)) and len(str(v)) < 40 for v in value)


def records(value: Any) -> bool:
    """Whether a list of facts is a table."""
    return all(isinstance(v, dict) for v in value) and len({tuple(v) for v in value}) == 1

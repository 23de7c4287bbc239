"""Pages of the documentation that are generated: commands, settings, and the API. A hook of mkdocs."""

from __future__ import annotations

import importlib
import inspect
import os
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

import click
import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from transil.cli.app import app
from transil.engine.config import RunConfig
from transil.experiment.recipe import TRAINING, Experiment

PACKAGES = (
    "transil", "transil.correction", "transil.adaptation", "transil.evaluation", "transil.scores",
    "transil.data", "transil.engine", "transil.methods", "transil.nets", "transil.testing",
)  # fmt: skip
WIDTH = 100


FIGURES = "../results/real-32/figures/"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages to those on disk, and the figures of results that pages show."""
    for name, text in {
        "commands.md": commands(),
        "settings.md": settings(),
        "api.md": api(),
    }.items():
        files.append(File.generated(config, name, content=text))
    for path in sorted((Path(config.docs_dir) / FIGURES).glob("*.svg")):
        files.append(File.generated(config, f"figures/{path.name}", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Figures that lie outside the pages are at hand in the site."""
    return markdown.replace(FIGURES, "figures/")


def commands() -> str:
    """Every command with its help."""
    os.environ["COLUMNS"] = str(WIDTH)
    parts = ["# Commands", "What each command prints with `--help`."]
    for words, command in _commands(typer.main.get_command(app), ("transil",)):
        context = click.Context(command, info_name=" ".join(words), terminal_width=WIDTH)
        parts += [f"## {' '.join(words)}", f"```text\n{command.get_help(context).strip()}\n```"]
    return "\n\n".join(parts) + "\n"


def _commands(command: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    found = getattr(command, "commands", None)
    if found is None:
        yield words, command
        return
    for name, each in found.items():
        yield from _commands(each, (*words, name))


def settings() -> str:
    """Every key of a training recipe and of an experiment's, with its default."""
    parts = [
        "# Settings",
        "Keys of a training recipe, as `transil recipes lwf-32` shows one, and of words after the "
        "options of `transil train`: `train.epochs=40`.",
        "## A training",
        *_table(RunConfig, ""),
    ]
    for field in fields(RunConfig):
        if hasattr(field.default, "__dataclass_fields__"):
            parts += [f"## {field.name}", *_table(type(field.default), f"{field.name}.")]
    parts += [
        "## An experiment",
        f"Keys of the YAML file of `transil run`. {', '.join(TRAINING)} hold keys as above.",
        *_table(Experiment, ""),
    ]
    return "\n\n".join(parts) + "\n"


def _table(kind: type[Any], prefix: str) -> list[str]:
    rows = [f"| `{prefix}{f.name}` | {_default(f)} |" for f in fields(kind)]
    return [inspect.getdoc(kind) or "", "| setting | default |\n|---|---|\n" + "\n".join(rows)]


def _default(field: Field[Any]) -> str:
    if field.default is MISSING:
        return "" if field.default_factory is MISSING else "none"
    if hasattr(field.default, "__dataclass_fields__"):
        return "see below"
    value = list(field.default) if isinstance(field.default, tuple) else field.default
    return "none" if value is None else f"`{value}`"


def api() -> str:
    """Every public name, by package."""
    parts = ["# API", "Every public name, with its docstring."]
    shown: set[int] = set()
    for package in PACKAGES:
        module = importlib.import_module(package)
        names = [n for n in module.__all__ if not n.startswith("__")]
        parts += [f"## {package}", (inspect.getdoc(module) or "").split("\n")[0]]
        for name in sorted(names, key=str.lower):
            thing = getattr(module, name)
            parts.append(
                f"::: {package}.{name}" if id(thing) not in shown else f"- `{name}`: see above"
            )
            shown.add(id(thing))
    return "\n\n".join(parts) + "\n"

"""YAML as settings need it: texts, numbers, true, false, null, lists and groups, each with its line.

Anything else that YAML has is told with its line: dates, sets, bytes, merged groups, other kinds. What
is small in a file and large in memory (aliases of aliases) or nested without end is not read.
"""

from __future__ import annotations

from importlib import resources
from typing import Any

from transil._common.files import read_bytes
from transil._common.registry import nearest
from transil._common.typed import DEEP, short
from transil.errors import TransilError, missing, reason

MOST_BYTES, MOST_VALUES, MOST_DIGITS = 1 << 20, 100_000, 1000
KIND = "tag:yaml.org,2002:"
SCALARS = {"str": "a text", "int": "a whole number", "float": "a number",
           "bool": "true or false", "null": "null"}  # fmt: skip


def names_in(package: str) -> list[str]:
    """The recipes in a package of ours."""
    files = resources.files(package).iterdir()
    return sorted(file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml"))


def read_named(name: str, package: str, what: str) -> str:
    """A recipe as written: one of a package of ours, or a file that ends in .yaml."""
    if not name.endswith((".yaml", ".yml")):
        if name in names_in(package):
            return resources.files(package).joinpath(f"{name}.yaml").read_text("utf-8")
        raise TransilError(
            f"{what} '{name}' is unknown; {nearest(name, names_in(package))} "
            "(a file of your own must end in .yaml)"
        )
    raw = read_bytes(name, MOST_BYTES)
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise TransilError(f"{name}, line {line}: not UTF-8; save the file as UTF-8") from None


def read_yaml(text: str, where: str) -> tuple[Any, dict[str, int]]:
    """Plain values from YAML, and the line of each dotted key; keys are texts, each stands once."""
    try:
        import yaml
    except ModuleNotFoundError:
        raise missing("recipes need", "pyyaml") from None
    nodes = _Nodes(where)

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        """The safe loader; it makes no more nodes than are read."""

        count = depth = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            self.count += 1
            self.depth += 1
            nodes.check(self.count, self.depth, self.peek_event().start_mark.line + 1)
            made = super().compose_node(parent, index)
            self.depth -= 1
            return made

    try:
        loader = Loader(text)
        top = loader.get_single_node()
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise TransilError(
            f"{where}, line {line}: not YAML (the character {short(chr(error.character))})"
        ) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{where}, line {mark.line + 1}" if mark else where
        words = (getattr(error, "context", None), getattr(error, "problem", None))
        problem = ", ".join(word for word in words if word) or reason(error)
        raise TransilError(f"{place}: not YAML ({problem})") from None
    except (ValueError, OverflowError) as error:  # a character or a version that does not exist
        if isinstance(error, TransilError):
            raise
        raise TransilError(f"{where}: not YAML ({reason(error)})") from None
    if top is None:
        return None, {}
    return nodes.value(top, loader), nodes.lines


class _Nodes:
    """Values of YAML's nodes. An alias counts as often as it stands."""

    def __init__(self, where: str) -> None:
        self.where, self.count = where, 0
        self.lines: dict[str, int] = {}

    def check(self, count: int, depth: int, line: int) -> None:
        """An error where there are too many values, or they are nested too deep."""
        if count > MOST_VALUES:
            raise self.error(
                line, f"more than {MOST_VALUES:,} values, aliases counted wherever they stand"
            )
        if depth > DEEP:
            raise self.error(line, f"nested more than {DEEP} deep")

    def error(self, line: int, problem: str) -> TransilError:
        """The error of a line."""
        return TransilError(f"{self.where}, line {line}: {problem}")

    def value(self, node: Any, loader: Any, prefix: str = "", depth: int = 1) -> Any:
        """The plain value of a node, and the lines of the keys below it."""
        line, kind = node.start_mark.line + 1, node.tag.removeprefix(KIND)
        self.count += 1
        self.check(self.count, depth, line)
        if node.id == "scalar" and kind in SCALARS:
            return self.scalar(node, loader, kind, line)
        if (node.id, kind) == ("sequence", "seq"):
            return [self.value(item, loader, prefix, depth + 1) for item in node.value]
        if (node.id, kind) == ("mapping", "map"):
            return self.mapping(node, loader, prefix, depth)
        what = f"the date {short(node.value)}" if kind == "timestamp" else f"'{kind}'"
        known = "texts, numbers, true, false, null, lists and groups"
        raise self.error(
            line, f"{what} cannot be read; settings are {known} (a text may stand in quotes)"
        )

    def mapping(self, node: Any, loader: Any, prefix: str, depth: int) -> dict[str, Any]:
        """A group; keys are texts whatever they look like."""
        made: dict[str, Any] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if key.id != "scalar" or key.tag.removeprefix(KIND) not in SCALARS:
                raise self.error(line, "a key must be a plain name")
            if key.value in made:
                raise self.error(line, f"key {short(key.value)} stands twice")
            self.lines[f"{prefix}{key.value}"] = line
            made[key.value] = self.value(value, loader, f"{prefix}{key.value}.", depth + 1)
        return made

    def scalar(self, node: Any, loader: Any, kind: str, line: int) -> Any:
        """A text, a number, true, false or null."""
        if kind == "str":
            return node.value
        if len(node.value) > MOST_DIGITS:
            raise self.error(line, f"a number of {len(node.value):,} characters")
        try:
            return getattr(loader, f"construct_yaml_{kind}")(node)
        except (ValueError, KeyError, IndexError, OverflowError):
            what = f"{short(node.value)} cannot be read as {SCALARS[kind]}"
            raise self.error(line, what) from None

"""Looks for inputs of a parser that reach new code, with atheris (pip install atheris).

    cd tests && python -m fuzz.guided bank /tmp/corpus/bank fuzz/corpus/bank -max_total_time=600

The first folder takes what is new; the words after the parser's name are libFuzzer's. An input that
raises anything but TransilError, takes ten seconds or a gigabyte ends the search and is kept.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from random import Random
from typing import Any

LIMITS = ("-timeout=10", "-rss_limit_mb=1024")


# Files whose values are worth changing as values; bytes alone seldom leave them readable.
TREES = {
    "bank": "json",
    "any": "json",
    "store": "json",
    "results": "json",
    "ledger": "json",
    "corrector": "json",
    "classes": "json",
    "shares": "json",
    "recipe": "yaml",
    "config": "yaml",
}


def _by_values(name: str) -> Any:
    """A mutator for libFuzzer: most often a value is changed, else bytes."""
    import atheris
    import yaml

    from fuzz.mutate import json_text, yaml_text

    def mutated(raw: bytes, most: int, seed: int) -> bytes:
        random = Random(seed)
        # What is a burden to read as it is cannot be changed by its values.
        if random.random() < 0.2 or b"*" in raw or raw.count(b"[") + raw.count(b"{") > 500:
            made: bytes = atheris.Mutate(raw, most)
            return made
        try:
            if TREES[name] == "json":
                text = json_text(json.loads(raw), random)
            else:
                text = yaml_text(yaml.safe_load(raw), random)
            made = text.encode("utf-8", "surrogatepass")
        except Exception:  # what cannot be read or written so is changed by its bytes
            made = atheris.Mutate(raw, most)
        return made if len(made) <= most else atheris.Mutate(raw, most)

    return mutated


def main() -> None:
    """Search until an input breaks the promise, or as long as is said."""
    import atheris

    name, *words = sys.argv[1:]
    for word in words[:1]:
        Path(word).mkdir(parents=True, exist_ok=True)
    with atheris.instrument_imports(include=["transil", "yaml"]):
        from fuzz.parsers import CORPUS, PARSERS, check

        if name not in PARSERS:
            raise SystemExit(f"{name!r} is no parser; there are: {', '.join(PARSERS)}")
        for path in sorted((CORPUS / name).iterdir())[:1]:  # imports what it needs
            check(name, path.read_bytes())
    atheris.Setup(
        [sys.argv[0], *LIMITS, *words],
        lambda raw: check(name, raw),
        custom_mutator=_by_values(name) if name in TREES else None,
    )
    atheris.Fuzz()


if __name__ == "__main__":
    main()

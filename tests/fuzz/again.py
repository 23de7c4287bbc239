"""One case again, by its name; its folder stays for a look: python -m fuzz.again 'CASE'."""

from __future__ import annotations

import shlex
import sys
import tempfile
from pathlib import Path

from fuzz import cases, options
from fuzz.boxes import Case, Server, prepare, run_case


def named(name: str) -> Case:
    """A case of any kind."""
    if name.startswith("option : "):
        return options.case_named(name)
    if name.startswith("finding : "):
        from fuzz.findings import FINDINGS

        return FINDINGS[name]
    return cases.case_named(name)


def main(name: str) -> None:
    """Run it, say what was wrong, and leave its files."""
    from fuzz.seeds import build

    top = Path(tempfile.mkdtemp(prefix="transil-again-"))
    case, seeds = named(name), build(top / "seeds")
    server = Server()
    outcome = run_case(case, seeds, server)
    server.close()
    work = prepare(case, seeds, top / "box")
    print(outcome.report())
    print(f"{outcome.verdict}; its files: {work}")
    print(f"cd {work} && transil {shlex.join(case.words)}")


if __name__ == "__main__":
    main(sys.argv[1])

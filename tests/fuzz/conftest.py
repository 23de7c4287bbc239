"""What the fuzz tests share: the seeds, the server, and the table of what was tried.

`make test` takes a small part of the cases, the same each time; `make fuzz` takes them all
(TRANSIL_FUZZ=all) and prints how many of each command were refused and accepted.
"""

from __future__ import annotations

import fcntl
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fuzz.boxes import Case, Outcome, Server, run_case
from fuzz.sizes import ALL


@pytest.fixture(scope="session")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of valid files, made by the first worker that needs it."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    folder = shared / "fuzz-seeds"
    with open(shared / "fuzz-seeds.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            from fuzz.seeds import build

            build(folder)
    return folder


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """The process that runs commands."""
    server = Server()
    yield server
    server.close()


class Bench:
    """Runs cases and keeps the count."""

    def __init__(self, seeds: Path, server: Server) -> None:
        self.seeds, self.server = seeds, server
        self.counted: list[tuple[str, str]] = []

    def run(self, case: Case) -> Outcome:
        """Run one case, and count it."""
        outcome = run_case(case, self.seeds, self.server)
        self.counted.append((case.command, outcome.verdict))
        return outcome

    def holds(self, case: Case) -> None:
        """Run one case that must hold."""
        outcome = self.run(case)
        assert outcome.verdict != "violated", "\n" + outcome.report()

    def hold(self, cases: Iterable[Case]) -> None:
        """Run cases that all must hold; all that do not are told."""
        bad = [o for o in map(self.run, cases) if o.verdict == "violated"]
        assert not bad, f"{len(bad)} violated\n" + "\n".join(o.report() for o in bad)


@pytest.fixture
def bench(seeds: Path, server: Server, record_property: Any) -> Iterator[Bench]:
    """Where cases are run."""
    bench = Bench(seeds, server)
    yield bench
    record_property("fuzz", bench.counted)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """The table of `make fuzz`."""
    counts: Counter[tuple[str, str]] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, value in getattr(report, "user_properties", ()):
                if name == "fuzz" and getattr(report, "when", "") == "teardown":
                    counts.update(tuple(pair) for pair in value)
    if not ALL or not counts:
        return
    verdicts = ("refused", "accepted", "violated")
    terminalreporter.write_line("")
    terminalreporter.write_line("| command | cases | " + " | ".join(verdicts) + " |")
    terminalreporter.write_line("|---|--:|--:|--:|--:|")
    for command in [*sorted({command for command, _ in counts}), "all"]:
        found = [
            sum(n for (c, v), n in counts.items() if command in (c, "all") and v == verdict)
            for verdict in verdicts
        ]
        cells = " | ".join(f"{n:,}" for n in (sum(found), *found))
        terminalreporter.write_line(f"| {command} | {cells} |")

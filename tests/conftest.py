from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

import outside_method
from transil import ScoreStore

# The same examples in every run: a test that fails must fail again.
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=25)
hypothesis.settings.load_profile("repeatable")

# Files that take long begin first: a worker takes a file as a whole, and the last one decides.
LONG = ("test_experiment.py", "test_docs_pages.py", "test_engine.py", "test_findings.py",
        "test_documents.py", "test_experiment_failures.py", "test_train_faults.py",
        "test_formula.py", "test_report.py", "test_parallel.py", "test_notebooks.py",
        "test_experiment_cli.py", "test_options.py")  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files first, the others as they were found."""
    items.sort(key=lambda item: LONG.index(item.path.name) if item.path.name in LONG else len(LONG))


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of data beside the repository; tests that need it skip where it is absent."""
    default = Path(__file__).resolve().parents[2] / "shared"
    folder = Path(os.environ.get("TRANSIL_SHARED", default))
    if not folder.is_dir():
        pytest.skip("the folder 'shared' is not beside the repository (or set TRANSIL_SHARED)")
    return folder


@pytest.fixture(scope="session")
def released(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> ScoreStore:
    """The authors' LUCIR scores on CIFAR-100, S = 10, as a store on disk."""
    from transil.interop import dkt

    store = dkt.import_scores(shared / "released-scores" / "logits_lucir_s10")
    return store.save(tmp_path_factory.mktemp("released") / "lucir")


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A method and a recipe of another package, registered by its entry point."""
    with outside_method.installed(tmp_path_factory.mktemp("site")):
        yield

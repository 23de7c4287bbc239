"""Fits of an experiment: kept, made again when something changed, slow ones in processes."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import pytest

from transil import Penalty, ScoreStore, TransilError, fit
from transil.experiment import fits as module
from transil.experiment.fits import THREADS, Fits, Job, joined
from transil.experiment.ways import ways as every_way
from transil.synthetic import biased_scores


def stores_of(*names: str) -> dict[str, ScoreStore]:
    given = {n: biased_scores("6/3", seed=i, images_per_class=8) for i, n in enumerate(names)}
    return {name: joined(store, ["val", "test"], name) for name, store in given.items()}


def ways(*candidates: str) -> list[tuple[str, str]]:
    return [(correction, how) for correction in ("bic", "adbic") for how in candidates]


def test_a_bank_is_that_of_one_fit_of_all(tmp_path: Path) -> None:
    stores = stores_of("a", "b")
    made = Fits(tmp_path).bank(stores, "adbic", "newton:0.1")
    whole = fit(list(stores.values()), split="fit", names=["a", "b"], penalty=Penalty(0.1, 0.1))
    assert made.settings == whole.settings
    assert [r.name for r in made.references] == ["a", "b"]
    for state in (2, 3):
        assert made.pairs(state) == whole.pairs(state)
    assert made.provenance["datasets"] == ["a", "b"]


def test_a_fit_is_kept_until_scores_or_settings_change(tmp_path: Path) -> None:
    stores = stores_of("a", "b")
    Fits(tmp_path).bank(stores, "adbic", "newton")
    times = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert {name.rsplit("-", 1)[0] for name in times} == {
        "a-generated-s3-adbic-newton", "b-generated-s3-adbic-newton"
    }  # fmt: skip
    turned = dict(reversed(stores.items()))
    Fits(tmp_path).bank({**turned, **stores_of("x", "y", "c")}, "adbic", "newton")
    assert {n: (tmp_path / n).stat().st_mtime_ns for n in times} == times
    before = len(list(tmp_path.iterdir()))
    Fits(tmp_path).bank(
        {"a": joined(biased_scores("6/3", seed=9), ["val"], "a")}, "adbic", "newton"
    )
    Fits(tmp_path).bank(stores, "bic", "newton")
    assert len(list(tmp_path.iterdir())) == before + 3


def test_a_damaged_or_foreign_fit_is_made_again(tmp_path: Path) -> None:
    fits, stores = Fits(tmp_path), stores_of("a", "b")
    good = fits.bank(stores, "adbic", "newton")
    (a,), (b,) = (fits.jobs({n: stores[n]}, [("adbic", "newton")]) for n in "ab")
    content = a.path.read_bytes()
    a.path.write_text("{")
    b.path.write_bytes(content)
    again = fits.bank(stores, "adbic", "newton")
    assert again.pairs(3) == good.pairs(3)
    assert a.path.read_bytes() == content


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of pools that are started."""
    sizes = []

    class Seen(ProcessPoolExecutor):
        def __init__(self, size: int, *args: Any, **more: Any) -> None:
            sizes.append(size)
            super().__init__(size, *args, **more)

    monkeypatch.setattr(module, "ProcessPoolExecutor", Seen)
    return sizes


def test_slow_fits_are_made_in_processes_with_the_same_result(
    tmp_path: Path, begun: list[int]
) -> None:
    stores = stores_of("a", "b")
    before = {name: os.environ.get(name) for name in THREADS}
    with Fits(tmp_path / "many", 2) as many:
        jobs = many.jobs(stores, ways("authors", "newton", "authors"))
        assert len(jobs) == 8
        many.ahead(jobs)
        assert sorted(j.path for j in jobs if "authors" in j.path.name) == sorted(
            (tmp_path / "many").iterdir()
        )
        many.ahead(jobs)
    assert begun == [2]
    assert {name: os.environ.get(name) for name in THREADS} == before
    one = Fits(tmp_path / "one")
    for job in jobs:
        alone = Job(one.folder, job.name, job.store, job.source, job.correction, job.candidate)
        assert [job.bank().pairs(s) for s in (2, 3)] == [alone.bank().pairs(s) for s in (2, 3)]


def test_few_or_quick_fits_start_no_process(tmp_path: Path, begun: list[int]) -> None:
    stores = stores_of("a", "b")
    with Fits(tmp_path, 8) as fits:
        fits.ahead(fits.jobs(stores, [("adbic", "authors")]))
        fits.ahead(fits.jobs(stores, ways("newton", "newton:0.1", "newton:1")))
    with Fits(tmp_path, 1) as fits:
        fits.ahead(fits.jobs(stores, ways("authors", "paper")))
    assert begun == []
    assert not list(tmp_path.iterdir())


def test_a_pool_that_breaks_leaves_the_fits_to_be_made_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken:
        def __init__(self, *_args: Any, **_more: Any) -> None:
            self.closed = False

        def submit(self, *_args: Any) -> Any:
            raise BrokenProcessPool

        def shutdown(self, **_more: Any) -> None:
            self.closed = True

    monkeypatch.setattr(module, "ProcessPoolExecutor", Broken)
    stores = stores_of("a", "b")
    with Fits(tmp_path, 2) as fits:
        fits.ahead(fits.jobs(stores, ways("authors")))
        pool: Any = fits._pool
    assert pool.closed
    monkeypatch.undo()
    with pytest.raises(TransilError, match="authrs"):
        fits.bank(stores, "bic", "authrs")


def test_a_correction_may_have_solvers_of_its_own() -> None:
    asked = every_way(["bic", "adbic", "adbic-centred"], ["newton", "authors"],
                      {"adbic-centred": ["newton"]})  # fmt: skip
    assert asked == [*ways("newton", "authors"), ("adbic-centred", "newton")]

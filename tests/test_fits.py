"""Fits of an experiment: kept, made again when something changed, slow ones in processes."""

from __future__ import annotations

import os
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, ClassVar

import pytest

from transil import AdBiC, Penalty, ScoreStore, TransilError, fit
from transil.experiment import fits as module
from transil.experiment.fits import THREADS, Fits, Job, joined
from transil.experiment.ways import ways as every_way
from transil.testing import biased_scores


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


class Pool:
    """In the place of a pool of processes."""

    made: ClassVar[list[Pool]] = []

    def __init__(self, *_args: Any, **_more: Any) -> None:
        self.closed = False
        Pool.made.append(self)

    def shutdown(self, **_more: Any) -> None:
        self.closed = True


@pytest.fixture(autouse=True)
def _no_pools() -> None:
    Pool.made.clear()


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


def test_fits_stay_in_their_folder(tmp_path: Path) -> None:
    folder = tmp_path / "results" / "fits"
    (store,) = stores_of("a").values()
    for name in ("/abs/birds", "../photos", "a/b.c"):
        Fits(folder).bank({name: store}, "adbic", "newton:0.1,0.2")
    assert len(list(folder.iterdir())) == 3
    assert [p.name for p in tmp_path.iterdir()] == ["results"]


def test_a_changed_correction_is_fitted_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores = stores_of("a")
    before = Fits(tmp_path).bank(stores, "adbic", "newton")
    monkeypatch.setattr(AdBiC, "centred", True)
    assert Fits(tmp_path).bank(stores, "adbic", "newton").pairs(3) != before.pairs(3)


def test_where_nothing_can_be_kept_it_is_said_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Here(Pool):
        """Fails with the first job, and has not begun the others."""

        def submit(self, function: Any, job: Any) -> Any:
            future: Future[None] = Future()
            waiting.append(future)
            if len(waiting) == 1:
                with pytest.raises(TransilError) as error:
                    function(job)
                future.set_exception(error.value)
            return future

    waiting: list[Future[None]] = []
    monkeypatch.setattr(module, "ProcessPoolExecutor", Here)
    (tmp_path / "fits").write_text("a file")
    stores = stores_of("a", "b")
    with Fits(tmp_path / "fits", 2) as fits:
        fits.ahead(fits.jobs(stores, ways("authors")))
        assert [future.cancelled() for future in waiting] == [False, True, True, True]
        with pytest.raises(TransilError, match="fits"):
            fits.bank(stores, "bic", "newton")


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
    class Broken(Pool):
        def submit(self, *_args: Any) -> Any:
            raise BrokenProcessPool

    monkeypatch.setattr(module, "ProcessPoolExecutor", Broken)
    stores = stores_of("a", "b")
    with Fits(tmp_path, 2) as fits:
        fits.ahead(fits.jobs(stores, ways("authors")))
        fits.ahead(fits.jobs(stores, ways("authors")))
    assert [pool.closed for pool in Pool.made] == [True, True]  # a new one for the second time
    monkeypatch.undo()
    with pytest.raises(TransilError, match="authrs"):
        fits.bank(stores, "bic", "authrs")


def test_a_correction_may_have_solvers_of_its_own() -> None:
    asked = every_way(["bic", "adbic", "adbic-centred"], ["newton", "authors"],
                      {"adbic-centred": ["newton"]})  # fmt: skip
    assert asked == [*ways("newton", "authors"), ("adbic-centred", "newton")]

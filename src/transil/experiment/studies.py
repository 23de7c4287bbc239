"""Studies of score stores alone: fit, transfer, correct, compare. Nothing here trains."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from transil._common.arrays import FloatArray
from transil._common.files import digest, read_json
from transil._common.progress import Progress, no_progress
from transil.adaptation.controls import align, shift
from transil.correction.affine import correct_groups
from transil.correction.bank import Bank
from transil.correction.transfers import transfer
from transil.engine.checkpoint import Checkpoint
from transil.engine.run_folder import RunFolder
from transil.errors import TransilError
from transil.evaluation.bootstrap import Bootstrap
from transil.evaluation.evaluate import evaluate
from transil.evaluation.hits import Correct, Hits, applied, are_nested, average, hits_of
from transil.evaluation.metrics import Metrics, state_metrics
from transil.experiment.adapting import study_traffic
from transil.experiment.choosing import study_choices
from transil.experiment.fits import Fits, joined
from transil.experiment.plan import Plan, Task
from transil.experiment.results import (
    UNFINISHED,
    Ablation,
    Cell,
    Detail,
    Failure,
    Joint,
    Pairs,
    Results,
    Setting,
    Single,
)
from transil.experiment.run_facts import run_facts
from transil.methods.base import Method
from transil.methods.registry import METHODS
from transil.scores.store import ScoreStore


@dataclass(frozen=True, eq=False)
class Target:
    """A target's test scores, read once, and its raw hits."""

    setting: Setting
    task: Task
    store: ScoreStore
    raw: list[Hits]  # of states 1..S
    bootstrap: Bootstrap

    @property
    def whole(self) -> bool:
        """Whether it was trained on all its images."""
        return self.setting.fraction == 1.0

    @property
    def own(self) -> ScoreStore:
        """Its validation scores: what the upper bound is fitted on."""
        return joined(self.store, ["val"], self.setting.target)

    def hits(self, correct: Correct) -> list[Hits]:
        """Which test images of each state are predicted right after correction."""
        states = range(2, self.store.schedule.states + 1)
        return [self.raw[0], *(hits_of(self.store, "test", state, correct) for state in states)]


def study(
    plan: Plan,
    progress: Progress = no_progress,
    *,
    processes: int | None = None,
) -> Results:
    """All studies of an experiment; parts whose runs are missing are reported as failures.

    Slow fits are made in several `processes` (see `Fits`); by default in this one.
    """
    experiment = plan.experiment
    results = Results(experiment.name, facts=facts(plan))
    combos = list(itertools.product(experiment.seeds, experiment.states, experiment.methods))
    with Fits(plan.folder / "fits", processes or 1) as fits:
        for number, (seed, states, method) in enumerate(combos):
            progress(number / len(combos), f"{method}, {states} states, seed {seed}")
            with failures_in(results, f"{method}, {states} states, seed {seed}"):
                study_method(plan, results, fits, method, states, seed)
    for target, seed in itertools.product(experiment.targets, experiment.seeds):
        if experiment.joint:
            with failures_in(results, f"joint, {target}, seed {seed}"):
                add_joint(plan, results, target, seed)
    return results


@contextmanager
def failures_in(results: Results, what: str) -> Iterator[None]:
    """A part that cannot be done is noted as a failure; the others go on."""
    try:
        yield
    except TransilError as error:
        results.failures.append(Failure(what, str(error)))


def study_method(
    plan: Plan, results: Results, fits: Fits, method: str, states: int, seed: int
) -> None:
    """All targets of one method, S and seed."""
    experiment = plan.experiment
    whole = reference_stores(plan, results, method, states, seed)
    stores = {}
    for name, store in list(whole.items()):
        with failures_in(results, f"reference {name}, {method}, {states} states, seed {seed}"):
            stores[name] = joined(store, experiment.fit_on, name)
    whole = {name: whole[name] for name in stores}
    settings = [
        Setting(target, method, states, fraction, seed)
        for target, fraction in itertools.product(experiment.targets, experiment.train_fraction)
    ]
    targets = []
    for s in settings:
        with failures_in(results, f"{s.target}, {method}, {states} states, seed {seed}"):
            targets += [t for t in [open_target(plan, results, s)] if t is not None]
    choosing = experiment.candidate_ways if len(stores) > 1 else []
    ahead = fits.jobs(stores, [*experiment.ways, *choosing])
    if stores and experiment.own_bound:
        owns = {t.setting.target: t.own for t in targets if t.whole}
        ahead += fits.jobs(owns, experiment.ways)
    fits.ahead(ahead)
    fitted_on = reference_facts(plan, list(stores), method, states, seed)
    banks = {}
    for name, solver in experiment.ways if stores else ():
        with failures_in(results, f"{method}, {states} states, seed {seed}: {name} by {solver}"):
            bank = fits.bank(stores, name, solver)
            bank = replace(bank, provenance={**bank.provenance, **fitted_on})
            path = plan.folder / "banks" / f"{method}-s{states}-{name}-{solver}-seed{seed}.json"
            save_changed(bank, path)
            banks[name, solver] = bank, path
            results.pairs.append(last_pairs(bank, method, states, seed))
    for target in targets:
        with failures_in(results, f"{target.task.name}, {method}"):
            study_target(plan, results, fits, target, banks)
    if choosing:
        seen = {target.setting.target: target.store for target in targets if target.whole}
        results.choices.extend(study_choices(plan, fits, whole, stores, seen, method, states, seed))


def save_changed(bank: Bank, path: Path) -> None:
    """Save a bank, unless the file has it already."""
    try:
        same = read_json(path) == bank.to_json()
    except TransilError:  # not there yet, or damaged
        same = False
    if not same:
        bank.save(path)


def reference_stores(
    plan: Plan, results: Results, method: str, states: int, seed: int
) -> dict[str, ScoreStore]:
    """The scores of each reference whose run is finished."""
    stores = {}
    for name in plan.experiment.references:
        store = open_store(plan.task(name, method, states, 1.0, seed), method, results)
        if store is not None:
            stores[name] = store
    return stores


def reference_facts(
    plan: Plan, names: Sequence[str], method: str, states: int, seed: int
) -> dict[str, Any]:
    """What the provenance of a bank says of the runs that it was fitted on."""
    tasks = {name: plan.task(name, method, states, 1.0, seed) for name in names}
    return {
        "experiment": plan.experiment.name,
        "fitted_on": list(plan.experiment.fit_on),
        "runs": {name: task.name for name, task in tasks.items()},
        "networks": sorted({task.config.net.body for task in tasks.values()}),
        "pixels": sorted({plan.images[name].size for name in tasks}),
    }


def open_store(task: Task, method: str, results: Results) -> ScoreStore | None:
    """The scores of a finished run; one that is not is noted as a failure."""
    failure = Failure(task.name, UNFINISHED)
    if task.trained:
        try:
            return ScoreStore.open(RunFolder(task.folder).scores_path(method))
        except TransilError as error:
            failure = Failure(f"{task.name}, {method}", str(error))
    if failure not in results.failures:
        results.failures.append(failure)
    return None


def open_target(plan: Plan, results: Results, setting: Setting) -> Target | None:
    """The target's scores, its raw hits, and resamples of its test images."""
    task = plan.task(setting.target, setting.method, setting.states, setting.fraction, setting.seed)
    store = open_store(task, setting.method, results)
    if store is None:
        return None
    states = store.require("test")
    if not are_nested([store.get("test", state).labels for state in states]):
        raise TransilError(f"{store.name}: the test images of states are not nested")
    raw = [hits_of(store, "test", state) for state in states]
    boot = _bootstrap(len(raw[-1]), plan.experiment.resamples)
    return Target(setting, task, store, raw, boot)


def study_target(
    plan: Plan,
    results: Results,
    fits: Fits,
    target: Target,
    banks: dict[tuple[str, str], tuple[Bank, Path]],
) -> None:
    """Raw, controls, transfers and bounds of one target."""
    experiment = plan.experiment
    first = next((solver for name, solver in experiment.ways if name == "adbic"), None)
    main = ("adbic", first) if first and ("adbic", first) in banks else next(iter(banks), None)
    add = TargetCells(plan, results, target)
    add("raw", "raw", None)
    known = controls(target)
    for name, correct in known.items():
        add("control", name, correct)
    allowed = plan.references_of(target.setting.target)
    for (name, solver), (whole, path) in banks.items():
        there = [r.name for r in whole.references if r.name in allowed]
        if not there:
            continue
        bank = whole.subset(there)
        for how in experiment.transfer:
            looks = target.store if how == "oracle" else None
            chosen = transfer(bank, how, target=looks)
            kind = "bound" if how == "oracle" else "transfer"
            add(kind, name, applied(chosen), solver, how, there, path)
        if target.whole:
            if experiment.own_bound:
                with failures_in(
                    results, f"{target.task.name}, {name} by {solver} on its own images"
                ):
                    own = fits.bank({target.setting.target: target.own}, name, solver)
                    add("bound", name, applied(own), solver, "own", [target.setting.target])
            add.singles(bank, name, solver)
            if experiment.ablation and name == "adbic" and solver == first:
                add.ablation(bank, name, solver)
        if experiment.traffic and (name, solver) == main:
            with failures_in(results, f"{target.task.name}, {target.setting.method}: traffic"):
                results.traffic.extend(study_traffic(experiment, target, bank, known))


class TargetCells:
    """Writes what is found of one target into the results."""

    def __init__(self, plan: Plan, results: Results, target: Target) -> None:
        self.plan, self.results, self.target = plan, results, target
        self.raw_average = average(target.raw)

    def __call__(
        self,
        kind: str,
        name: str,
        correct: Correct | None,
        solver: str | None = None,
        how: str | None = None,
        references: Sequence[str] = (),
        bank: Path | None = None,
    ) -> None:
        """One cell, and its details for figures."""
        target = self.target
        hits = target.raw if correct is None else target.hits(correct)
        low = high = gain = None
        if correct is not None:
            gain = average(hits) - self.raw_average
            low, high = target.bootstrap.interval(target.raw[1:], hits[1:])
        folder = self.plan.folder
        self.results.cells.append(
            Cell(
                target.setting, kind, name, solver, how, list(references),
                [float(h.mean()) for h in hits], average(hits), gain, low, high,
                target.task.folder.relative_to(folder).as_posix(),
                None if bank is None else bank.relative_to(folder).as_posix(),
            )
        )  # fmt: skip
        self.results.details.append(detail(target, name, solver, how, correct, hits))

    def singles(self, bank: Bank, name: str, solver: str) -> None:
        """Each reference alone: a column of the transfer matrix."""
        for reference in bank.references:
            hits = self.target.hits(applied(bank.subset([reference.name])))
            self.results.singles.append(
                Single(self.target.setting, name, solver, reference.name, average(hits),
                       average(hits) - self.raw_average)
            )  # fmt: skip

    def ablation(self, bank: Bank, name: str, solver: str) -> None:
        """R = 1..all references; every choice of R, or as many random ones as `draws` says."""
        names = [reference.name for reference in bank.references]
        random = np.random.default_rng([self.target.setting.seed, 7])
        rows: list[tuple[int, float, float, int]] = []
        for count in range(1, len(names) + 1):
            choices = list(itertools.combinations(names, count))
            if len(choices) > self.plan.experiment.draws:
                picked = random.permutation(len(choices))[: self.plan.experiment.draws]
                choices = [choices[i] for i in sorted(picked)]
            values = [average(self.target.hits(applied(bank.subset(c)))) for c in choices]
            rows.append((count, float(np.mean(values)), float(np.std(values)), len(values)))
        counts, means, stds, draws = (list(column) for column in zip(*rows, strict=True))
        self.results.ablations.append(
            Ablation(self.target.setting, name, solver, counts, means, stds, draws)
        )


def controls(target: Target) -> dict[str, Correct]:
    """Corrections of the newest group that need neither references nor old images."""
    schedule = target.store.schedule
    run = RunFolder(target.task.folder)
    found: dict[str, Correct] = {}

    def newest(values: dict[int, tuple[float, float]]) -> Correct:
        def correct(scores: FloatArray, state: int) -> FloatArray:
            alpha, beta = np.ones(state), np.zeros(state)
            alpha[-1], beta[-1] = values[state]
            return correct_groups(scores, alpha, beta, schedule, state)

        return correct

    states = range(2, schedule.states + 1)
    rows = {state: last_rows(run, target.setting.method, state) for state in states}
    if all(value is not None for value in rows.values()):
        found["align"] = newest(
            {s: align(rows[s][: schedule.columns(s)], schedule, s) for s in states}
        )
    if set(states) <= set(target.store.states("train")):
        found["shift"] = newest(
            {s: shift(target.store.get("train", s), schedule, s) for s in states}
        )
    return found


def last_rows(run: RunFolder, method: str, state: int) -> Any:
    """The rows of the last layer that make a method's scores, or None where lengths mean nothing."""
    # SIW's standardised rows have one length, and other methods' own scores may not use the head.
    if method != "ft+" and METHODS.find(method).scores is not Method.scores:
        return None
    key = "kept.first.weight" if method == "ft+" else "net.head.weight"
    tensors = Checkpoint.load(run.state_path(state), ("net.head.eta", key)).tensors
    if "net.head.eta" in tensors:  # a cosine head ignores lengths
        return None
    if key not in tensors or tensors[key].ndim != 2:
        raise TransilError(f"{run.state_path(state)}: no rows '{key}' in it; damaged?")
    return tensors[key].double().numpy()


def detail(
    target: Target,
    name: str,
    solver: str | None,
    how: str | None,
    correct: Correct | None,
    hits: list[Hits],
) -> Detail:
    """The last state's scores per group, and the accuracy of each group in each state."""
    schedule, last = target.store.schedule, target.store.schedule.states
    data = target.store.get("test", last)
    scores = data.scores
    if correct is not None:
        scores = correct(scores, last)
    metrics = state_metrics(scores, data.columns, schedule, last)
    group = schedule.group_of_column(last)[data.columns]
    matrix: list[list[float | None]] = []
    for state, right in enumerate(hits, start=1):
        of = group[: len(right)]
        matrix.append(
            [float(right[of == k].mean()) if (of == k).any() else None for k in range(1, state + 1)]
        )
    return Detail(
        target.setting, name, solver, how, metrics.mean_score, metrics.score_deviation, matrix
    )


def last_pairs(bank: Bank, method: str, states: int, seed: int) -> Pairs:
    """Alpha and beta of the last state, for each reference."""
    made = [bank.alone(r.name).applied(states) for r in bank.references]
    return Pairs(
        method, states, seed, bank.correction.name, bank.solver or "",
        [r.name for r in bank.references],
        [p.alpha.tolist() for p in made], [p.beta.tolist() for p in made],
    )  # fmt: skip


def add_joint(plan: Plan, results: Results, target: str, seed: int) -> None:
    """The accuracy of the model that learned all classes at once."""
    task = plan.task(target, "joint", 1, 1.0, seed)
    store = open_store(task, "joint", results)
    if store is not None:
        metrics: Metrics = evaluate(store)
        where = task.folder.relative_to(plan.folder).as_posix()
        results.joints.append(Joint(target, seed, metrics.states[-1].accuracy, where))


_drawn: dict[tuple[int, int], Bootstrap] = {}


def _bootstrap(images: int, resamples: int) -> Bootstrap:
    """Targets with as many test images share their resamples, which take a second to draw."""
    if (images, resamples) not in _drawn:
        _drawn.clear()
        _drawn[images, resamples] = Bootstrap(images, resamples)
    return _drawn[images, resamples]


def facts(plan: Plan) -> dict[str, Any]:
    """How the results were made."""
    from transil._common.provenance import versions

    sets = {
        name: {
            "classes": images.classes,
            "size": images.size,
            "images": {split: len(data) for split, data in images.splits.items()},
            "fingerprint": images.fingerprint[:16],
        }
        for name, images in plan.images.items()
    }
    runs = [run_facts(task) for task in plan.tasks if task.trained]
    epochs = {}
    for task in plan.tasks:
        train = task.config.train
        first = "" if train.first_epochs is None else f"{train.first_epochs}, then "
        epochs[task.method] = f"{first}{train.epochs}"
    return {
        "pixels": sorted({images.size for images in plan.images.values()}),
        "epochs": epochs,
        "recipe": plan.experiment.to_dict(),
        "recipe_digest": digest(plan.experiment.to_dict())[:16],
        "solvers": list(plan.experiment.solvers),
        "limits": list(plan.experiment.limits),
        "data_sets": sets,
        "classes_in_common": plan.overlaps(),
        "same_names": plan.same_names(),
        "references_of": {t: plan.references_of(t) for t in plan.experiment.targets},
        "versions": versions(),
        "runs": runs,
        "run_seconds": round(sum(run["seconds"] or 0.0 for run in runs), 3),
    }

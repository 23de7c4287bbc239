"""Made-up results of an experiment, of any size, for tests of the report."""

from __future__ import annotations

import numpy as np

from transil.experiment.results import (
    Ablation,
    Adapted,
    Cell,
    Detail,
    Failure,
    Joint,
    Pairs,
    Results,
    Setting,
    Single,
)

RAW = {"lwf": 0.44, "lucir": 0.34, "siw": 0.23, "ft+": 0.22}
GAIN = {"lwf": 0.02, "lucir": 0.08, "siw": 0.01, "ft+": 0.006}
REFERENCES = ["fractals-a", "fractals-b", "svhn-like", "textures_1", "glyphs"]


def made_up(
    targets: tuple[str, ...] = ("cifar100", "mini-imagenet"),
    methods: tuple[str, ...] = ("lwf", "lucir"),
    states: tuple[int, ...] = (5, 10),
    solvers: tuple[str, ...] = ("newton",),
    seeds: tuple[int, ...] = (0,),
    fractions: tuple[float, ...] = (1.0,),
    name: str = "made-up",
    traffic: bool = False,
) -> Results:
    """Results with every kind of part; the same arguments give the same numbers.

    That of simulated traffic is left out unless `traffic`.
    """
    rng = np.random.default_rng(7)
    results = Results(name=name)
    places = [
        Setting(t, m, s, f, seed)
        for f in fractions for t in targets for m in methods for s in states for seed in seeds
    ]  # fmt: skip
    for setting in places:
        _cells(results, setting, solvers, rng)
        if traffic:
            _traffic(results, setting, solvers[0])
        if setting.fraction == 1.0 and setting.seed == seeds[0]:
            _studies(results, setting, solvers[0], rng)
    for method in methods:
        for s in states:
            _pairs(results, method, s, solvers[0], rng)
    for target in targets:
        results.joints.append(Joint(target, 0, 0.70 + 0.05 * rng.random(), f"runs/joint-{target}"))
    results.failures.append(
        Failure("ft+ on food100, S = 20, seed 2", "CUDA out of memory",
                "\n".join(f"epoch {i}: loss {2 / (i + 1):.3f}" for i in range(40)))
    )  # fmt: skip
    results.facts.update(
        solvers=list(solvers),
        limits=["Images have 32 pixels, the paper's 224.", "Five references instead of ten."],
        pixels=32, epochs={"lwf": 70, "lucir": 160}, commit="c360514", gpu="NVIDIA H200",
        recipe="name: made-up\ntargets: [cifar100]\nstates: [5, 10]\n", seconds=1234.5,
        versions={"transil": "0.3", "torch": "2.13"},
        data_sets=[{"name": t, "classes": 100, "train": 50000, "test": 10000} for t in targets],
        overlaps={f"{t} and textures_1": ["cat", "dog"] for t in targets[:1]},
    )  # fmt: skip
    return results


def _cells(
    results: Results, setting: Setting, solvers: tuple[str, ...], rng: np.random.Generator
) -> None:
    size, method = setting.states, setting.method
    level = RAW.get(method, 0.3) * (1.25 - 0.04 * size) * (0.75 + 0.25 * setting.fraction)
    curve = np.linspace(0.85, level * 0.75, size) ** 1.2
    curve = curve + rng.normal(0, 0.008, size)
    run = f"runs/{setting.target}-{method}-s{size}-f{setting.fraction}-{setting.seed}"
    raw = float(curve[1:].mean())

    def add(kind: str, name: str, gain: float, solver: str | None, transfer: str | None) -> None:
        gain += float(rng.normal(0, 0.004))
        known = kind != "raw"
        values = [float(curve[0]), *(float(v + gain) for v in curve[1:])] if known else list(curve)
        bank = f"banks/{method}-s{size}-{name}-{solver}.json" if solver else None
        results.cells.append(
            Cell(setting, kind, name, solver, transfer, REFERENCES if kind == "transfer" else [],
                 [float(v) for v in values], raw + gain if known else raw,
                 gain if known else None, gain - 0.006 if known else None,
                 gain + 0.006 if known else None, run, bank)
        )  # fmt: skip
        if setting.fraction == 1.0 and (name, transfer) in (("raw", None), ("adbic", "mean")):
            _detail(results, setting, name, solver, transfer, known, rng)

    base = GAIN.get(method, 0.01)
    add("raw", "raw", 0.0, None, None)
    add("control", "align", base * 0.4, None, None)
    add("control", "shift", base * 0.6, None, None)
    for solver in solvers:
        add("transfer", "bic", base * 0.5, solver, "mean")
        add("transfer", "adbic", base, solver, "mean")
        add("bound", "adbic", base + 0.01, solver, "oracle")
        add("bound", "adbic", base + 0.02, solver, "own")


def _detail(
    results: Results, setting: Setting, name: str, solver: str | None, transfer: str | None,
    flat: bool, rng: np.random.Generator,
) -> None:  # fmt: skip
    size = setting.states
    slope = 0.15 if flat else 1.0
    mean = slope * np.linspace(-3, 3, size) + (0 if flat else 40) + rng.normal(0, 0.2, size)
    matrix: list[list[float | None]] = [
        [float(np.clip(0.3 + (0.5 if k == s and not flat else 0.15) + rng.normal(0, 0.05), 0, 1))
         for k in range(s + 1)] for s in range(size)
    ]  # fmt: skip
    results.details.append(
        Detail(setting, name, solver, transfer, [float(v) for v in mean],
               [float(v) for v in 1.5 + rng.random(size)], matrix)
    )  # fmt: skip


WAYS = {
    ("raw", "raw"): 0.0,
    ("control", "shift"): 0.5,
    ("bank", "bank"): 1.0,
    ("prior", "none+ledger"): 2.0,
    ("prior", "uniform"): 1.5,
    ("prior", "known"): 3.0,
    ("bound", "oracle"): 1.1,
}


def _traffic(results: Results, setting: Setting, solver: str) -> None:
    raw = next(c for c in results.cells if c.setting == setting and c.kind == "raw").average
    base, more = GAIN.get(setting.method, 0.01), setting.states - 1
    for tail in (1.0, 100.0):
        for (kind, name), times in WAYS.items():
            gain = base * times * (0.2 if (name, tail) == ("uniform", 100.0) else 1.0)
            over_raw, over_bank = ([x, x - 0.004, x + 0.004] for x in (gain, gain - base))
            results.traffic.append(
                Adapted(setting, tail, 0, "adbic", solver, kind, name, [400] * more, [],
                        [raw + gain] * more, raw + gain, raw + gain - 0.01, raw + gain + 0.01,
                        over_raw, over_bank, [])
            )  # fmt: skip


def _studies(results: Results, setting: Setting, solver: str, rng: np.random.Generator) -> None:
    raw = next(c for c in results.cells if c.setting == setting and c.kind == "raw").average
    base = GAIN.get(setting.method, 0.01)
    counts = [1, 2, 3, 5]
    results.ablations.append(
        Ablation(setting, "adbic", solver, counts,
                 [float(raw + base + rng.normal(0, 0.002)) for _ in counts],
                 [0.008 / n for n in counts], [5, 10, 10, 1])
    )  # fmt: skip
    for reference in REFERENCES:
        if (setting.target, reference) == ("cifar100", "textures_1"):
            continue  # shares classes
        gain = float(base + rng.normal(0, 0.012))
        results.singles.append(Single(setting, "adbic", solver, reference, raw + gain, gain))


def _pairs(
    results: Results, method: str, states: int, solver: str, rng: np.random.Generator
) -> None:
    alpha = 1 + 0.3 * np.linspace(1, -1, states) + rng.normal(0, 0.04, (5, states))
    beta = np.linspace(0.6, -1.4, states) + rng.normal(0, 0.1, (5, states))
    results.pairs.append(
        Pairs(method, states, 0, "adbic", solver, REFERENCES, alpha.tolist(), beta.tolist())
    )

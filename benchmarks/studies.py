"""How long all studies and the report take, from score stores of the real size.

    python benchmarks/studies.py [--keep FOLDER]

Five data sets (three references, two targets) x four methods x three schedules of 100 classes, with
generated scores: 50 validation and 100 test images of each class. Goal: under 60 s on one core, and
under 2 GB of memory.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from transil.data import Images, ImageSplit
from transil.engine.checkpoint import Checkpoint
from transil.engine.config import RunConfig
from transil.engine.run_folder import RunFolder
from transil.experiment.plan import Plan, Task, wanted_runs
from transil.experiment.recipe import Experiment
from transil.experiment.studies import study
from transil.report import write_report
from transil.scores.store import ScoreStore
from transil.testing import biased_scores

EXPERIMENT = Experiment(
    name="generated", references=("r1", "r2", "r3"), targets=("t1", "t2"),
    methods=("lwf", "lucir", "siw", "ft+"), states=(5, 10, 20), solvers=("newton",),
    transfer=("mean", "oracle"), own_bound=True, ablation=True,
)  # fmt: skip


def generated(folder: Path) -> Plan:
    """A plan whose runs are there already, with generated scores."""
    tasks, images = [], {}
    for number, name in enumerate(EXPERIMENT.datasets):
        labels = np.arange(100)
        split = ImageSplit(np.zeros((100, 2, 2, 3), np.uint8), labels)
        images[name] = Images(name, tuple(f"{name}-{c}" for c in labels), {"train": split}, name)
        for states in EXPERIMENT.states:
            store = biased_scores(
                f"100/{states}", seed=number, images_per_class=100, splits=("test",), dataset=name
            )
            val = biased_scores(f"100/{states}", seed=50 + number, images_per_class=50)
            for state in store.require("test"):
                for split_name, limit in (("val", None), ("train", 4000)):
                    data = val.get("val", state)
                    new = np.ones(len(data.labels), bool)
                    if limit:
                        new = data.labels >= store.schedule.group_columns(state).start
                    store.put(split_name, state, data.scores[new], data.labels[new])
            for method in ("lwf", "lucir", "ft"):
                run = RunFolder(folder / "runs" / f"{name}-{method}-s{states}")
                for member in ("ft+", "siw") if method == "ft" else (method,):
                    made = ScoreStore(store.schedule, method=member, dataset=name)
                    for split_name, state in store:
                        data = store.get(split_name, state)
                        made.put(split_name, state, data.scores, data.labels)
                    made.save(run.scores_path(member))
                rows = torch.randn(100, 512, generator=torch.Generator().manual_seed(number))
                for state in range(1, states + 1):
                    tensors = {"net.head.weight": rows, "kept.first.weight": rows.clone()}
                    if method == "lucir":
                        tensors["net.head.eta"] = torch.ones(1)
                    Checkpoint(state, 1, tensors).save(run.state_path(state))
    for name, method, states, fraction, seed in dict.fromkeys(wanted_runs(EXPERIMENT)):
        run_folder = folder / "runs" / f"{name}-{method}-s{states}"
        tasks.append(Task(name, method, states, fraction, seed, RunConfig(), run_folder, 1))
    return Plan(EXPERIMENT, folder, images, tuple(tasks))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path, help="leave the results there")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        start = time.perf_counter()
        plan = generated(folder)
        print(f"scores generated in {time.perf_counter() - start:.1f} s")
        start = time.perf_counter()
        results = study(plan)
        studied = time.perf_counter() - start
        results = replace(results, facts={**results.facts, "limits": ["Scores are generated."]})
        results.save(folder)
        page = write_report(results, folder)
        whole = time.perf_counter() - start
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(f"{len(results.cells)} cells, {len(results.singles)} single references, "
              f"{len(results.failures)} failures")  # fmt: skip
        print(f"studies {studied:.1f} s, with the report {whole:.1f} s (goal 60), "
              f"{memory:.2f} GB at the peak (goal 2)")  # fmt: skip
        print(f"{page.name}: {page.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()

"""Judge the banks for any schedule on models they were not fitted on.

    python tools/any_judge.py runs/judged [runs/more ...] results/any-schedule [--again]

Reads the runs of `tools/any_schedule.py` (SET--SCHEDULE--METHOD), and the evidence METHOD.safetensors.
Each run is corrected by a bank that was fitted without its schedule and its images (`any`), by a
generic one that was fitted without these and without its method (`generic`), by
the pairs that references of its very schedule gave, brought to its scale (`same`), and by pairs
fitted on its own validation images, which no target has (`bound`). Writes judged.json: average
incremental accuracy (states 2..S, test images), gains with their 95 % intervals over test images, how
unlike the references' its scores are, how much of old classes is kept in them (`Facts.kept`, median),
and in how many states the bank warns; and the accuracy where the scores were measured on other mixes of
images than those that are corrected (`measured_on`). Rows that were made of the same scores and
evidence are kept, but with --again; so are those of runs that are not in these folders.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from any_banks import SAME_TRAINING, of_all
from numpy.typing import NDArray

from transil import ScoreStore, evaluate, fit, gains
from transil._common.files import digest, read_json, sha256, write_json
from transil.correction.any_fit import CENTRES, PENALTY, ROUNDS
from transil.correction.any_schedule import WEIGHTS
from transil.correction.bank import Bank
from transil.correction.evidence import Evidence, read_evidence
from transil.correction.layers import AdBiCCentred
from transil.correction.open_bank import GENERIC, GENERIC_PENALTY, OpenBank
from transil.correction.parameters import Parameters
from transil.correction.references import Reference
from transil.correction.scales import FEWEST_ROWS, Distance, measured_scales
from transil.errors import ScheduleWarning, ScoreScaleWarning, TransilError

ANY, SAME, BOUND = "any", "same", "bound"
BANKS = (ANY, SAME, BOUND, GENERIC)
FEW = 100  # images


def runs_of(folder: Path) -> Iterator[tuple[str, str, str, ScoreStore]]:
    """Set, schedule, method and scores of every finished run; one in training is left out."""
    for path in sorted(folder.glob("*/scores/*/store.json")):
        store = ScoreStore.open(path.parent)
        if len(store.states("test")) == store.schedule.states:
            images, kind, _ = path.parts[-4].split("--")
            yield images, kind, path.parent.name, store


def without(evidence: Iterable[Evidence], images: str, kind: str) -> list[Evidence]:
    """The states of all runs of other images and schedules."""
    return [one for one in evidence if images != one.reference and kind_of(one) != kind]


def kind_of(one: Evidence) -> str:
    """The schedule of a run, SET--SCHEDULE."""
    return one.run.split("--")[1]


def of_other_methods(evidence: Mapping[str, list[Evidence]], method: str) -> list[Evidence]:
    """The states of all methods whose models were not trained as this one's."""
    own = SAME_TRAINING.get(method, method)
    return [one for one in of_all(evidence) if one.training != own]


def of_the_schedule(
    evidence: Iterable[Evidence], images: str, kind: str, store: ScoreStore
) -> Bank | None:
    """The mean over references that were trained on this schedule, at the scale of these scores.

    None where there are none of other images.
    """
    pairs: dict[str, dict[int, Parameters]] = {}
    scales: dict[str, dict[int, float]] = {}
    for one in evidence:
        if images != one.reference and kind_of(one) == kind:
            pairs.setdefault(one.reference, {})[one.facts.state] = one.pairs
            scales.setdefault(one.reference, {})[one.facts.state] = one.facts.scale or 1.0
    if not pairs:
        return None
    references = [Reference(name, pairs[name], scale=scales[name]) for name in pairs]
    bank = Bank(AdBiCCentred(), store.schedule, tuple(references))
    return bank.at_scale(measured_scales(store))


def told(bank: Bank, store: ScoreStore) -> list[Distance]:
    """What the bank says of the scores of each state."""
    states = range(2, store.schedule.states + 1)
    found = (bank.mismatch(store.get("test", state).scores, state) for state in states)
    return [one for one in found if isinstance(one, Distance)]


def measured_on(bank: Bank, store: ScoreStore) -> dict[str, float]:
    """Average accuracy of a bank that measured the scores of other mixes of images of each state."""
    random = np.random.default_rng(0)
    found: dict[str, list[float]] = {}
    for state in range(2, store.schedule.states + 1):
        data = store.get("test", state)
        for name, rows in mixes(
            store.schedule.group_of_column(state)[data.columns], random
        ).items():
            # Fewer images than a bank takes tell too little.
            measured = bank.like(
                data.scores[rows if len(rows) >= FEWEST_ROWS else slice(None)], state
            )
            predicted = measured.correct(data.scores, state, quiet=True).argmax(axis=1)
            found.setdefault(name, []).append(float((predicted == data.columns).mean()))
    return {name: round(float(np.mean(values)), 5) for name, values in found.items()}


def mixes(group: NDArray[np.int64], random: np.random.Generator) -> dict[str, NDArray[np.int64]]:
    """Which images (rows) are measured, by a name; `group` of each image, from 1."""
    state = group.max()
    newest, past = np.flatnonzero(group == state), np.flatnonzero(group < state)
    same = min(len(newest), len(past))
    rarity = 10.0 ** -np.linspace(0.0, 1.0, state)[random.permutation(state)]
    return {
        "all images": np.arange(len(group)),
        f"{FEW} images": random.choice(len(group), FEW, replace=False),
        "every second one of the newest group": np.concatenate(
            [random.choice(rows, same, replace=False) for rows in (newest, past)]
        ),
        "the newest group ten times rarer": np.concatenate(
            [random.choice(newest, max(1, len(newest) // 10), replace=False), past]
        ),
        "a random group ten times rarer than another": np.flatnonzero(
            random.random(len(group)) < rarity[group - 1]
        ),
        "the newest group alone": newest,
    }


def judged(
    images: str, kind: str, method: str, store: ScoreStore, evidence: Mapping[str, list[Evidence]]
) -> dict[str, Any]:
    """One row of the table."""
    own = OpenBank.of(without(evidence[method], images, kind), method=method)
    left = without(of_other_methods(evidence, method), images, kind)
    others = OpenBank.of(left, methods=("others",))
    same = of_the_schedule(evidence[method], images, kind, store)
    banks = {
        ANY: own.for_schedule(store.schedule),
        **({} if same is None else {SAME: same}),
        BOUND: fit(store, correction="adbic-centred"),
        GENERIC: others.for_schedule(store.schedule),
    }
    row: dict[str, Any] = {
        "set": images,
        "method": method,
        "schedule": kind,
        "sizes": list(store.schedule.sizes),
        "raw": round(evaluate(store).average_incremental_accuracy, 5),
    }
    for gain in gains(store, banks, same_method=False):
        if gain.over == "raw":
            row[gain.of] = round(row["raw"] + gain.gain, 5)
            row[f"gain_{gain.of}"] = [
                None if value is None else round(value, 5)
                for value in (gain.gain, gain.low, gain.high)
            ]
    row["measured_on"] = measured_on(banks[ANY], store)
    for name in (ANY, GENERIC):
        found = told(banks[name], store)
        row[f"unlike_{name}"] = round(max(one.ratio for one in found), 3)
        row[f"warns_{name}"] = sum(one.matters for one in found)
    row["kept"] = round(float(np.median([one.kept for one in found])), 3)
    return row


def run_of(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Set, schedule and method of a row."""
    return row["set"], row["schedule"], row["method"]


def shown(row: Mapping[str, Any]) -> str:
    """A row in a line."""
    said = [f"{row['set']:10} {row['schedule']:8} {row['method']:8}"]
    said += [f"{name} {100 * row[name]:.1f}" for name in ("raw", *BANKS) if name in row]
    said += [f"warns {row[f'warns_{name}']}" for name in (ANY, GENERIC)]
    return " ".join([*said, f"kept {row['kept']}"])


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", type=Path, nargs="+", help="folders of runs to judge on")
    parser.add_argument("folder", type=Path, help="the evidence; judged.json is written there")
    parser.add_argument("--again", action="store_true", help="judge all, also what is known")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ScoreScaleWarning)  # `told` asks for it
    warnings.simplefilter("ignore", ScheduleWarning)
    path = options.folder / "judged.json"
    try:
        found = list(chain(*map(runs_of, options.runs)))
        if not found:
            names = ", ".join(map(str, options.runs))
            raise TransilError(f"{names}: no finished run (SET--SCHEDULE--METHOD/scores)")
        known = read_json(path)["rows"] if path.exists() else []
        there = {} if options.again else {row["made_of"]: row for row in known}
        files = sorted(options.folder.glob("*.safetensors"))
        evidence = {file.stem: read_evidence(file) for file in files}
        form = [dict(WEIGHTS), PENALTY, GENERIC_PENALTY, CENTRES, ROUNDS]
        fitted_on = [{f.name: sha256(f) for f in files}, form]
        rows = {run_of(row): row for row in known}
        for images, kind, method, store in found:
            made_of = digest([images, store.fingerprint(), method, *fitted_on])[:16]
            row = there.get(made_of) or judged(images, kind, method, store, evidence)
            rows[run_of(row)] = {**row, "made_of": made_of}
            print(shown(row), flush=True)
        write_json(path, {"rows": list(rows.values())})
    except TransilError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Judge the banks for any schedule on models they were not fitted on.

    python tools/any_judge.py runs/judged results/any-schedule

Reads the runs of `tools/any_schedule.py` on a data set that is no reference (SET--SCHEDULE--METHOD), and
the evidence METHOD.safetensors. Each run is corrected by a bank that was fitted without its schedule
(`any`), by a generic one that was fitted without its schedule and without its method (`generic`), by
the pairs that references of its very schedule gave, brought to its scale (`schedule_bank`), and by pairs
fitted on its own validation images, which no target has (`bound`). Writes judged.json: average
incremental accuracy (states 2..S, test images), gain with its 95 % interval over test images, and how
unlike the references' its scores are (above 1.5 the bank warns).
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from transil import ScoreStore, evaluate, fit, gains
from transil.correction.bank import Bank, Reference
from transil.correction.evidence import Evidence, read_evidence
from transil.correction.facts import Facts
from transil.correction.layers import AdBiCCentred
from transil.correction.open_bank import GENERIC, OpenBank
from transil.correction.parameters import Parameters
from transil.correction.scales import measured_scales
from transil.errors import ScheduleWarning, ScoreScaleWarning, TransilError
from transil.files import write_json

# Methods whose heads are made of one training: to leave out one is to leave out all of them.
SAME_TRAINING = {"ft": "ft", "ft+": "ft", "siw": "ft"}


def runs_of(folder: Path) -> Iterator[tuple[str, str, ScoreStore]]:
    """Schedule, method and scores of every finished run."""
    for path in sorted(folder.glob("*/scores/*")):
        store = ScoreStore.open(path)
        if len(store.states("test")) == store.schedule.states:
            yield path.parts[-3].split("--")[1], path.name, store


def without(evidence: Iterable[Evidence], kind: str) -> list[Evidence]:
    """The states of all runs of other schedules."""
    return [one for one in evidence if one.run.split("--")[1] != kind]


def of_other_methods(evidence: Mapping[str, list[Evidence]], method: str) -> list[Evidence]:
    """The states of all methods whose models were not trained as this one's."""
    own = SAME_TRAINING.get(method, method)
    return [
        Evidence(one.reference, f"{one.run}--{name}", one.facts, one.pairs, one.hessian)
        for name, states in evidence.items()
        for one in states
        if SAME_TRAINING.get(name, name) != own
    ]


def of_the_schedule(evidence: Iterable[Evidence], kind: str, store: ScoreStore) -> Bank:
    """The mean over references that were trained on this schedule, at the scale of these scores."""
    pairs: dict[str, dict[int, Parameters]] = {}
    scales: dict[str, dict[int, float]] = {}
    for one in evidence:
        if one.run.split("--")[1] == kind:
            pairs.setdefault(one.reference, {})[one.facts.state] = one.pairs
            scales.setdefault(one.reference, {})[one.facts.state] = one.facts.scale or 1.0
    references = [Reference(name, pairs[name], scale=scales[name]) for name in pairs]
    bank = Bank(AdBiCCentred(), store.schedule, tuple(references))
    return bank.at_scale(measured_scales(store))


def unlike(bank: Bank, store: ScoreStore) -> float:
    """How far the state that is least like the references' lies from them, times the usual."""
    states = range(2, store.schedule.states + 1)
    facts = (Facts.of(store.get("test", s).scores, store.schedule, s) for s in states)
    return max(bank.correction.unlike(one) for one in facts)


def judged(
    kind: str, method: str, store: ScoreStore, evidence: Mapping[str, list[Evidence]]
) -> dict[str, Any]:
    """One row of the table."""
    own = OpenBank.of(without(evidence[method], kind), method=method)
    others = OpenBank.of(without(of_other_methods(evidence, method), kind), methods=("others",))
    banks = {"any": own.for_schedule(store.schedule), GENERIC: others.for_schedule(store.schedule)}
    references = of_the_schedule(evidence[method], kind, store)
    bound = fit(store, correction="adbic-centred")
    row: dict[str, Any] = {
        "method": method,
        "schedule": kind,
        "sizes": list(store.schedule.sizes),
        "raw": evaluate(store).average_incremental_accuracy,
        "schedule_bank": evaluate(store, references).average_incremental_accuracy,
        "bound": evaluate(store, bound).average_incremental_accuracy,
    }
    for gain in gains(store, banks):
        if gain.over == "raw":
            row[gain.of] = row["raw"] + gain.gain
            row[f"gain_{gain.of}"] = [gain.gain, gain.low, gain.high]
    row |= {f"unlike_{name}": unlike(bank, store) for name, bank in banks.items()}
    return {k: round(v, 5) if isinstance(v, float) else v for k, v in row.items()}


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", type=Path, help="the folder of runs to judge on")
    parser.add_argument("folder", type=Path, help="the evidence; judged.json is written there")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ScoreScaleWarning)  # `unlike` tells it
    warnings.simplefilter("ignore", ScheduleWarning)
    try:
        evidence = {p.stem: read_evidence(p) for p in options.folder.glob("*.safetensors")}
        rows = []
        for kind, method, store in runs_of(options.runs):
            rows.append(row := judged(kind, method, store, evidence))
            shown = ("raw", "any", "schedule_bank", "bound", GENERIC)
            print(f"{kind:8} {method:8}", *(f"{name} {100 * row[name]:.1f}" for name in shown),
                  *(f"unlike {row[f'unlike_{name}']:.1f}" for name in ("any", GENERIC)))  # fmt: skip
        if not rows:
            raise TransilError(f"{options.runs}: no finished run (SET--SCHEDULE--METHOD/scores)")
        write_json(options.folder / "judged.json", {"target": store.dataset, "rows": rows})
    except TransilError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

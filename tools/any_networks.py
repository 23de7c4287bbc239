"""Ask whether banks made with a small network serve a larger one.

    python tools/any_networks.py results/any-schedule results/any-schedule/convnet \
        [--released released-scores/logits_lucir_s10]

Both folders hold METHOD.safetensors (tools/any_schedule.py): of ResNet-18 models, and of models of a
small network on other images. Each run of the first is predicted by a function that was fitted without
its schedule and its images: on runs of the same network, and on the small network's. `kept` is as in
tools/any_banks.py. With --released, the authors' LUCIR model is corrected by both, ten equal groups left
out. Writes networks.json.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from any_banks import kept, loss, summary

from transil import ScoreStore, evaluate
from transil._common.files import write_json
from transil.correction.evidence import Evidence, read_evidence
from transil.correction.open_bank import OpenBank
from transil.correction.parameters import Pairs
from transil.errors import ScheduleWarning, ScoreScaleWarning, TransilError
from transil.interop import dkt


def kept_by_other(evidence: Sequence[Evidence], others: Sequence[Evidence]) -> dict[str, float]:
    """What a function fitted on other evidence keeps of each run, without its schedule and images."""
    found: dict[str, tuple[float, float]] = {}
    for run in sorted({one.run for one in evidence}):
        states = [one for one in evidence if one.run == run]
        away = [
            one
            for one in others
            if kind_of(one) != kind_of(states[0]) and one.reference != states[0].reference
        ]
        found[run] = losses(OpenBank.of(away), states)
    return summary(found)


def losses(bank: OpenBank, states: Sequence[Evidence]) -> tuple[float, float]:
    """Mean loss above the optimum, uncorrected and corrected."""
    raw = [loss(one, Pairs.identity(one.facts.state)) for one in states]
    made = [loss(one, bank.correction.spread(bank.parameters, one.facts)) for one in states]
    return sum(raw) / len(states), sum(made) / len(states)


def kind_of(one: Evidence) -> str:
    """The schedule of a run, SET--SCHEDULE."""
    return one.run.split("--")[1]


def released(store: ScoreStore, evidence: Sequence[Evidence]) -> float:
    """Average incremental accuracy of the authors' model, by references of other schedules than its."""
    others = [one for one in evidence if one.facts.schedule.states != store.schedule.states]
    bank = OpenBank.of(others).for_schedule(store.schedule)
    return round(evaluate(store, bank).average_incremental_accuracy, 5)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="evidence of ResNet-18; networks.json goes there")
    parser.add_argument("small", type=Path, help="evidence of the small network")
    parser.add_argument("--released", type=Path, help="the authors' LUCIR scores")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ScoreScaleWarning)
    warnings.simplefilter("ignore", ScheduleWarning)
    table: dict[str, Any] = {}
    try:
        both = {
            path.stem: [
                read_evidence(folder / path.name) for folder in (options.folder, options.small)
            ]
            for path in sorted(options.small.glob("*.safetensors"))
        }
        if not both:
            raise TransilError(f"{options.small}: no evidence here (METHOD.safetensors)")
        for method, (large, small) in both.items():
            table[method] = {
                "schedules": sorted({kind_of(one) for one in small}),
                "large": summary(kept(large)),
                "small": kept_by_other(large, small),
            }
            print(method, table[method])
        if options.released:
            store = dkt.import_scores(options.released)
            raw = round(evaluate(store).average_incremental_accuracy, 5)
            better = [released(store, evidence) for evidence in both["lucir"]]
            table["released"] = {"raw": raw, "large": better[0], "small": better[1]}
            print(table["released"])
    except TransilError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    write_json(options.folder / "networks.json", table)
    return 0


if __name__ == "__main__":
    sys.exit(main())

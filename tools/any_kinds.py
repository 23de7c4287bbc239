"""Say how well banks for any schedule hold for each kind of schedule, by the references alone.

    python tools/any_kinds.py results/any-schedule results/any-schedule/convnet

Reads METHOD.safetensors in both folders (tools/any_schedule.py), and `judged.json` (tools/any_judge.py).
Each run of the first is predicted by a bank that was fitted without its images and its schedule. No
scores were kept, so what other pairs than the exact ones would recognise cannot be told; the share of
the loss that they remove can (`kept`, as in tools/any_banks.py). The models of the second folder,
which are judged, have both. Writes kinds.json.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from any_judge import without
from any_networks import losses
from numpy.typing import NDArray
from safetensors.numpy import load_file

from transil._common.files import read_json, write_json
from transil.correction.evidence import Evidence, read_evidence
from transil.correction.layers import AdBiCCentred
from transil.correction.open_bank import OpenBank
from transil.correction.scales import Distance
from transil.errors import ScheduleWarning, ScoreScaleWarning, TransilError

Kept = Mapping[str, NDArray[Any]]


def rows_of(method: str, evidence: Sequence[Evidence], of: Sequence[Evidence]) -> Iterator[Any]:
    """A row for each run `of` a method: what the others' bank removes of its loss, and warns of."""
    for run in sorted({one.run for one in of}):
        states = [one for one in of if one.run == run]
        images, kind = run.split("--")
        bank = OpenBank.of(without(evidence, images, kind), method=method)
        raw, made = losses(bank, states)
        found = [
            Distance(one.facts.state, bank.correction.unlike(one.facts), kept=one.facts.kept)
            for one in states
        ]
        yield {
            "method": method,
            "set": images,
            "schedule": kind,
            "sizes": list(states[0].facts.schedule.sizes),
            "kept": round(1.0 - made / raw, 4),
            "warns": sum(one.matters for one in found),
        }


def accuracies(kept: Kept, run: str) -> dict[str, float]:
    """Average incremental accuracy of a run: uncorrected, and by its own exact pairs."""
    found = {}
    for name, key in (("raw", "raw"), ("exact", AdBiCCentred.name)):
        states = range(2, len(kept[f"{run}/sizes"]) + 1)
        shares = [
            kept[f"{run}/{s}/hits/{key}"].sum() / kept[f"{run}/{s}/count"].sum() for s in states
        ]
        found[name] = round(float(np.mean(shares)), 5)
    return found


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="evidence of references; kinds.json goes there")
    parser.add_argument("judged", type=Path, help="evidence of models that were judged")
    options = parser.parse_args()
    for kind in (ScoreScaleWarning, ScheduleWarning):
        warnings.simplefilter("ignore", kind)
    rows, beside = [], []
    try:
        known = {
            (row["set"], row["schedule"], row["method"]): row
            for row in read_json(options.folder / "judged.json")["rows"]
        }
        for path in sorted(options.folder.glob("*.safetensors")):
            method, evidence, kept = path.stem, read_evidence(path), load_file(path)
            for row in rows_of(method, evidence, evidence):
                rows.append({**row, **accuracies(kept, f"{row['set']}--{row['schedule']}")})
                print(rows[-1], flush=True)
            small = options.judged / path.name
            for row in rows_of(method, evidence, read_evidence(small) if small.exists() else []):
                model = known.get((row["set"], row["schedule"], method))
                if model is not None:
                    gains = [round(model[name] - model["raw"], 5) for name in ("any", "bound")]
                    beside.append({**row, "gain": gains[0], "gain_bound": gains[1]})
        if not rows:
            raise TransilError(f"{options.folder}: no evidence here (METHOD.safetensors)")
    except TransilError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    write_json(options.folder / "kinds.json", {"rows": rows, "judged": beside})
    return 0


if __name__ == "__main__":
    sys.exit(main())

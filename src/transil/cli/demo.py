"""`transil demo`: the whole correction on generated scores, in seconds, with a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from transil.cli.output import percent, print_table, progress_bar, say
from transil.correction.fitting import fit
from transil.correction.transfers import transfer
from transil.evaluation import evaluate
from transil.report.figures import draw_evaluation
from transil.synthetic import biased_scores

SCHEDULE = "50/10"


def add_to(app: typer.Typer) -> None:
    """Register the command of this file."""
    app.command("demo", short_help="See the bias and its correction.")(demo)


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the results.")] = Path(
        "demo"
    ),
    seed: Annotated[int, typer.Option(min=0, help="Of the generated scores.")] = 0,
) -> None:
    """Show the bias of an incremental classifier and its correction, on generated scores.

    Three generated references, where a validation memory is allowed, give a bank; it is
    transferred to a generated target, which has none. Writes a score store, banks and a picture.

    \b
    Example:
      transil demo -o demo
    """
    with progress_bar(4) as update:
        update(0, "generating scores")
        references = [
            biased_scores(SCHEDULE, seed=3 * seed + i, splits=("val",)) for i in (1, 2, 3)
        ]
        # The target's seed is far from the references'; it has test scores only, no memory.
        target = biased_scores(SCHEDULE, seed=1_000_000 + seed, splits=("test",), dataset="target")
        target = target.save(output / "target")
        banks, results = {}, {"raw": evaluate(target)}
        for done, correction in enumerate(("bic", "adbic"), start=1):
            update(done, f"fitting {correction}")
            banks[correction] = transfer(fit(references, correction=correction), "mean")
            banks[correction].save(output / f"{correction}.json")
            results[correction] = evaluate(target, banks[correction])
        update(3, "drawing")
        picture = output / "demo.png"
        shown = {"raw": results["raw"], "corrected": results["adbic"]}
        draw_evaluation(
            shown, target.schedule, picture,
            "Generated scores: adBiC fitted on three references, transferred to a target",
        )  # fmt: skip
    rows = [
        [
            name,
            percent(m.average_incremental_accuracy),
            percent(
                m.average_incremental_accuracy - results["raw"].average_incremental_accuracy, True
            ),
            percent(m.last_accuracy),
            percent(m.states[-1].prediction_share[-1]),
        ]
        for name, m in results.items()
    ]
    headings = ["target, %", "average accuracy", "gain", "last state", "predicted as newest"]
    print_table("generated scores, 50 classes in 10 states, no memory", headings, rows)
    say("(average over states 2..10; a tenth of the images belong to the newest group)")
    say(f"picture: {picture}")
    say(f"next: transil evaluate {output / 'target'} --bank {output / 'adbic.json'}")

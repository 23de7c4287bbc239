"""`transil demo`: the whole protocol on images drawn from formulas, in minutes on a CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from transil.cli.experiments import Force, run_command


def demo(
    output: Annotated[Path, Option("--output", "-o", help="Folder for the results.")] = Path(
        "demo"
    ),
    force: Force = False,
) -> int:
    """Run the whole protocol on images drawn from formulas: about two minutes on two cores.

    Two families of images are references, where a validation memory is allowed. Incremental models
    are trained on them and on a third family, the target; pairs fitted on the references correct the
    target's scores. Writes models, scores, banks and a report. The same as: transil run demo.

    \b
    Example:
      transil demo -o demo
    """
    return run_command("demo", output, force=force)

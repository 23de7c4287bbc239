"""The command that puts a correction into the last layer of a model: export."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from transil.adaptation.columns import Columns
from transil.adaptation.corrector import Corrector
from transil.cli.options import Groups, Order, Strength, load_correction, read_order_option
from transil.cli.output import check_apart, say
from transil.correction.columns import backwards, read_order
from transil.errors import TransilError


def export_command(
    correction: Annotated[
        str, Argument(help="What to correct with: what advise wrote, or a bank (file or name).")
    ],
    head: Annotated[
        Path, Option(help="The model's weights, .safetensors, .pt or .npz: its last layer, or all.")
    ],
    output: Annotated[Path, Option("--output", "-o", help="*.onnx, *.pt, *.pt2 or *.safetensors.")],
    to: Annotated[
        str | None,
        Option(help="onnx, torchscript, torch.export or safetensors; else by the ending."),
    ] = None,
    key: Annotated[
        str | None, Option(help="The name of the last layer, where there are others: fc.")
    ] = None,
    state: Annotated[
        int | None, Option(help="The model's state, from 1, where the correction is a bank.")
    ] = None,
    schedule: Groups = None,
    order: Order = None,
    strength: Strength = None,
) -> None:
    """Fold a correction into the last layer of a model, and write that layer for a service.

    It takes features (images, width) in any number and gives corrected scores, in float32. Linear heads
    and cosine heads are known, the latter by their 'eta' or 'sigma'. What is written was read back and
    compared with the head and the correction one after the other. ONNX needs the package onnx.

    \b
    Examples:
      transil export corrector.json --head head.safetensors --to onnx -o model.onnx
      transil export corrector.json --head model.pt --key fc -o head.pt2
      transil export bank.json --state 3 --head head.safetensors -o corrected.safetensors
      transil export lwf-s10 --state 7 --head head.safetensors -o head.pt
    """
    from transil.interop.export import export, read_head

    check_apart(output, head, "these are the weights")
    loaded = load_correction(correction, schedule, strength, state=state, order=order)
    if isinstance(loaded, Corrector):
        columns = loaded.columns_
    elif state is None:
        last = loaded.schedule.states
        raise TransilError(
            f"{correction}: a bank corrects many states; say which one: --state {last}, or one before"
        )
    else:
        columns = Columns.of(loaded, state)
        if (places := read_order_option(order)) is not None:
            columns = columns.taken(backwards(read_order(places, len(columns.scale))))
    layer = read_head(head, key)
    off = export(columns, layer, output, to)
    say(
        f"{output}: {len(columns.scale)} classes corrected; read back, it differs from head and "
        f"correction by {off:.1e} of the largest score"
    )

"""The command that brings scores into a store: import-scores."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from transil._common.arrays import probabilities
from transil._common.files import check_regular, check_replaceable
from transil._common.registry import nearest
from transil.cli.options import Keep, Key, read_names, read_order_option
from transil.cli.output import print_table, read_schedule, say
from transil.errors import TransilError
from transil.scores.head import Head
from transil.scores.store import FORMAT, MANIFEST, VERSION

LAYOUTS = ("dkt", "numpy")


def import_scores(
    source: Annotated[
        Path, Argument(help="A folder of score files, or an .npz, .pt or .safetensors file.")
    ],
    output: Annotated[Path, Option("--output", "-o", help="The store to write, a folder.")],
    form: Annotated[
        str | None,
        Option(
            "--format", help="'dkt' (the authors' layout) or 'numpy'; told by the names of files."
        ),
    ] = None,
    schedule: Annotated[
        str | None, Option(help="'50,10,5,1,34', '100/10' or a JSON file of class lists.")
    ] = None,
    method: Annotated[str | None, Option(help="What made the scores: lwf, lucir, siw, ...")] = None,
    dataset: Annotated[str | None, Option(help="Name of the data set.")] = None,
    kind: Annotated[
        str, Option(help="What the scores are; banks only fit scores of their kind.")
    ] = "logit",
    dtype: Annotated[
        str | None, Option(help="Store scores as float16, float32 or float64.")
    ] = None,
    width: Annotated[
        int | None, Option(help="Columns of a head that has those of classes to come, too.")
    ] = None,
    order: Annotated[
        str | None,
        Option(
            help="Where columns stand otherwise: 'labels' (class c in column c), or the column of each "
            "class as it was learned, 3,0,2,1 or a JSON file."
        ),
    ] = None,
    columns: Annotated[
        int, Option(help="Columns of each class, of which the first is the score.")
    ] = 1,
    key: Key = None,
    labels: Annotated[
        str | None, Option(help="The array or column of labels in files that hold the scores, too.")
    ] = None,
    keep: Keep = None,
) -> None:
    """Bring scores and labels of a trained model into a score store.

    'numpy' is scores_{split}_{state}.npy (rows, classes seen so far) with labels_{split}_{state}.npy,
    states counted from 1, in a folder; or as arrays of one .npz, .pt or .safetensors file. In a folder,
    any kind of file will do that 'correct' reads. 'dkt' is the layout of the paper's released scores,
    logits_{val|tst}_{t}_{u}.ckpt (or another kind) with labels_..., counted from 0.

    \b
    Examples:
      transil import-scores logits_lucir_s10 --format dkt -o runs/lucir
      transil import-scores my-scores/ --method lwf -o runs/mine
      transil import-scores scores.npz --method lwf --schedule 50,10,5,1,34 -o runs/mine
      transil import-scores tables/ --labels label --keep id -o runs/mine
      transil import-scores heads/ --schedule order.json --width 100 --order labels -o runs/mine
    """
    from transil.interop import dkt
    from transil.scores import folders as score_folders

    if not source.is_dir():
        check_regular(source)
    if form is None:
        form = "numpy" if score_folders.is_ours(source) else "dkt"
    if form not in LAYOUTS:
        raise TransilError(f"--format '{form}' is unknown; {nearest(form, LAYOUTS)}")
    if (output / "run.json").exists():
        raise TransilError(f"{output}: this is the folder of a training; write to another one")
    check_replaceable(output / MANIFEST, FORMAT, VERSION)
    head = Head(width, "labels" if order == "labels" else read_order_option(order), columns)
    facts = score_folders.Facts(read_schedule(schedule), method, dataset, kind, head)
    within = score_folders.Within(key, labels, read_names(keep))
    read = score_folders.import_scores if form == "numpy" else dkt.import_scores
    store = read(source, facts, within)
    for split, state in store if kind == "logit" else ():
        found = probabilities(store.get(split, state).scores)
        if found:
            known = "probability" if found.startswith("prob") else "log-probability"
            raise TransilError(
                f"{source}: the scores of split '{split}', state {state}, are {found}; import raw "
                f"scores, or name what they are with --kind {known}"
            )
    saved = store.save(output, dtype)
    rows = [
        [split, f"{len(saved.states(split))}", f"{images:,}"]
        for split in saved.splits
        for images in [sum(len(saved.get(split, s).labels) for s in saved.states(split))]
    ]
    print_table(f"{output}: {saved.schedule}", ["split", "states", "rows in all"], rows)
    say(f"next: transil evaluate {shlex.quote(str(output))}")

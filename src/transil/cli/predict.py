"""The command that uses a trained model: predict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from transil._common.files import atomic_file, check_output
from transil.adaptation.corrector import Corrector
from transil.adaptation.corrector_file import is_corrector, read_corrector
from transil.cli.options import AnyMethod, Rescale, Strength, check_goes_with_bank, strengthened
from transil.cli.output import csv_text, json_text, note, print_table, progress_bar, say
from transil.correction.shipped import bank_for
from transil.errors import TransilError
from transil.schedule import Schedule
from transil.scores.store import ScoreStore

if TYPE_CHECKING:
    import torch

    from transil.engine.model import Model

TOGETHER = 256  # images


def predict(
    run: Annotated[Path, Argument(help="The folder of a training.")],
    images: Annotated[list[Path], Argument(help="Image files, or folders of them.")],
    bank: Annotated[
        str | None,
        Option(help="Correct the scores with this bank (file or name), or what advise wrote."),
    ] = None,
    state: Annotated[
        int | None, Option(help="The model after this state; else the last one.")
    ] = None,
    method: Annotated[
        str | None, Option(help="Of those that share a training: ft, ft+ or siw.")
    ] = None,
    any_method: AnyMethod = False,
    rescale: Rescale = False,
    strength: Strength = None,
    top: Annotated[int, Option(min=1, help="How many classes for each image.")] = 3,
    device: Annotated[str, Option(help="auto, cpu, cuda, cuda:1.")] = "cpu",
    as_json: Annotated[bool, Option("--json", help="As JSON.")] = False,
    as_csv: Annotated[bool, Option("--csv", help="One CSV row per image and class.")] = False,
    output: Annotated[
        Path | None, Option("--output", "-o", help="Write to this file, a .csv or .json one.")
    ] = None,
) -> None:
    """The classes that a trained model sees in images, best first, with their scores.

    With a bank the scores are corrected first: without it a model favours the classes it learned
    last.

    \b
    Examples:
      transil predict runs/lwf photo.jpg
      transil predict runs/lwf photos/ --bank lwf-s10 -o classes.csv
      transil predict runs/lwf photos/ --bank lwf-any -o classes.csv
      transil predict runs/ft photos/ --method siw --state 3
    """
    from transil.engine.model import load_model

    if as_json and as_csv:
        raise TransilError("give --json or --csv, not both")
    kind = _kind(as_json, as_csv, output)
    check_goes_with_bank(bank is not None, rescale, strength)
    model = load_model(run, state, method=method, device=device)
    corrector = _corrector(bank, model, any_method, rescale, strength)
    correction = None if bank is None or corrector else bank_for(bank, model.schedule)
    if correction is not None:
        named = ScoreStore.from_arrays(
            {}, model.schedule, method=model.method.name, dataset=str(run)
        )
        correction.check_store(named, same_method=not any_method)
        correction = strengthened(correction, strength)
    files = list(_files(images))
    scores = _scores(model, files)
    if corrector is not None:
        scores = corrector.transform(scores)
    if correction is not None:
        raw, scores = scores, correction.correct(scores, model.state, rescale=rescale)
        if rescale and (cost := correction.newest(raw, model.state)) is not None:
            note(f"rescaled the bank predicts {cost}")
    found = _best(files, scores, model.class_names, top)
    if kind == "json":
        text = json_text({"state": model.state, "method": model.method.name, "images": found})
    elif kind == "csv":
        text = csv_text([{"image": row["image"], **c} for row in found for c in row["classes"]])
    if output is not None:
        with atomic_file(output) as file:
            file.write(text.encode())
        say(f"{output}: {len(files):,} images")
    elif kind is not None:
        print(text, end="")
    else:
        note(f"{model.method.name}, state {model.state}: {len(model.class_names)} classes")
        heads = [f"{n}" for n in range(1, min(top, len(model.class_names)) + 1)]
        cells = [
            [row["image"], *(f"{c['class']} {c['score']:.2f}" for c in row["classes"])]
            for row in found
        ]
        print_table(None, ["image", *heads], cells)


def _corrector(
    bank: str | None, model: Model, any_method: bool, rescale: bool, strength: float | None
) -> Corrector | None:
    """What 'advise' wrote for this model; None where a bank is named, or nothing."""
    if bank is None or not is_corrector(bank):
        return None
    made = read_corrector(bank, Corrector)
    for word, given in (("rescale", rescale), ("strength", strength is not None)):
        if given:
            raise TransilError(f"{bank}: a corrector is as it was fitted; leave out --{word}")
    known = Schedule.of(made.schedule or [made.n_features_in_])
    if (
        made.state_ != model.state
        or known.sizes[: model.state] != model.schedule.sizes[: model.state]
    ):
        raise TransilError(
            f"{bank}: this corrector is for state {made.state_} of {known}, the model is in state "
            f"{model.state} of {model.schedule}; fit one for it (transil advise)"
        )
    if made.method not in (None, model.method.name) and not any_method:
        raise TransilError(
            f"{bank}: this corrector is for '{made.method}', the model was trained with "
            f"'{model.method.name}' (--any-method tries it all the same)"
        )
    return made


def _kind(as_json: bool, as_csv: bool, output: Path | None) -> str | None:
    """'json', 'csv' or None for a table; a file's ending says it, too."""
    asked = "json" if as_json else "csv" if as_csv else None
    if output is None:
        return asked
    ending = output.suffix.lower().removeprefix(".")
    if ending not in ("csv", "json"):
        raise TransilError(f"{output}: predictions are written to .csv or .json files")
    if asked not in (None, ending):
        raise TransilError(f"{output}: its ending is not that of --{asked}; leave one of them out")
    check_output(output)
    return ending


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    """The images that are named, and those in folders that are, by name."""
    from transil.data.sources.folder import image_files

    for path in paths:
        if not path.is_dir():
            yield path
            continue
        below = sorted(image_files(path))
        if not below:
            raise TransilError(f"{path}: no images in this folder")
        yield from (path / name for name in below)


def _scores(model: Model, files: Sequence[Path]) -> torch.Tensor:
    """Raw scores (n, classes), on the CPU."""
    import torch

    parts = []
    with progress_bar() as progress:
        for start in range(0, len(files), TOGETHER):
            part = files[start : start + TOGETHER]
            parts.append(model(model.read(part)).cpu())
            done = start + len(part)
            progress(done / len(files), f"{done} images")
    return torch.cat(parts)


def _best(
    files: Sequence[Path], scores: torch.Tensor, names: Sequence[str], top: int
) -> list[dict[str, Any]]:
    values, columns = scores.topk(min(top, len(names)))
    return [
        {
            "image": str(file),
            "classes": [
                {"class": names[column], "score": round(value, 4)}
                for value, column in zip(row, places, strict=True)
            ],
        }
        for file, row, places in zip(files, values.tolist(), columns.tolist(), strict=True)
    ]

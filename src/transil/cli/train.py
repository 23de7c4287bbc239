"""Commands on training: train, methods, recipes."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transil._common.progress import Progress
from transil.cli.evaluate import told_absent
from transil.cli.output import (
    note,
    percent,
    print_json,
    print_table,
    progress_bar,
    read_schedule,
    say,
    stderr,
)
from transil.errors import TransilError
from transil.scores.store import ScoreStore

if TYPE_CHECKING:
    from transil.engine.run_folder import RunFolder


def train_command(
    output: Annotated[Path, typer.Option("-o", "--output", help="The run folder.")],
    settings: Annotated[
        list[str] | None, typer.Argument(help="Settings over the recipe's: train.epochs=40 seed=1")
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="The images: a folder, a file, a name or 'formula:...'.")
    ] = None,
    method: Annotated[str | None, typer.Option(help="See: transil methods.")] = None,
    states: Annotated[
        int | None, typer.Option(help="Equal groups of classes, one a state.")
    ] = None,
    schedule: Annotated[
        str | None, typer.Option(help="Groups of unequal size: '50,10,10', or a JSON file.")
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(help="A name (transil recipes) or a .yaml file; else the method's."),
    ] = None,
    after: Annotated[
        Path | None,
        typer.Option(help="Go on from this run with new classes, without its images."),
    ] = None,
    role: Annotated[
        str | None,
        typer.Option(help="'target', or 'reference': validation scores of past classes too."),
    ] = None,
    size: Annotated[int | None, typer.Option(help="Scale images to this many pixels.")] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda, cuda:1.")] = None,
    log: Annotated[
        list[str] | None,
        typer.Option(help="csv (the default), tensorboard, wandb or mlflow; may be repeated."),
    ] = None,
    allow_pickle: Annotated[
        bool, typer.Option(help="net.weights may be a .pt file; only tensors are read from it.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The result as JSON.")] = False,
) -> None:
    """Train a model state by state; the same command again continues where it stopped.

    The run folder then holds the resolved config (run.json), a checkpoint per state, a log, and the
    scores of every state in scores/METHOD, which all other commands read.

    \b
    Examples:
      transil train --data path/to/cifar100 --method lwf --states 10 -o runs/lwf
      transil train --data photos/ --size 64 --recipe lucir-32 --states 5 -o runs/lucir \\
          train.epochs=40 seed=1
      transil train --data 'formula:strokes?classes=20' --recipe lwf-tiny --states 5 -o runs/tiny
      transil train --data photos/ --method lwf --states 5 -o runs/tuned --log mlflow \\
          net.body=timm:resnet18 net.weights=resnet18.safetensors
      transil train --data february/ --after runs/january -o runs/february
      torchrun --nproc-per-node 4 -m transil train --data photos/ --method ft --states 10 -o runs/ft
    """
    from transil._common.settings import read_overrides
    from transil.engine import past, workers
    from transil.engine.recipes import resolve
    from transil.engine.run_folder import RunFolder
    from transil.engine.setup import open_run_images
    from transil.engine.training import train

    given: dict[str, Any] = {"path": data, "role": role, "size": size}
    options: dict[str, Any] = {"data": {k: v for k, v in given.items() if v is not None}}
    options["data"].update(_groups(states, schedule))
    how = {"device": device, "log": log or None, "allow_pickle": allow_pickle or None}
    options["engine"] = {k: v for k, v in how.items() if v is not None}
    over = [options, read_overrides(settings or [])]
    main = workers.rank() == 0
    # The images may decide on the recipe, so they are opened with the settings known until then.
    if after is None:
        config = resolve(method=method, recipe=recipe, image_size=size, overrides=over)
    elif method is not None or recipe is not None:
        raise TransilError("--after takes method and recipe of that run; settings may be given")
    else:
        config = past.after(after, over, output)
    with progress_bar() as progress:
        images = open_run_images(config, progress)
    if recipe is None and after is None:
        config = resolve(method=method, image_size=size or images.size, overrides=over)
        if config.data.size not in (None, images.size):  # the recipe wants them larger
            images = open_run_images(config)
    if main and not as_json:
        note(f"{images.name}: {images.classes} classes, {images.size} px; method {config.method}")
        groups = config.data.sizes or [len(group) for group in config.data.schedule or ()]
        if 0 < sum(groups) < images.classes and after is None:
            left = images.classes - sum(groups)
            note(f"note: {left} of the {images.classes} classes are in no group and left out")
    with progress_bar() as progress:
        run = train(config, output, images=images, progress=StateLines(progress, RunFolder(output)))
    if main:
        _report(run, as_json)


def _groups(states: int | None, schedule: str | None) -> dict[str, Any]:
    """The settings of `--states` or `--schedule`; they take the place of a recipe's."""
    groups = read_schedule(schedule)
    if groups is None:
        return {} if states is None else {"states": states, "sizes": None, "schedule": None}
    if states is not None:
        raise TransilError("give --states or --schedule, one of the two")
    made: dict[str, Any] = {"states": None, "sizes": None, "schedule": None}
    if schedule is not None and schedule.endswith(".json") and "sizes" not in groups.to_json():
        return {**made, "schedule": [list(group) for group in groups.groups]}
    return {**made, "sizes": list(groups.sizes)}


class StateLines:
    """Shows where a run is: a bar on a terminal, a line per state elsewhere; and what it has learned."""

    def __init__(self, bar: Progress, run: RunFolder) -> None:
        self.bar, self.run = bar, run
        self.finished: int | None = None  # states, where known

    def __call__(self, share: float, text: str) -> None:
        self.bar(share, text)
        before, self.finished = self.finished, self.run.finished()
        if self.finished == before:
            return
        if before is not None and not stderr.is_terminal:
            note(text)
        if self.finished and share < 1.0:
            self._accuracy(self.finished)

    def _accuracy(self, state: int) -> None:
        with contextlib.suppress(TransilError):  # lost scores must not keep a run from going on
            store = ScoreStore.open(self.run.path)
            data = store.get("test", state)
            right = float((data.scores.argmax(axis=1) == data.columns).mean())
            note(
                f"state {state}/{store.schedule.states}: accuracy {percent(right)} % on test images "
                "so far"
            )


def _report(run: RunFolder, as_json: bool) -> None:
    """Accuracies of all stores of a finished run."""
    from transil.engine.run_folder import TIMES, measured
    from transil.evaluation.evaluate import evaluate

    folders = (path for path in sorted((run.path / "scores").iterdir()) if path.is_dir())
    found = {path.name: path for path in folders}
    results, split = {}, "test"
    for name, path in found.items():
        store = ScoreStore.open(path)
        there = [s for s in ("test", "val") if len(store.states(s)) == store.schedule.states]
        if there:
            split = there[0]
            results[name] = evaluate(store, split=split)
    times = run.lines(TIMES)
    seconds = sum(measured(times, "seconds"))
    memory = max(measured(times, "gpu_gigabytes"), default=0.0)
    for result in list(results.values())[:1]:  # the others are of the same images
        told_absent(result, split)
    if as_json:
        print_json({
            "run": str(run.path),
            "seconds": round(seconds, 3),
            "gpu_gigabytes": memory or None,
            "scores": {n: str(p) for n, p in found.items()},
            "metrics": {n: r.to_json() for n, r in results.items()},
        })  # fmt: skip
        return
    if not results:
        say("no test images in every state: there is nothing to evaluate")
    for name, result in results.items():
        accuracies = [percent(s.accuracy) for s in result.states]
        rows = [["accuracy", *accuracies, percent(result.average_incremental_accuracy)]]
        numbers = [str(s.state) for s in result.states]
        kind = {"test": "test", "val": "validation"}[split]
        print_table(f"{name}, {kind} images, percent", ["state", *numbers, "mean 2.."], rows)
    used = f", at most {memory:.2f} GB of GPU memory" if memory else ""
    say(f"trained in {seconds:.1f} s{used}")
    for path in found.values():
        say(f"scores: {path}")


def methods_command(
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """List the methods: what each does, where it is from, its settings and recipes.

    \b
    Example:
      transil methods
    """
    from transil.engine.recipes import recipe_names
    from transil.methods.registry import METHODS, settings_of

    rows = []
    for name in METHODS.names():
        try:
            cls = METHODS.find(name)
        except TransilError as error:  # of another package: the others are there all the same
            note(f"note: {error}")
            continue
        rows.append({
            "name": name,
            "summary": cls.summary,
            "paper": cls.paper,
            "settings": settings_of(cls),
            "recipes": [r for r in recipe_names() if r.rpartition("-")[0] == cls.trained_as()],
            "trained_with": list(cls.family),
        })  # fmt: skip
    if as_json:
        print_json(rows)
        return
    for row in rows:
        say(f"{row['name']:<6} {row['summary']}")
        say(f"       from      {row['paper']}")
        settings = [f"settings.{k}={v}" for k, v in row["settings"].items()]  # type: ignore[attr-defined]
        say(f"       settings  {', '.join(settings) or 'none'}")
        say(f"       recipes   {', '.join(row['recipes'])}")
        if row["trained_with"]:
            say(f"       one training gives the scores of {', '.join(row['trained_with'])}")


def recipes_command(
    name: Annotated[str | None, typer.Argument(help="Show this one in full.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """List the recipes, or print one: a file to copy and change.

    Those of trainings are for 'transil train', those of experiments for 'transil run'.

    \b
    Examples:
      transil recipes
      transil recipes lucir-32 > mine.yaml
      transil recipes demo > experiment.yaml
    """
    from transil.engine.recipes import load_recipe, recipe_names, recipe_text
    from transil.experiment.recipe import experiment_names, experiment_text
    from transil.experiment.schedules import load_any

    if name in experiment_names():
        if as_json:
            print_json(load_any(name).to_dict())
        else:
            print(experiment_text(name), end="")
        return
    if name is not None:
        recipe = load_recipe(name)
        if as_json:
            print_json(recipe)
        else:
            print(recipe_text(name), end="")
        return
    recipes = {known: load_recipe(known) for known in recipe_names()}
    if as_json:
        print_json(recipes)
        return
    rows = []
    for known, data in recipes.items():
        train = data["train"]
        epochs = [str(train[k]) for k in ("first_epochs", "epochs") if k in train]
        rows.append([known, data["method"], data["net"]["body"], " then ".join(epochs),
                     str(train["lr"]), train["schedule"]])  # fmt: skip
    print_table("trainings", ["recipe", "method", "network", "epochs", "lr", "schedule"], rows)
    say(f"experiments (transil run): {', '.join(experiment_names())}")

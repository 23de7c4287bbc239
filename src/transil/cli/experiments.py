"""Commands on whole experiments: run, report."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transil._common.progress import Progress
from transil.cli.output import (
    note,
    percent,
    print_json,
    print_table,
    progress_bar,
    say,
    stderr,
)
from transil.errors import TransilError

if TYPE_CHECKING:
    from transil.experiment.plan import Plan
    from transil.experiment.results import Cell, Failure, Results, Setting

# Of more numbers than this, a terminal shows only those of the main correction.
MANY = 60
Force = Annotated[
    bool, typer.Option("--force", help="Overwrite files of a report that transil has not written.")
]


def run_command(
    recipe: Annotated[
        str, typer.Argument(help="A recipe: a .yaml file, or a name such as 'demo' or 'real-32'.")
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="The results folder.")],
    settings: Annotated[
        list[str] | None,
        typer.Argument(help="Settings over the recipe's, such as 'states=[10]'."),
    ] = None,
    plan_only: Annotated[
        bool, typer.Option("--plan", help="Show what would run and what is done; run nothing.")
    ] = False,
    train: Annotated[
        bool,
        typer.Option("--train/--no-train", help="Or study and report what is finished alone."),
    ] = True,
    data_dir: Annotated[
        Path | None, typer.Option(help="Where data sets lie; else $TRANSIL_DATA or ./data.")
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(min=1, help="Default: one per GPU, or one per CPU core; fits: one per core."),
    ] = None,
    gpus_per_run: Annotated[
        float | None, typer.Option(min=0.1, max=1.0, help="0.5, the default: two runs on a GPU.")
    ] = None,
    executor: Annotated[
        str, typer.Option(help="'local', or 'ray': the same on a cluster.")
    ] = "local",
    address: Annotated[
        str | None, typer.Option(help="Of the Ray cluster; else a Ray is started here.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Cells, or the plan, as JSON.")] = False,
    force: Force = False,
) -> int:
    """Train references and targets, fit, transfer, evaluate and report: one recipe, one command.

    A recipe with 'schedules' in place of targets, such as 'any-schedule', trains references of all of
    them and fits one bank per method, for any schedule; it has no report.

    Every training is done once; the same command again does what is missing. A run that fails does
    not stop the others; it is named at the end, and the exit code is 1.

    \b
    Examples:
      transil run demo -o results/
      transil run real-32 --data-dir path/to/sets -o results/ --plan
      transil run real-32 -o results/ 'states=[10]' 'seeds=[0,1]' train.epochs=20
      transil run recipe.yaml -o results/ --gpus-per-run 0.5
      transil run recipe.yaml -o results/ --no-train
      transil run any-schedule --data-dir path/to/sets -o results/ --plan
      transil run recipe.yaml -o /shared/results --executor ray --address auto
    """
    from transil._common.settings import read_overrides
    from transil.data.sources.paper import ENVIRONMENT
    from transil.experiment.plan import make_plan
    from transil.experiment.results import UNFINISHED
    from transil.experiment.running import nothing_trained, run_experiment
    from transil.experiment.schedules import Schedules, load_any, plan_references
    from transil.report.page import check_folder, write_report
    from transil.report.reading import read_reading

    if data_dir is not None:  # worker processes look for named sets there too
        os.environ[ENVIRONMENT] = str(data_dir.absolute())
    execute = _executor(executor, address, processes, gpus_per_run)
    experiment = load_any(recipe, read_overrides(settings or []))
    with progress_bar() as progress:
        if isinstance(experiment, Schedules):
            plan = plan_references(experiment, output / "runs", progress)
        else:
            plan = make_plan(experiment, output, progress=progress)
    if plan_only:
        _show_plan(plan, as_json)
        return 0
    if isinstance(experiment, Schedules):
        return _make_banks(plan, output, execute if train else nothing_trained, as_json)
    check_folder(output, force=force)
    if not as_json:
        note(f"{experiment.name}: {len(plan.tasks)} runs, {_left(plan)}")
    with progress_bar() as progress:
        results = run_experiment(
            plan,
            execute=execute if train else nothing_trained,
            progress=_lines(progress),
            processes=processes or len(os.sched_getaffinity(0)),
        )
        progress(1.0, "writing the report")
        page = None
        if results.cells:
            page = write_report(results, output, [read_reading(output)], force=force)
    failures = results.failures
    if not train:
        failures = [f for f in failures if f.reason != UNFINISHED]
        if not as_json and len(failures) < len(results.failures):
            missing = len(results.failures) - len(failures)
            note(
                f"{missing} of {len(plan.tasks)} runs are not finished; what needs them is missing"
            )
    _show_results(results, failures, page, as_json)
    return 1 if failures else 0


def _make_banks(plan: Plan, output: Path, execute: Any, as_json: bool) -> int:
    """Run an experiment of schedules: references, then banks for any schedule."""
    from transil.experiment.schedules import make_banks

    if not as_json:
        note(f"{plan.experiment.name}: {len(plan.tasks)} runs, {_left(plan)}")
    with progress_bar() as progress:
        made, failures = make_banks(plan, execute, _lines(progress))
    _show_failures(failures)
    banks = {method: str(output / path.relative_to(plan.folder)) for method, path in made.items()}
    if as_json:
        print_json({"banks": banks, "failures": [asdict(failure) for failure in failures]})
        return 1 if failures else 0
    for path in banks.values():
        say(f"bank: {path}")
    if banks:
        say("with your own scores and groups of any sizes, for example:")
        say(f"  transil correct scores.npy --bank {path} --schedule 12,5,5 --state 3 -o out.npy")
    return 1 if failures else 0


def report_command(
    folders: Annotated[list[Path], typer.Argument(help="Results folders.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Where it goes; else the first folder.")
    ] = None,
    markdown: Annotated[
        Path | None,
        typer.Option(metavar="PAGE.md", help="Also one Markdown page, its figures in PAGE/."),
    ] = None,
    force: Force = False,
) -> None:
    """Write tables, figures and the page again, from files alone; several folders in one report.

    Of what lies there it overwrites, or takes away, what it has written itself and nothing else.

    \b
    Examples:
      transil report results/
      transil report results/ other-results/ -o both/
      transil report results/ --markdown docs/results.md
    """
    from transil.experiment.running import load_results
    from transil.report.markdown_page import check_page, markdown_files
    from transil.report.page import report_files
    from transil.report.parts import parts_of
    from transil.report.reading import read_reading
    from transil.report.written import write_outputs

    if output is None and len(folders) > 1:
        raise TransilError("several results folders: name the report's own with -o")
    where = output or folders[0]
    found = [
        r.seen_from(folder, where) for r, folder in zip(load_results(folders), folders, strict=True)
    ]
    if markdown is not None:
        check_page(markdown)
    readings = [read_reading(folder) for folder in folders]
    parts = parts_of(found)  # figures are drawn once for both
    outputs = [report_files(parts, where, readings)]
    if markdown is not None:
        outputs.append(
            markdown_files(parts, markdown, folders=folders, output=output, readings=readings)
        )
    write_outputs(outputs, force)
    for kind, written in zip(("report", "page"), outputs, strict=False):
        say(f"{kind}: {written.place}")


def _executor(
    name: str, address: str | None, processes: int | None, gpus_per_run: float | None
) -> Any:
    from transil.experiment.running import local_executor

    if name == "ray":
        from transil.experiment.cluster import ray_executor

        return ray_executor(address, gpus_per_run=gpus_per_run or 0.5)
    if name != "local":
        raise TransilError(f"executor '{name}' is unknown; there are: local, ray")
    if address is not None:
        raise TransilError("--address goes with --executor ray")
    return local_executor(processes, None if gpus_per_run is None else round(1 / gpus_per_run))


def _lines(bar: Progress) -> Progress:
    """A bar on a terminal; elsewhere a line whenever a run is finished."""
    last = [""]

    def progress(share: float, text: str) -> None:
        bar(share, text)
        head = text.split(";")[0]
        if not stderr.is_terminal and "runs" in head and head != last[0]:
            last[0] = head
            note(text)

    return progress


def _left(plan: Plan) -> str:
    done = sum(task.status == "done" for task in plan.tasks)
    seconds = plan.seconds_left()
    if done == len(plan.tasks):
        return "all done already"
    about = "" if seconds is None else f", about {_duration(seconds)} of training one by one"
    return f"{done} done already{about}"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _show_plan(plan: Plan, as_json: bool) -> None:
    rows: list[dict[str, Any]] = [
        {
            "run": task.name,
            "status": task.status,
            "method": task.method,
            "images": task.images,
            "role": task.config.data.role,
        }
        for task in plan.tasks
    ]
    if as_json:
        print_json({"runs": rows, "seconds_left": plan.seconds_left(), "overlaps": plan.overlaps()})
        return
    cells = [[r["run"], r["status"], f"{r['images']:,}"] for r in rows]
    print_table(f"{plan.experiment.name}: runs", ["run", "status", "images to see"], cells)
    for target in plan.experiment.targets:
        say(f"references of {target}: {', '.join(plan.references_of(target))}")
    for pair, classes in plan.overlaps().items():
        used = "used all the same" if plan.experiment.allow_overlap else "not used"
        say(f"{used}: {pair} share {len(classes)} classes")
    for pair, classes in plan.same_names().items():
        say(f"used, though of the same name: {pair}: {', '.join(classes)}")
    say(f"{len(rows)} runs, {_left(plan)}")


def _where(setting: Setting) -> str:
    part = "" if setting.fraction == 1.0 else f", {setting.fraction:g} of the images"
    return f"{setting.target}, {setting.method}, S={setting.states}, seed {setting.seed}{part}"


def _gain(cell: Cell) -> tuple[str, str] | None:
    """The gain and its interval, in points."""
    if cell.gain is None or cell.low is None or cell.high is None:
        return None
    low, high = percent(cell.low, sign=True), percent(cell.high, sign=True)
    return percent(cell.gain, sign=True), f"{low} .. {high}"


def _best_control(results: Results, setting: Setting) -> str:
    """The gain of the best control; empty where there is none."""
    gains = [c.gain for c in results.cells
             if c.kind == "control" and c.setting == setting and c.gain is not None]  # fmt: skip
    return percent(max(gains), sign=True) if gains else ""


def _gains(results: Results) -> list[str]:
    """What the transfer has brought each model, beside the best control."""
    lines = []
    for cell in results.cells:
        known = _gain(cell)
        if cell.kind != "transfer" or known is None:
            continue
        control = _best_control(results, cell.setting)
        beside = f"; best control {control}" if control else ""
        lines.append(
            f"{_where(cell.setting)}, {cell.name} ({cell.solver}, {cell.transfer}): "
            f"{percent(cell.average - (cell.gain or 0.0))} -> {percent(cell.average)} %, gain "
            f"{known[0]} ({known[1].replace(' .. ', ' to ')}){beside}"
        )
    return lines


def _show_main(results: Results) -> None:
    """Of many numbers those that the report's headline is about."""
    from transil.report.study import Study, line_of

    study = Study([results])
    main, targets, methods = study.main, study.targets, study.methods

    def order(cell: Cell) -> tuple[float, ...]:
        at = cell.setting
        return (
            targets.index(at.target),
            methods.index(at.method),
            -at.fraction,
            at.states,
            at.seed,
        )

    rows = [
        [_where(cell.setting), percent(cell.average - (cell.gain or 0.0)), percent(cell.average),
         *known, _best_control(results, cell.setting)]
        for cell in sorted((c for c in results.cells if line_of(c) == main), key=order)
        if (known := _gain(cell))
    ]  # fmt: skip
    if main is not None and rows:
        how = ", ".join(x for x in (main.solver, main.transfer) if x)
        title = f"{main.label()} ({how}), average incremental accuracy, percent, states 2..S"
        print_table(
            title, ["target", "raw", "corrected", "gain", "95 % interval", "best control"], rows
        )
    say(f"{len(results.cells)} numbers in all; the report shows them")


def _show_cells(results: Results) -> None:
    """Every number, and what was gained."""
    rows = []
    for cell in results.cells:
        label = " ".join(x for x in (cell.name, cell.solver, cell.transfer) if x)
        gain = _gain(cell) or ("", "")
        rows.append([_where(cell.setting), label, percent(cell.average), *gain])
    headings = ["target", "correction", "average", "gain", "95 % interval"]
    if rows:
        print_table("average incremental accuracy, percent, states 2..S", headings, rows)
    for line in _gains(results):
        say(line)


def _show_results(
    results: Results, failures: list[Failure], page: Path | None, as_json: bool
) -> None:
    if as_json:
        print_json(asdict(results))
        return
    if len(results.cells) > MANY:
        _show_main(results)
    else:
        _show_cells(results)
    _show_failures(failures)
    if page is not None:
        say(f"report: {page}")


def _show_failures(failures: list[Failure]) -> None:
    for failure in failures:
        note(f"failed: {failure.what}: {failure.reason}")
        for line in failure.log.splitlines():
            note(f"    {line}")

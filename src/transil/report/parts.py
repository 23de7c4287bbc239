"""The parts that pages are put together from: tables, figures, and sentences of plain text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from transil.errors import TransilError
from transil.report import names
from transil.report.choices import choice_table
from transil.report.drawing import Picture, TooLargeError, drawing
from transil.report.headline import headline_table, headlines, summary_table
from transil.report.more_tables import ablation_table, matrix_table
from transil.report.rendering import notes
from transil.report.study import Missing, Study, as_list
from transil.report.tables import Table, accuracy_table, text_table
from transil.report.traffic import traffic_table

if TYPE_CHECKING:
    from transil.experiment.results import Results

# The figures that stand beside a table; the others have a section of their own.
BESIDE = {"table-1": ("gains",), "table-3": ("table-3-references",),
          "transfer-matrix": ("transfer-matrix",), "traffic": ("traffic",)}  # fmt: skip
# These tables have a section of their own.
SHORT = ("headline", "summary")
# What the further rows of an accuracy table are.
FURTHER = "bounds and other solvers"
# A title names so many things of one kind.
MOST_NAMED = 4
# Targets times methods times numbers of states in figures; the paper has 48.
MOST_PANELS = 300
NOTHING = "There is no corrected model to compare with an uncorrected one."
HEADS = ("seed", "commit", "device", "seconds", "GPU memory (GB)")


@dataclass(frozen=True)
class Parts:
    """Everything that is drawn and counted once; `undrawn` says which figures there are not."""

    study: Study
    tables: list[Table]
    pictures: list[Picture]
    undrawn: str = ""

    @property
    def title(self) -> str:
        """The names of the experiments."""
        return " and ".join(dict.fromkeys(r.name for r in self.study.results)) or "Report"

    def shown(self) -> Iterator[tuple[Table, list[Picture], Table, Table | None]]:
        """Each table with the figures beside it, its first rows, and the further ones."""
        for table in self.tables:
            if table.name not in SHORT:
                beside = BESIDE.get(table.name, ())
                yield table, [p for p in self.pictures if p.name in beside], *table.parts()

    @property
    def alone(self) -> list[Picture]:
        """The figures that stand beside no table."""
        taken = {name for table in self.tables for name in BESIDE.get(table.name, ())}
        return [p for p in self.pictures if p.name not in taken]

    def context(self) -> dict[str, Any]:
        """What templates of pages are given."""
        study = self.study
        return {
            "parts": self, "study": study, "what": what(study), "lead": headline_lead(study),
            "headlines": headlines(study), "note": notes("headline_notes")[0],
            "nothing": NOTHING, "further": FURTHER,
            "summary": next((t for t in self.tables if t.name == "summary"), None),
            "missing": missing_texts(study), "as_list": as_list,
            "made": [(label, r, runs_table(r))
                     for label, r in zip(study.labels(), study.results, strict=True)],
        }  # fmt: skip


def parts_of(results: Results | Sequence[Results] | Parts) -> Parts:
    """The parts of one or several results; parts that are there already stay as they are."""
    if isinstance(results, Parts):
        return results
    study = Study(results if isinstance(results, Sequence) else [results])
    found = [
        headline_table(study),
        summary_table(study),
        *(accuracy_table(study, f) for f in study.table_fractions if study.table_columns(f)),
        ablation_table(study),
        matrix_table(study),
        choice_table(study),
        traffic_table(study),
    ]
    pictures, undrawn = _pictures(study)
    return Parts(study, [t for t in found if t is not None], pictures, undrawn)


def _pictures(study: Study) -> tuple[list[Picture], str]:
    """All figures there are data for, and a sentence on those that cannot be drawn."""
    from transil.report import figures_accuracy, figures_gains, figures_scores, figures_traffic

    makers: dict[str, Callable[[Study], Picture | list[Picture] | None]] = {
        "Table 1 as a picture": figures_gains.gains_figure,
        "Figure 2": figures_scores.scores_figure,
        "Figure 3": figures_scores.pairs_figure,
        "Figure 4": figures_accuracy.matrix_figures,
        "Figure 5": figures_accuracy.states_figure,
        "Table 3 as a picture": figures_gains.ablation_figure,
        "Transfer matrix": figures_accuracy.transfer_figure,
        "Traffic": figures_traffic.traffic_figure,
    }
    found: list[Picture] = []
    large = []
    try:
        check_panels(study)
        with drawing():
            for title, make in makers.items():
                try:
                    made = make(study)
                except TooLargeError:
                    large.append(title)
                    continue
                found += made if isinstance(made, list) else [made] if made else []
    except TransilError as error:
        return [], f"No figures: {error}"
    return found, f"Too large to be drawn: {', '.join(large)}." if large else ""


def check_panels(study: Study) -> None:
    """An error where there would be hundreds of panels, in any figure."""
    shown = [x.setting for group in (study.details, study.traffic) for x in group]
    counts = (
        len({*study.targets, *(s.target for s in shown)}),
        len({*study.methods, *(s.method for s in shown), *(p.method for p in study.pairs)}),
        len({*study.states, *(s.states for s in shown), *(p.states for p in study.pairs)}),
    )
    if prod(counts) > MOST_PANELS:
        targets, methods, states = counts
        raise TooLargeError(
            f"{names.count(targets, 'target')}, {names.count(methods, 'method')} and "
            f"{names.count(states, 'number')} of states are too many to draw"
        )


def subject(study: Study) -> str:
    """What was studied, as a title; empty where nothing was."""
    if not study.methods:
        return ""
    targets = [names.shorten(names.target(t), 40) for t in study.targets]
    kinds = {"methods": names.methods(study.methods), "targets": targets}
    parts = [names.listed(items) if len(items) <= MOST_NAMED else f"{len(items)} {kind}"
             for kind, items in kinds.items()]  # fmt: skip
    label = f"{names.shorten(study.main.label(), 40)} for " if study.main else ""
    return f"{label}{parts[0]} on {parts[1]}"


def what(study: Study) -> str:
    """What was run, in a sentence."""
    if not study.methods:
        return "No model was evaluated."
    runs = len({c.run for c in study.cells})
    text = (
        f"{names.listed([names.method(m) for m in study.methods])} on "
        f"{names.listed([names.target(t) for t in study.targets])}, in "
        f"{names.listed([str(s) for s in study.states])} states; "
        f"{names.count(len(study.seeds), 'seed')}, {names.count(runs, 'trained target model')}"
    )
    if study.references:
        text += f", {names.count(len(study.references), 'reference data set')}"
    if study.solvers:
        text += f"; fitted by {names.listed(study.solvers)}"
    return f"{text}."


def headline_lead(study: Study) -> str | None:
    """What the headline's sentences are about; None where nothing was corrected."""
    main = study.main
    if main is None or headline_table(study) is None:
        return None
    how = f", fitted by {main.solver}" if main.solver else ""
    moved = f" and transferred by {main.transfer}" if main.transfer else ""
    share = study.fractions[0]
    images = "all training images" if share == 1.0 else f"{share:.0%} of the training images"
    return f"{main.label()}{how}{moved}, on models trained on {images}:"


def missing_texts(study: Study) -> list[str]:
    """What the recipes asked for and is not there."""
    texts = [_missing_text(study, m) for m in study.missing()]
    joints = study.missing_joints()
    for target in dict.fromkeys(t for t, _ in joints):
        seeds = tuple(seed for t, seed in joints if t == target)
        texts.append(f"Joint on {names.target(target)}, {_seeds(seeds)}")
    return texts


def _missing_text(study: Study, m: Missing) -> str:
    text = f"{names.method(m.method)} on {names.target(m.target)}, "
    text += f"S = {', '.join(str(s) for s in m.states)}"
    text += f", {m.fraction:.0%} of the training images" if m.fraction != 1.0 else ""
    text += f", {_seeds(m.seeds)}"
    several = len(study.table_solvers) > 1
    lines = [x.label(several) for x in study.in_order(m.lines)]
    return f"{text}: {'; '.join(lines)}" if lines else text


def _seeds(seeds: tuple[int, ...]) -> str:
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(str(s) for s in seeds)}"


def runs_table(results: Results) -> Table | None:
    """How each run was made; None where the results do not say."""
    runs = results.facts.get("runs")
    if not isinstance(runs, list) or not all(isinstance(run, dict) for run in runs) or not runs:
        return None
    texts = [(str(run.get("run", names.MISSING)), *_made(run)) for run in runs]
    if known := [s for run in runs if isinstance(s := run.get("seconds"), (int, float))]:
        texts.append(
            (f"all, {names.count(len(runs), 'run')}", "", "", "", f"{sum(known):,.0f}", "")
        )
    return text_table(
        "runs", "Runs", ("run", *HEADS), texts, notes("runs_notes", versions=_versions(runs))
    )


def _made(run: dict[str, Any]) -> tuple[str, ...]:
    seconds, memory = run.get("seconds"), run.get("gpu_gigabytes")
    commit = str(run.get("commit") or names.MISSING)
    # A '+' at its end says that files were changed after it.
    commit = commit[:9] + ("+" if len(commit) > 10 and commit.endswith("+") else "")
    return (
        str(run.get("seed", names.MISSING)),
        commit,
        str(run.get("device") or names.MISSING),
        f"{seconds:,.0f}" if isinstance(seconds, (int, float)) else names.MISSING,
        f"{memory:.1f}" if isinstance(memory, (int, float)) else names.MISSING,
    )


def _versions(runs: list[dict[str, Any]]) -> str:
    """The versions of all runs in a sentence; of how many where they differ."""
    found = Counter(
        ", ".join(f"{k} {v}" for k, v in versions.items())
        for run in runs
        if isinstance(versions := run.get("versions"), dict) and versions
    )
    told = [text if len(found) == 1 and n == len(runs) else f"{text} ({names.count(n, 'run')})"
            for text, n in found.items()]  # fmt: skip
    return "; ".join(told)

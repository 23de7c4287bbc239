"""Try priors on simulated traffic, over the scores of many models.

    python tools/adapt_study.py RUNS... -o results/adaptation [--show] [--page PAGE]...

RUNS are folders of runs of `tools/any_schedule.py` (SET--SCHEDULE--METHOD), or a folder of scores that
the paper's authors released. Each finished model meets every traffic of `TRAFFIC` with three seeds,
those of `WIDER_METHODS` the ones of `WIDER`, too: one half of the test images of a class is thinned to
it and adapted to, the other is judged, with the weights of its classes (`transil.adaptation.trial`).
Writes trials.json, and means and the worst differences to summary.md, which it prints. It resumes: a
row is made again only where scores, the banks or the code changed; rows of models that are not named
stay. `--show` only sums up what is there; `--page` writes tables between the comments of a page,
`<!-- table: NAME -->` and `<!-- end -->`.

A column is [average incremental accuracy of states 2..S, half its 95 % interval, gain over raw, half its
interval, gain over the bank, half its interval]; intervals are over judged images.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import transil
from transil import ScoreStore, TransilError
from transil._common.files import atomic_file, digest, read_json, sha256
from transil._common.provenance import versions
from transil.adaptation.traffic import Traffic
from transil.adaptation.trial import BANK, DEFAULTS, RAW, Column, trial
from transil.interop import dkt

SEEDS = (0, 1, 2)
TRAFFIC = (
    *(Traffic(ratio) for ratio in (1, 10, 100)),
    Traffic(10, over="groups"),
    Traffic(newest=0.5),
    Traffic(newest_times=0.1),
    *(Traffic(ratio, most=300) for ratio in (1, 10)),
)
# What else may happen: fewer or more images, absent classes, duplicates, frequencies that change.
WIDER = (
    Traffic(10, most=100),
    Traffic(10, most=1000),
    Traffic(10, absent=0.3),
    Traffic(10, copies=10),
    Traffic(10, drifts=True),
)
WIDER_METHODS = ("ft", "lwf-t", "lucir")
FORMAT = "transil-adaptation-trials"
WAYS = (RAW, BANK, *DEFAULTS)
SHORT = (RAW, BANK, "none+ledger", "uniform", "known", "none+ledger+newest")
PARTS = ("set", "schedule", "method", "traffic")  # of a setting


def stores_of(folder: Path) -> Iterator[tuple[str, str, str, Path]]:
    """Set, schedule, method and place of the scores of every finished run, or of released scores."""
    paths = sorted(folder.glob("*/scores/*/store.json"))
    if not paths and list(folder.rglob("logits_tst_*.ckpt")):
        yield folder.name, "e10", folder.name.split("_")[1], folder
    for path in paths:
        store = ScoreStore.open(path.parent)
        if len(store.states("test")) == store.schedule.states:
            name, kind, *_ = path.parts[-4].split("--")
            yield name, kind, path.parent.name, path.parent


@lru_cache(maxsize=1)
def opened(place: Path) -> ScoreStore:
    """The scores, read once by a process that tries several kinds of traffic on them."""
    return ScoreStore.open(place) if (place / "store.json").exists() else dkt.import_scores(place)


def code() -> str:
    """Of all that may change a number: what is computed, and the banks for any schedule."""
    root = Path(transil.__file__).parent
    files = [*root.glob("adaptation/*.py"), *root.glob("correction/*.py")]
    files += root.glob("banks/*-any.json")
    return digest(sorted((path.name, sha256(path)) for path in files))[:16]


def stamp(place: Path) -> str:
    """Of the scores."""
    files = (
        [place / "store.json"] if (place / "store.json").exists() else sorted(place.rglob("*_9_*"))
    )
    return digest([sha256(path) for path in files])[:16]


def numbers(column: Column) -> list[float]:
    """A column in short."""
    parts = [(column.average, column.low, column.high), column.over_raw, column.over_bank]
    return [round(x, 4) for mean, low, high in parts for x in (mean, (high - low) / 2)]


def tried(name: str, kind: str, method: str, place: Path, traffic: Traffic) -> dict[str, Any]:
    """One row."""
    store = opened(place)
    found = trial(store, traffic, DEFAULTS, method=method)
    return {
        "set": name,
        "schedule": kind,
        "method": method,
        "traffic": traffic.name,
        "seed": traffic.seed,
        "settings": asdict(traffic),
        "sizes": list(store.schedule.sizes),
        "adapted": list(found.adapted),
        "short": list(found.short),
        "abstained": {k: list(c.abstained) for k, c in found.columns.items() if c.abstained},
        "columns": {way: numbers(column) for way, column in found.columns.items()},
    }


def rows_of(
    jobs: Sequence[tuple[str, str, str, Path, Traffic]], made_of: str
) -> list[dict[str, Any]]:
    """Several rows, in a process of its own."""
    return [{**tried(*job), "made_of": made_of} for job in jobs]


def study(folders: Iterable[Path], path: Path, processes: int) -> list[dict[str, Any]]:
    """Try what is not there yet; the file is written whenever some rows are done."""
    there = read(path)
    kept = {row["made_of"] + row["traffic"] + str(row["seed"]): row for row in there}
    models = [one for folder in folders for one in stores_of(folder)]
    named = {model[:3] for model in models}
    rows = [r for r in there if (r["set"], r["schedule"], r["method"]) not in named]
    now, wanted = code(), []
    for name, kind, method, place in models:
        made_of = f"{now}-{stamp(place)}"
        for seed in SEEDS:
            jobs = []
            for one in TRAFFIC + WIDER * (method in WIDER_METHODS):
                traffic = Traffic(**{**asdict(one), "seed": seed})
                row = kept.get(made_of + traffic.name + str(seed))
                rows += [row] if row else []
                jobs += [] if row else [(name, kind, method, place, traffic)]
            wanted += [(jobs, made_of)] if jobs else []
    with ProcessPoolExecutor(processes) as pool:
        for number, done in enumerate(as_completed([pool.submit(rows_of, *one) for one in wanted])):
            rows += done.result()
            write(path, rows)
            if sys.stderr.isatty():
                print(f"{number + 1} of {len(wanted)}", end="\r", file=sys.stderr, flush=True)
    write(path, rows)
    return rows


def read(path: Path) -> list[dict[str, Any]]:
    """Rows that were written."""
    if not path.exists():
        return []
    rows: list[dict[str, Any]] = read_json(path)["rows"]
    return rows


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    """All rows, in one order, each on a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows.sort(key=lambda r: [r[k] for k in (*PARTS, "seed")])
    facts = {
        "format": FORMAT,
        "version": 1,
        "split": "test",
        "seeds": SEEDS,
        "versions": versions(),
    }
    lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
    with atomic_file(path) as file:
        file.write(f'{json.dumps(facts)[:-1]}, "rows": [\n{lines}\n]}}\n'.encode())


def by_setting(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, ...], dict[str, float]]:
    """The mean over seeds of each column's average; by set, schedule, method and traffic."""
    found: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        key = tuple(row[k] for k in PARTS)
        found.setdefault(key, []).append(row["columns"])
    return {
        key: {way: float(np.mean([c[way][0] for c in columns])) for way in columns[0]}
        for key, columns in found.items()
    }


Settings = Mapping[tuple[str, ...], dict[str, float]]


def table(settings: Settings, below: Sequence[str], *parts: str, of: Sequence[str] = WAYS) -> str:
    """Means by parts of the setting; or, `below` some ways, how far at worst under the best of these."""
    ways = [way for way in of if all(way in values for values in settings.values())]
    groups: dict[str, list[dict[str, float]]] = {}
    for key, values in sorted(settings.items()):
        name = ", ".join(key[PARTS.index(part)] for part in parts)
        groups.setdefault(name, []).append(values)
    lines = [[", ".join(parts), "settings", *ways]]
    for name, some in sorted(groups.items()):
        if below:
            found = [min(v[way] - max(v[b] for b in below) for v in some) for way in ways]
        else:
            found = [float(np.mean([values[way] for values in some])) for way in ways]
        numbers = [f"{100 * value:.1f}" for value in found]
        lines.append([name, str(len(some)), *("0.0" if n == "-0.0" else n for n in numbers)])
    return pipes(lines)


def gains(settings: Settings) -> str:
    """Points over the bank by traffic, means over models with their 95 % intervals."""
    ways = [way for way in WAYS if way != BANK]
    by_traffic: dict[str, list[dict[str, float]]] = {}
    for key, values in sorted(settings.items()):
        by_traffic.setdefault(key[3], []).append(values)
    lines = [["traffic", "models", *ways]]
    for name, some in by_traffic.items():
        over = 100 * np.array([[values[way] - values[BANK] for way in ways] for values in some])
        half = (
            1.96 * over.std(axis=0, ddof=1) / np.sqrt(len(some)) if len(some) > 1 else 0 * over[0]
        )
        cells = (f"{m:.1f} ± {h:.1f}" for m, h in zip(over.mean(axis=0), half, strict=True))
        lines.append([name, str(len(some)), *cells])
    return pipes(lines)


def tables(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """By name: means, and how far below raw and bank a way falls at worst."""
    settings = by_setting(rows)
    usual, wide = ({t.name for t in some} for some in (TRAFFIC, WIDER))
    every = {key: values for key, values in settings.items() if key[3] in usual}
    models = {key[:3] for key in settings if key[3] in wide}
    compared = {"classes 10:1", "classes 10:1, 300 images"} | wide
    wider = {k: v for k, v in settings.items() if k[:3] in models and k[3] in compared}
    either = (RAW, BANK)
    found = {
        "short": table(every, (), "traffic", of=SHORT),
        "means": table(every, (), "traffic"),
        "means-method": table(every, (), "method"),
        "means-set": table(every, (), "set", "traffic"),
        "gains": gains(every),
        "worst": table(every, either, "traffic"),
        "worst-method": table(every, either, "method"),
        "bank": table(every, (BANK,), "traffic"),
        "bank-method": table(every, (BANK,), "method"),
    }
    if tuned := {k: v for k, v in every.items() if k[2] == "ft"}:
        found["ft"] = table(tuned, (), "traffic")
    if wider:
        found["wider"] = table(wider, (), "method", "traffic")
        found["wider-worst"] = table(wider, either, "traffic")
    if ones := {k: v for k, v in every.items() if k[1] == "ones"}:
        found["ones"] = table(ones, (), "method", "traffic")
    return found


HEADINGS = {
    "Means": ("means", "means-method", "means-set"),
    "Points over the bank, with intervals over models": ("gains",),
    "At worst, points to the better of raw and bank": ("worst", "worst-method"),
    "At worst, points to the bank": ("bank", "bank-method"),
    "Fewer images, absent classes, copies, frequencies that change": ("wider", "wider-worst"),
    "Groups of one class": ("ones",),
    "Plain fine-tuning": ("ft",),
}


def summary(rows: Sequence[Mapping[str, Any]]) -> str:
    """All tables in Markdown."""
    made = tables(rows)
    parts = [
        "# Priors on simulated traffic",
        "Made by `tools/adapt_study.py` of `trials.json`. Average incremental accuracy in %, states 2 "
        f"to S, mean over {len({row['seed'] for row in rows})} draws; {len(by_setting(rows))} settings "
        f"of {len({tuple(row[k] for k in PARTS[:3]) for row in rows})} models.",
    ]
    for heading, names in HEADINGS.items():
        there = [made[name] for name in names if name in made]
        parts += [f"## {heading}", *there] if there else []
    return "\n\n".join(parts) + "\n"


def write_page(path: Path, made: Mapping[str, str]) -> None:
    """Put tables between the comments of a page that have their names; the others stay."""
    text = path.read_text()
    for name, told in made.items():
        place = f"<!-- table: {name} -->"
        pattern = rf"{place}.*?<!-- end -->"
        text = re.sub(pattern, f"{place}\n\n{told}\n\n<!-- end -->", text, flags=re.DOTALL)
    with atomic_file(path) as file:
        file.write(text.encode())


def pipes(lines: list[list[str]]) -> str:
    """A Markdown table whose columns stand under each other in plain text, too."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]

    def line(cells: list[str]) -> str:
        first, *others = cells
        told = [x.rjust(w) for x, w in zip(others, widths[1:], strict=True)]
        return f"| {' | '.join([first.ljust(widths[0]), *told])} |"

    rule = "|".join(["-" * (widths[0] + 2), *("-" * (w + 1) + ":" for w in widths[1:])])
    return "\n".join([line(lines[0]), f"|{rule}|", *map(line, lines[1:])])


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="*", type=Path, help="folders of runs, or released scores")
    parser.add_argument("-o", "--output", type=Path, required=True, help="where trials.json goes")
    parser.add_argument("--processes", type=int, default=2, help="how many at a time")
    parser.add_argument("--show", action="store_true", help="only sum up what is there")
    parser.add_argument("--page", type=Path, action="append", default=[],
                        help="a page whose tables are written, too; may be repeated")  # fmt: skip
    options = parser.parse_args()
    path = options.output / "trials.json"
    try:
        rows = read(path) if options.show else study(options.runs, path, options.processes)
        if not rows:
            raise TransilError(f"{path}: no trial; give folders of finished runs")
        for page in options.page:
            write_page(page, tables(rows))
    except TransilError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    text = summary(rows)
    with atomic_file(options.output / "summary.md") as file:
        file.write(text.encode())
    print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Every option and argument of every command, with values that nobody should give.

They are found in the commands themselves: a new option is tried without a word here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from fuzz.boxes import Case
from fuzz.mutate import DIGITS

VALUES = (
    "", " ", "-1", "0", "1", "1e999", "-1e999", "nan", "inf", "1.5", "9" * 20, DIGITS,
    f"-{DIGITS}", "None",
    "true", "../..", "..", ".", "kept.txt", "pipe", "loop", "device", "a\0b",
    "\x1b[31mred\x1b[0m", "\x9b", "\n",
    "x\ny", "\ud800", "\U0001f986", "\u202e", "a" * 5000, "a/" * 3000, "kept.txt/x", "[", "{",
    "[1, 2", "{a: 1}",
    "%s", "{0}", "$HOME", "*", "~nobody", "--", "-", "--help", "@", "x@y", "lwf-s10@", "formula:",
    "formula:x?",
    "formula:strokes?classes=99999999999", "formula:strokes?classes=" + DIGITS, "torchvision:x",
    "lwf-s10",
    "2,0,1", "1,1", ",", "100/0", "100/7", "10000000000/1", "0,0", "\u0663", "\u00b2", "x.json",
    "file:///x",
    "curve.json", "lwf-any", "generic", "4,2,2", "images?classes=", "images?classes=@",
    "images?classes=@pipe", "images?classes=@device", "images?classes=@loop",
    "images?classes=class0&classes=class1", "images?classes=" + DIGITS, "images?" + "&" * 5000,
    "x.yaml", "missing.yaml", "cuda", "cuda:99", "meta", "http://x/y",
)  # fmt: skip
SETTINGS = (
    "=", "=5", "x", "x=1", "train", "train=5", "train.epochs", "train.epochs=",
    "train.epochs=1e999",
    "train.epochs=-1", f"train.epochs={DIGITS}", "train.epochs=.nan", "train.epochs=[1]",
    "train.epochs={a: 1}",
    "train.epochs=&a [*a]", "train.epochs=*a", "train.epochs=!!timestamp 2001-01-01",
    "train.epochs=!!bool x",
    "train.epochs=!!python/object/apply:os.system [id]", "train..epochs=1", ".=1", "a.b.c.d=1",
    "." * 3000 + "=1",
    "seed=[", "seed=\0", "seed=\x1b[31m", "seed=" + "[" * 3000, "train.lr=1e308", "train.lr=nan",
    "train.drops=[x]",
    "train.drops=1", "data.path=", "data.path=[1]", "data.order=[0]", "data.order=seed:",
    "data.order=seed:\u00b2",
    "data.order=\0", "data.sizes=[0]", "data.sizes=[-1, 5]", "data.states=0",
    "data.schedule=[[0], [0]]",
    "net.body=timm:x", "net.body=os:abort", "net.body=:", "net.weights=kept.txt",
    "net.weights=\0.safetensors", "net.weights=[1]", "net.colours=5", "train.body_lr=-1",
    "engine.log=[x]", "engine.log=csv", "engine.log=[csv, csv]",
    "net.body=x", "net.body=\0", "net=x", "engine.device=x", "engine.threads=0", f"seed={DIGITS}",
    "method=x",
    "settings.x=1", "settings=5", "states=[0]", "states=[[]]", "targets=[]", "targets=[x, x]",
    "references=5",
    "sets.strokes.path=/dev/zero", "sets.strokes=5", "recipes.lwf=x", "recipes.lwf=kept.txt",
    "solvers_of.x=[y]",
    "candidates=['newton:']", "candidates=['newton:nan']", "methods=[x]", "train_fraction=[0]",
    "seeds=[-1]",
    "name=" + "x" * 5000, "name=../..", "name='\\0'", "draws=-1", "resamples=0", "order=x",
    "first_classes=99",
)  # fmt: skip


@dataclass(frozen=True)
class Base:
    """A right command line; `{}` marks an argument that may be replaced."""

    words: tuple[str, ...]
    needs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ("new",)
    long: bool = False  # an accepted one takes minutes: only what must be refused is tried


def _base(line: str, needs: str = "", outputs: str = "new", long: bool = False) -> Base:
    return Base(tuple(line.split(" ")), tuple(needs.split()), tuple(outputs.split()), long)


DATA = "formula:strokes?classes=4&train=20&test=4&size=16"
BASES = {
    "import-scores": _base("import-scores numpy -o new", "numpy"),
    "import-bank": _base("import-bank released -o new --classes 6", "released"),
    "evaluate": _base("evaluate large", "large bank.json curve.json"),
    "fit": _base("fit store -o new", "store"),
    "transfer": _base("transfer both.json -o new", "both.json scores.npy store curve.json"),
    "correct": _base("correct scores.npy --bank curve.json --schedule 4,2,2 -o new.npy",
    "scores.npy bank.json curve.json", "new.npy"),
    "export": _base("export mine.json --head head.safetensors -o new.onnx",
    "mine.json head.safetensors curve.json bank.json", "new.onnx"),
    "advise": _base("advise traffic.npy --schedule 4,2,2", "traffic.npy newest.npy ledger.json", ""),
    "ledger record": _base(
        "ledger record traffic.npy --schedule 4,2,2 --state 3 --ledger new.json", "traffic.npy",
        "new.json .new.json.lock"),
    "ledger show": _base("ledger show ledger.json", "ledger.json"),
    "bank list": _base("bank list lwf"),
    "bank show": _base("bank show both.json", "both.json curve.json"),
    "bank make": _base("bank make curve.json --schedule 4,2,2 --like scores.npy --state 3 -o new",
    "curve.json scores.npy"),
    "bank compare": _base("bank compare bank.json both.json", "bank.json both.json curve.json"),
    "bank check": _base("bank check scores.npy --state 3 --bank curve.json --schedule 4,2,2",
    "scores.npy bank.json curve.json"),
    "train": _base(f"train --data {DATA} --recipe ft-tiny --states 2 -o new train.epochs=1",
    "run schedule.json"),
    "predict": _base("predict run photo.png", "run photo.png pair.json"),
    "methods": _base("methods"),
    "recipes": _base("recipes ft-tiny"),
    "data list": _base("data list"),
    "data show": _base("data show images --sheet new.png", "images", "new.png"),
    "data convert": _base("data convert images new", "images"),
    "data cache": _base("data cache --cache-dir kept", "kept", "kept"),
    "run": _base("run experiment.yaml -o new --plan", "experiment.yaml"),
    "report": _base("report results -o new", "results"),
    "demo": _base("demo -o kept.txt/new", long=True),
}  # fmt: skip
# What these give back is the exit code or a picture of the command line itself.
LEFT_OUT = {"help", "install_completion", "show_completion", "version", "plugins"}
OUTPUTS = {"output", "bank_out", "figure", "sheet", "markdown", "cache_dir"}
# A bank may take the place of another that lies there.
BANKS_OVER = {("transfer", "curve.json")}
NEVER = ("kept.txt/x", "a\0b", "pipe", "loop", "a" * 5000, "kept.txt")


def commands() -> dict[str, Any]:
    """Every command by its name, from the command line itself."""
    import typer

    from transil.cli.app import app

    found: dict[str, Any] = {}

    def walk(group: Any, before: str) -> None:
        for name, command in group.commands.items():
            if hasattr(command, "commands"):
                walk(command, f"{before}{name} ")
            else:
                found[before + name] = command

    walk(typer.main.get_command(app), "")
    return found


def parameters(command: Any) -> list[Any]:
    """Its options and arguments."""
    return [p for p in command.params if p.name not in LEFT_OUT]


def cases(each: int) -> Iterator[Case]:
    """Every parameter of every command with `each` of the values."""
    for name, command in sorted(commands().items()):
        for parameter in parameters(command):
            values = _values(name, parameter)
            random = Random(f"{name} {parameter.name}")
            for number in random.sample(range(len(values)), min(each, len(values))):
                yield case_of(name, parameter, values[number], _name(name, parameter, number))


def case_named(name: str) -> Case:
    """The case of that name."""
    _, command, parameter, number = name.split(" : ")
    found = next(p for p in parameters(commands()[command]) if p.name == parameter)
    values = _values(command, found)
    return case_of(command, found, values[int(number)], name)


def _values(command: str, parameter: Any) -> Sequence[str]:
    if getattr(parameter, "is_flag", False):
        return ("",)
    if BASES[command].long:
        return NEVER
    return SETTINGS if parameter.name == "settings" else VALUES


def _name(command: str, parameter: Any, number: int) -> str:
    return f"option : {command} : {parameter.name} : {number}"


def case_of(command: str, parameter: Any, value: str, case: str) -> Case:
    """The command with one of its parameters given as `value`."""
    base = BASES[command]
    words = list(base.words)
    output = parameter.name in OUTPUTS or (command, parameter.name) == ("ledger record", "ledger")
    if parameter.param_type_name == "argument":
        if parameter.name == "settings":
            words.append(value)
        else:
            words = _replaced(words, command, parameter, value)
            output = (command, parameter.name) == ("data convert", "output")
    else:
        name = next((o for o in parameter.opts if o.startswith("--")), parameter.opts[0])
        short = [o for o in parameter.opts if o in words]
        if getattr(parameter, "is_flag", False):
            words.append(name)
        elif short:
            words[words.index(short[0]) + 1] = value
        else:
            words += [name, value]
    return Case(
        name=case,
        words=tuple(words),
        needs=base.needs,
        spoil=_hazards,
        outputs=(*base.outputs, value)
        if output and (command, value) in BANKS_OVER
        else base.outputs,
        new_files=output and value.strip() not in ("", "."),
    )


def _replaced(words: list[str], command: str, parameter: Any, value: str) -> list[str]:
    """An argument's place taken by the value: arguments stand right behind the command's name."""
    start = len(command.split(" "))
    place = {"output": 1, "second": 1, "images": 1}.get(parameter.name, 0)
    return [*words[: start + place], value, *words[start + place + 1 :]]


def _hazards(folder: Path, random: Random) -> None:
    """Names that values may give: a pipe, a loop, a device."""
    os.mkfifo(folder / "pipe")
    os.symlink("loop", folder / "loop")
    os.symlink("/dev/zero", folder / "device")


def right() -> Iterator[Case]:
    """Every command as it should be called: it must be accepted, or nothing here says anything."""
    for name, base in BASES.items():
        if not base.long:
            case = Case(f"right : {name}", base.words, base.needs, None, base.outputs)
            yield replace(case, must="accepted")

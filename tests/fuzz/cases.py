"""Which command reads which file, and the cases that follow from it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from fuzz import mutate, mutate_arrays
from fuzz.boxes import Case, Spoil
from fuzz.mutate import Mutation

WAYS: dict[str, Mutation] = {
    "bytes": mutate.bytes_of,
    "text": mutate.text_of,
    "place": mutate.place,
    "beside": mutate.neighbours,
    "json": mutate.json_of,
    "signed": mutate.signed_of,
    "yaml": mutate.yaml_of,
    "npy": mutate_arrays.npy_of,
    "npz": mutate_arrays.npz_of,
    "torch": mutate_arrays.torch_of,
    "safetensors": mutate_arrays.safetensors_of,
    "facts": mutate_arrays.facts_of,
    "data": mutate_arrays.store_data_of,
    "labels": mutate_arrays.labels_of_entry,
    "csv": mutate_arrays.csv_of,
    "parquet": mutate_arrays.parquet_of,
    "arrow": mutate_arrays.arrow_of,
    "image": mutate_arrays.image_of,
    "pickle": mutate_arrays.pickle_of,
    "tar": mutate_arrays.tar_of,
}


@dataclass(frozen=True)
class Target:
    """A command line, a file (or pattern) that it reads, and the ways in which that is spoiled."""

    line: str
    file: str
    ways: str
    needs: str = ""  # what else must lie there
    outputs: str = ""
    weight: int = 1

    @property
    def name(self) -> str:
        return f"{self.line} < {self.file}"

    def case(self, way: str, number: int) -> Case:
        """The same case for the same words."""
        top = self.file.split("/")[0]
        return Case(
            name=f"{self.name} : {way} : {number}",
            words=tuple(self.line.split(" ")),
            needs=tuple(dict.fromkeys([top, *self.needs.split()])),
            spoil=_spoil(self.file, WAYS[way]),
            outputs=tuple(self.outputs.split()),
        )


def _spoil(pattern: str, way: Mutation) -> Spoil:
    def spoil(folder: Path, random: Random) -> None:
        found = sorted(folder.glob(pattern))
        if way not in (mutate.place, mutate.neighbours):
            found = [path for path in found if path.is_file()]
        way(random.choice(found), random)

    return spoil


STUDY = "run experiment.yaml -o done --no-train --processes 1"
TRAIN = "train --recipe training.yaml -o new --device cpu"
AGAIN = (
    "train --data formula:strokes?classes=4&train=20&test=4&size=16 --recipe ft-tiny --states 2 "
    "--device cpu -o run train.epochs=1"
)
AFTER = (
    "train --after run --data formula:strokes?classes=6&train=20&test=4&size=16 -o new --device cpu"
)

ADVISE = (
    "advise traffic.npy --schedule 4,2,2 --method lwf-t --newest-labels newest.npy "
    "--before earlier.npy --prior shares.json --ledger ledger.json -o new.html --bank-out new.json"
)
NEW = "new.html new.json"
REMEMBERED = "ledger.json .ledger.json.lock nowhere"  # the last: what a link of that name leads to
RECORD = "ledger record traffic.npy --schedule 4,2,2 --state 3 --method lwf-t --ledger ledger.json"

SCORES = (
    Target(
        "import-scores numpy --format numpy -o new",
        "numpy/*.npy",
        "npy bytes place beside",
        "",
        "new",
        2,
    ),
    Target("import-scores arrays.npz -o new", "arrays.npz", "npz bytes place", "", "new", 2),
    Target(
        "import-scores arrays.pt -o new --schedule 4,2,2",
        "arrays.pt",
        "torch bytes place",
        "",
        "new",
    ),
    *(
        Target(
            "import-scores tables --labels label --keep image -o new",
            f"tables/*.{kind}",
            f"{ways} bytes place beside",
            "",
            "new",
        )
        for kind, ways in (("csv", "csv csv"), ("parquet", "parquet"), ("feather", "arrow"))
    ),
    Target("import-scores dkt -o new", "dkt/*.ckpt", "torch bytes place beside", "", "new", 2),
    Target(
        "import-scores numpy --format numpy --schedule schedule.json -o new",
        "schedule.json",
        "json bytes place",
        "numpy",
        "new",
    ),
    Target(
        "import-scores numpy --format numpy -o store",
        "store/store.json",
        "json bytes place",
        "numpy",
        "store",
    ),
    Target(
        "import-bank released --schedule 4,2,2 -o new.json",
        "released/*.ckpt",
        "torch bytes place beside",
        "",
        "new.json",
    ),
    Target("evaluate store", "store/store.json", "json text bytes place beside", weight=2),
    Target("evaluate store --json", "store/test-*", "data data safetensors place"),
    Target("evaluate store --csv --bank bank.json", "bank.json", "json text bytes place", "store"),
    Target("evaluate run", "run/run.json", "json place"),
    Target("evaluate run", "run/scores/ft/store.json", "json"),
    Target("fit store -o new.json", "store/store.json", "json text place", "", "new.json"),
    Target(
        "fit store store2 -o new.json",
        "store/val-*",
        "data safetensors bytes place",
        "store2",
        "new.json",
    ),
    Target(
        "fit store --solver paper --epochs 2 -o new.json", "store/val-*", "data", "", "new.json"
    ),
    # An output may be a link, which is followed, to a file that is not there yet.
    Target("fit store -o bank.json", "bank.json", "json bytes place", "store", "bank.json nowhere"),
)

BANKS = (
    Target(
        "transfer bank.json both.json -o new.json",
        "bank.json",
        "json text bytes place",
        "both.json",
        "new.json",
    ),
    Target(
        "transfer bank.json --like scores.npy --state 3 -o new.json",
        "scores.npy",
        "npy bytes place",
        "bank.json",
        "new.json",
    ),
    Target(
        "transfer both.json --how oracle --target store -o new.json",
        "store/test-*",
        "data place",
        "both.json",
        "new.json",
    ),
    *(
        Target(
            f"correct scores.{kind} --bank bank.json -o new.{out}{more}",
            f"scores.{kind}",
            f"{ways} bytes place",
            "bank.json",
            f"new.{out}",
            2,
        )
        for kind, out, ways, more in (
            ("npy", "npy", "npy", ""),
            ("npz", "npy", "npz", ""),
            ("pt", "pt", "torch", ""),
            ("safetensors", "npy", "safetensors", ""),
            ("csv", "csv", "csv csv csv", " --keep image"),
            ("tsv", "csv", "csv", " --state 3"),
            ("parquet", "parquet", "parquet parquet", " --keep image"),
            ("parquet", "safetensors", "parquet", " --keep image"),
            ("arrow", "csv", "arrow arrow arrow", " --keep image"),
            ("feather", "arrow", "arrow arrow", " --keep image"),
            ("npy", "npz", "npy", ""),
            ("safetensors", "feather", "safetensors", ""),
        )
    ),
    Target(
        "correct listed.parquet --key logits --bank bank.json -o new.parquet",
        "listed.parquet",
        "parquet",
        "bank.json",
        "new.parquet",
    ),
    Target(
        "correct scores.npy --bank bank.json -o new.npy",
        "bank.json",
        "json text bytes place beside",
        "scores.npy",
        "new.npy",
    ),
    Target(
        "correct scores.npy --bank bank.json --order order.json -o new.npy",
        "order.json",
        "json bytes place",
        "scores.npy bank.json",
        "new.npy",
    ),
    Target("bank show bank.json", "bank.json", "json text bytes place", weight=2),
    Target("bank show both.json --json --reference two", "both.json", "json"),
    Target("bank compare bank.json both.json", "bank.json", "json bytes place", "both.json"),
    Target(
        "bank check scores.npy --state 3 --bank bank.json",
        "scores.npy",
        "npy bytes place",
        "bank.json",
    ),
    Target("bank check scores.npy --state 3 --bank bank.json", "bank.json", "json", "scores.npy"),
    Target(
        "bank check scores.feather --state 3 --bank bank.json --keep image",
        "scores.feather",
        "arrow",
        "bank.json",
    ),
    *(
        Target(
            ADVISE, file, ways, "traffic.npy newest.npy earlier.npy shares.json ledger.json", NEW
        )
        for file, ways in (
            ("traffic.npy", "npy npy bytes place"),
            ("newest.npy", "npy npy bytes place"),
            ("earlier.npy", "npy bytes place"),
            ("shares.json", "json bytes place"),
            ("ledger.json", "json signed text place"),
        )
    ),
    Target(
        RECORD,
        "traffic.npy",
        "npy bytes place",
        "ledger.json",
        REMEMBERED,
    ),
    Target(
        RECORD,
        "ledger.json",
        "signed json text bytes place beside",
        "traffic.npy",
        REMEMBERED,
    ),
    Target("ledger show ledger.json", "ledger.json", "signed signed json text bytes place"),
    Target(
        "correct traffic.npy --bank mine.json -o new.npy",
        "mine.json",
        "signed signed signed json text bytes place",
        "traffic.npy",
        "new.npy",
        2,
    ),
    *(
        Target(
            f"export {what} --head head.{kind} -o new.{out}",
            f"head.{kind}",
            ways,
            needs,
            f"new.{out}",
        )
        for what, kind, out, ways, needs in (
            ("mine.json", "safetensors", "onnx", "safetensors bytes place", "mine.json"),
            ("mine.json --key fc", "pt", "pt", "torch bytes", "mine.json"),
            ("bank.json --state 3", "npz", "safetensors", "npz bytes", "bank.json"),
        )
    ),
    Target(
        "export mine.json --head head.safetensors -o new.pt2",
        "mine.json",
        "json text",
        "head.safetensors",
        "new.pt2",
    ),
)

ANY = (
    Target("bank show curve.json", "curve.json", "json text bytes place beside", weight=2),
    Target("bank show generic.json --schedule 4,2,2", "generic.json", "json text"),
    Target("bank show made.json", "made.json", "json bytes", weight=2),
    Target("bank show measured.json --json", "measured.json", "json json text", weight=2),
    Target(
        "bank make curve.json --schedule 4,2,2 -o new.json",
        "curve.json",
        "json json text bytes place beside",
        "",
        "new.json",
        2,
    ),
    Target(
        "bank make curve.json --schedule 4,2,2 --like scores.npy --state 3 -o new.json",
        "curve.json",
        "json json place",
        "scores.npy",
        "new.json",
        2,
    ),
    Target(
        "bank make curve.json --schedule 4,2,2 --like scores.npy --state 3 -o new.json",
        "scores.npy",
        "npy bytes place",
        "curve.json",
        "new.json",
    ),
    Target(
        "bank make generic --schedule schedule.json -o new.json",
        "schedule.json",
        "json bytes place",
        "",
        "new.json",
    ),
    Target(
        "bank make curve.json --schedule 4,2,2 -o made.json",
        "made.json",
        "json bytes place",
        "curve.json",
        "made.json nowhere",
    ),
    Target(
        "correct scores.npy --bank curve.json --schedule 4,2,2 -o new.npy",
        "curve.json",
        "json json text bytes place",
        "scores.npy",
        "new.npy",
        2,
    ),
    Target(
        "correct scores.npy --bank generic.json --schedule 4,2,2 --rescale -o new.npy",
        "scores.npy",
        "npy bytes place",
        "generic.json",
        "new.npy",
    ),
    Target(
        "correct scores.csv --bank curve.json --schedule 4,2,2 --keep image -o new.csv",
        "scores.csv",
        "csv bytes place",
        "curve.json",
        "new.csv",
    ),
    Target(
        "correct scores.npy --bank made.json -o new.npy",
        "made.json",
        "json text",
        "scores.npy",
        "new.npy",
    ),
    Target(
        "correct scores.npy --bank measured.json -o new.npy",
        "measured.json",
        "json json text",
        "scores.npy",
        "new.npy",
        2,
    ),
    Target(
        "correct scores.npy --bank lwf --schedule schedule.json -o new.npy",
        "schedule.json",
        "json text bytes place",
        "scores.npy",
        "new.npy",
    ),
    Target(
        "bank check scores.npy --state 3 --schedule 4,2,2 --bank curve.json",
        "curve.json",
        "json json bytes place",
        "scores.npy",
        "",
        2,
    ),
    Target(
        "bank check scores.npy --state 3 --schedule 4,2,2",
        "scores.npy",
        "npy bytes place",
    ),
    Target(
        "bank check scores.npy --state 3 --bank measured.json",
        "measured.json",
        "json",
        "scores.npy",
    ),
    Target("bank compare measured.json bank.json", "measured.json", "json bytes", "bank.json"),
    Target("evaluate large --csv --bank curve.json", "curve.json", "json place", "large"),
    Target(
        "predict run photo.png --bank pair-any.json --any-method",
        "pair-any.json",
        "json",
        "run photo.png",
    ),
    Target(
        "fit store store3 --any-schedule -o new.json",
        "store3/store.json",
        "json text place",
        "store",
        "new.json",
    ),
    Target(
        "fit store store3 --any-schedule -o new.json",
        "store3/val-*",
        "data data safetensors bytes place",
        "store",
        "new.json",
    ),
    Target(
        "fit store store3 --any-schedule -o curve.json",
        "curve.json",
        "json bytes place",
        "store store3",
        "curve.json nowhere",
    ),
)

IMAGES = (
    Target("data show images --json", "images/*/*/*.png", "image bytes place beside", weight=2),
    Target("data show images --json", "images/train", "place beside"),
    Target(
        "data show images --size 8 --skip-bad --sheet new.png",
        "images/train/*/*.png",
        "image",
        "",
        "new.png",
    ),
    Target("data show lists --json", "lists/*.lst", "text bytes place beside", "images", "", 2),
    Target("data show images?classes=@names.txt --json", "names.txt", "text bytes place", "images"),
    Target(
        "data show images?classes=@names.json:one --json",
        "names.json",
        "json bytes place",
        "images",
    ),
    Target("data show places?classes=attic --json", "places/*.txt", "text bytes place beside"),
    Target("data show cifar --json", "cifar/*", "pickle pickle pickle bytes place", "", "", 2),
    Target("data convert cifar-100.tar.gz new", "cifar-100.tar.gz", "tar tar place", "", "new", 2),
    Target("data show binary --json", "binary/*", "bytes text place beside"),
    Target("data show images.npz --json", "images.npz", "npz npz bytes place"),
    Target("data show shards --json", "shards/*", "parquet parquet place beside"),
    Target("data show converted --json", "converted/meta.json", "json text bytes place", weight=2),
    Target("data show converted --json", "converted/*.npy", "labels labels npy place"),
    Target(
        "data show converted --sheet new.png", "converted/*.u8", "bytes place beside", "", "new.png"
    ),
    Target("data cache --cache-dir kept --json", "kept/*/meta.json", "json text place beside"),
    Target("data cache --cache-dir kept --verify", "kept/*/*", "bytes place", "", "kept"),
    Target(
        "data cache --cache-dir kept --clear", "kept/*/meta.json", "json beside place", "", "kept"
    ),
    Target(
        "data show images --size 8 --cache-dir kept --json",
        "kept/*/meta.json",
        "json place",
        "images",
        "kept",
    ),
    Target("data convert images new --size 8", "images/*/*/*.png", "image", "", "new"),
)

TRAININGS = (
    Target(TRAIN, "training.yaml", "yaml yaml yaml text bytes place", "", "new", 2),
    Target(AGAIN, "run/run.json", "json json text place beside", "", "run", 2),
    Target(AGAIN, "run/label-map.json", "json place", "", "run"),
    Target(
        AGAIN,
        "run/checkpoints/state-02.safetensors",
        "facts safetensors bytes place beside",
        "",
        "run",
    ),
    Target(AGAIN, "run/scores/ft/store.json", "json place", "", "run"),
    Target(AGAIN, "run/*.jsonl", "text bytes place", "", "run"),
    Target(AFTER, "run/run.json", "json place", "", "new"),
    Target(AFTER, "run/label-map.json", "json place", "", "new"),
    Target(AFTER, "run/checkpoints/state-02.safetensors", "facts safetensors", "", "new"),
    Target(
        "train --recipe ft-tiny --data images --schedule small.json --device cpu -o new train.epochs=1",
        "small.json",
        "json",
        "images",
        "new",
    ),
    Target(
        "train --data lists --recipe ft-tiny --states 1 --device cpu -o new train.epochs=1",
        "lists/*.lst",
        "text",
        "images",
        "new",
    ),
    Target(
        "predict run photo.png", "run/run.json", "json json text bytes place", "photo.png", "", 2
    ),
    Target(
        "predict run photo.png --json", "run/label-map.json", "json json bytes place", "photo.png"
    ),
    Target(
        "predict run photo.png --csv",
        "run/checkpoints/*",
        "facts safetensors bytes place beside",
        "photo.png",
    ),
    Target("predict run photo.png", "photo.png", "image bytes place", "run"),
    Target("predict run images -o new.csv", "images/train/*/*", "image beside", "run", "new.csv"),
    Target(
        "predict run photo.png --bank pair.json --any-method", "pair.json", "json", "run photo.png"
    ),
)

EXPERIMENTS = (
    Target(
        "run experiment.yaml -o new --plan",
        "experiment.yaml",
        "yaml yaml yaml text bytes place",
        "",
        "new",
        3,
    ),
    Target("run schedules.yaml -o new --plan", "schedules.yaml", "yaml yaml text", "", "new", 3),
    Target(STUDY, "experiment.yaml", "yaml", "done", "done"),
    Target(STUDY, "done/runs/*/run.json", "json json text place beside", "experiment.yaml", "done"),
    Target(STUDY, "done/runs/*/label-map.json", "json place", "experiment.yaml", "done"),
    Target(STUDY, "done/runs/*/scores/lwf/store.json", "json place", "experiment.yaml", "done"),
    Target(STUDY, "done/fits/*", "json place beside", "experiment.yaml", "done"),
    Target(
        "run experiment.yaml -o done --plan",
        "done/runs/*/*",
        "bytes place",
        "experiment.yaml",
        "done",
    ),
    Target(
        "report results -o new", "results/results.json", "json json text bytes place", "", "new", 3
    ),
    Target(
        "report results --markdown new.md -o new",
        "results/reading.md",
        "text bytes place beside",
        "",
        "new new.md",
    ),
)

FAMILIES = {
    "scores": SCORES,
    "banks": BANKS,
    "any": ANY,
    "images": IMAGES,
    "trainings": TRAININGS,
    "experiments": EXPERIMENTS,
}


def cases_of(targets: tuple[Target, ...], each: int) -> Iterator[Case]:
    """`each` cases of every target (times its weight), the ways in turn."""
    for target in targets:
        ways = target.ways.split()
        for number in range(each * target.weight):
            yield target.case(ways[number % len(ways)], number)


def case_named(name: str) -> Case:
    """The case of that name."""
    start, way, number = name.rsplit(" : ", 2)
    for targets in FAMILIES.values():
        for target in targets:
            if target.name == start:
                return target.case(way, int(number))
    raise SystemExit(f"no case is called {name!r}")


def right(targets: tuple[Target, ...]) -> Iterator[Case]:
    """Every command line once, with whole files: it must be accepted, or nothing here says anything."""
    for line in dict.fromkeys(target.line for target in targets):
        alike = [target for target in targets if target.line == line]
        needs = [name for target in alike for name in target.case("place", 0).needs]
        case = alike[0].case("place", 0)
        yield replace(
            case,
            name=f"right : {line}",
            needs=tuple(dict.fromkeys(needs)),
            spoil=None,
            must="accepted",
        )

"""Commands on images: data list, show, convert, cache."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
from typer import Argument, Option

from transil._common.files import plain_name
from transil.cli.output import print_facts, print_json, print_table, progress_bar, say
from transil.errors import TransilError

Spec = Annotated[str, Argument(help="A folder, a file, a name or 'formula:...'.")]
Size = Annotated[int | None, Option(help="Scale to squares of this many pixels.")]
RuleOption = Annotated[str, Option(help="'crop' the middle out, or 'stretch'.")]
Root = Annotated[Path | None, Option(help="Where the paths of image lists begin.")]
SkipBad = Annotated[bool, Option("--skip-bad", help="Leave out images that cannot be decoded.")]
CacheDir = Annotated[
    Path | None, Option(help="The cache folder; else $TRANSIL_CACHE or the user's cache.")
]

KINDS = {
    "folder of Parquet shards": "Hugging Face convention: image {bytes, path}, label; train-*.parquet",
    "folder of images": "split/class/file or class/file",
    "folder of image lists": "train.lst (or train_no_val.lst, val.lst), test.lst; '<path> <label>'",
    "CIFAR's official files": "cifar-100-python, cifar-10-batches-bin, ..., or their tar.gz",
    ".npz file": "x_train (n, h, w, 3) uint8, y_train, x_test, y_test",
    "torchvision:NAME?root=DIR": "any classification set of torchvision, where it is installed",
    "formula:FAMILY?classes=10&seed=0": "drawn from formulas; also train=100&test=50&size=32",
    "any other, ?classes=cat,dog": "these classes alone; ?classes=@FILE has one name a line",
}


def list_command(
    as_json: Annotated[bool, Option("--json", help="As JSON.")] = False,
) -> None:
    """List named image sets, what each needs, and the kinds of sources.

    \b
    Example:
      transil data list
    """
    from transil.data.formula import FAMILIES
    from transil.data.sources.paper import ENVIRONMENT, RECIPES, data_dir, open_recipe

    rows = []
    for recipe in RECIPES.values():
        try:
            open_recipe(recipe.name)
            found = "yes"
        except TransilError:
            found = "no"
        rows.append([recipe.name, found, recipe.what, recipe.needs, recipe.lists])
    if as_json:
        keys = ("name", "found", "what", "needs", "lists")
        print_json([dict(zip(keys, row, strict=True)) for row in rows])
        return
    print_facts(
        "formula families, nothing to download", {n: f.summary for n, f in FAMILIES.items()}
    )
    say(f"named sets, looked for in {data_dir()} (${ENVIRONMENT} names another folder):")
    say("  images in images/, the authors' lists in image_lists/, by the names given below")
    for name, found, what, needs, lists in rows:
        say(f"  {name:<10} {'found' if found == 'yes' else 'missing':<8} {what}")
        if found == "no":
            say(f"  {'':<10} needs {needs}; lists: {lists}")
    say("")
    print_facts("kinds of sources", KINDS)


def show(
    spec: Spec,
    size: Size = None,
    rule: RuleOption = "crop",
    root: Root = None,
    skip_bad: SkipBad = False,
    cache_dir: CacheDir = None,
    sheet: Annotated[
        Path | None, Option(help="Where the contact sheet goes; else NAME-sheet.png.")
    ] = None,
    as_json: Annotated[bool, Option("--json", help="As JSON, without a picture.")] = False,
) -> None:
    """Show classes, counts, size and colour statistics of an image set, and draw a contact sheet.

    \b
    Examples:
      transil data show path/to/cifar100
      transil data show 'formula:radial?classes=100&seed=3'
      transil data show photos/ --size 64 --sheet photos.png
      transil data show 'photos/?classes=cat,dog'
    """
    from transil.data.opening import open_images
    from transil.data.sheet import check_sheet, contact_sheet, own_sheet
    from transil.data.statistics import colour_statistics

    if sheet is not None:
        check_sheet(sheet)
    with progress_bar() as progress:
        images = open_images(
            spec, size=size, rule=rule, root=root, skip_bad=skip_bad, cache_dir=cache_dir,
            progress=progress,
        )  # fmt: skip
    if not as_json:
        sheet = sheet or own_sheet(plain_name(images.name))
    train = images.splits["train"]
    statistics = colour_statistics(train.pixels, np.arange(len(train)))
    if as_json:
        print_json(
            {
                "name": images.name,
                "size": images.size,
                "class_names": list(images.class_names),
                "counts": {split: images.counts(split).tolist() for split in images.splits},
                "mean": list(statistics.mean),
                "std": list(statistics.std),
                "duplicates": images.duplicates,
                "skipped": list(images.skipped),
                "fingerprint": images.fingerprint,
            }
        )
        return
    facts = {
        "classes": f"{images.classes}: " + ", ".join(images.class_names[:5])
        + (", ..." if images.classes > 5 else ""),
        "size": f"{images.size} x {images.size} pixels",
        "mean": " ".join(f"{v:.4f}" for v in statistics.mean) + "  (training images, 0 to 1)",
        "std": " ".join(f"{v:.4f}" for v in statistics.std),
        "in train and test": f"{images.duplicates} image(s)",
        "left out": f"{len(images.skipped)} image(s)",
    }  # fmt: skip
    print_facts(images.name, facts)
    rows = []
    for split, data in images.splits.items():
        counts = images.counts(split)
        rows.append([split, f"{len(data):,}", f"{counts.min():,}", f"{counts.max():,}"])
    print_table(None, ["split", "images", "fewest per class", "most per class"], rows)
    assert sheet is not None
    contact_sheet(images, sheet)
    say(f"contact sheet: {sheet}")


def convert_command(
    spec: Spec,
    output: Annotated[Path, Argument(help="The folder to make.")],
    size: Size = None,
    rule: RuleOption = "crop",
    root: Root = None,
    skip_bad: SkipBad = False,
) -> None:
    """Decode any source into a folder of raw pixels that opens at once, here or elsewhere.

    \b
    Example:
      transil data convert photos/ photos-32/ --size 32
    """
    from transil.data.cache import convert
    from transil.data.decode import check_rule, check_size
    from transil.data.opening import find_source, warn_about

    check_size(size)
    source = find_source(spec, root=root, size=size).check()
    with progress_bar() as progress:
        images = convert(
            source, output, size=size, rule=check_rule(rule), skip_bad=skip_bad,
            progress=progress,
        )  # fmt: skip
    total = sum(len(data) for data in images.splits.values())
    say(f"{output}: {total:,} images of {images.size} px, {images.classes} classes")
    warn_about(images)


def cache_command(
    clear: Annotated[bool, Option("--clear", help="Delete entries.")] = False,
    name: Annotated[str | None, Option(help="With --clear: only names that begin so.")] = None,
    verify: Annotated[bool, Option("--verify", help="Compare all checksums.")] = False,
    cache_dir: CacheDir = None,
    as_json: Annotated[bool, Option("--json", help="As JSON.")] = False,
) -> None:
    """List the cache of decoded images, check it, or clear it.

    \b
    Examples:
      transil data cache
      transil data cache --verify
      transil data cache --clear --name cifar100
    """
    from transil.data.cache import default_cache_dir
    from transil.data.entries import clear as clear_entries
    from transil.data.entries import entry_paths, open_entry

    if cache_dir is not None and str(cache_dir) in ("", "."):
        raise TransilError("--cache-dir: give the cache folder itself, not the current one")
    if name and not clear:
        raise TransilError("--name goes with --clear")
    folder = cache_dir or default_cache_dir()
    if clear:
        gone = [path.name for path in clear_entries(folder, name)]
        if as_json:
            print_json({"folder": str(folder), "cleared": gone})
        else:
            say(f"{len(gone)} set(s) deleted from {folder}")
        return
    rows: list[dict[str, Any]] = []
    for path in entry_paths(folder):
        entry = open_entry(path)
        rows.append({
            "name": path.name,
            "size": entry.size if entry else None,
            "images": sum(split.shape[0] for split in entry.splits.values()) if entry else None,
            "megabytes": round(entry.bytes / 1e6, 1) if entry else None,
            "whole": entry is not None and (not verify or entry.verify()),
        })  # fmt: skip
    if as_json:
        print_json({"folder": str(folder), "entries": rows})
        return
    total = sum(row["megabytes"] or 0.0 for row in rows)
    say(f"{len(rows)} set(s), {total:.1f} MB, in {folder}")
    if rows:
        names = list(rows[0])
        cells = [["-" if row[n] is None else str(row[n]) for n in names] for row in rows]
        print_table(None, names, cells)

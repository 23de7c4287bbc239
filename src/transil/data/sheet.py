"""Contact sheets: one picture of a data set, a row for each of some classes. Needs Pillow."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from transil._common.files import atomic_file, check_output, open_regular
from transil.data.images import Images
from transil.errors import TransilError, missing

MOST = 12  # classes, and images of each
TILE, GAP = 48, 2
MARGIN = 150  # room for class names
MARK = ("Software", "transil")  # within a sheet, by which it is known for ours


def check_sheet(path: str | os.PathLike[str]) -> Path:
    """The path of a contact sheet, if one can be written there."""
    if Path(path).suffix.lower() != ".png":
        raise TransilError(f"{path}: contact sheets are .png files")
    check_output(path)
    return Path(path)


def own_sheet(name: str) -> Path:
    """The path of a sheet that nobody named: it takes the place of nothing but another sheet."""
    path = check_sheet(f"{name}-sheet.png")
    if path.exists():
        with open_regular(path) as file:
            if "\0".join(MARK).encode() not in file.read(200):
                raise TransilError(
                    f"{path}: this picture is there and is no sheet; name one by --sheet"
                )
    return path


def contact_sheet(images: Images, path: str | os.PathLike[str]) -> None:
    """Draw the first training images of some classes, spread over all of them, with their names."""
    try:
        from PIL import Image, ImageDraw, PngImagePlugin
    except ModuleNotFoundError:
        raise missing("contact sheets need", "pillow") from None
    target = check_sheet(path)
    data = images.splits["train"]
    chosen = np.unique(np.linspace(0, images.classes - 1, min(MOST, images.classes)).astype(int))
    step = TILE + GAP
    sheet = Image.new("RGB", (MARGIN + MOST * step, len(chosen) * step + GAP), "white")
    draw = ImageDraw.Draw(sheet)
    names = [images.class_names[label][:22] for label in chosen]
    font = _font(names)
    for row, label in enumerate(chosen):
        top = GAP + row * step
        draw.text((4, top + TILE // 2 - 6), names[row], fill="black", font=font)
        for column, index in enumerate(np.flatnonzero(data.labels == label)[:MOST]):
            picture = Image.fromarray(np.asarray(data.pixels[index]))
            picture = picture.resize((TILE, TILE), Image.Resampling.LANCZOS)
            sheet.paste(picture, (MARGIN + column * step, top))
    mark = PngImagePlugin.PngInfo()
    mark.add_text(*MARK)
    with atomic_file(target) as file:
        sheet.save(file, format="PNG", pnginfo=mark)


def _font(names: list[str]) -> Any:
    """None for Pillow's own font, which has English letters only; for others that of matplotlib."""
    from PIL import ImageFont, features

    found = find_spec("matplotlib")
    if all(name.isascii() for name in names) or found is None or found.origin is None:
        return None
    path = Path(found.origin).parent / "mpl-data" / "fonts" / "ttf" / "DejaVuSans.ttf"
    return ImageFont.truetype(path, 10) if path.is_file() and features.check("freetype2") else None

"""From files and bytes to uint8 RGB of one size. Needs Pillow for encoded images.

Pillow goes by what a file begins with, whatever it is called, and hands some formats to other
programs (PostScript to Ghostscript). So it may only try the formats named here.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import IO, Any, Literal, get_args

import numpy as np

from transil._common.files import open_regular
from transil._common.registry import nearest
from transil.data.source import Item, Pixels
from transil.errors import TransilError, missing, reason

# What is decoded, by Pillow's names, the usual ones first; TGA has no mark of its own, so it is last.
FORMATS = (
    "JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM", "AVIF", "JPEG2000", "DIB", "ICO", "ICNS",
    "PCX", "QOI", "SGI", "TGA",
)  # fmt: skip
# What an image may have at most, also while it is scaled: a small file can hold any number.
MOST_PIXELS = 89_478_485  # where Pillow begins to warn

# How an image becomes a square: `crop` scales the short side and cuts the middle out (what the
# paper's evaluation does), `stretch` ignores the aspect (what its LwF code does).
Rule = Literal["crop", "stretch"]


class UnreadableImage(TransilError):  # noqa: N818
    """One image cannot be decoded."""


def check_size(size: int | None) -> int | None:
    """`size` itself if it is a number of pixels, else an error."""
    if size is not None and (not isinstance(size, int) or not 1 <= size <= 10_000):
        raise TransilError(f"size {size!r}: it must be at least 1 pixel, and a whole number")
    return size


def check_rule(rule: str) -> Rule:
    """`rule` itself if it is one, else an error."""
    if rule not in get_args(Rule):
        raise TransilError(f"resize rule '{rule}' is unknown; {nearest(rule, get_args(Rule))}")
    return rule  # type: ignore[return-value]


def decode(item: Item, size: int | None, rule: Rule) -> Pixels:
    """One image as (size, size, 3); without `size` as it is, (height, width, 3).

    Grey images become RGB, transparent ones are laid on white. Resizing is bilinear with
    antialiasing, as Pillow and torchvision do it. Raises `UnreadableImage` with the reason.
    """
    if isinstance(item, np.ndarray) and item.shape == (size or len(item), len(item), 3):
        return item
    try:
        from PIL import Image
    except ModuleNotFoundError:
        raise missing("decoding images needs", "pillow") from None
    try:
        if isinstance(item, np.ndarray):
            image = Image.fromarray(item)
        elif isinstance(item, Path):
            with open_regular(item) as file:
                image = _opened(file, Image)
        else:
            image = _opened(io.BytesIO(item), Image)
        if size is not None and image.size != (size, size):
            image = _to_square(image, size, rule, Image)
        return np.asarray(image, dtype=np.uint8)
    except Exception as error:  # Pillow raises many kinds for damaged files
        raise UnreadableImage(f"cannot be decoded ({reason(error)})") from None


@contextmanager
def quietly() -> Iterator[None]:
    """While images are decoded, in threads too: Pillow's warnings do not say which it means."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"PIL\.|transil\.data\.decode")
        yield


@contextmanager
def known_formats_only() -> Iterator[None]:
    """While another library opens images: Pillow tries `FORMATS` where nobody says which."""
    from PIL import Image

    every = Image.ID[:]
    Image.ID[:] = _formats()
    try:
        yield
    finally:
        Image.ID[:] = every


def _opened(file: IO[bytes], image_module: Any) -> Any:
    from PIL import UnidentifiedImageError

    try:
        opened = image_module.open(file, formats=_formats())
    except UnidentifiedImageError:
        raise UnreadableImage("no image of a known format") from None
    with opened:
        _check_pixels(*opened.size)
        return _to_rgb(opened, image_module)


def _check_pixels(width: int, height: int) -> None:
    if width * height > MOST_PIXELS:
        raise UnreadableImage(f"{width} x {height} pixels; at most {MOST_PIXELS:,} are decoded")


@cache
def _formats() -> tuple[str, ...]:
    """Those of `FORMATS` that this Pillow has."""
    from PIL import Image

    Image.init()
    return tuple(name for name in FORMATS if name in Image.OPEN)


def _to_rgb(image: Any, image_module: Any) -> Any:
    if image.mode.startswith("I"):  # grey in 16 bits: Pillow would clip, not scale
        grey = np.clip(np.asarray(image) >> 8, 0, 255)
        return image_module.fromarray(grey.astype(np.uint8)).convert("RGB")
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        layer = image.convert("RGBA")
        white = image_module.new("RGBA", layer.size, (255, 255, 255, 255))
        return image_module.alpha_composite(white, layer).convert("RGB")
    return image.convert("RGB")


def _to_square(image: Any, size: int, rule: Rule, image_module: Any) -> Any:
    bilinear = image_module.Resampling.BILINEAR
    if rule == "stretch":
        return image.resize((size, size), bilinear)
    width, height = image.size
    scale = size / min(width, height)
    wide, high = max(size, round(width * scale)), max(size, round(height * scale))
    _check_pixels(wide, high)
    left, top = (wide - size) // 2, (high - size) // 2
    return image.resize((wide, high), bilinear).crop((left, top, left + size, top + size))

"""From files and bytes to uint8 RGB of one size. Needs Pillow for encoded images."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from transil.data.source import Item, Pixels
from transil.errors import TransilError, missing, reason
from transil.registry import nearest

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
    if isinstance(item, np.ndarray) and size in (None, item.shape[0]) and _square(item):
        return item
    image_module = _pillow()
    try:
        if isinstance(item, np.ndarray):
            image = image_module.fromarray(item)
        else:
            source = item if isinstance(item, Path) else io.BytesIO(item)
            with image_module.open(source, formats=_formats(item)) as opened:
                image = _to_rgb(opened, image_module)
        if size is not None and image.size != (size, size):
            image = _to_square(image, size, rule, image_module)
        return np.asarray(image, dtype=np.uint8)
    except Exception as error:  # Pillow raises many kinds for damaged files
        raise UnreadableImage(f"cannot be decoded ({reason(error)})") from None


def _formats(item: Path | bytes) -> list[str] | None:
    """What the first bytes say, None for anything: Pillow would try its forty formats in turn."""
    if isinstance(item, Path):
        return None  # one more opening of the file would cost what is saved
    if item[:4] == b"RIFF" and item[8:12] == b"WEBP":
        return ["WEBP"]
    return ["PNG"] if item.startswith(b"\x89PNG\r\n\x1a\n") else None


def _square(pixels: Pixels) -> bool:
    return pixels.ndim == 3 and pixels.shape[0] == pixels.shape[1] and pixels.shape[2] == 3


def _to_rgb(image: Any, image_module: Any) -> Any:
    if image.mode.startswith("I"):  # grey in 16 bits: Pillow would clip, not scale
        grey = np.clip(np.asarray(image).astype(np.int64) >> 8, 0, 255)
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
    left, top = (wide - size) // 2, (high - size) // 2
    return image.resize((wide, high), bilinear).crop((left, top, left + size, top + size))


def _pillow() -> Any:
    try:
        from PIL import Image
    except ModuleNotFoundError:
        raise missing("decoding images needs", "pillow") from None
    return Image

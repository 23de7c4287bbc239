"""A batch of crops, flipped and normalised, in one kernel instead of two dozen small ones."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

# Bytes of an image that a program makes.
BLOCK = 1024


@triton.jit  # type: ignore[untyped-decorator]
def _crop(  # type: ignore[no-untyped-def]
    pixels, labels, counter, index, share, corner, flip, scale, shift,
    images, chosen_labels, chosen_share, batch, size, pad,
    FLIP: tl.constexpr, BYTES: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    place = tl.load(counter) * batch + row
    image = tl.load(index + place)
    top = tl.load(corner + 2 * place) - pad
    left = tl.load(corner + 2 * place + 1) - pad
    at = tl.program_id(1) * BYTES + tl.arange(0, BYTES)
    line = 3 * size
    y, x, colour = at // line, at % line // 3, at % 3
    if FLIP:
        x = tl.where(tl.load(flip + place) != 0, size - 1 - x, x)
    y += top
    x += left
    mine = at < size * line
    inside = mine & (y >= 0) & (y < size) & (x >= 0) & (x < size)
    value = tl.load(pixels + (image * size + y) * line + 3 * x + colour, mask=inside, other=0)
    value = value.to(tl.float32) * tl.load(scale + colour) + tl.load(shift + colour)
    tl.store(images + row * size * line + at, value.to(images.dtype.element_ty), mask=mine)
    if tl.program_id(1) == 0:
        tl.store(chosen_labels + row, tl.load(labels + image))
        tl.store(chosen_share + row, tl.load(share + place))


def crop(
    pixels: torch.Tensor,
    labels: torch.Tensor,
    counter: torch.Tensor,
    index: torch.Tensor,
    share: torch.Tensor,
    plan: dict[str, torch.Tensor],
    pad: int,
    colours: tuple[torch.Tensor, torch.Tensor],
    dtype: torch.dtype,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Batch number `counter` (1,) of an epoch: images (b, 3, size, size), labels (b,), share (b,).

    `pixels` (n, size, size, 3) uint8 and `labels` (n,) of all images; `index`, `share` (batches, b) and
    `plan` (batches, b, ...) of the epoch, as `Feed` and `PadCropFlip` draw them; `colours`: scale and
    shift (3,) of the normalisation.
    """
    batch, size = index.shape[1], pixels.shape[1]
    images = torch.empty((batch, size, size, 3), dtype=dtype, device=pixels.device)
    chosen = labels.new_empty(batch), share.new_empty(batch)
    flip = plan.get("flip")
    with torch.cuda.device_of(pixels):  # type: ignore[no-untyped-call]
        _crop[(batch, triton.cdiv(size * size * 3, BLOCK))](
            pixels, labels, counter, index, share, plan["corner"], flip, *colours,
            images, *chosen, batch, size, pad, flip is not None, BLOCK,
        )  # fmt: skip
    return images.permute(0, 3, 1, 2), *chosen

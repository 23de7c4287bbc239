"""Which transforms the settings of a run name."""

from __future__ import annotations

from transil.data.augment import AsStored, CentreCrop, PadCropFlip, RandomResizedCrop, Transform
from transil.engine.config import TrainConfig
from transil.errors import TransilError


def train_transform(train: TrainConfig, stored: int) -> Transform:
    """The augmentation that the settings name."""
    if train.augment == "resized-crop-flip":
        return RandomResizedCrop(train.size or stored)
    if train.size not in (None, stored):
        raise TransilError(
            f"train.size is {train.size}, but images have {stored} px and train.augment="
            f"{train.augment} does not scale; give data.size={train.size}"
        )
    if train.augment == "none":
        return AsStored()
    return PadCropFlip(train.pad, flip=train.augment == "crop-flip")


def eval_transform(train: TrainConfig, stored: int) -> Transform:
    """The transform of all scores: nothing, or the middle of the image scaled to `eval_resize`."""
    size = train.size or stored
    if train.eval_resize is None and size == stored:
        return AsStored()
    return CentreCrop(size, train.eval_resize or size)

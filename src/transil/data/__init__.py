"""From files on disk to batches in front of the network."""

from typing import TYPE_CHECKING, Any

from transil.data.images import Images, ImageSplit
from transil.data.opening import open_images
from transil.data.statistics import Statistics
from transil.data.stream import ClassStream, State, Subset

if TYPE_CHECKING:
    from transil.data.augment import AsStored, CentreCrop, PadCropFlip, RandomResizedCrop, Transform
    from transil.data.device import Batch, DeviceImages

__all__ = [
    "AsStored",
    "Batch",
    "CentreCrop",
    "ClassStream",
    "DeviceImages",
    "ImageSplit",
    "Images",
    "PadCropFlip",
    "RandomResizedCrop",
    "State",
    "Statistics",
    "Subset",
    "Transform",
    "open_images",
]


def __getattr__(name: str) -> Any:
    """What needs torch is imported when it is asked for."""
    if name in ("Batch", "DeviceImages"):
        from transil.data import device

        return getattr(device, name)
    if name in __all__:
        from transil.data import augment

        return getattr(augment, name)
    raise AttributeError(f"module 'transil.data' has no attribute '{name}'")

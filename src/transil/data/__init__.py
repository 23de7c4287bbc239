"""From files on disk to batches in front of the network."""

from transil.data.images import Images, ImageSplit
from transil.data.opening import open_images
from transil.data.statistics import Statistics
from transil.data.stream import ClassStream, State, Subset

__all__ = ["ClassStream", "ImageSplit", "Images", "State", "Statistics", "Subset", "open_images"]

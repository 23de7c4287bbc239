"""What the examples share: CIFAR-100 in two halves of 50 classes, and a small network."""

import argparse

import numpy as np
import torch

from transil.data import open_images
from transil.nets.bodies import ConvNet

CLASSES, STATES, EPOCHS = 50, 5, 5


def arguments(text):
    parser = argparse.ArgumentParser(description=text.splitlines()[0])
    parser.add_argument("data", help="CIFAR-100: a folder that 'transil data show' knows")
    parser.add_argument("half", choices=["a", "b"], help="a: the reference, b: the target")
    parser.add_argument("scores", help="the store to write")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    return parser


def half(data, which, train=100, val=25, test=50):
    """{"train", "val", "test": (images (n, 32, 32, 3) uint8, labels 0 to 49)} of every second class."""
    images = open_images(data)
    names = np.random.default_rng(0).permutation(images.classes)[which == "b" :: 2]
    made = {}
    for split, source, first, count in [
        ("train", "train", 0, train),
        ("val", "train", train, val),
        ("test", "test", 0, test),
    ]:
        labels = np.asarray(images.splits[source].labels)
        rows = [np.flatnonzero(labels == name)[first : first + count] for name in names]
        new = np.repeat(np.arange(len(names)), [len(r) for r in rows])
        made[split] = np.asarray(images.splits[source].pixels)[np.concatenate(rows)], new
    return made


def as_floats(images):
    """Images as a network takes them, (n, 3, 32, 32)."""
    return torch.from_numpy(images).permute(0, 3, 1, 2).contiguous().float().div(127.5).sub(1)


class Features(torch.nn.Module):
    """Four convolutions and a mean: images to 64 features."""

    def __init__(self):
        super().__init__()
        self.body = ConvNet()

    def forward(self, images):
        return self.body(images).mean(dim=(2, 3))


def let_torchvision_import():
    """Beside a CPU build of torch, torchvision misses two operators when it is imported."""
    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return library  # what is defined goes with it


KEPT = None if torch.cuda.is_available() else let_torchvision_import()

"""Networks: a body that makes features, and a head that makes one score per class."""

from transil.nets.bodies import BODIES, Body, ConvNet, ResNet18, ResNet18Cifar, ResNet32
from transil.nets.heads import CosineHead, Head, LinearHead
from transil.nets.net import Net, Outputs, build_net

__all__ = [
    "BODIES",
    "Body",
    "ConvNet",
    "CosineHead",
    "Head",
    "LinearHead",
    "Net",
    "Outputs",
    "ResNet18",
    "ResNet18Cifar",
    "ResNet32",
    "build_net",
]

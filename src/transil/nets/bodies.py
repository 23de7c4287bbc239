"""Bodies: images (b, 3, h, w) to feature maps (b, width, h', w'), before pooling."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import nn

from transil._common.registry import Registry


class Body(nn.Module):
    """One kind of feature extractor.

    `last_relu=False` leaves out the last ReLU, so that features take both signs: LUCIR and
    iCaRL's LwF want that.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    width: ClassVar[int]
    least: ClassVar[int] = 8  # the smallest image, in pixels

    def __init__(self, last_relu: bool = True) -> None:
        super().__init__()
        self.last_relu = last_relu


class Block(nn.Module):
    """Two 3x3 convolutions and a shortcut; a 1x1 convolution where shapes differ."""

    def __init__(self, into: int, out: int, stride: int, last_relu: bool = True) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(into, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or into != out:
            self.shortcut = nn.Sequential(
                nn.Conv2d(into, out, 1, stride, bias=False), nn.BatchNorm2d(out)
            )
        self.last_relu = last_relu

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(b, into, h, w) to (b, out, h / stride, w / stride)."""
        y: torch.Tensor = self.conv2(torch.relu_(self.bn1(self.conv1(x))))
        y = self.bn2(y).add_(self.shortcut(x))
        return torch.relu_(y) if self.last_relu else y


class ResNet(Body):
    """A stem and stages of blocks; each stage after the first halves the image."""

    widths: ClassVar[tuple[int, ...]]
    blocks: ClassVar[int]

    def __init__(self, last_relu: bool = True) -> None:
        super().__init__(last_relu)
        self.stem = self.make_stem()
        stages: list[nn.Module] = []
        into = self.widths[0]
        for stage, out in enumerate(self.widths):
            for block in range(self.blocks):
                stride = 2 if stage > 0 and block == 0 else 1
                end = out == self.widths[-1] and block == self.blocks - 1
                stages.append(Block(into, out, stride, last_relu or not end))
                into = out
        self.stages = nn.Sequential(*stages)

    def make_stem(self) -> nn.Module:
        """CIFAR's: one 3x3 convolution that keeps the size."""
        return nn.Sequential(
            nn.Conv2d(3, self.widths[0], 3, 1, 1, bias=False),
            nn.BatchNorm2d(self.widths[0]),
            nn.ReLU(inplace=True),
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """(b, 3, h, w) to (b, width, h', w')."""
        features: torch.Tensor = self.stages(self.stem(images))
        return features


class ResNet18Cifar(ResNet):
    """ResNet-18 for small images."""

    name = "resnet18-32"
    summary = "ResNet-18, 3x3 stem without pooling, for 32 to 64 px"
    width, widths, blocks = 512, (64, 128, 256, 512), 2


class ResNet18(ResNet18Cifar):
    """ResNet-18 as published for ImageNet; the paper's network (its Sec. 5)."""

    name = "resnet18-224"
    summary = "ResNet-18, 7x7 stem and pooling, for 224 px: the paper's"
    least = 32

    def make_stem(self) -> nn.Module:
        """ImageNet's: a quarter of the size."""
        return nn.Sequential(
            nn.Conv2d(3, 64, 7, 2, 3, bias=False),
            nn.BatchNorm2d(64),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2, 1),
        )


class ResNet32(ResNet):
    """ResNet-32 for CIFAR: the network of the original LUCIR and iCaRL at 32 px."""

    name = "resnet32"
    summary = "ResNet-32 for CIFAR, 16 to 64 channels"
    width, widths, blocks = 64, (16, 32, 64), 5


class ConvNet(Body):
    """Four convolutions with pooling between them: trains in seconds on a CPU."""

    name = "convnet"
    summary = "four convolutions, 16 to 64 channels, for CPUs and the demo"
    width = 64

    def __init__(self, last_relu: bool = True) -> None:
        super().__init__(last_relu)
        layers: list[nn.Module] = []
        into = 3
        for out in (16, 32, 64):
            layers += [
                nn.Conv2d(into, out, 3, 1, 1, bias=False),
                nn.BatchNorm2d(out),
                nn.ReLU(inplace=True),
                nn.MaxPool2d(2),
            ]
            into = out
        layers += [nn.Conv2d(into, self.width, 3, 1, 1, bias=False), nn.BatchNorm2d(self.width)]
        if last_relu:
            layers.append(nn.ReLU(inplace=True))
        self.layers = nn.Sequential(*layers)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """(b, 3, h, w) to (b, width, h / 8, w / 8)."""
        features: torch.Tensor = self.layers(images)
        return features


BODIES: Registry[type[Body]] = Registry(
    "body", "transil.bodies", [ResNet18, ResNet18Cifar, ResNet32, ConvNet]
)

"""From settings to what a run works with: the device, the images, the stream of classes."""

from __future__ import annotations

from dataclasses import replace

import torch

from transil.data.cache import Progress
from transil.data.images import Images
from transil.data.opening import open_images
from transil.data.stream import ClassStream
from transil.engine.config import RunConfig
from transil.engine.transforms import eval_transform, train_transform
from transil.errors import TransilError
from transil.methods.registry import get_method
from transil.nets.bodies import BODIES
from transil.schedule import Schedule


def find_device(name: str) -> torch.device:
    """'auto' is a GPU where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise TransilError(f"engine.device is '{name}'; write auto, cpu, cuda or cuda:1") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise TransilError("engine.device is cuda, but torch finds no GPU here; write cpu")
    return device


def open_run_images(config: RunConfig, progress: Progress | None = None) -> Images:
    """The images of a run."""
    data = config.data
    if not data.path:
        raise TransilError("no data set is given; name one with --data, or data.path in a recipe")
    return open_images(data.path, size=data.size, rule=data.rule, root=data.root, progress=progress)


def completed(config: RunConfig, images: Images, device: torch.device) -> RunConfig:
    """The config with every 'auto' and null decided, as it is written down; what cannot be, is told."""
    data, train = config.data, config.train
    BODIES.find(config.net.body)
    for transform in (train_transform, eval_transform):
        transform(train, images.size)
    if data.states is None and data.schedule is None:
        raise TransilError("give the number of states (--states) or a schedule (--schedule)")
    if get_method(config.method, config.settings).one_state:
        classes = images.classes if data.schedule is None else None
        groups = tuple(c for group in data.schedule or () for c in group)
        data = replace(data, states=1 if classes else None, schedule=None if classes else (groups,))
    if data.val_per_class is None and data.val_fraction is None and "val" not in images.splits:
        data = replace(data, val_fraction=0.1)
    if train.precision == "auto":
        train = replace(train, precision="bfloat16" if device.type == "cuda" else "float32")
    seeds = replace(config.seeds, init=config.init_seed, batches=config.batch_seed)
    return replace(config, data=data, train=train, seeds=seeds)


def make_stream(config: RunConfig, images: Images) -> ClassStream:
    """The stream of classes that the config describes."""
    data = config.data
    listed = data.schedule is not None
    order = data.order if isinstance(data.order, str) else list(data.order)
    return ClassStream(
        images,
        data.states,
        schedule=Schedule.from_groups(data.schedule) if data.schedule is not None else None,
        order=None if listed else order,
        val_per_class=data.val_per_class,
        val_fraction=data.val_fraction,
        val_from=data.val_from,
        train_fraction=data.train_fraction,
        fraction_seed=data.fraction_seed,
        role=data.role,
    )

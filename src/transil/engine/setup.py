"""From settings to what a run works with: the device, the images, the stream of classes."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from transil._common.files import sha256
from transil._common.progress import Progress, no_progress
from transil.data.images import Images
from transil.data.opening import open_images
from transil.data.stream import ClassStream
from transil.engine.config import DataConfig, NetConfig, RunConfig
from transil.engine.transforms import eval_transform, train_transform
from transil.errors import DataWarning, TransilError
from transil.interop.loggers import check_loggers
from transil.methods.base import Method
from transil.nets.bodies import BODIES
from transil.nets.net import build_net
from transil.nets.outside import check_outside, check_weights, is_outside, wanted_by


def find_device(name: str, what: str = "engine.device") -> torch.device:
    """'auto' is a GPU where there is one. Errors call the setting `what`."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise TransilError(f"{what} is '{name}'; write auto, cpu, cuda or cuda:1") from None
    if device.type not in ("cpu", "cuda"):
        raise TransilError(f"{what} is '{name}'; write auto, cpu, cuda or cuda:1")
    found = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if device.type == "cuda" and (device.index or 0) >= found:
        raise TransilError(f"{what} is {name}, but torch finds {found} GPU(s) here")
    return device


def open_run_images(config: RunConfig, progress: Progress = no_progress) -> Images:
    """The images of a run."""
    data = config.data
    if not data.path:
        raise TransilError("no data set is given; name one with --data, or data.path in a recipe")
    size = wanted_by(config.net.body).size if data.size is None else data.size
    return open_images(data.path, size=size, rule=data.rule, root=data.root, progress=progress)


def completed(config: RunConfig, method: Method, images: Images, device: torch.device) -> RunConfig:
    """The config with every 'auto' and null decided, as it is written down; what cannot be, is told."""
    train, net = config.train, config.net
    if net.last_relu is None:
        net = replace(net, last_relu=method.last_relu)
    if net.weights is not None:
        check_weights(net.weights, config.engine.allow_pickle)
        digest = sha256(net.weights)
        net = replace(net, weights=str(Path(net.weights).absolute()), weights_digest=digest)
    net = replace(net, colours=net.colours or wanted_by(net.body).colours)
    config = replace(config, net=net)
    check_input(config, images)
    if train.precision == "auto":
        train = replace(train, precision="bfloat16" if device.type == "cuda" else "float32")
    return replace(
        config,
        settings=method.settings(),
        data=complete_data(config.data, images, one_state=method.one_state),
        net=net,
        train=train,
        seeds=replace(config.seeds, init=config.init_seed, batches=config.batch_seed),
    )


def check_input(config: RunConfig, images: Images) -> None:
    """Errors that would otherwise come after hours: images that do not fit network or transforms."""
    transforms = (t(config.train, images.size) for t in (train_transform, eval_transform))
    sizes = tuple(transform.output(images.size) for transform in transforms)
    if not is_outside(config.net.body):
        body = BODIES.find(config.net.body)
        if min(sizes) < body.least:
            raise TransilError(
                f"net.body={body.name} needs images of at least {body.least} px, not {min(sizes)}"
            )
    if is_outside(config.net.body) or config.net.weights is not None:
        _check_net(config.net, sizes)
    if config.net.body.startswith("timm:") and not (config.net.weights or config.after):
        warnings.warn(
            f"net.body={config.net.body} begins with random weights; give net.weights=FILE.safetensors "
            "for trained ones",
            DataWarning,
            stacklevel=2,
        )
    check_loggers(config.engine.logs)


@lru_cache(maxsize=16)
def _check_net(net: NetConfig, sizes: tuple[int, ...]) -> None:
    """Errors of a body from outside, and of weights; experiments ask for the same one many times."""
    made = build_net(net.body, "linear", 1, last_relu=bool(net.last_relu), weights=net.weights)
    if is_outside(net.body):
        check_outside(made.body, net.body, sizes)


def complete_data(data: DataConfig, images: Images, *, one_state: bool) -> DataConfig:
    """Group sizes and class order as they are used, and where validation images come from."""
    if data.schedule is not None:
        if data.order is not None:
            raise TransilError("data.schedule names the classes; data.order is one too many")
        listed = [label for group in data.schedule for label in group]
        for label in listed:
            if not 0 <= label < images.classes:
                raise TransilError(
                    f"data.schedule: there is no class {label}; {images.name} has {images.classes} "
                    f"classes, 0 to {images.classes - 1}"
                )
        rest = [label for label in range(images.classes) if label not in set(listed)]
        data = replace(
            data,
            schedule=None,
            sizes=tuple(len(group) for group in data.schedule),
            order=(*listed, *rest),
        )
    if one_state:
        sizes = None if data.sizes is None else (sum(data.sizes),)
        data = replace(data, states=None if sizes else 1, sizes=sizes)
    if (data.states is None) == (data.sizes is None):
        raise TransilError("give the number of states (--states) or a schedule (--schedule)")
    if data.val_per_class is None and data.val_fraction is None and "val" not in images.splits:
        data = replace(data, val_fraction=0.1)
    return replace(data, order="seed:0" if data.order is None else data.order, size=images.size)


def splitting(data: DataConfig) -> dict[str, Any]:
    """The settings that say which images are set aside."""
    names = ("val_per_class", "val_fraction", "val_from", "train_fraction", "fraction_seed")
    return {name: getattr(data, name) for name in names}


def make_stream(config: RunConfig, images: Images) -> ClassStream:
    """The stream of classes that a completed config describes."""
    data = config.data
    stream = ClassStream(
        images,
        data.states,
        schedule=data.sizes,
        order=data.order if isinstance(data.order, str) else list(data.order or ()),
        **splitting(data),
        role=data.role,
        colours=config.net.colours,
    )
    if data.role == "reference" and not sum(stream.counts().get("val", [])):
        warnings.warn(
            f"{images.name}: no validation images are set aside, and a reference's pairs are fitted on "
            "them; give data.val_per_class",
            DataWarning,
            stacklevel=2,
        )
    return stream

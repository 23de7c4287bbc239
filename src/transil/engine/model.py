"""A trained model of a run, to score images that are not part of it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from transil.data.augment import Normalise
from transil.data.decode import UnreadableImage, check_rule, decode
from transil.data.source import Pixels
from transil.engine.checkpoint import Checkpoint
from transil.engine.config import RunConfig
from transil.engine.run_folder import RECORD, RunFolder
from transil.engine.setup import find_device, make_stream, open_run_images
from transil.engine.transforms import eval_transform
from transil.errors import TransilError, reason
from transil.methods.base import Context, Method, seen_scores
from transil.methods.registry import family_of, get_method
from transil.nets import build_net


class Model(nn.Module):
    """The model of one state: from pixels to the raw scores of the classes seen so far.

    `class_names` are those of the columns, `size` the pixels an image must have; `read` makes them.
    It stays on the device it was loaded to, in float32 and in evaluation mode.
    """

    def __init__(
        self, run: RunFolder, state: int, method: str | None, device: torch.device
    ) -> None:
        super().__init__()
        self.config = config = run.config()
        known = run.label_map()
        self.schedule = known.schedule
        self.state = state
        checkpoint = Checkpoint.load(run.state_path(state))
        self.method = _method(run, config, method)
        self.net = build_net(
            config.net.body,
            self.method.head,
            self.schedule.seen[-1],
            last_relu=bool(config.net.last_relu),
        )
        tensors = checkpoint.tensors
        own = {k.removeprefix("net."): v for k, v in tensors.items() if k.startswith("net.")}
        try:
            self.net.load_state_dict(own)
        except RuntimeError as error:
            path = run.state_path(state)
            raise TransilError(f"{path}: not the network of this run ({reason(error)})") from None
        self.net.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.context = Context(self.schedule, device, self.method.name)
        self.context.enter(self.state, config.init_seed, _no_training_images)
        for name, value in tensors.items():
            if name.startswith("kept."):
                self.context.keep(name.removeprefix("kept."), value)
        columns = self.schedule.columns(self.state)
        self.class_names = known.class_names[:columns]
        pixels = run.record().data.pixels
        if pixels is None:
            raise TransilError(f"{run.path / RECORD}: damaged record: data.pixels is missing")
        self.size = pixels
        self.transform = eval_transform(config.train, self.size)
        # Of the colours as training normalised them; runs of early versions do not say.
        colours = known.colours or make_stream(config, open_run_images(config)).statistics
        self.normalise = Normalise(colours, device)
        self.device = device
        self.requires_grad_(False).eval()

    def train(self, mode: bool = True) -> Model:
        """It does not learn: evaluation mode stays, whatever a model around it does."""
        return super().train(False)

    def _apply(self, fn: Any, recurse: bool = True) -> Model:
        """What `to`, `cuda` and `half` call."""
        raise TransilError(
            "a model of a run stays as it was loaded; give load_model the device, and cast its scores"
        )

    def read(self, files: Iterable[str | os.PathLike[str]]) -> Pixels:
        """Image files as the training saw them: uint8 (n, size, size, 3)."""
        rule = check_rule(self.config.data.rule)
        made = []
        for file in files:
            try:
                made.append(decode(Path(file), self.size, rule))
            except UnreadableImage as error:
                raise TransilError(f"{file}: {error}") from None
        return np.stack(made) if made else np.zeros((0, self.size, self.size, 3), dtype=np.uint8)

    def forward(self, pixels: Pixels | torch.Tensor) -> torch.Tensor:
        """Raw scores (n, classes seen) of uint8 pixels (n, size, size, 3), on the model's device."""
        images: Any = torch.as_tensor(pixels, device=self.device)
        if images.dtype != torch.uint8 or images.shape[1:] != (self.size, self.size, 3):
            raise TransilError(
                f"pixels: expected uint8 of shape (n, {self.size}, {self.size}, 3), not "
                f"{images.dtype} of {tuple(images.shape)}; Model.read makes them from files"
            )
        outputs = self.net(self.normalise(self.transform.apply(images, {})))
        return seen_scores(self.method, outputs, self.context)


def load_model(
    run: str | os.PathLike[str],
    state: int | None = None,
    *,
    method: str | None = None,
    device: str = "cpu",
) -> Model:
    """The model of a run after a state (default: the last finished one).

    `method` chooses between those that share a training: a run of FT also is FT+ and SIW.
    """
    folder = RunFolder(run)
    if not (folder.path / RECORD).exists():
        raise TransilError(f"{run}: not the folder of a training (there is no {RECORD} in it)")
    finished = folder.finished()
    schedule = folder.label_map().schedule
    wanted = finished or 1 if state is None else schedule.check_state(state)
    if wanted > finished:
        there = f"1 to {finished}" if finished else "none"
        raise TransilError(
            f"{run}: no model of state {wanted}; finished states: {there}; let the training go on"
        )
    saved = folder.saved_states()
    if wanted not in saved:
        raise TransilError(
            f"{run}: no model of state {wanted}; its checkpoint {folder.state_path(wanted).name} is "
            f"missing; there are those of: {', '.join(map(str, saved))}"
        )
    return Model(folder, wanted, method, find_device(device, "device"))


def _method(run: RunFolder, config: RunConfig, name: str | None) -> Method:
    trained = get_method(config.method, config.settings)
    family = {method.name: method for method in family_of(trained)}
    if name is not None and name not in family:
        raise TransilError(f"{run.path}: its scores are of {', '.join(family)}, not '{name}'")
    return family[name or config.method]


def _no_training_images() -> Any:
    raise TransilError("the training images are not at hand here")

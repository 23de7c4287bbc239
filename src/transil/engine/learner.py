"""Learner: a network, its method and all tensors of a run, from state to state."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

from transil.data.device import DeviceImages, useful_batch
from transil.data.stream import ClassStream, State, Subset
from transil.engine.config import RunConfig, TrainConfig
from transil.engine.step import Captured, Step, give_back_memory
from transil.engine.transforms import eval_transform, train_transform
from transil.engine.workers import Workers
from transil.errors import TransilError
from transil.methods.base import Context, Method, seen_scores
from transil.methods.registry import family_of
from transil.nets.net import Net, Outputs, build_net

# Images scored together: at most so many, and at most so many pixels.
SCORE_BATCH, SCORE_PIXELS = 512, 512 * 112 * 112
# Weights above this have left all reason.
HUGE = 1e15
# Steps between two pauses, in which other runs on the same GPU get their turn.
PAUSE = 32
Tensors = dict[str, torch.Tensor]


def _no_outputs() -> tuple[Outputs, torch.Tensor]:
    raise TransilError("the training images of past classes are not at hand")


class Learner:
    """Everything that a run keeps in memory. `begin` a state, run its epochs, `end` it, score."""

    def __init__(
        self, config: RunConfig, method: Method, stream: ClassStream, workers: Workers
    ) -> None:
        self.config, self.method, self.stream, self.workers = config, method, stream, workers
        self.device = workers.device
        self.precision = getattr(torch, config.train.precision)
        classes = stream.schedule.seen[-1]
        self.net = build_net(
            config.net.body,
            self.method.head,
            classes,
            last_relu=bool(config.net.last_relu),
            seed=config.init_seed,
            weights=config.net.weights,
            frozen=config.net.frozen,
        )
        self.net.to(self.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.teacher = self._frozen_copy() if self.method.teacher and len(stream) > 1 else None
        workers.share_statistics(self.net)
        self.forward: Callable[..., Outputs] = workers.wrap(self.net)
        self.taught_by: Callable[..., Outputs] | None = self.teacher
        engine = config.engine
        self.graph = engine.graph and self.device.type == "cuda" and workers.alone
        if engine.compile:
            self.forward = torch.compile(self.forward, dynamic=False)
            self.taught_by = torch.compile(self.teacher, dynamic=False) if self.teacher else None
        self.context = Context(stream.schedule, self.device, self.method.name)
        self.most = max(stream.counts()["train"])  # images of a state
        self.batch_size = useful_batch(config.train.batch_size, self.most, workers.world)
        gigabytes = engine.image_gigabytes
        self.budget = None if gigabytes is None else int(gigabytes * 1e9)
        self.transform = train_transform(config.train, stream.image_size)
        self._feed: DeviceImages | None = None
        self.rate = torch.tensor(config.train.lr, device=self.device)
        self.body_rate = self.rate if config.train.body_lr is None else self.rate.clone()
        self.optimiser = self._optimiser(config.train)
        self._sums = torch.zeros(3, device=self.device)  # of an epoch, see `Step`
        # For which kind of step: with a teacher, and which weights learn.
        self._made: tuple[tuple[bool, tuple[bool, ...]], Callable[[], None]] | None = None

    # -- a state ------------------------------------------------------------------------------

    @torch.no_grad()
    def begin(self, state: State) -> None:
        """Make ready for a state; the network is as the previous state left it."""
        self.state = state
        if self.teacher is not None and state.number > 1:
            self.teacher.load_state_dict(self.net.state_dict())
        self.context.enter(
            state.number, self.config.init_seed, lambda: self.outputs_of(state.train)
        )
        self.method.begin(self.net, self.context)
        # Rows set from features may differ in the last bit between devices.
        self.workers.share(self.net.state_dict().values())
        self.workers.share(self.context.kept.values())
        if self._feed is None:
            share = (self.workers.rank, self.workers.world)
            self._feed = self._images(state.train, self.batch_size, capacity=self.most, share=share)
        else:
            self._feed.load(state.train)
        for momentum in self._momentum().values():
            momentum.zero_()
        self.net.train()

    @torch.no_grad()
    def adopt(self, tensors: Tensors) -> None:
        """Be what another run left, which knew fewer classes: its rows come first, others are fresh."""
        # As in a first state: the method makes room for what it keeps of all classes.
        self.context.enter(1, self.config.init_seed, _no_outputs)
        self.method.begin(self.net, self.context)
        mine = {f"net.{name}": value for name, value in self.net.state_dict().items()}
        mine |= {f"kept.{name}": value for name, value in self.context.kept.items()}
        for key, value in tensors.items():
            place = mine.get(key)
            if place is None or place.shape[1:] != value.shape[1:]:
                raise TransilError(f"{self.config.after}: its '{key}' does not fit the network")
            rows = (slice(min(len(place), len(value))),) if value.dim() else ()
            place[rows].copy_(value[rows])

    def revisit(self, state: State, tensors: Tensors, path: Path) -> None:
        """Be what a state left, by its checkpoint, to score its images; nothing is learned."""
        self.state = state
        self.context.enter(
            state.number, self.config.init_seed, lambda: self.outputs_of(state.train)
        )
        self.load(tensors, path)

    @property
    def feed(self) -> DeviceImages:
        """The training images of the state that has begun."""
        assert self._feed is not None
        return self._feed

    def draw(self, epoch: int, start: int = 0) -> None:
        """Draw the batches of an epoch, to be learned from batch `start` on."""
        self.feed.begin(self.transform, (self.state.number, epoch, 5), start)

    def epoch(self, rate: float, start: int = 0) -> Iterator[int]:
        """Launch the steps of an epoch that is drawn, from batch `start` on.

        Pauses every few steps, and says how many batches of the epoch are launched.
        """
        step = self._step()
        train = self.config.train
        self.rate.fill_(rate)
        if train.body_lr is not None:
            self.body_rate.fill_(rate * train.body_lr / train.lr)
        if not start:
            self._sums.zero_()
        for number in range(start + 1, len(self.feed) + 1):
            self.feed.refill()
            step()
            if number % PAUSE == 0 or number == len(self.feed):
                yield number

    def sums(self) -> torch.Tensor:
        """What the epoch has summed up (see `Step`), over all processes; not waited for."""
        return self.workers.sum(self._sums.clone())

    @torch.no_grad()
    def end(self) -> None:
        """After the last epoch of a state."""
        self.method.end(self.net, self.context)

    @torch.no_grad()
    def is_finite(self) -> bool:
        """Whether all weights and statistics are numbers that scores can be made of.

        Weights of a diverged run may be finite still, and their scores are not.
        """
        values = [v for v in self.net.state_dict().values() if v.is_floating_point()]
        return bool(torch.stack([v.abs().max() for v in values]).max() < HUGE)

    # -- scores -------------------------------------------------------------------------------

    def scores_of(self, subset: Subset, *, augmented: bool = False) -> Tensors:
        """Scores (n, classes seen) of a subset's images, for each method of the family."""
        outputs, _ = self.outputs_of(subset, augmented=augmented)
        family = family_of(self.method)
        return {m.name: seen_scores(m, outputs, self.context).cpu() for m in family}

    def outputs_of(
        self, subset: Subset, *, augmented: bool = False
    ) -> tuple[Outputs, torch.Tensor]:
        """Outputs (n, ...) of the network as it is, and labels (n,), in the subset's order.

        Evaluation mode, float32, and the evaluation transform unless `augmented`.
        """
        training = self.net.training
        self.net.eval()
        try:
            parts = list(self._outputs(subset, augmented))
        finally:
            self.net.train(training)
        features, scores, labels = (torch.cat(part) for part in zip(*parts, strict=True))
        return Outputs(features, scores), labels

    @torch.no_grad()
    def _outputs(self, subset: Subset, augmented: bool) -> Iterator[tuple[torch.Tensor, ...]]:
        together = max(1, min(SCORE_BATCH, len(subset), SCORE_PIXELS // subset.shape[1] ** 2))
        images = self._images(subset, together)
        make = train_transform if augmented else eval_transform
        transform = make(self.config.train, subset.shape[1])
        for batch in images.epoch(transform, self.state.number, shuffle=False):
            out = self.net(batch.images)
            yield tuple(t[: batch.count] for t in (out.features, out.scores, batch.labels))

    # -- checkpoints --------------------------------------------------------------------------

    def tensors(self, *, momentum: bool = False, sums: bool = False) -> Tensors:
        """What a checkpoint holds, on the CPU: the network, kept tensors, the optimiser's, sums."""
        groups = {"net": self.net.state_dict(), "kept": self.context.kept}
        if momentum:
            groups["momentum"] = self._momentum()
        if sums:
            groups["epoch"] = {"sums": self.sums()}
        return {
            f"{group}.{name}": tensor.detach().to("cpu", copy=True).contiguous()
            for group, tensors in groups.items()
            for name, tensor in tensors.items()
        }

    @torch.no_grad()
    def load(self, tensors: Tensors, path: Path) -> None:
        """Put the tensors of the checkpoint at `path` in their places."""
        mine = {
            "net": self.net.state_dict(),
            "momentum": self._momentum(),
            "epoch": {"sums": self._sums},
        }
        missing = {f"net.{name}" for name in mine["net"]} - set(tensors)
        if missing:
            raise TransilError(f"{path}: not the network of this run ('{min(missing)}' is missing)")
        for key, value in tensors.items():
            group, _, name = key.partition(".")
            place = mine.get(group, {}).get(name)
            if group == "kept":
                self.context.keep(name, value)
            elif place is not None and place.shape == value.shape:
                place.copy_(value)
            else:
                raise TransilError(f"{path}: not the network of this run ('{key}' does not fit)")
        if not self.workers.main:  # the sums are those of all processes
            self._sums.zero_()

    # -- details ------------------------------------------------------------------------------

    def _images(self, subset: Subset, batch_size: int, **options: Any) -> DeviceImages:
        return DeviceImages(
            subset,
            self.stream.statistics,
            device=self.device,
            batch_size=batch_size,
            seed=self.config.batch_seed,
            budget=self.budget,
            **options,
        )

    def _step(self) -> Callable[[], None]:
        """The step of this state, captured where that is wanted.

        It is made anew where there is a teacher for the first time, or other weights learn.
        """
        taught = self.teacher is not None and self.state.number > 1
        learning = tuple(p.requires_grad for p in self.net.parameters())
        if self._made is None or self._made[0] != (taught, learning):
            if self._made is not None:
                if self._made[0][1] != learning and not self.workers.alone:
                    self.forward = self.workers.wrap(self.net)
                self._made = None  # a graph gives its memory back before the next is made
                give_back_memory()
            step = Step(
                self.net,
                self.forward,
                self.taught_by if taught else None,
                self.method,
                self.context,
                self.feed,
                self.optimiser,
                self._sums,
                precision=self.precision,
                world=self.workers.world,
            )
            self._made = (taught, learning), Captured(step) if self.graph else step
        return self._made[1]

    def _frozen_copy(self) -> Net:
        """A network of the same shape that never learns."""
        copied = copy.deepcopy(self.net).requires_grad_(False).eval()
        if self.precision != torch.float32:
            # Autocast would make the same copies of these weights again in each step.
            for module in copied.modules():
                if isinstance(module, nn.Conv2d):
                    module.to(self.precision)
        return copied

    def _optimiser(self, train: TrainConfig) -> torch.optim.Optimizer:
        """SGD whose learning rates are tensors: one capture serves all of them."""
        groups: dict[tuple[int, float], dict[str, Any]] = {}
        for name, parameter in self.net.named_parameters():
            bias = name.endswith("bias") and not train.decay_biases
            decay = 0.0 if bias else train.weight_decay
            rate = self.body_rate if name.startswith("body.") else self.rate
            group = {"params": [], "weight_decay": decay, "lr": rate}
            groups.setdefault((id(rate), decay), group)["params"].append(parameter)
        optimiser = torch.optim.SGD(
            list(groups.values()), lr=self.rate, momentum=train.momentum, fused=True
        )
        for parameter in self.net.parameters():
            optimiser.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
        return optimiser

    def _momentum(self) -> Tensors:
        state = self.optimiser.state
        return {n: state[p]["momentum_buffer"] for n, p in self.net.named_parameters()}

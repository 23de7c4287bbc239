"""One run on several processes, one per GPU or machine: torch's DDP under `torchrun`.

Every process draws the same epochs and works on its share of each global batch. Statistics of batch
normalisation are those of the global batch, so that the number of processes changes nothing but
rounding.
"""

from __future__ import annotations

import os
import socket
import warnings
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from transil.errors import TransilError, reason

T = TypeVar("T")

# What each process of a run must be told to find the others.
MEET = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


class Workers:
    """This process among the others; alone, all of this does nothing."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.rank, self.world, local = _place()
        if self.world > 1:
            if device.type == "cuda":
                self.device = torch.device("cuda", local % torch.cuda.device_count())
                torch.cuda.set_device(self.device)
            backend = "nccl" if device.type == "cuda" else "gloo"
            # NCCL cannot serve two processes on one GPU; gloo can, slowly.
            backend = os.environ.get("TRANSIL_BACKEND", backend)
            host, port = os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"]
            try:
                # torch would try for minutes, deaf to signals.
                socket.getaddrinfo(host, port)
                if not distributed.is_backend_available(backend):
                    raise ValueError(f"this torch has no backend '{backend}'")
                distributed.init_process_group(backend)
            except (OSError, RuntimeError, ValueError) as error:
                raise TransilError(
                    f"cannot meet the other {self.world - 1} process(es) of this run at {host}:{port} "
                    f"({reason(error)}); start them with torchrun, or unset {', '.join(MEET)}"
                ) from None

    @property
    def main(self) -> bool:
        """Whether this is the process that writes."""
        return self.rank == 0

    @property
    def alone(self) -> bool:
        """Whether there is only one process."""
        return self.world == 1

    def check_batch(self, batch_size: int) -> None:
        """An error where a batch cannot be shared out evenly."""
        if batch_size % self.world:
            raise TransilError(
                f"train.batch_size {batch_size} cannot be shared by {self.world} processes; "
                "choose a multiple"
            )

    def share_statistics(self, net: nn.Module) -> None:
        """Make batch normalisation use the statistics of the global batch, in place."""
        if self.alone:
            return
        for module in list(net.modules()):
            for name, child in module.named_children():
                if type(child) is nn.BatchNorm2d:
                    setattr(module, name, _shared(child, self.device))

    def wrap(self, net: nn.Module) -> nn.Module:
        """The network for the forward pass of a step: gradients are averaged over the processes."""
        if self.alone:
            return net
        ids = [self.device.index] if self.device.type == "cuda" else None
        with warnings.catch_warnings():
            # Newer versions of torch rename the option, older ones have only this name.
            warnings.simplefilter("ignore")
            return DistributedDataParallel(net, device_ids=ids, broadcast_buffers=False)

    def sum(self, values: torch.Tensor) -> torch.Tensor:
        """The sum over all processes, in place."""
        if not self.alone:
            distributed.all_reduce(values)
        return values

    @torch.no_grad()
    def share(self, tensors: Iterable[torch.Tensor]) -> None:
        """Give all processes the main one's values, in place."""
        if not self.alone:
            for tensor in tensors:
                distributed.broadcast(tensor, src=0)

    def first(self, do: Callable[[], T]) -> T:
        """What the main process makes, in every process; where it fails, they all end."""
        if self.alone:
            return do()
        made, failed = None, None
        if self.main:
            try:
                made = do()
            except Exception as error:  # said there, once
                failed = error
        made, over = self.agree((made, failed is not None))
        if failed is not None:
            raise failed
        if over:
            raise SystemExit(2)
        return cast(T, made)

    def agree(self, value: T) -> T:
        """What the main process has, in every process."""
        if self.alone:
            return value
        box: list[Any] = [value]
        on = self.device if distributed.get_backend() == "nccl" else None
        distributed.broadcast_object_list(box, src=0, device=on)
        return cast(T, box[0])

    def leave(self) -> None:
        """After the last collective operation."""
        if not self.alone and distributed.is_initialized():
            distributed.destroy_process_group()


def rank() -> int:
    """Which of the processes of one run this is, from 0; 0 if it is alone."""
    return _place()[0]


def _place() -> tuple[int, int, int]:
    """Rank, number of processes and local rank, as torchrun and other launchers tell them.

    Where one of the words that processes need to meet is missing, nobody has started any others:
    then a left-over WORLD_SIZE or RANK means nothing.
    """
    if not all(os.environ.get(name) for name in MEET):
        return 0, 1, 0
    world = _number("WORLD_SIZE", 1, 1 << 20)
    _number("MASTER_PORT", 1, 65535)
    return _number("RANK", 0, world - 1), world, _number("LOCAL_RANK", 0, world - 1)


def _number(name: str, least: int, most: int) -> int:
    text = os.environ.get(name, "0")
    if not (text.isascii() and text.isdigit() and len(text) < 10 and least <= int(text) <= most):
        raise TransilError(
            f"${name} is '{text}', not a number from {least} to {most}; start processes with "
            f"torchrun, or unset {', '.join(MEET)}"
        )
    return int(text)


class SharedBatchNorm(nn.BatchNorm2d):
    """Batch normalisation over the batches of all processes, on any device.

    torch's SyncBatchNorm does the same on GPUs only. All processes have the same number of rows.
    """

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(b, c, h, w) to the same shape."""
        if not self.training:
            return super().forward(x)
        assert self.running_mean is not None
        assert self.running_var is not None
        world = distributed.get_world_size()
        mean = _DifferentiableSum.apply(x.mean((0, 2, 3))) / world  # type: ignore[no-untyped-call]
        # Not by the mean of squares: that cancels where means are large.
        apart = x - mean[:, None, None]
        var = _DifferentiableSum.apply((apart * apart).mean((0, 2, 3))) / world  # type: ignore[no-untyped-call]
        with torch.no_grad():
            count = world * x.numel() / x.shape[1]
            momentum = self.momentum or 0.0
            self.running_mean.lerp_(mean, momentum)
            self.running_var.lerp_(var * count / (count - 1), momentum)
            if self.num_batches_tracked is not None:
                self.num_batches_tracked.add_(1)
        scale = self.weight * torch.rsqrt(var + self.eps)
        made: torch.Tensor = apart * scale[:, None, None] + self.bias[:, None, None]
        return made


class _DifferentiableSum(torch.autograd.Function):
    """The sum over all processes; its gradient is the sum of their gradients."""

    @staticmethod
    def forward(_: Any, values: torch.Tensor) -> torch.Tensor:
        total = values.clone()
        distributed.all_reduce(total)
        return total

    @staticmethod
    def backward(_: Any, *gradients: torch.Tensor) -> torch.Tensor:
        total = gradients[0].clone()
        distributed.all_reduce(total)
        return total


def _shared(norm: nn.BatchNorm2d, device: torch.device) -> nn.Module:
    if device.type == "cuda":
        made: nn.Module = nn.SyncBatchNorm.convert_sync_batchnorm(norm)  # type: ignore[no-untyped-call]
        return made
    shared = SharedBatchNorm(norm.num_features, norm.eps, norm.momentum)
    shared.load_state_dict(norm.state_dict())
    return shared.to(norm.weight.device)

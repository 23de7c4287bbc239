"""One training step, and the same step as a CUDA graph."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable

import torch

from transil.data.device import DeviceImages
from transil.errors import TransilError
from transil.methods.base import Context, Method
from transil.methods.losses import only
from transil.nets.net import Net, Outputs

# Steps before a capture: cuDNN chooses its kernels, the allocator settles.
WARM_UP = 3


class Step:
    """Batch, student, teacher, loss, backward, update: tensor operations and nothing else.

    Each step adds to `sums` (3,): the losses of images that count, how many of them are predicted
    right; the last of the three is the mean loss of the batch.
    """

    def __init__(
        self,
        net: Net,
        forward: Callable[..., Outputs],
        teacher: Callable[..., Outputs] | None,
        method: Method,
        context: Context,
        feed: DeviceImages,
        optimiser: torch.optim.Optimizer,
        sums: torch.Tensor,
        *,
        precision: torch.dtype,
        world: int = 1,
    ) -> None:
        self.net, self.forward, self.teacher = net, forward, teacher
        self.method, self.context, self.feed = method, context, feed
        self.optimiser, self.precision, self.world = optimiser, precision, world
        self.sums = sums

    def __call__(self) -> None:
        """Take the next batch and learn from it."""
        images, labels, share = self.feed.take()
        mixed = self.precision != torch.float32
        with torch.autocast(images.device.type, dtype=torch.bfloat16, enabled=mixed):
            student = self.forward(images)
            with torch.no_grad():
                teacher = self.teacher(images) if self.teacher is not None else None
        losses = self.method.loss(student, teacher, labels, self.context)
        shape = tuple(losses.shape) if isinstance(losses, torch.Tensor) else type(losses).__name__
        if shape != tuple(labels.shape):
            raise TransilError(
                f"method '{self.method.name}': its loss must give one number per image, of shape "
                f"{tuple(labels.shape)}, not {shape}; take no mean (reduction='none')"
            )
        loss = (losses * share).sum()
        penalty = self.method.penalty(self.net, self.context)
        self.optimiser.zero_grad(set_to_none=True)
        # DDP averages gradients over processes; each has only its share of the sum.
        total = loss * self.world if penalty is None else loss * self.world + penalty
        if not total.requires_grad:
            raise TransilError(
                f"method '{self.method.name}': its loss has no gradient; make it from the student's "
                "outputs, without detach() or no_grad()"
            )
        total.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        with torch.no_grad():
            self.method.after_step(self.net, self.context)
            counts = share > 0
            right = only(student.scores, self.context.seen).argmax(1) == labels
            self.sums[0] += (losses * counts).sum()
            if penalty is not None:
                self.sums[0] += penalty * counts.sum()
            self.sums[1] += (right & counts).sum()
            self.sums[2] = loss

    def changed(self) -> Iterable[torch.Tensor]:
        """Every tensor that a step writes to, its gradients apart."""
        yield from self.net.state_dict().values()
        yield from self.context.kept.values()
        yield self.sums
        for state in self.optimiser.state.values():
            yield from (v for v in state.values() if isinstance(v, torch.Tensor))


class Captured:
    """A step captured once and replayed: one launch instead of several hundred.

    Everything the step reads or writes keeps its place in memory; states, learning rates and
    epochs change what is in it. To be made and used on a stream of its own.
    """

    def __init__(self, step: Step) -> None:
        step.feed.rewind()
        before = [tensor.clone() for tensor in step.changed()]
        for _ in range(WARM_UP):
            step.feed.rewind()
            step()
        self.graph = torch.cuda.CUDAGraph()
        stream = torch.cuda.current_stream(step.context.device)
        # Other threads may go on: those that read images ahead allocate pinned memory.
        with torch.cuda.graph(self.graph, stream=stream, capture_error_mode="thread_local"):
            step()
        # The warm-up has learned something: take it back.
        with torch.no_grad():
            for tensor, old in zip(step.changed(), before, strict=True):
                tensor.copy_(old)
        step.feed.rewind()

    def __call__(self) -> None:
        """Replay the step."""
        self.graph.replay()


def give_back_memory() -> None:
    """Memory of graphs that are no more belongs to nobody until it is asked back."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()

"""What a backbone method is: a loss, and what happens at the two ends of a state.

The engine owns everything else: batches, precision, the optimiser, graphs, checkpoints, scores.
`loss`, `penalty` and `after_step` are captured in a CUDA graph once and replayed in all states: they are
tensor operations on the arguments and on the tensors of `Context`, with no branch on a value.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import fields
from typing import Any, ClassVar

import torch

from transil.errors import TransilError
from transil.nets.net import Net, Outputs
from transil.schedule import Schedule


class Context:
    """What a method knows of the state it is in. All tensors keep their place in memory.

    `seen`, `old`, `new` (classes,) bool: which columns belong to classes seen so far, before this
    state, in this state. `kept`: tensors that the method wants from one state to the next; they
    are part of every checkpoint. `generator`: random numbers of this state, on the CPU.
    """

    def __init__(self, schedule: Schedule, device: torch.device, method: str = "") -> None:
        self.schedule, self.device, self.method = schedule, device, method
        self.number = 0
        classes = schedule.seen[-1]
        self.seen, self.old, self.new = (
            torch.zeros(classes, dtype=torch.bool, device=device) for _ in range(3)
        )
        self.kept: dict[str, torch.Tensor] = {}
        self.generator = torch.Generator()
        self._outputs: Callable[[], tuple[Outputs, torch.Tensor]] | None = None

    def enter(
        self, number: int, seed: int, outputs: Callable[[], tuple[Outputs, torch.Tensor]]
    ) -> None:
        """Go to a state; `outputs` makes what `train_outputs` gives."""
        self.number, self._outputs = number, outputs
        group = self.schedule.group_columns(number)
        columns = torch.arange(len(self.seen), device=self.device)
        self.seen.copy_(columns < group.stop)
        self.old.copy_(columns < group.start)
        self.new.copy_(self.seen & ~self.old)
        self.generator.manual_seed((1_000_003 * seed + number) % 2**63)

    @property
    def old_classes(self) -> int:
        """How many classes were learned before this state."""
        return self.schedule.seen[self.number - 1] - self.new_classes

    @property
    def new_classes(self) -> int:
        """How many classes this state brings."""
        return self.schedule.sizes[self.number - 1]

    def keep(self, name: str, value: torch.Tensor) -> None:
        """Keep a tensor; one of that name is overwritten in its place."""
        lead = f"method '{self.method}': context.keep('{name}', ...)"
        if not isinstance(value, torch.Tensor):
            raise TransilError(f"{lead} takes a tensor, not {type(value).__name__}")
        if name in self.kept:
            old, new = tuple(self.kept[name].shape), tuple(value.shape)
            if old != new:
                raise TransilError(
                    f"{lead}: its shape was {old} and is {new} now, but a kept tensor keeps its "
                    "shape; keep rows of all classes from the start"
                )
            self.kept[name].copy_(value.detach())
        else:
            self.kept[name] = value.detach().to(self.device, copy=True)

    def train_outputs(self) -> tuple[Outputs, torch.Tensor]:
        """Outputs (n, ...) of the network as it is now on this state's training images, and labels.

        With the evaluation transform, in evaluation mode.
        """
        assert self._outputs is not None
        return self._outputs()


class Method(ABC):
    """One way to update a model. Subclasses are frozen dataclasses: their fields are settings.

    `teacher`: from state 2 on, the model of the previous state is run beside the one that learns.
    `family`: methods that share one training and differ in their scores; a run gives them all.
    `one_state`: all classes are learned at once.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    paper: ClassVar[str]
    head: ClassVar[str] = "linear"
    last_relu: ClassVar[bool] = True
    teacher: ClassVar[bool] = False
    family: ClassVar[tuple[str, ...]] = ()
    one_state: ClassVar[bool] = False

    @classmethod
    def trained_as(cls) -> str:
        """The method whose training gives this one's scores: the first of its family, or itself.

        A family is one of methods that name each other; one from outside, which the others do not
        name, is trained by itself.
        """
        from transil.methods.registry import METHODS

        if cls.name not in cls.family or cls.family[0] not in METHODS.names():
            return cls.name
        shared = METHODS.find(cls.family[0])
        return shared.name if cls.name in shared.family else cls.name

    def settings(self) -> dict[str, Any]:
        """All settings, defaults included."""
        return {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]

    def check(self) -> None:  # noqa: B027
        """An error where a setting makes no sense."""

    def begin(self, net: Net, context: Context) -> None:  # noqa: B027
        """Before the first step of a state, without gradient. The teacher is `net` as it was before.

        Weights that shall not learn in this state: `requires_grad_(False)`.
        """

    @abstractmethod
    def loss(
        self, student: Outputs, teacher: Outputs | None, labels: torch.Tensor, context: Context
    ) -> torch.Tensor:
        """The loss of each image, (b,). `teacher` is None in the first state. labels (b,)."""

    def penalty(self, net: Net, context: Context) -> torch.Tensor | None:
        """One number that is added to the mean loss of a batch: on weights, say. None: nothing is.

        Methods that define it find the gradients of all weights, `.grad`, in `after_step`.
        """
        return None

    def after_step(self, net: Net, context: Context) -> None:  # noqa: B027
        """After each step of the optimiser, without gradient."""

    def end(self, net: Net, context: Context) -> None:  # noqa: B027
        """After the last step of a state, without gradient."""

    def scores(self, outputs: Outputs, context: Context) -> torch.Tensor:
        """The scores (b, classes) that are written: raw, before any softmax or sigmoid."""
        return outputs.scores


def seen_scores(method: Method, outputs: Outputs, context: Context) -> torch.Tensor:
    """A method's scores of the classes seen so far, (b, seen), without gradient."""
    scores: Any = method.scores(outputs, context)
    rows, classes = outputs.scores.shape
    seen = context.schedule.columns(context.number)
    shape = tuple(scores.shape) if isinstance(scores, torch.Tensor) else type(scores).__name__
    if shape not in ((rows, classes), (rows, seen)):
        raise TransilError(
            f"method '{method.name}': its `scores` must give one column per class, of shape "
            f"{(rows, classes)}, not {shape}"
        )
    made: torch.Tensor = scores[:, :seen].detach()
    return made

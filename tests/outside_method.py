"""A method as another package would bring it: registered by entry point, not by an import."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from transil.methods import Context, Method
from transil.nets import Net, Outputs


@dataclass(frozen=True)
class Anchored(Method):
    """Cross-entropy, and a pull of all old rows to where they were when the state began."""

    name = "anchored"
    summary = "a method from outside"
    paper = "none"
    teacher = True

    strength: float = 0.5

    def begin(self, net: Net, context: Context) -> None:
        context.keep("anchor", net.head.weight)

    def loss(
        self, student: Outputs, teacher: Outputs | None, labels: torch.Tensor, context: Context
    ) -> torch.Tensor:
        scores = student.scores.masked_fill(~context.seen, -1e9)
        return torch.nn.functional.cross_entropy(scores, labels, reduction="none")

    def after_step(self, net: Net, context: Context) -> None:
        pulled = torch.lerp(net.head.weight, context.kept["anchor"], self.strength)
        net.head.weight.copy_(torch.where(context.old[:, None], pulled, net.head.weight))


@contextmanager
def installed(folder: Path, entry: str = "anchored = outside_method:Anchored") -> Iterator[None]:
    """As if a package with this entry point were installed."""
    info = folder / "outside-1.0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: outside\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[transil.methods]\n{entry}\n")
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))

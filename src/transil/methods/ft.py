"""FT: plain fine-tuning, the training that FT+ and SIW share (the paper's Sec. 5)."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from transil.methods.base import Context, Method
from transil.methods.losses import cross_entropy
from transil.nets.net import Net, Outputs


@dataclass(frozen=True)
class Ft(Method):
    """Cross-entropy over all classes seen, with images of the new ones alone.

    The last layer is drawn anew in each state, as in the released finetuning.py. Its rows
    are kept as they are at the end of the state that first learned them: FT+ and SIW score with
    those. `mean_calibration` scales SIW's scores of past classes; its factors are
    measured in training, so it is a setting of all three.
    """

    name = "ft"
    summary = "fine-tuning without anything against forgetting"
    paper = "baseline"
    family = ("ft", "ft+", "siw")

    mean_calibration: bool = False

    def begin(self, net: Net, context: Context) -> None:
        if context.number == 1:
            for name, values in self._head(net).items():
                context.keep(f"first.{name}", torch.zeros_like(values))
            context.keep("mean_top_score", torch.ones(context.schedule.states))
        else:
            net.head.reset(context.generator)

    def loss(
        self, student: Outputs, teacher: Outputs | None, labels: torch.Tensor, context: Context
    ) -> torch.Tensor:
        return cross_entropy(student.scores, labels, context.seen)

    def end(self, net: Net, context: Context) -> None:
        for name, values in self._head(net).items():
            context.kept[f"first.{name}"][context.new] = values[context.new]
        if self.mean_calibration:
            # mu(M_s): the mean over this state's training images of the highest plain score.
            outputs, _ = context.train_outputs()
            top = outputs.scores[:, context.seen].amax(1).mean()
            context.kept["mean_top_score"][context.number - 1] = top

    @staticmethod
    def _head(net: Net) -> dict[str, torch.Tensor]:
        return dict(net.head.named_parameters())

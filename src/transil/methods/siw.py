"""SIW: standardised initial rows of the last layer."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from transil.methods.base import Context
from transil.methods.ft import Ft
from transil.nets.net import Outputs


@dataclass(frozen=True)
class Siw(Ft):
    """FT+ with each row standardised, (w - mean(w)) / std(w), new rows too; biases stay.

    With `mean_calibration`, scores of a past class of group k are multiplied by mu(M_s) / mu(M_k):
    the original SIW's state-level calibration, which the paper's scripts do not switch on.
    """

    name = "siw"
    summary = "FT with standardised first rows of the last layer"
    paper = "Belouadah et al., BMVC 2020"

    def scores(self, outputs: Outputs, context: Context) -> torch.Tensor:
        weight, bias = context.kept["first.weight"], context.kept["first.bias"]
        centred = weight - weight.mean(1, keepdim=True)
        # Rows of classes not seen yet are zero; they stay so.
        spread = weight.std(1, keepdim=True).clamp(min=1e-12)
        scores = outputs.features @ (centred / spread).T + bias
        return scores * self._calibration(context) if self.mean_calibration else scores

    @staticmethod
    def _calibration(context: Context) -> torch.Tensor:
        """mu(M_s) / mu(M_k) for the group k of each column, (classes,); 1 for new classes."""
        means = context.kept["mean_top_score"]
        group = context.schedule.group_of_column(context.schedule.states) - 1
        factors = means[context.number - 1] / means[torch.from_numpy(group).to(means.device)]
        return torch.where(context.old, factors, torch.ones_like(factors))

"""FT+: fine-tuning that scores each class with the row it had when it was first learned."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from transil.methods.base import Context
from transil.methods.ft import Ft
from transil.nets.net import Outputs


@dataclass(frozen=True)
class FtPlus(Ft):
    """score = w_k f_s(x) + b_k, with w_k and b_k of the model of state k.

    Nothing is frozen in training, as in the paper's supplement and the released extract_logits.py;
    freezing old rows while training is another method.
    """

    name = "ft+"
    summary = "FT whose past classes keep their first rows of the last layer"
    paper = "Masana et al. 2020, as used by Slim et al., WACV 2022"

    def scores(self, outputs: Outputs, context: Context) -> torch.Tensor:
        weight, bias = context.kept["first.weight"], context.kept["first.bias"]
        return outputs.features @ weight.T + bias

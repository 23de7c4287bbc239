"""Parts that losses of several methods share."""

from __future__ import annotations

import torch
from torch.nn import functional


def only(scores: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    """Scores (b, classes) with -inf in all columns but those of the mask (classes,)."""
    return scores.masked_fill(~columns, -torch.inf)


def cross_entropy(
    scores: torch.Tensor, labels: torch.Tensor, columns: torch.Tensor
) -> torch.Tensor:
    """Cross-entropy of each image (b,) over the columns of a mask; labels (b,) are among them."""
    return functional.cross_entropy(only(scores, columns), labels, reduction="none")

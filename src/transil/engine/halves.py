"""Convolutions that read copies of their weights in half precision, kept from step to step."""

from __future__ import annotations

import torch
from torch import nn
from torch.func import functional_call

from transil.nets.net import Net, Outputs


class Halves:
    """A network for training, with copies of its convolution weights in a smaller type.

    Autocast makes such copies in each step, one weight at a time, and casts each gradient back. Here the
    kernel that updates a weight takes the gradient as it is and writes the next copy on the way.
    """

    def __init__(self, net: Net, dtype: torch.dtype) -> None:
        self.net = net
        self.weights = {
            f"{name}.weight": module.weight
            for name, module in net.named_modules()
            if type(module) is nn.Conv2d
        }
        self.copies = {
            name: weight.detach().to(dtype).requires_grad_()
            for name, weight in self.weights.items()
        }

    def __call__(self, images: torch.Tensor) -> Outputs:
        """What the network says with the copies; weights that may not learn are read as they are."""
        learning = {n: self.copies[n] for n, weight in self.weights.items() if weight.requires_grad}
        made: Outputs = functional_call(self.net, learning, (images,))
        return made

    @torch.no_grad()
    def refresh(self) -> None:
        """Make the copies anew, after weights have been changed by others than `update`."""
        torch._foreach_copy_(list(self.copies.values()), list(self.weights.values()))

    def versions(self) -> list[int]:
        """Numbers that grow when others than `update` change a weight."""
        return [weight._version for weight in self.weights.values()]

    @torch.no_grad()
    def update(self, optimiser: torch.optim.Optimizer) -> None:
        """Take an optimiser's step for the weights that have copies, which it does not see itself."""
        from transil.kernels.sgd import sgd

        settings = {p: group for group in optimiser.param_groups for p in group["params"]}
        for name, weight in self.weights.items():
            copy, group = self.copies[name], settings[weight]
            if copy.grad is not None:
                buffer = optimiser.state[weight]["momentum_buffer"]
                sgd(
                    weight, copy, copy.grad, buffer, group["lr"],
                    momentum=group["momentum"], decay=group["weight_decay"],
                )  # fmt: skip
                copy.grad = None

"""What precision and layout of memory do to a training step on a CPU.

    python benchmarks/cpu_precision.py [--seconds 5] [--bodies convnet,resnet18-32] [--pixels 32]

One thread, batch 128, forward, backward and SGD. Figures are images in a second of processor time, so
that other programs on the machine hardly count; the ways take turns. Where a processor names AMX and
does not run it, set ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch

from transil.nets.net import build_net

BATCH = 128
ROUNDS = 5
WAYS = {
    "float32": (torch.float32, torch.contiguous_format),
    "float32, channels last (the default)": (torch.float32, torch.channels_last),
    "bfloat16": (torch.bfloat16, torch.contiguous_format),
    "bfloat16, channels last": (torch.bfloat16, torch.channels_last),
}


def step_of(
    body: str, pixels: int, precision: torch.dtype, layout: torch.memory_format
) -> Callable[[], None]:
    """A training step of a fresh network."""
    net = build_net(body, "linear", 100)
    net.to(memory_format=layout)  # type: ignore[call-overload]
    images = torch.rand(BATCH, 3, pixels, pixels).contiguous(memory_format=layout)
    labels = torch.randint(0, 100, (BATCH,))
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    def step() -> None:
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision != torch.float32):
            scores = net(images).scores
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(scores, labels)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()

    step()
    return step


def main() -> None:
    """Print a line for each body and way."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--bodies", default="convnet,resnet18-32")
    parser.add_argument("--pixels", type=int, default=32)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for body in options.bodies.split(","):
        steps = {name: step_of(body, options.pixels, *way) for name, way in WAYS.items()}
        best = dict.fromkeys(steps, 0.0)
        for _ in range(ROUNDS):
            for name, step in steps.items():
                start, done = time.process_time(), 0
                while time.process_time() - start < options.seconds / ROUNDS or not done:
                    step()
                    done += 1
                rate = done * BATCH / (time.process_time() - start)
                best[name] = max(best[name], rate)
        for name, rate in best.items():
            print(f"{body:12} {name:38} {rate:8,.0f} images/s")


if __name__ == "__main__":
    main()

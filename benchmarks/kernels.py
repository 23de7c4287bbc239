"""How fast our own kernels are, against torch's and against a copy of the same maps. Needs a GPU.

    python benchmarks/kernels.py            # batch normalisation with what follows it, by size of maps
    python benchmarks/kernels.py --tiles    # tile choices: images/s of one LwF run and of two at once

Times are microseconds of one layer, from graphs that go through many sets of maps, so that they
come from memory and go there, and not to the cache.
"""

from __future__ import annotations

import argparse
import copy
import itertools
from collections.abc import Callable, Sequence

import torch
from torch import nn

# Channels and size of the maps of a ResNet-18 at 32 px.
MAPS = ((64, 32), (128, 16), (256, 8), (512, 4))
# So many bytes of maps are gone through: several times what a cache holds.
BATCH, BYTES = 128, 256 << 20
# Rows, channels, parts, programs, warps (see transil.kernels.norm).
TILES = (
    (128, 64, 64, 264, 4), (128, 64, 64, 198, 4), (128, 64, 64, 132, 4), (256, 32, 64, 256, 4),
    (256, 64, 64, 132, 8), (256, 64, 64, 66, 8), (256, 64, 64, 132, 16), (256, 64, 64, 66, 16),
    (128, 64, 64, 132, 8), (64, 64, 64, 264, 4),
)  # fmt: skip


def maps(channels: int, size: int) -> list[torch.Tensor]:
    shape = (BATCH, channels, size, size)
    sets = BYTES // (2 * BATCH * channels * size * size)
    made = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(sets))
    return [x.to(memory_format=torch.channels_last) for x in made]


def microseconds(run: Callable[[int], torch.Tensor], sets: int, rounds: int = 12) -> float:
    """The time of one call, from a graph of one call for each set, which has a result of its own."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        for number in range(sets):
            run(number)
        with torch.cuda.graph(graph, stream=stream):
            results = [run(number) for number in range(sets)]
        graph.replay()
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record()
        for _ in range(rounds):
            graph.replay()
        stop.record()
        torch.cuda.synchronize()
    assert all(result.isfinite().all() for result in results)
    return float(start.elapsed_time(stop)) * 1e3 / (rounds * sets)


def layer(
    norm: nn.BatchNorm2d,
    xs: Sequence[torch.Tensor],
    adds: Sequence[torch.Tensor] | None,
    gradients: Sequence[torch.Tensor] | None,
) -> Callable[[int], torch.Tensor]:
    """A normalised sum after ReLU, forwards, and backwards where there are gradients."""
    from transil.nets.norms import normalised

    def run(number: int) -> torch.Tensor:
        x = xs[number].detach().requires_grad_()
        add = None if adds is None else adds[number].detach().requires_grad_()
        y = normalised(norm, x, add)
        if gradients is not None:
            y.backward(gradients[number])  # type: ignore[no-untyped-call]
            norm.weight.grad = norm.bias.grad = None
        return y.detach()

    return run


def copies(
    xs: Sequence[torch.Tensor], into: Sequence[torch.Tensor]
) -> Callable[[int], torch.Tensor]:
    def run(number: int) -> torch.Tensor:
        return into[number].copy_(xs[number])

    return run


def layers() -> None:
    from transil.nets.norms import fuse

    print("microseconds         copy | forwards: torch  ours | and backwards: torch  ours")
    for (channels, size), added in itertools.product(MAPS, (False, True)):
        xs, adds, into, gradients = (maps(channels, size) for _ in range(4))

        copied = microseconds(copies(xs, into), len(xs))
        plain = nn.BatchNorm2d(channels).cuda()
        fused = copy.deepcopy(plain)
        fuse(fused)
        others = adds if added else None
        times = [
            microseconds(layer(norm, xs, others, dys), len(xs))
            for dys in (None, gradients)
            for norm in (plain, fused)
        ]
        name = f"{channels:4} x {size:2} x {size:2} {'+ sum' if added else '':5}"
        print(f"{name} {copied:6.1f} |{times[0]:16.1f}{times[1]:6.1f} |"
              f"{times[2]:21.1f}{times[3]:6.1f}", flush=True)  # fmt: skip


def tiles(seconds: float) -> None:
    from train import engine
    from transil.kernels import norm

    print("rows, channels, parts, programs, warps: one LwF run, two at once, images/s")
    for choice in TILES:
        norm.ROWS, norm.CHANNELS, norm.PARTS, norm.PROGRAMS, norm.WARPS = choice
        one, two = (engine("lwf", seconds, runs=runs) for runs in (1, 2))
        print(f"{choice}: {one:9,.0f} {two:9,.0f}  {two / one:.3f}x", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tiles", action="store_true", help="compare tile choices in whole steps")
    parser.add_argument("--seconds", type=float, default=3.0, help="per measurement, with --tiles")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("torch sees no GPU here; run this on a machine with one")
    torch.backends.cudnn.benchmark = True
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, batch {BATCH}", flush=True)
    if options.tiles:
        tiles(options.seconds)
    else:
        layers()


if __name__ == "__main__":
    main()

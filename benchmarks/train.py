"""How fast training is, against the loops people usually write. Needs a GPU.

    python benchmarks/train.py [--seconds 6] [--methods ft,lwf] [--parts loader,two,sizes] [--compile]
    python benchmarks/train.py --profile

ResNet-18, batch 128, bfloat16, everything measured one after the other in one process, in the second
state (where LwF and LUCIR run their teacher):

- `graph`: this engine, a step in a CUDA graph; `eager`: without the graph;
- `plain`: a loop over a set on the GPU, augmented there in batches, as in any tutorial;
- `loader`: the same with a DataLoader, workers, and transforms image by image, from files or an array;
- `two at once`: two runs of the engine side by side in one process;
- `compiled` (with `--compile`): this engine, the captured step compiled by torch.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from transil.data import ClassStream, Images, ImageSplit
from transil.engine import resolve
from transil.engine.lanes import Lane
from transil.engine.learner import Learner
from transil.engine.setup import completed
from transil.engine.workers import Workers
from transil.methods import get_method
from transil.nets import build_net

BATCH, GROUP, STATES = 128, 4500, 2
MEAN, STD = 0.5, 0.25
# Dense bfloat16, by the vendor's data sheet.
PEAK = {"NVIDIA H200": 989e12, "NVIDIA H100 80GB HBM3": 989e12}
GOALS = {"ft": 40_000, "lwf": 30_000, "lucir": 30_000}


def images(size: int, count: int = GROUP) -> Images:
    random = np.random.default_rng(0)
    pixels = random.integers(0, 256, (count * STATES, size, size, 3), dtype=np.uint8)
    labels = np.arange(count * STATES) % 20
    names = tuple(str(i) for i in range(20))
    split = ImageSplit(pixels, labels)
    return Images("noise", names, {"train": split, "val": split}, "x")


def learner(
    method: str,
    kind: str = "32",
    *,
    graph: bool = True,
    compiled: bool = False,
    batch: int = BATCH,
) -> Learner:
    """One that is in its second state."""
    config = resolve(
        method=method,
        recipe=f"{method}-{kind}",
        overrides=[{
            "data": {"states": STATES, "order": "label"},
            "engine": {"graph": graph, "compile": compiled, "device": "cuda"},
            "train": {"batch_size": batch},
        }],
    )  # fmt: skip
    data = images(256 if kind == "224" else 32, 1280 if kind == "224" else GROUP)
    workers = Workers(torch.device("cuda"))
    made_method = get_method(config.method, config.settings)
    config = completed(config, made_method, data, workers.device)
    stream = ClassStream(data, STATES, order="label")
    made = Learner(config, made_method, stream, workers)
    made.begin(stream.enter(1))
    made.end()
    made.begin(stream.enter(2))
    torch.cuda.synchronize()  # its steps may run on another stream
    return made


def endless(one: Learner, counter: list[int]) -> Generator[torch.device | None, None, None]:
    """Epochs without end, after the device (as a `Lane` wants it); counts images of finished ones."""
    yield one.device
    for number in itertools.count(1):
        one.draw(number)
        for _ in one.epoch(0.01):
            yield None
        counter[0] += len(one.state.train)


def measured(go_on: Callable[[], None], counter: list[int], seconds: float) -> float:
    """Images per second, after a warm-up."""
    start = time.perf_counter()
    while time.perf_counter() - start < 2.0:
        go_on()
    torch.cuda.synchronize()
    start, before = time.perf_counter(), counter[0]
    while time.perf_counter() - start < seconds:
        go_on()
    torch.cuda.synchronize()
    return (counter[0] - before) / (time.perf_counter() - start)


def engine(method: str, seconds: float, runs: int = 1, **options: Any) -> float:
    """Images per second of this engine, over all runs."""
    torch.cuda.reset_peak_memory_stats()
    counter = [0]
    lanes = [Lane(endless(learner(method, **options), counter)) for _ in range(runs)]

    def go_on() -> None:
        for lane in lanes:
            if lane.ready():
                lane.go_on()

    return measured(go_on, counter, seconds)


def plain(method: str, batches: Callable[[], Iterator[Any]], seconds: float) -> float:
    """The usual loop: autocast, zero_grad, backward, step, and loss.item() now and then."""
    head = "cosine" if method == "lucir" else "linear"
    net: Any = build_net("resnet18-32", head, 20, last_relu=method == "ft")
    net = net.to("cuda", memory_format=torch.channels_last)
    teacher = copy.deepcopy(net).eval()
    optimiser = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4)

    def loss_of(x: Any, y: Any) -> Any:
        out = net(x)
        if method == "ft":
            return functional.cross_entropy(out.scores, y)
        with torch.no_grad():
            old = teacher(x)
        if method == "lwf":
            target = functional.one_hot(y, 20).float()
            target[:, :10] = old.scores[:, :10].sigmoid()
            return functional.binary_cross_entropy_with_logits(out.scores, target)
        ones = torch.ones(len(x), device=x.device)
        apart = functional.cosine_embedding_loss(out.features, old.features, ones)
        return functional.cross_entropy(out.scores, y) + 5.0 * apart

    counter = [0]

    def rounds() -> Iterator[None]:
        while True:
            for step, (x, y) in enumerate(batches()):
                with torch.autocast("cuda", dtype=torch.bfloat16):
                    loss = loss_of(x, y)
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
                if step % 20 == 0:
                    loss.item()
                counter[0] += len(x)
                yield

    steps = rounds()
    return measured(lambda: next(steps), counter, seconds)


def resident() -> Iterator[Any]:
    """Batches from a set on the GPU: one crop and flip per batch of indices, in tensor code."""
    order = torch.randperm(GROUP, device="cuda")
    for part in torch.split(order, BATCH):
        x = PIXELS[part].permute(0, 3, 1, 2).float().div(255).sub(MEAN).div(STD)
        x = functional.pad(x, (4, 4, 4, 4))
        top, left = torch.randint(0, 9, (2, len(x)), device="cuda")
        grid = torch.arange(32, device="cuda")
        rows = (top[:, None] + grid)[:, None, :, None]
        columns = (left[:, None] + grid)[:, None, None, :]
        index = torch.arange(len(x), device="cuda")[:, None, None, None]
        channel = torch.arange(3, device="cuda")[None, :, None, None]
        x = x[index, channel, rows, columns]
        flip = torch.rand(len(x), device="cuda") < 0.5
        x = torch.where(flip[:, None, None, None], x.flip(3), x)
        yield x.contiguous(memory_format=torch.channels_last), LABELS[part]


def per_image() -> Any:
    """The usual transforms of one image, by torchvision."""
    from torchvision import transforms

    return transforms.Compose(
        [
            transforms.RandomCrop(32, 4),
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            transforms.Normalize([MEAN] * 3, [STD] * 3),
        ]
    )


def from_files(folder: Path) -> Any:
    """The images as PNG files in a folder for each class, as torchvision reads them."""
    from torchvision.datasets import ImageFolder

    split = IMAGES.splits["train"]
    for number, (pixels, label) in enumerate(zip(split.pixels, split.labels, strict=True)):
        if number == GROUP:
            break
        place = folder / f"{label:02d}"
        place.mkdir(exist_ok=True)
        Image.fromarray(pixels).save(place / f"{number}.png")
    return ImageFolder(str(folder), per_image())


class PerImage(torch.utils.data.Dataset[Any]):
    """Images of an array in memory, transformed one by one, as most code for CIFAR does."""

    def __init__(self) -> None:
        self.transform = per_image()

    def __len__(self) -> int:
        return GROUP

    def __getitem__(self, index: int) -> tuple[Any, int]:
        split = IMAGES.splits["train"]
        return self.transform(Image.fromarray(split.pixels[index])), int(split.labels[index])


def loader(source: Any, workers: int, keep: bool) -> Callable[[], Iterator[Any]]:
    """Batches from a DataLoader; `keep`: its workers live from epoch to epoch."""
    made = torch.utils.data.DataLoader(
        source, BATCH, shuffle=True, num_workers=workers, pin_memory=True,
        persistent_workers=keep,
    )  # fmt: skip

    def batches() -> Iterator[Any]:
        for x, y in made:
            x = x.to("cuda", non_blocking=True).contiguous(memory_format=torch.channels_last)
            yield x, y.to("cuda", non_blocking=True)

    return batches


def profile(method: str, steps: int = 3) -> None:
    """Where the time of a captured step goes, kernel by kernel."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    with torch.cuda.stream(stream):
        one = learner(method)
        one.draw(1)
        run = one._step()
        run()
        torch.cuda.synchronize()
        one.feed.rewind()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as found:
            for _ in range(steps):
                run()
            torch.cuda.synchronize()
    rows: Any = sorted(found.key_averages(), key=lambda e: -e.self_device_time_total)
    total = sum(row.self_device_time_total for row in rows) / steps
    print(f"{method}: {total / 1e3:.2f} ms, {sum(row.count for row in rows) // steps} kernels")
    for row in rows[:30]:
        time_us, count = row.self_device_time_total / steps, row.count // steps
        print(f"{time_us:9.1f} us {count:4d}x {row.key[:100]}")


def flops(body: str, size: int) -> float:
    """Of one training image: forward, and twice that backward."""
    net = build_net(body, "linear", 100)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        net(torch.zeros(1, 3, size, size))
    return 3.0 * float(counter.get_total_flops())


def words(text: str) -> list[str]:
    return text.split(",")


def loaders(fast: dict[str, dict[str, float]], seconds: float) -> None:
    """The engine's speeds, by method, against plain loops with a DataLoader."""
    with tempfile.TemporaryDirectory() as folder:
        sources = {"PNG files": from_files(Path(folder)), "an array": PerImage()}
        ways = ((0, False), (4, False), (8, False), (8, True))
        every = itertools.product(fast.items(), sources.items(), ways)
        for (method, speeds), (name, source), (workers, keep) in every:
            speed = plain(method, loader(source, workers, keep), seconds)
            kept = ", kept between epochs" if keep else ""
            ratios = ", ".join(f"{kind} is {ours / speed:.2f}x" for kind, ours in speeds.items())
            print(f"{method:6} loader  {speed:9,.0f} images/s  {ratios} "
                  f"({name}, {workers} workers{kept})", flush=True)  # fmt: skip


def two_at_once(method: str, kinds: Iterable[str], seconds: float) -> None:
    """Each time one run just before two: speeds of a card drift."""
    for kind in kinds:
        compiled = kind == "compiled"
        one, two = (engine(method, seconds, runs=runs, compiled=compiled) for runs in (1, 2))
        print(f"{method:6} two at once, {kind:8} {two:9,.0f} images/s together, "
              f"{two / one:.3f}x one of {one:,.0f} (goal 1.25)", flush=True)  # fmt: skip


def sizes(small: float, seconds: float) -> None:
    """Larger images and batches, and the share of the card's peak."""
    big = engine("ft", seconds, kind="224")
    print(f"ft     224 px  {big:9,.0f} images/s  (goal 11,000)")
    print(f"ft     batch 512 {engine('ft', seconds, batch=512):9,.0f} images/s")
    peak = PEAK.get(torch.cuda.get_device_name())
    for name, speed, body, size in (
        ("32 px", small, "resnet18-32", 32),
        ("224 px", big, "resnet18-224", 224),
    ):
        rate = speed * flops(body, size)
        share = f", {100 * rate / peak:.1f} % of the bf16 peak" if peak else ""
        print(f"{name}: {rate / 1e12:.0f} TFLOP/s{share}")


def wanted() -> argparse.Namespace:
    """The options of the command line; without a GPU there is nothing to measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=6.0, help="per measurement")
    parser.add_argument("--methods", type=words, default=list(GOALS))
    parser.add_argument("--parts", type=words, default=["loader", "two", "sizes"])
    parser.add_argument("--profile", action="store_true", help="only the kernels of a step")
    parser.add_argument("--compile", action="store_true", help="measure torch.compile as well")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("torch sees no GPU here; run this on a machine with one")
    return options


def main(options: argparse.Namespace) -> None:
    seconds = options.seconds
    torch.backends.cudnn.benchmark = True
    if options.profile:
        for method in options.methods:
            profile(method)
        return
    card = torch.cuda.get_device_name()
    print(f"{card}, torch {torch.__version__}, batch {BATCH}, {seconds:g} s each", flush=True)
    fast: dict[str, dict[str, float]] = {}
    for method in options.methods:
        fast[method] = {"graph": engine(method, seconds)}
        memory = torch.cuda.max_memory_allocated() / 1e9
        graph = fast[method]["graph"]
        goal = f"goal {GOALS[method]:,}; " if method in GOALS else ""
        print(f"{method:6} graph   {graph:9,.0f} images/s  ({goal}peak {memory:.2f} GB)")
        others = {
            "eager": engine(method, seconds, graph=False),
            "plain": plain(method, resident, seconds),
        }
        if options.compile:
            others["compiled"] = fast[method]["compiled"] = engine(method, seconds, compiled=True)
        for name, speed in others.items():
            print(f"{method:6} {name:8} {speed:8,.0f} images/s  graph is {graph / speed:.2f}x",
                  flush=True)  # fmt: skip
    if "loader" in options.parts:
        loaders(fast, seconds)
    if "two" in options.parts:
        for method in options.methods:
            two_at_once(method, fast[method], seconds)
    if "sizes" in options.parts and "ft" in fast:
        sizes(fast["ft"]["graph"], seconds)


if __name__ == "__main__":
    OPTIONS = wanted()
    IMAGES = images(32)
    PIXELS = torch.from_numpy(IMAGES.splits["train"].pixels[:GROUP]).cuda()
    LABELS = torch.from_numpy(IMAGES.splits["train"].labels[:GROUP]).cuda()
    main(OPTIONS)

"""Microseconds for one image in a service: a head alone, and corrected in every way there is.

    python benchmarks/serve.py [--classes 100] [--width 512]

One thread, features of one image at a time, the lowest median of five rounds. ONNX is left out where
onnxruntime is not installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from transil import Corrector
from transil.interop.export import export

CALLS = 2000


def microseconds(act: Callable[[], object]) -> float:
    """The lowest of five medians."""
    rounds = []
    for _ in range(5):
        times = []
        for _ in range(CALLS):
            start = time.perf_counter()
            act()
            times.append(time.perf_counter() - start)
        rounds.append(1e6 * statistics.median(times))
    return min(rounds)


@torch.inference_mode()
def main() -> None:
    """Print a row for each way."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--width", type=int, default=512)
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # made-up scores, and TorchScript's successor
    random, classes = np.random.default_rng(0), options.classes
    corrector = Corrector([classes // 2, classes - classes // 2], bank="none", prior="uniform")
    corrector.fit(random.normal(size=(4 * classes, classes)).astype(np.float32))
    head = torch.nn.Linear(options.width, classes).requires_grad_(False)
    layer, folded = corrector.layer(), corrector.fold(head)
    feature = torch.randn(1, options.width)
    values, weight, bias = (x.numpy() for x in (feature, folded.weight, folded.bias))
    ways: dict[str, Callable[[], object]] = {
        "head alone, torch": lambda: head(feature),
        "head, then corrector.transform": lambda: corrector.transform(head(feature)),
        "head, then corrector.layer()": lambda: layer(head(feature)),
        "folded head, torch": lambda: folded(feature),
        "folded weights, NumPy": lambda: values @ weight.T + bias,
    }
    with tempfile.TemporaryDirectory() as folder:
        for ending in (".pt", ".onnx"):
            if ending == ".onnx" and importlib.util.find_spec("onnxruntime") is None:
                continue
            path = Path(folder) / f"head{ending}"
            export(corrector.columns_, head, path)
            ways[f"folded head, *{ending}"] = _loaded(path, feature)
        print(
            f"| one image, {options.width} features, {classes} classes | microseconds |\n|---|---|"
        )
        for name, act in ways.items():
            print(f"| {name} | {microseconds(act):.1f} |")


def _loaded(path: Path, feature: torch.Tensor) -> Callable[[], object]:
    if path.suffix == ".pt":
        load: Any = torch.jit.load
        model = load(path)
        return lambda: model(feature)
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session, given = onnxruntime.InferenceSession(path, options), {"features": feature.numpy()}
    return lambda: session.run(None, given)


if __name__ == "__main__":
    main()

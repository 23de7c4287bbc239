"""Avalanche's LwF on half of CIFAR-100, recorded; with --bank also corrected in Avalanche's own loop.

python examples/frameworks/avalanche_lwf.py CIFAR100 a scores/avalanche-a
python examples/frameworks/avalanche_lwf.py CIFAR100 b scores/avalanche-b --bank lwf-all-any
"""

import common
import numpy as np
import torch
from avalanche.benchmarks import benchmark_with_validation_stream, nc_benchmark
from avalanche.evaluation.metrics import accuracy_metrics
from avalanche.models import IncrementalClassifier
from avalanche.training import LwF
from avalanche.training.plugins import EvaluationPlugin

from transil.interop.avalanche import TransilPlugin


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.features, self.classifier = common.Features(), IncrementalClassifier(64)

    def forward(self, images):
        return self.classifier(self.features(images))


def dataset(*parts):
    """A set as torchvision's are, with the labels in `targets`."""
    images, labels = (np.concatenate(both) for both in zip(*parts, strict=True))
    made = torch.utils.data.TensorDataset(common.as_floats(images), torch.as_tensor(labels))
    made.targets = labels.tolist()
    return made


def benchmark_of(data):
    """Streams train, valid and test, of classes in an order that is not that of their labels."""
    order = np.random.default_rng(1).permutation(common.CLASSES).tolist()
    train, test = dataset(data["train"], data["val"]), dataset(data["test"])
    made = nc_benchmark(train, test, common.STATES, task_labels=False, fixed_class_order=order)
    return benchmark_with_validation_stream(made, 0.2, shuffle=True, seed=0)


def main():
    parser = common.arguments(__doc__)
    parser.add_argument("--bank")
    parser.add_argument("--alpha", type=float, default=6.0, help="weight of the distillation")
    args = parser.parse_args()
    torch.manual_seed(0)
    benchmark = benchmark_of(common.half(args.data, args.half))
    model = Network()
    plugin = TransilPlugin(
        args.scores, method="lwf-all", dataset=f"half-{args.half}", bank=args.bank
    )
    strategy = LwF(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9),
        criterion=torch.nn.CrossEntropyLoss(),
        alpha=args.alpha,
        temperature=2.0,
        train_mb_size=32,
        eval_mb_size=256,
        train_epochs=args.epochs,
        evaluator=EvaluationPlugin(accuracy_metrics(stream=True, experience=True)),
        plugins=[plugin],
    )
    for state, experience in enumerate(benchmark.streams["train"], start=1):
        strategy.train(experience, eval_streams=[])
        for stream in ("valid", "test"):
            found = strategy.eval(benchmark.streams[stream][:state])
            name = f"Top1_Acc_Stream/eval_phase/{stream}_stream"
            said = next(100 * found[key] for key in found if key.startswith(name))
            print(f"state {state}, {stream}: Avalanche says {said:.2f} %", flush=True)


if __name__ == "__main__":
    main()

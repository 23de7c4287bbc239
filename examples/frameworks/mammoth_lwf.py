"""Mammoth's LwF on half of CIFAR-100, recorded. PYTHONPATH must have a copy of Mammoth.

PYTHONPATH=mammoth python examples/frameworks/mammoth_lwf.py CIFAR100 a scores/mammoth-a
"""

import sys
import tempfile
from unittest import mock

sys.modules["open_clip"] = (
    mock.MagicMock()
)  # another of its sets fetches weights when it is imported

import common
import numpy as np
import torch
from backbone import MammothBackbone, register_backbone
from datasets import seq_cifar100
from PIL import Image

from transil.interop.mammoth import record

import main as mammoth  # isort: skip


class Half:
    """Images as Mammoth's own sets give them."""

    def __init__(self, images, labels, transform, train):
        self.data, self.targets, self.transform, self.train = images, labels, transform, train

    def __len__(self):
        return len(self.data)

    def __getitem__(self, row):
        image, label = self.transform(Image.fromarray(self.data[row])), self.targets[row]
        # The third is what LwF's teacher sees: here what the student does, since nothing is augmented.
        return (image, label, image) if self.train else (image, label)


@register_backbone("small")
class Network(MammothBackbone):
    def __init__(self, num_classes: int = common.CLASSES):
        super().__init__()
        self.body, self.classifier = common.Features(), torch.nn.Linear(64, num_classes)

    def forward(self, images, returnt="out"):
        features = self.body(images)
        return features if returnt == "features" else self.classifier(features)


def main():
    args = common.arguments(__doc__).parse_args()
    data, whole = common.half(args.data, args.half), seq_cifar100.SequentialCIFAR100
    reference = args.half == "a"
    train = [np.concatenate(both) for both in zip(data["train"], data["val"], strict=True)]
    seq_cifar100.MyCIFAR100 = lambda *_, transform, **more: Half(*train, transform, True)
    seq_cifar100.TCIFAR100 = lambda *_, transform, **more: Half(*data["test"], transform, False)
    whole.N_CLASSES_PER_TASK, whole.N_TASKS, whole.N_CLASSES = 10, common.STATES, common.CLASSES
    to_tensor, normal = seq_cifar100.transforms.ToTensor(), whole.get_normalization_transform()
    whole.TRANSFORM = seq_cifar100.transforms.Compose([to_tensor, normal])
    words = ["--model=lwf", "--dataset=seq-cifar100", "--backbone=small", "--lr=0.03", "--seed=0"]
    words += ["--optim_mom=0.9", f"--n_epochs={args.epochs}", "--batch_size=32", "--alpha=4"]
    words += ["--num_workers=0", "--permute_classes=1", "--non_verbose=1"]
    words += [f"--base_path={tempfile.mkdtemp()}/", *["--validation=20"] * reference]
    sys.argv[1:] = words
    torch.set_num_threads(1)  # Mammoth takes two, which on a busy machine wait for each other
    model, dataset, settings = mammoth.initialize()

    def end_eval(dataset, accuracies):  # a hook of Mammoth's models
        record(args.scores, model, dataset, method="lwf-all", name=f"half-{args.half}")
        print(f"state {len(accuracies[0])}: Mammoth says", *(f"{a:.2f} %" for a in accuracies[0]))

    model.end_eval = end_eval
    from utils.training import train as run

    run(model, dataset, settings)


if __name__ == "__main__":
    main()

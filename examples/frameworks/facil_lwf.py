"""FACIL's LwF on half of CIFAR-100, recorded. PYTHONPATH must have the folder `src` of a copy of FACIL.

PYTHONPATH=FACIL/src python examples/frameworks/facil_lwf.py CIFAR100 a scores/facil-a
"""

import common
import torch
from approach.lwf import Appr
from datasets.exemplars_dataset import ExemplarsDataset
from datasets.memory_dataset import MemoryDataset
from loggers.exp_logger import MultiLogger
from networks.network import LLL_Net
from torch.utils.data import DataLoader
from torchvision import transforms

from transil.interop.facil import record


class Network(common.Features):
    """As FACIL's networks are."""

    head_var = "fc"

    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(64, 1)

    def forward(self, images):
        return self.fc(super().forward(images))


def loaders(images, labels):
    """One loader for each task."""
    transform = transforms.Compose(
        [transforms.ToTensor(), transforms.Normalize([0.5] * 3, [0.5] * 3)]
    )
    size = common.CLASSES // common.STATES
    for task in range(common.STATES):
        rows = labels // size == task
        data = MemoryDataset({"x": images[rows], "y": labels[rows].tolist()}, transform)
        yield DataLoader(data, batch_size=32, shuffle=True)


def main():
    args = common.arguments(__doc__).parse_args()
    torch.manual_seed(0)
    data = common.half(args.data, args.half)
    trn_loader, val_loader, tst_loader = (
        list(loaders(*data[split])) for split in ("train", "val", "test")
    )
    net = LLL_Net(Network(), remove_existing_head=True)
    appr = Appr(
        net,
        "cpu",
        nepochs=args.epochs,
        lr=0.03,
        momentum=0.9,
        logger=MultiLogger(args.scores, "log", []),
        exemplars_dataset=ExemplarsDataset(None, None),
        lamb=2,
    )
    for t in range(common.STATES):
        net.add_head(common.CLASSES // common.STATES)
        appr.train(t, trn_loader[t], val_loader[t])
        record(args.scores, appr, tst_loader, val=val_loader, method="lwf-t", dataset=args.half)
        found = [100 * appr.eval(u, tst_loader[u])[2] for u in range(t + 1)]
        print(f"state {t + 1}, test: FACIL says", *(f"{one:.1f} %" for one in found), flush=True)


if __name__ == "__main__":
    main()

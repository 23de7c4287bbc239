"""PyCIL's LwF on half of CIFAR-100, recorded. PYTHONPATH must have a copy of PyCIL.

PYTHONPATH=PyCIL python examples/frameworks/pycil_lwf.py CIFAR100 a scores/pycil-a
"""

import common
import numpy as np
import torch
from models import lwf
from torch.utils.data import DataLoader
from torchvision import transforms
from utils import data_manager as managers
from utils import inc_net

from transil.interop.pycil import record


class Half:
    """Images as PyCIL's own sets give them."""

    use_path, train_trsf, test_trsf = False, [], []
    common_trsf = [transforms.ToTensor(), transforms.Normalize([0.5] * 3, [0.5] * 3)]
    class_order = np.random.default_rng(1).permutation(common.CLASSES).tolist()

    def __init__(self, data):
        self.train_data, self.train_targets = data["train"]
        self.test_data, self.test_targets = data["test"]

    def download_data(self):
        pass


class Network(common.Features):
    """As PyCIL's networks are."""

    out_dim = 64

    def forward(self, images):
        return {"features": super().forward(images)}


def main():
    args = common.arguments(__doc__).parse_args()
    torch.manual_seed(0)
    data = common.half(args.data, args.half)
    managers._get_idata = lambda name: Half(data)
    inc_net.get_convnet = lambda *words: Network()
    lwf.init_epoch = lwf.epochs = args.epochs
    lwf.init_lr = lwf.lrate = 0.03
    lwf.milestones = lwf.init_milestones = []
    lwf.batch_size, lwf.num_workers = 32, 0
    size = common.CLASSES // common.STATES
    manager = managers.DataManager("half", False, 0, size, size)
    model = lwf.LwF({"memory_size": 0, "device": [torch.device("cpu")], "convnet_type": "ours"})
    images, labels = data["val"]
    learned = np.argsort(Half.class_order)[labels]
    for state in range(1, common.STATES + 1):
        model.incremental_train(manager)
        seen = learned < size * state
        val = managers.DummyDataset(
            images[seen], learned[seen], transforms.Compose(Half.common_trsf)
        )
        record(
            args.scores,
            model,
            manager,
            val=DataLoader(val, batch_size=256),
            method="lwf-t",
            dataset=f"half-{args.half}",
        )
        print(f"state {state}, test: PyCIL says {model.eval_task()[0]['top1']:.2f} %", flush=True)
        model.after_task()


if __name__ == "__main__":
    main()

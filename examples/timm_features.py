"""A model of your own, with a body of timm: train, record its scores, correct them, fold it all in.

python examples/timm_features.py out --body resnet18

Without timm a small convolutional network stands in, with the same interface. The images are drawn
from formulas; the training loop is plain PyTorch and keeps no old image.
"""

import argparse
import copy
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn

import transil
from transil.data import open_images

SIZES = [16, 8, 8, 8]  # classes learned in each update
IMAGES = "formula:strokes?classes=40&train=60&test=20&size=16"


class Features(nn.Sequential):
    """What `timm.create_model(..., num_classes=0)` gives: images to features, and their width."""

    num_features = 64

    def __init__(self):
        layers = []
        for old, new, step in [(3, 16, 1), (16, 32, 2), (32, 64, 2)]:
            layers += [nn.Conv2d(old, new, 3, step, 1), nn.BatchNorm2d(new), nn.ReLU()]
        super().__init__(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())


def features(body):
    try:
        import timm
    except ImportError:
        print("timm is not installed: a small network stands in")
        return Features()
    return timm.create_model(body, pretrained=False, num_classes=0)  # with True it fetches weights


def as_floats(pixels):
    return torch.from_numpy(np.array(pixels)).permute(0, 3, 1, 2).float().div(127.5).sub(1)


class Model(nn.Module):
    def __init__(self, body):
        super().__init__()
        self.body, self.head = body, None  # the head comes with the first classes

    def grow(self, classes):
        """Rows for new classes behind those that are there."""
        old, self.head = self.head, nn.Linear(self.body.num_features, classes)
        if old is None:
            return
        with torch.no_grad():
            self.head.weight[: old.out_features] = old.weight
            self.head.bias[: old.out_features] = old.bias

    def forward(self, images):
        return self.head(self.body(images))


def learn(model, images, labels, old, epochs):
    """Learning without forgetting: cross-entropy over all classes seen, and distillation."""
    teacher = copy.deepcopy(model).eval()
    model.grow(int(labels.max()) + 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02 if old else 0.1, momentum=0.9)
    model.train()
    for _ in range(epochs):
        for rows in torch.randperm(len(images)).split(32):
            scores = model(images[rows])
            loss = nn.functional.cross_entropy(scores, labels[rows])
            if old:
                with torch.no_grad():
                    wanted = (teacher(images[rows]) / 2).softmax(1)
                loss += 6 * nn.functional.cross_entropy(scores[:, :old] / 2, wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


@torch.no_grad()
def scores_of(model, images):
    model.eval()
    return torch.cat([model(part) for part in images.split(256)])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path, help="a new folder")
    parser.add_argument("--body", default="resnet18", help="a name of timm's")
    parser.add_argument("--epochs", type=int, default=8)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    data = open_images(IMAGES).splits
    sets = {s: (as_floats(data[s].pixels), torch.tensor(data[s].labels)) for s in data}
    recorder = transil.ScoreRecorder(args.output / "scores", SIZES, method="lwf-all")
    model, seen = Model(features(args.body)), 0
    for size in SIZES:
        images, labels = sets["train"]
        new = (labels >= seen) & (labels < seen + size)
        learn(model, images[new], labels[new], seen, args.epochs)
        seen += size
        images, labels = sets["test"]
        known = labels < seen
        recorder.add("test", scores_of(model, images[known]), labels[known])
        recorder.next_state()

    images, labels = sets["test"]
    traffic, judged = images[::2], slice(1, None, 2)  # unlabelled, and for the comparison below
    corrector = transil.Corrector(SIZES, method="lwf-all").fit(scores_of(model, traffic))
    before = scores_of(model, images[judged])
    after = corrector.transform(before)
    for name, scores in (("raw", before), ("corrected", after)):
        right = scores.argmax(1) == labels[judged]
        newest = (scores.argmax(1) >= sum(SIZES[:-1])).float().mean()
        print(f"{name}: accuracy {right.float().mean():.1%}, predicted as newest {newest:.1%}")
    if corrector.abstained_:
        print(corrector.abstained_)

    model.head = corrector.fold(model.head)  # the correction is in the model from here on
    difference = (scores_of(model, images[judged]) - after).abs().max()
    print(f"folded head: largest difference {difference:.1e}")
    save_file(model.state_dict(), args.output / "model.safetensors")


if __name__ == "__main__":
    main()

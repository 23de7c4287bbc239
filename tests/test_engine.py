"""The engine's parts: rates, recipes, settings, the feed of batches, what is kept of the past."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from transil import evaluate
from transil._common.settings import flatten, read_overrides
from transil._common.yaml_files import read_yaml
from transil.data import ClassStream, Images, ImageSplit, Statistics
from transil.data.augment import AsStored, PadCropFlip
from transil.data.device import DeviceImages, useful_batch
from transil.engine import RunConfig, load_recipe, recipe_names, resolve, train
from transil.engine.config import TrainConfig
from transil.engine.rates import base_rate, drop_epochs, learning_rate, plateau_drops
from transil.engine.recipes import default_recipe
from transil.engine.setup import completed, find_device, make_stream
from transil.errors import LeakError, TransilError
from transil.methods import METHODS, get_method

# -- learning rates ----------------------------------------------------------------------------


def torch_rates(make: Any, epochs: int, losses: list[float] | None = None) -> list[float]:
    """What torch's scheduler does, epoch by epoch."""
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.4)
    scheduler = make(optimiser)
    rates = []
    for epoch in range(epochs):
        rates.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        scheduler.step(*([losses[epoch]] if losses is not None else []))
    return rates


def our_rates(epochs: int, losses: list[float] | None = None, **settings: Any) -> list[float]:
    config = TrainConfig(lr=0.4, epochs=epochs, **settings)
    return [learning_rate(config, 1, e, losses or []) for e in range(1, epochs + 1)]


@given(st.integers(2, 40), st.sets(st.integers(1, 39), max_size=4))
def test_milestones_are_those_of_torch(epochs: int, drops: set[int]) -> None:
    inside = tuple(float(d) for d in sorted(drops) if d < epochs)
    expected = torch_rates(
        lambda o: torch.optim.lr_scheduler.MultiStepLR(o, [int(d) for d in inside], 0.2), epochs
    )
    found = our_rates(epochs, schedule="milestones", drops=inside, factor=0.2)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@given(st.integers(1, 60))
def test_cosine_is_that_of_torch(epochs: int) -> None:
    expected = torch_rates(lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, epochs), epochs)
    np.testing.assert_allclose(our_rates(epochs, schedule="cosine"), expected, rtol=1e-6, atol=1e-9)


@given(st.lists(st.floats(0.1, 3.0), min_size=1, max_size=50), st.integers(0, 6))
def test_plateau_is_that_of_torch(losses: list[float], patience: int) -> None:
    expected = torch_rates(
        lambda o: torch.optim.lr_scheduler.ReduceLROnPlateau(
            o, factor=0.1, patience=patience, eps=0.0
        ),
        len(losses),
        losses,
    )
    found = our_rates(len(losses), losses, schedule="plateau", patience=patience)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@given(st.integers(1, 9), st.integers(36, 60))
def test_warmup_is_the_linear_one_of_torch(warmup: int, epochs: int) -> None:
    expected = torch_rates(
        lambda o: torch.optim.lr_scheduler.LinearLR(o, 1 / (warmup + 1), total_iters=warmup), epochs
    )
    np.testing.assert_allclose(our_rates(epochs, warmup=warmup), expected, rtol=1e-9)
    np.testing.assert_allclose(
        our_rates(epochs, warmup=epochs), our_rates(epochs, warmup=epochs // 4)
    )


def test_a_factor_above_one_does_not_overflow() -> None:
    growing = TrainConfig(lr=1.0, epochs=4, schedule="milestones", drops=(1, 2), factor=1e30)
    assert [learning_rate(growing, 1, epoch, []) for epoch in (1, 2, 3)] == [1.0, 1e30, 1e30]
    plateau = TrainConfig(schedule="plateau", patience=0, factor=1e30)
    assert learning_rate(plateau, 1, 50, [1.0] * 49) == 1e30


def test_rates_of_later_states() -> None:
    train_config = TrainConfig(
        lr=0.1, epochs=4, first_epochs=10, later_lr="by-state", schedule="plateau",
        patience=1, first_patience=5,
    )  # fmt: skip
    flat = [1.0] * 4
    assert learning_rate(train_config, 5, 1, []) == pytest.approx(0.02)
    assert learning_rate(train_config, 1, 5, flat) == pytest.approx(0.1)
    assert learning_rate(train_config, 2, 4, flat) == pytest.approx(0.005)
    assert plateau_drops([], 0) == 0
    assert drop_epochs(TrainConfig(drops=(0.5, 30.0)), 80) == [40, 30]


# -- recipes and settings ----------------------------------------------------------------------


def test_every_method_has_the_three_recipes() -> None:
    for name in ("ft", "ft+", "siw", "lwf", "lwf-t", "lwf-all", "lucir", "joint"):
        known = METHODS.find(name).trained_as()
        for kind in ("224", "32", "tiny"):
            config = resolve(method=name, recipe=f"{known}-{kind}")
            assert config.method == name
        assert default_recipe(name, 32) == f"{known}-32"
        assert default_recipe(name, 256) == f"{known}-224"


@pytest.mark.parametrize(
    ("recipe", "key", "value"),
    [
        ("lwf-224", "train.lr", 1.0),
        ("lwf-224", "train.epochs", 70),
        ("lwf-224", "train.factor", 0.2),
        ("lucir-224", "train.epochs", 160),
        ("lucir-224", "train.weight_decay", 5e-4),
        ("lucir-224", "settings.less_forget", 5.0),
        ("ft-224", "train.first_epochs", 300),
        ("ft-224", "train.epochs", 70),
        ("ft-224", "train.first_patience", 60),
        ("ft-224", "train.patience", 15),
        ("ft-224", "train.later_lr", "same"),
    ],
)
def test_the_papers_hyper_parameters(recipe: str, key: str, value: Any) -> None:
    """Of its Sec. 5 and supplement."""
    assert flatten(resolve(recipe=recipe).to_dict())[key] == value


def test_drops_as_shares_follow_the_epochs() -> None:
    assert drop_epochs(resolve(recipe="lwf-224").train, 70) == [20, 30, 40, 50]
    assert drop_epochs(resolve(recipe="lwf-32").train, 70) == [30, 45, 55, 65]
    for kind in ("32", "224"):
        assert drop_epochs(resolve(recipe=f"lucir-{kind}").train, 160) == [80, 120]


@pytest.mark.parametrize("epochs", [1, 2, 3])
def test_few_epochs_begin_at_the_full_rate(epochs: int) -> None:
    for name in recipe_names():
        config = resolve(recipe=name, overrides=[{"train": {"epochs": epochs}}])
        assert learning_rate(config.train, 2, 1, []) == base_rate(config.train, 2)


def test_settings_survive_being_written_down() -> None:
    for name in recipe_names():
        config = resolve(recipe=name)
        assert RunConfig.from_dict(config.to_dict()) == config


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train.epoch=4"], "unknown key 'train.epoch'; did you mean 'train.epochs'?"),
        (["epochs=4"], "unknown key 'epochs'"),
        (["train.epochs=many"], "train.epochs is 'many', but must be a whole number"),
        (["train.epochs=1.5"], "train.epochs is 1.5"),
        (["train.epochs=0"], "train.epochs is 0; it must be above 0"),
        (["train.lr=-1"], "train.lr is -1"),
        (["train.schedule=milestone"], "did you mean 'milestones'?"),
        (["train=4"], "train is a group of settings, not 4"),
        (["train.epochs.x=4"], "train.epochs is {'x': 4}"),
        (["train.epochs"], "settings are written as train.epochs=5"),
        (["settings.temperatur=1"], "did you mean 'temperature'?"),
        (["settings.temperature=hot"], "settings.temperature is 'hot'"),
        (["train.schedule=milestones", "train.drops=[90]"], "90 is not within the 40 epochs"),
        (["train.schedule=milestones", "train.drops=[2.5]"], "2.5 is not within the 40 epochs"),
        (["train.lr=.nan"], "train.lr is nan; it must be a finite number"),
        (["train.pad=-1"], "train.pad is -1; it must be 0 or more"),
        (["train.batch_size=1"], "it must be at least 2"),
        (["settings.temperature=0"], "settings.temperature is 0.0; it must be above 0"),
        (["seed=2020-13-45"], "cannot be read"),
        (["settings={[1,2]: 3}"], "a key must be a plain name"),
        (["engine.image_gigabytes=-1"], "image_gigabytes is below 0"),
        (["method=lucir"], "is for method 'lwf-t', not for 'lucir'"),
        (["seed=-1"], "seed is -1"),
        (["seed=99999999999999999999"], "seed is 99999999999999999999; it must be 0 or more, and"),
        (["train.momentum=5"], "train.momentum is 5.0; it must be below 1"),
        (["train.pad=100000"], "train.pad is 100000; it must be at most 1024 pixels"),
        (["engine.threads=100000"], "engine.threads is 100000; 1 to 1024"),
        (["engine.checkpoint_minutes=-1"], "engine.checkpoint_minutes is below 0"),
        (["settings.weight=-5"], "settings.weight is -5.0; it must be 0 or more"),
        (["engine.graph=maybe"], "engine.graph is 'maybe', but must be true or false"),
        (["data.order=[1,x]"], "data.order"),
        (["engine.threads=0"], "engine.threads is 0"),
        (["train.lr=1e39"], "train.lr is too large; it must be at most 1e+30"),
        (["train.lr=1" + 400 * "0"], "train.lr is inf; it must be a finite number"),
        (["train.epochs=1" + 400 * "0"], "train.epochs is too large; it must be at most 1e+09"),
        (["train.eval_resize=10001"], "train.eval_resize is too large; it must be at most 10000"),
        (["engine.image_gigabytes=1e300"], "engine.image_gigabytes is too large"),
        (["engine.checkpoint_minutes=1e300"], "engine.checkpoint_minutes is too large"),
    ],
)
def test_a_wrong_setting_is_told(words: list[str], message: str) -> None:
    with pytest.raises(TransilError) as error:
        resolve(recipe="lwf-t-32", overrides=[read_overrides(words)])
    assert message in str(error.value)


def test_numbers_are_read_as_people_write_them() -> None:
    over = read_overrides(["train.lr=1e-3", "train.weight_decay=0", "data.order=[2,0,1]"])
    config = resolve(recipe="ft-32", overrides=[over])
    assert (config.train.lr, config.train.weight_decay) == (1e-3, 0.0)
    assert config.data.order == (2, 0, 1)


def test_recipes_are_read_strictly(tmp_path: Path) -> None:
    with pytest.raises(TransilError, match="line 3: key 'lr' stands twice"):
        read_yaml("train:\n  lr: 1\n  lr: 2\n", "mine.yaml")
    with pytest.raises(TransilError, match="mine.yaml, line 2: not YAML"):
        read_yaml("train: [\n}", "mine.yaml")
    with pytest.raises(TransilError, match="did you mean 'lwf-32'"):
        load_recipe("lwf-33")
    (tmp_path / "own.yaml").write_text("- 1\n")
    with pytest.raises(TransilError, match="holds no settings"):
        load_recipe(str(tmp_path / "own.yaml"))
    with pytest.raises(TransilError, match="cannot read"):
        load_recipe(str(tmp_path / "none.yaml"))
    with pytest.raises(TransilError, match="is for method 'lwf', not for 'lucir'"):
        resolve(method="lucir", recipe="lwf-32")


# -- batches -----------------------------------------------------------------------------------

PLAIN = Statistics((0.0,) * 3, (1.0,) * 3)


def numbered(count: int, size: int = 6) -> ClassStream:
    """Images whose pixels say which one they are; two states of two classes."""
    pixels = np.empty((count, size, size, 3), np.uint8)
    pixels[:] = np.arange(count)[:, None, None, None]
    split = ImageSplit(pixels, np.arange(count) % 4)
    images = Images("numbered", tuple("abcd"), {"train": split}, "x")
    return ClassStream(images, 2, order="label")


def feed_of(stream: ClassStream, **options: Any) -> DeviceImages:
    settings: dict[str, Any] = {"batch_size": 8, "capacity": 30, **options}
    return DeviceImages(stream.enter(1).train, PLAIN, **settings)


def drain(
    feed: DeviceImages, epoch: int = 1, start: int = 0
) -> list[tuple[list[int], list[int], list[float]]]:
    feed.begin(AsStored(), (1, epoch), start)
    batches = []
    for _ in range(start, len(feed)):
        feed.refill()
        images, labels, share = feed.take()
        which = (images[:, 0, 0, 0] * 255).round().int().tolist()
        batches.append((which, labels.tolist(), share.tolist()))
    return batches


@pytest.mark.parametrize("budget", [None, 0])
def test_an_epoch_shows_every_image_once(budget: int | None) -> None:
    feed = feed_of(numbered(40), budget=budget)
    assert feed.resident == (budget is None)
    batches = drain(feed)
    assert [len(which) for which, _, _ in batches] == [8, 8, 8]  # 20 images, 4 filled up
    shown = [i for which, _, share in batches for i, s in zip(which, share, strict=True) if s]
    assert sorted(shown) == [i for i in range(40) if i % 4 < 2]
    for which, labels, share in batches:
        assert labels == [i % 4 for i in which]
        assert sum(share) == pytest.approx(1.0)
    assert drain(feed) == batches
    assert drain(feed, 2) != batches


def test_two_processes_share_every_batch() -> None:
    whole = drain(feed_of(numbered(40)))
    parts = [drain(feed_of(numbered(40), share=(rank, 2))) for rank in range(2)]
    for batch, first, second in zip(whole, *parts, strict=True):
        for one, a, b in zip(batch, first, second, strict=True):
            assert one == a + b


@pytest.mark.parametrize(("world", "rows"), [(1, 30), (4, 32)])
def test_a_batch_is_no_larger_than_the_largest_state(world: int, rows: int) -> None:
    size = useful_batch(4096, 30, world)
    feeds = [feed_of(numbered(40), batch_size=size, share=(rank, world)) for rank in range(world)]
    batches = [drain(feed) for feed in feeds]
    assert all(len(part) == 1 for part in batches)
    assert sum(len(part[0][0]) for part in batches) == rows  # room for 30, in equal shares
    counted = [s for part in batches for s in part[0][2] if s]
    assert counted == pytest.approx([1 / 20] * 20)


@pytest.mark.parametrize("options", [{}, {"budget": 0}, {"budget": 0, "share": (1, 2)}])
def test_an_epoch_can_be_begun_in_its_middle(options: dict[str, Any]) -> None:
    feed = feed_of(numbered(40), **options)
    whole = drain(feed, 3)
    assert len(whole) == 3
    for start in (2, 1, 0):
        assert drain(feed, 3, start) == whole[start:]


def test_a_feed_does_not_outlive_its_state() -> None:
    stream = numbered(40)
    feed = feed_of(stream)
    stream.enter(2)
    with pytest.raises(LeakError):
        feed.begin(AsStored(), (1, 1))


def test_augmentation_is_part_of_the_draw() -> None:
    feeds = [feed_of(numbered(40), seed=seed) for seed in (0, 0, 1)]
    images = []
    for feed in feeds:
        feed.begin(PadCropFlip(2), (1, 1))
        images.append(feed.take()[0])
    assert torch.equal(images[0], images[1])
    assert not torch.equal(images[0], images[2])


# -- from settings to a stream -----------------------------------------------------------------


def complete(data: dict[str, Any], method: str = "ft") -> RunConfig:
    split = ImageSplit(np.zeros((12, 16, 16, 3), np.uint8), np.arange(12) % 6)
    images = Images("x", tuple("abcdef"), {"train": split, "test": split}, "x")
    config = resolve(recipe=f"{method}-tiny", overrides=[{"data": data}])
    made = get_method(config.method, config.settings)
    config = completed(config, made, images, torch.device("cpu"))
    stream = make_stream(config, images)
    assert completed(config, made, images, torch.device("cpu")) == config
    assert list(stream.order) == list(config.data.order or ())[: len(stream.order)] or isinstance(
        config.data.order, str
    )
    groups = [stream.class_names[stream.schedule.group_columns(k)]
              for k in range(1, len(stream) + 1)]  # fmt: skip
    return replace(config, data=replace(config.data, path="|".join("".join(g) for g in groups)))


def test_the_order_of_classes_is_what_was_asked_for() -> None:
    """The groups of classes are in `path` here."""
    assert complete({"states": 2, "order": "label"}).data.path == "abc|def"
    assert complete({"sizes": [1, 2, 3], "order": "label"}).data.path == "a|bc|def"
    assert complete({"sizes": [4, 1], "order": [5, 4, 3, 2, 1, 0]}).data.path == "fedc|b"
    assert complete({"schedule": [[0, 1, 2], [3, 4, 5]]}).data.path == "abc|def"
    assert complete({"schedule": [[5, 1], [3]]}).data.path == "fb|d"
    seeded = complete({"states": 2})
    assert seeded.data.order == "seed:0"
    assert seeded.data.path == complete({"states": 2, "order": "seed:0"}).data.path
    assert complete({"sizes": [1, 2, 3], "order": "label"}, "joint").data.path == "abcdef"
    assert len(complete({}, "joint").data.path) == 6
    with pytest.raises(TransilError, match="data.order is one too many"):
        complete({"schedule": [[5, 1], [3]], "order": "label"})
    with pytest.raises(TransilError, match="give the number of states"):
        complete({})


def test_a_resolved_config_leaves_nothing_open() -> None:
    config = complete({"states": 2}, "lucir")
    assert config.settings == {"less_forget": 5.0}
    assert config.net.last_relu is False
    assert (config.train.precision, config.data.size) == ("float32", 16)
    assert config.data.val_fraction == 0.1


def test_a_device_must_be_there() -> None:
    for name in ("meta", "mps", "tpu9"):
        with pytest.raises(TransilError, match="write auto, cpu, cuda"):
            find_device(name)
    with pytest.raises(TransilError, match=r"torch finds \d+ GPU"):
        find_device("cuda:99")


# -- what is learned ---------------------------------------------------------------------------


def test_lwf_and_lucir_keep_more_of_the_past_than_ft(tmp_path: Path) -> None:
    past, mean = {}, {}
    for name in ("ft", "lwf", "lucir"):
        data = {"path": "formula:strokes?classes=10&train=60&test=30&size=20", "states": 5}
        config = resolve(recipe=f"{name}-tiny", overrides=[{"data": data, "train": {"epochs": 15}}])
        metrics = evaluate(train(config, tmp_path / name).path)
        past[name] = float(np.mean(metrics.accuracy_matrix[-1][:-1]))
        mean[name] = metrics.average_incremental_accuracy
        assert metrics.states[0].accuracy > 0.7
    for name in ("lwf", "lucir"):
        assert past[name] > past["ft"] + 0.1
        assert mean[name] > mean["ft"] + 0.03


def test_plateau_on_the_last_batch_is_another_rule(tmp_path: Path) -> None:
    """The released code's rule; its losses are kept, so that a resumed run drops where it would."""
    data = {"path": "formula:strokes?classes=4&train=20&test=5&size=16", "states": 2}
    over = {"schedule": "plateau", "patience": 0, "epochs": 12, "lr": 0.05}
    rates = {}
    for rule in ("epoch", "last-batch"):
        config = resolve(
            recipe="ft-tiny", overrides=[{"data": data, "train": {**over, "plateau_on": rule}}]
        )
        run = train(config, tmp_path / rule)
        rates[rule] = [line["lr"] for line in run.lines()]
        assert all(math.isfinite(line["loss"]) for line in run.lines())
        assert rates[rule][0] == 0.05
        assert min(rates[rule]) < 0.05
    assert rates["epoch"] != rates["last-batch"]

"""What a run is, in full: frozen settings that are written beside its results.

Settings come from a recipe and from dotted overrides (`train.epochs=5`); every key is checked.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from transil._common.settings import plain
from transil._common.typed import build
from transil.data.statistics import Statistics
from transil.errors import DataWarning, TransilError


@dataclass(frozen=True)
class DataConfig:
    """Which images, in which order (see `ClassStream`).

    Groups of classes: `states` equal ones, groups of `sizes`, or a `schedule`, lists of labels. The
    first two take classes in `order`: 'seed:0' (the default), 'label', a list, ...
    Without `val_per_class` and `val_fraction` a data set's own validation images are used, or a
    tenth of the training images where it has none (the paper's 450 of 500).
    """

    path: str = ""
    size: int | None = None
    rule: str = "crop"
    root: str | None = None
    states: int | None = None
    sizes: tuple[int, ...] | None = None
    schedule: tuple[tuple[int, ...], ...] | None = None
    order: str | tuple[int, ...] | None = None
    role: Literal["target", "reference"] = "target"
    val_per_class: int | None = None
    val_fraction: float | None = None
    val_from: str = "first"
    train_fraction: float = 1.0
    fraction_seed: int = 0


@dataclass(frozen=True)
class NetConfig:
    """The network; `last_relu` null means: as the method wants it.

    `body`: one of transil's, 'timm:NAME', or 'MODULE:FUNCTION' of a module named by --import.
    `weights`: a file of weights for it; their `weights_digest` is filled in. A `frozen` body does not
    learn. `colours`: what images are normalised by; null: as the body wants, else as the data are.
    """

    body: str = "resnet18-32"
    last_relu: bool | None = None
    weights: str | None = None
    weights_digest: str | None = None
    frozen: bool = False
    colours: Statistics | None = None


MOST_PAD, MOST_THREADS = 1024, 1024
# Numbers above these are mistakes; those of float32 end at 3e38.
MOST_RATE, MOST_COUNT, MOST_PIXELS = 1e30, 10**9, 10_000


def check_most(what: str, value: float | None, most: float) -> None:
    """An error where a number is larger than any that makes sense."""
    if value is not None and value > most:
        raise TransilError(f"{what} is too large; it must be at most {most:g}")


@dataclass(frozen=True)
class TrainConfig:
    """How each state is trained: SGD with momentum. `first_...` is for state 1 where it differs.

    `later_lr`: 'same' in all states, or 'by-state', lr / s (what the released FT code does).
    `warmup`: epochs before the full rate is reached, in equal steps, in each state; at most a
    quarter of its epochs.
    `body_lr`: another learning rate for the body (null: the same), which follows the same schedule.
    `drops`: epochs after which lr is multiplied by `factor`, or shares of the epochs (below 1).
    `plateau_on`: the loss that 'plateau' watches, the mean of an 'epoch' or its 'last-batch'.
    `augment_val`: validation scores of augmented images, as the released LUCIR code makes them.
    """

    epochs: int = 1
    first_epochs: int | None = None
    batch_size: int = 128
    lr: float = 0.1
    body_lr: float | None = None
    later_lr: Literal["same", "by-state"] = "same"
    warmup: int = 0
    momentum: float = 0.9
    weight_decay: float = 0.0
    decay_biases: bool = True
    schedule: Literal["constant", "milestones", "plateau", "cosine"] = "constant"
    drops: tuple[float, ...] = ()
    factor: float = 0.1
    patience: int = 10
    first_patience: int | None = None
    plateau_on: Literal["epoch", "last-batch"] = "epoch"
    augment: Literal["none", "crop", "crop-flip", "resized-crop-flip"] = "crop-flip"
    pad: int = 4
    size: int | None = None
    eval_resize: int | None = None
    augment_val: bool = False
    precision: Literal["auto", "float32", "bfloat16"] = "auto"

    def epochs_of(self, state: int) -> int:
        """The number of epochs of a state."""
        return self.epochs if state > 1 or self.first_epochs is None else self.first_epochs

    def total_epochs(self, states: int) -> int:
        """The epochs of all states together."""
        return sum(self.epochs_of(state) for state in range(1, states + 1))

    def check(self) -> None:
        """An error where a value makes no sense."""
        for name in ("epochs", "lr", "factor"):
            if getattr(self, name) <= 0:
                raise TransilError(f"train.{name} is {getattr(self, name)}; it must be above 0")
        for name in ("body_lr", "momentum", "weight_decay", "pad", "patience", "warmup"):
            if (getattr(self, name) or 0) < 0:
                raise TransilError(f"train.{name} is {getattr(self, name)}; it must be 0 or more")
        if self.momentum >= 1:
            raise TransilError(f"train.momentum is {self.momentum}; it must be below 1")
        if self.pad > MOST_PAD:
            raise TransilError(f"train.pad is {self.pad}; it must be at most {MOST_PAD} pixels")
        if self.batch_size < 2:  # statistics of a batch need two
            raise TransilError(f"train.batch_size is {self.batch_size}; it must be at least 2")
        for name in ("first_epochs", "first_patience", "size", "eval_resize"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise TransilError(f"train.{name} is {value}; it must be at least 1")
        for most, names in {
            MOST_RATE: ("lr", "body_lr", "weight_decay", "factor"),
            MOST_COUNT: ("epochs", "first_epochs", "batch_size", "warmup", "patience"),
            MOST_PIXELS: ("size", "eval_resize"),
        }.items():
            for name in names:
                check_most(f"train.{name}", getattr(self, name), most)
        least = min(self.epochs, self.first_epochs or self.epochs)
        if self.schedule == "milestones":
            for drop in self.drops:
                if not 0 < drop < least or (drop > 1 and drop != int(drop)):
                    raise TransilError(
                        f"train.drops: {drop:g} is not within the {least} epochs; "
                        "give epochs, or shares of them below 1"
                    )


@dataclass(frozen=True)
class SeedConfig:
    """Seeds of what is drawn; null means: the run's `seed`. The class order has its own, in `data`."""

    init: int | None = None
    batches: int | None = None


@dataclass(frozen=True)
class EngineConfig:
    """How the work is done; nothing here changes what is learned beyond rounding.

    `graph`: capture each training step in a CUDA graph. `compile`: let torch.compile fuse kernels;
    takes a minute before the first step.
    `image_gigabytes`: how much of a device's memory images may take (null: half of what is free);
    larger sets are streamed. `threads`: of the CPU (null: as torch has it); with one, small networks
    are fast even on a busy machine. `log`: where the numbers of each epoch go besides log.jsonl, as
    `transil.interop.loggers` has them. `allow_pickle`: weights may be a file of torch's as well.
    """

    device: str = "auto"
    threads: int | None = None
    graph: bool = True
    compile: bool = False
    checkpoint_minutes: float = 2.0
    image_gigabytes: float | None = None
    log: tuple[str, ...] = ("csv",)
    tensorboard: bool = False  # what log=[tensorboard] was called in early versions
    allow_pickle: bool = False

    @property
    def logs(self) -> tuple[str, ...]:
        """The loggers by name, each once."""
        early = ("tensorboard",) if self.tensorboard else ()
        return tuple(dict.fromkeys((*self.log, *early)))


def without_fuse(engine: Any, where: str) -> Any:
    """The settings `engine` without `fuse`, which chose kernels of our own in earlier versions."""
    if not isinstance(engine, Mapping) or not isinstance(engine.get("fuse"), bool):
        return engine
    if engine["fuse"]:
        warnings.warn(
            f"{where}: engine.fuse=true: those kernels are gone; torch's give the same but for "
            "rounding, and are used",
            DataWarning,
            stacklevel=2,
        )
    return {key: value for key, value in engine.items() if key != "fuse"}


@dataclass(frozen=True)
class RunConfig:
    """Everything that says what a run is.

    `after`: the folder of a run that is finished, or was given up; this one goes on with new classes.
    """

    method: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    data: DataConfig = DataConfig()
    net: NetConfig = NetConfig()
    train: TrainConfig = TrainConfig()
    seed: int = 0
    seeds: SeedConfig = SeedConfig()
    engine: EngineConfig = EngineConfig()
    after: str | None = None

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], where: str = "config") -> RunConfig:
        """From nested dictionaries; unknown keys and wrong types are errors that name the key."""
        config = build(cls, {**data, "engine": without_fuse(data.get("engine", {}), where)}, where)
        try:
            config.train.check()
        except TransilError as error:
            raise TransilError(f"{where}: {error}") from None
        threads = 1 if config.engine.threads is None else config.engine.threads
        if not 1 <= threads <= MOST_THREADS:
            raise TransilError(f"{where}: engine.threads is {threads}; 1 to {MOST_THREADS}")
        if config.engine.checkpoint_minutes < 0:
            raise TransilError(f"{where}: engine.checkpoint_minutes is below 0")
        if (config.engine.image_gigabytes or 0.0) < 0:
            raise TransilError(f"{where}: engine.image_gigabytes is below 0")
        for name in ("checkpoint_minutes", "image_gigabytes"):
            check_most(f"{where}: engine.{name}", getattr(config.engine, name), MOST_COUNT)
        for name, seed in {"seed": config.seed, **vars(config.seeds)}.items():
            if seed is not None and not 0 <= seed < 2**63:
                raise TransilError(
                    f"{where}: {name} is {seed}; it must be 0 or more, and below 2^63"
                )
        return config

    def to_dict(self) -> dict[str, Any]:
        """Nested dictionaries of plain values, as JSON has them."""
        made: dict[str, Any] = plain(asdict(self))
        return made

    @property
    def init_seed(self) -> int:
        """The seed of the first weights and of rows drawn later."""
        return self.seed if self.seeds.init is None else self.seeds.init

    @property
    def batch_seed(self) -> int:
        """The seed of the order of images and of their augmentation."""
        return self.seed if self.seeds.batches is None else self.seeds.batches

"""What a run is, in full: frozen settings that are written beside its results.

Settings come from a recipe and from dotted overrides (`train.epochs=5`); every key is checked.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass
from typing import Any, Literal, TypeVar

from transil.errors import TransilError
from transil.registry import nearest

T = TypeVar("T")


@dataclass(frozen=True)
class DataConfig:
    """Which images, in which order (see `ClassStream`).

    Without `val_per_class` and `val_fraction` a data set's own validation images are used, or a
    tenth of the training images where it has none (the paper's 450 of 500).
    """

    path: str = ""
    size: int | None = None
    rule: str = "crop"
    root: str | None = None
    states: int | None = None
    schedule: tuple[tuple[int, ...], ...] | None = None
    order: str | tuple[int, ...] = "seed:0"
    role: Literal["target", "reference"] = "target"
    val_per_class: int | None = None
    val_fraction: float | None = None
    val_from: str = "first"
    train_fraction: float = 1.0
    fraction_seed: int = 0


@dataclass(frozen=True)
class NetConfig:
    """The network; `last_relu` null means: as the method wants it."""

    body: str = "resnet18-32"
    last_relu: bool | None = None


@dataclass(frozen=True)
class TrainConfig:
    """How each state is trained: SGD with momentum. `first_...` is for state 1 where it differs.

    `later_lr`: 'same' in all states, or 'by-state', lr / s (what the released FT code does).
    `drops`: epochs after which lr is multiplied by `factor`, or shares of the epochs (below 1).
    `plateau_on`: the loss that 'plateau' watches, the mean of an 'epoch' or its 'last-batch'.
    `augment_val`: validation scores of augmented images, as the released LUCIR code makes them.
    """

    epochs: int = 1
    first_epochs: int | None = None
    batch_size: int = 128
    lr: float = 0.1
    later_lr: Literal["same", "by-state"] = "same"
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
        above_zero = ["epochs", "batch_size", "lr", "factor"]
        for name in (*above_zero, "momentum", "weight_decay", "pad", "patience"):
            value = getattr(self, name)
            if value < 0 or (name in above_zero and value == 0):
                raise TransilError(f"train.{name} is {value}; it must be above 0")
        for name in ("first_epochs", "first_patience", "size", "eval_resize"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise TransilError(f"train.{name} is {value}; it must be at least 1")
        if self.schedule == "milestones":
            least = min(self.epochs, self.first_epochs or self.epochs)
            for drop in self.drops:
                if not 0 < drop < least:
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

    `graph`: capture each training step in a CUDA graph. `image_gigabytes`: how much of a device's
    memory images may take (null: half of what is free); larger sets are streamed. `threads`: of
    the CPU (null: as torch has it); with one, small networks are fast even on a busy machine.
    """

    device: str = "auto"
    threads: int | None = None
    graph: bool = True
    checkpoint_minutes: float = 2.0
    image_gigabytes: float | None = None
    tensorboard: bool = False


@dataclass(frozen=True)
class RunConfig:
    """Everything that says what a run is."""

    method: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    data: DataConfig = DataConfig()
    net: NetConfig = NetConfig()
    train: TrainConfig = TrainConfig()
    seed: int = 0
    seeds: SeedConfig = SeedConfig()
    engine: EngineConfig = EngineConfig()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], where: str = "config") -> RunConfig:
        """From nested dictionaries; unknown keys and wrong types are errors that name the key."""
        config = _build(cls, data, "", where)
        config.train.check()
        if config.engine.threads is not None and config.engine.threads < 1:
            raise TransilError(f"{where}: engine.threads is {config.engine.threads}; at least 1")
        for name, seed in {"seed": config.seed, **vars(config.seeds)}.items():
            if seed is not None and seed < 0:
                raise TransilError(f"{where}: {name} is {seed}; it must be 0 or more")
        return config

    def to_dict(self) -> dict[str, Any]:
        """Nested dictionaries of plain values, as JSON has them."""
        plain: dict[str, Any] = _plain(asdict(self))
        return plain

    @property
    def init_seed(self) -> int:
        """The seed of the first weights and of rows drawn later."""
        return self.seed if self.seeds.init is None else self.seeds.init

    @property
    def batch_seed(self) -> int:
        """The seed of the order of images and of their augmentation."""
        return self.seed if self.seeds.batches is None else self.seeds.batches


def set_dotted(data: dict[str, Any], key: str, value: Any) -> None:
    """Set `a.b.c` in nested dictionaries."""
    *path, last = key.split(".")
    for word in path:
        inner = data.setdefault(word, {})
        if not isinstance(inner, dict):
            raise TransilError(f"'{key}': {word} is a value, it has nothing inside")
        data = inner
    if is_dataclass(SECTIONS.get(last)) and not path:
        raise TransilError(f"'{key}' is a group of settings; write {last}.NAME=VALUE")
    data[last] = value


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with the values of `over`, key by key, at every depth."""
    merged = dict(base)
    for key, value in over.items():
        if isinstance(value, Mapping) and isinstance(merged.get(key), Mapping):
            merged[key] = merge(merged[key], value)
        else:
            merged[key] = value
    return merged


def flatten(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested dictionaries as one with dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in data.items():
        if isinstance(value, Mapping):
            flat.update(flatten(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat


# The groups of settings, by name.
SECTIONS: dict[str, Any] = {
    "data": DataConfig,
    "net": NetConfig,
    "train": TrainConfig,
    "seeds": SeedConfig,
    "engine": EngineConfig,
}


def _build(cls: type[T], data: Any, prefix: str, where: str) -> T:
    if not isinstance(data, Mapping):
        raise TransilError(f"{where}: {prefix.rstrip('.')} must be a group of settings")
    hints = typing.get_type_hints(cls)
    known = [f.name for f in fields(cls)]  # type: ignore[arg-type]
    values = {}
    for key, value in data.items():
        if key not in known:
            dotted = [f"{prefix}{name}" for name in known]
            raise TransilError(f"{where}: unknown key '{prefix}{key}'; "
                               f"{nearest(f'{prefix}{key}', dotted)}")  # fmt: skip
        if is_dataclass(hints[key]):
            values[key] = _build(hints[key], value, f"{prefix}{key}.", where)
        else:
            values[key] = _value(value, hints[key], f"{where}: {prefix}{key}")
    for f in fields(cls):  # type: ignore[arg-type]
        if f.name not in values and f.default is MISSING and f.default_factory is MISSING:
            raise TransilError(f"{where}: {prefix}{f.name} is missing")
    return cls(**values)


def _value(value: Any, hint: Any, where: str) -> Any:
    """`value` as the type `hint` says, or an error."""
    origin, words = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in words:
            return None
        errors = []
        for option in (w for w in words if w is not type(None)):
            try:
                return _value(value, option, where)
            except TransilError as error:
                errors.append(error)
        raise errors[-1]
    if origin is Literal:
        if value not in words:
            raise TransilError(f"{where} is {value!r}; {nearest(str(value), words)}")
        return value
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise TransilError(f"{where} is {value!r}, but must be a list")
        return tuple(_value(v, words[0], where) for v in value)
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            raise TransilError(f"{where} must be a group of settings")
        return dict(value)
    if hint is float and isinstance(value, int | float | str) and not isinstance(value, bool):
        try:  # YAML reads 1e-4 as a text
            return float(value)
        except ValueError:
            pass
    if type(value) is not hint:
        wanted = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}
        raise TransilError(f"{where} is {value!r}, but must be {wanted.get(hint, hint)}")
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _plain(v) for k, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, list | tuple) else value

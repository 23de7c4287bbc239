"""Bodies from outside: timm's by name, anybody's by module and function; weights from files."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from transil._common.arrays import is_torch
from transil.data.statistics import Statistics
from transil.errors import DataWarning, TransilError, missing, reason
from transil.plugins import named_module
from transil.scores.array_files import TORCH, checked_tensor, load_arrays

# Pixels of the images that a body is tried with, where it does not say what it wants.
TRIED = 224


class Wanted(NamedTuple):
    """What a body says of its images: width and height in pixels, and their normalisation."""

    size: int | None = None
    colours: Statistics | None = None


def is_outside(body: str) -> bool:
    """Whether that is `timm:NAME` or `MODULE:FUNCTION`, not one of the registered names."""
    return ":" in body


def make_outside(body: str, last_relu: bool = True) -> tuple[nn.Module, int]:
    """A feature extractor and the width of its features; its last ReLU is taken off if wanted."""
    made = _made(body)
    features = tried(made, body)
    if not last_relu and features.min() >= 0:
        _take_last_relu_off(made, body)
        if tried(made, body).min() >= 0:
            raise TransilError(
                f"net.body={body}: the method wants features of both signs, but the last ReLU cannot "
                "be taken off; give a body without it, or net.last_relu=true to train with it"
            )
    return made, features.shape[1]


@lru_cache(maxsize=16)
def wanted_by(body: str) -> Wanted:
    """What a body wants; those of transil take images of any size, by the colours of the data."""
    if not is_outside(body):
        return Wanted()
    made = _made(body)
    mean, std = getattr(made, "mean", None), getattr(made, "std", None)
    colours = None
    if mean is not None and std is not None:
        try:
            colours = Statistics(tuple(map(float, mean)), tuple(map(float, std)))
        except (TransilError, TypeError, ValueError) as error:
            raise TransilError(f"net.body={body}: {reason(error)}") from None
    return Wanted(getattr(made, "image_size", None), colours)


def check_outside(made: nn.Module, body: str, sizes: Sequence[int]) -> None:
    """Errors that would otherwise come in the first step, or after an interruption."""
    for size in sizes:
        tried(made, body, size)
    made.train()
    with torch.random.fork_rng(devices=[]):
        before = torch.get_rng_state()
        tried(made, body, sizes[0])
        if not torch.equal(before, torch.get_rng_state()):
            raise TransilError(
                f"net.body={body}: it draws random numbers in training (dropout?), and a run that was "
                "interrupted would draw others; make it without"
            )


def tried(made: nn.Module, body: str, size: int | None = None) -> torch.Tensor:
    """Features (2, width) of two images of noise."""
    size = size or getattr(made, "image_size", None) or TRIED
    noise = torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(0))
    with _errors(f"net.body={body} cannot take images of {size} px"), torch.no_grad():
        features = made(noise)
        if not isinstance(features, torch.Tensor) or features.dim() not in (2, 4):
            raise TransilError(
                f"net.body={body}: it must give features (b, width) or maps (b, width, h, w), not "
                f"{tuple(features.shape) if is_torch(features) else type(features).__name__}"
            )
    return features.float() if features.dim() == 2 else features.float().mean((2, 3))


@contextmanager
def _errors(what: str) -> Iterator[None]:
    """Whatever other people's code raises, in one line."""
    try:
        yield
    except TransilError:
        raise
    except Exception as error:
        raise TransilError(f"{what} ({type(error).__name__}: {reason(error)})") from None


def _made(body: str) -> nn.Module:
    module, _, name = body.partition(":")
    if module == "timm":
        return _of_timm(name)
    make = getattr(named_module(module, f"net.body={body}"), name, None)
    if not callable(make):
        raise TransilError(f"net.body={body}: module {module} has no function '{name}'")
    with _errors(f"net.body={body} cannot be made"):
        made = make()
    if not isinstance(made, nn.Module):
        raise TransilError(f"net.body={body}: it gives a {type(made).__name__}, no torch module")
    return made.eval()


def _of_timm(name: str) -> nn.Module:
    """What timm has by that name, without a classifier; nothing is fetched from anywhere."""
    if find_spec("timm") is None:
        raise missing(f"net.body=timm:{name} needs", "timm")
    with _errors(f"net.body=timm:{name} cannot be made"):
        import timm

        if not timm.is_model(name):
            raise TransilError(f"net.body=timm:{name}: no such model; see timm.list_models()")
        made: Any = timm.create_model(name, pretrained=False, num_classes=0)
    known = made.pretrained_cfg
    made.image_size, made.mean, made.std = known["input_size"][-1], known["mean"], known["std"]
    body: nn.Module = made.eval()
    return body


def _take_last_relu_off(made: nn.Module, body: str) -> None:
    """Put nothing in the place of the ReLU that is called last, if it is called only there."""
    called: list[str] = []
    relus = {name: m for name, m in made.named_modules() if isinstance(m, nn.ReLU)}
    hooks = [
        module.register_forward_hook(lambda *_, name=name: called.append(name))
        for name, module in relus.items()
    ]
    tried(made, body)
    for hook in hooks:
        hook.remove()
    if called and called.count(called[-1]) == 1:
        made.set_submodule(called[-1], nn.Identity())


# -- weights -----------------------------------------------------------------------------------


def check_weights(path: str, allow_pickle: bool) -> None:
    """An error where a file of weights is of another kind than those that may be read."""
    kinds = (".safetensors", *TORCH) if allow_pickle else (".safetensors",)
    if Path(path).suffix not in kinds:
        more = "" if allow_pickle else f"; with --allow-pickle also {', '.join(TORCH)}"
        raise TransilError(f"{path}: net.weights takes a file that ends in {kinds[0]}{more}")


@torch.no_grad()
def load_weights(body: nn.Module, path: str) -> None:
    """Put the tensors of a file in their places; all that the body has must be there.

    Their names may have something before them, the same for all: `net.body.` in a checkpoint of ours,
    `state_dict.` where a file of torch holds groups. What is left over, a classifier, is told.
    """
    tensors = _tensors(Path(path))
    places = body.state_dict()
    # A count that few networks use, and old files lack.
    names = [name for name in places if not name.endswith("num_batches_tracked")] or [""]
    starts = [key.removesuffix(names[0]) for key in tensors if key.endswith(names[0])]
    lacking = {start: [n for n in names if start + n not in tensors] for start in starts}
    start = min(lacking, key=lambda s: (len(lacking[s]), len(s)), default=None)
    if start is None or lacking[start]:
        name = names[0] if start is None else lacking[start][0]
        raise TransilError(f"{path}: not the weights of net.body ('{name}' is missing)")
    for name, place in places.items():
        value = tensors.pop(start + name, place)
        if value.shape != place.shape:
            raise TransilError(
                f"{path}: not the weights of net.body ('{name}' is {tuple(value.shape)}, not "
                f"{tuple(place.shape)})"
            )
        if not torch.isfinite(value).all():
            raise TransilError(f"{path}: '{start + name}' holds values that are not numbers")
        place.copy_(value)
    left = sorted(name for name in tensors if name.startswith(start))
    if left:
        shown = ", ".join(left[:3]) + (", ..." if len(left) > 3 else "")
        warnings.warn(
            f"{path}: {len(left)} tensors that net.body does not have are left out ({shown})",
            DataWarning,
            stacklevel=2,
        )


def _tensors(path: Path) -> dict[str, torch.Tensor]:
    """All tensors of a file by name; those of a group within have its name before theirs."""
    found = load_arrays(path)
    if not isinstance(found, Mapping):
        raise TransilError(f"{path}: it holds one tensor, not the weights of a network")
    groups = {f"{name}.": group for name, group in found.items() if isinstance(group, Mapping)}
    return {
        f"{lead}{name}": checked_tensor(value, f"{path}: '{name}'")
        for lead, group in {"": found, **groups}.items()
        for name, value in group.items()
        if is_torch(value)
    }

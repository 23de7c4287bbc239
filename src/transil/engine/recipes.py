"""Recipes: settings in YAML files, those of the package by name, a user's by path."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from transil._common.settings import flatten, merge
from transil._common.yaml_files import names_in, read_named, read_yaml
from transil.engine.config import RunConfig
from transil.errors import TransilError
from transil.methods.registry import METHODS, get_method


def recipe_names() -> list[str]:
    """The recipes of the package."""
    return names_in("transil.recipes")


def recipe_text(name: str) -> str:
    """A recipe as written: one of the package, or a file that ends in .yaml."""
    return read_named(name, "transil.recipes", "recipe")


def load_recipe(name: str) -> dict[str, Any]:
    """The settings of a recipe."""
    data, _ = read_yaml(recipe_text(name), name)
    if not isinstance(data, dict):
        raise TransilError(f"{name}: not a recipe, it holds no settings")
    return data


def resolve(
    *,
    method: str | None = None,
    recipe: str | None = None,
    image_size: int | None = None,
    overrides: Iterable[Mapping[str, Any]] = (),
) -> RunConfig:
    """The settings of a run: those of a recipe, then each of `overrides` over them.

    Without a recipe, the one of the method for images of that size is taken; where weights are given,
    the one for fine-tuning.
    """
    overrides = list(overrides)
    if recipe is None:
        if method is None:
            raise TransilError("give a method or a recipe")
        weights = any(flatten(over).get("net.weights") is not None for over in overrides)
        recipe = default_recipe(method, image_size or 32, finetune=weights)
    data = load_recipe(recipe)
    used = data.get("method", method)
    if not isinstance(used, str):
        raise TransilError(f"{recipe}: give a method, in the recipe or with --method")
    if method is not None and _borrows(method, used):  # its settings are those of the other one
        data.pop("settings", None)
    for over in overrides:
        data = merge(data, over)
    method = str(data["method"]) if method is None and "method" in data else method
    if method is not None:
        if not _has(method, used) and not _borrows(method, used):
            raise TransilError(f"recipe {recipe} is for method '{used}', not for '{method}'")
        data["method"] = method
    config = RunConfig.from_dict(data, recipe)
    get_method(config.method, config.settings)
    return config


def _borrows(method: str, used: str) -> bool:
    """Whether a method from outside is trained with the recipe of another one."""
    return not _has(method, used) and not METHODS.find(method).__module__.startswith("transil.")


def _has(method: str, used: str) -> bool:
    """Whether a recipe for `used` is one for `method`, too: they share their training."""
    return used in (method, *METHODS.find(method).family)


def default_recipe(method: str, image_size: int, *, finetune: bool = False) -> str:
    """The recipe of a method for images of that size, or for weights that are trained already."""
    cls = METHODS.find(method)
    kind = "finetune" if finetune else "32" if image_size <= 64 else "224"
    name = f"{cls.trained_as()}-{kind}"
    if name not in recipe_names():
        raise TransilError(f"method '{method}' has no recipe '{name}'; give one with --recipe")
    return name

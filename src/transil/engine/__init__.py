"""The training engine: one loop, static shapes, atomic checkpoints."""

from transil.engine.config import RunConfig
from transil.engine.lanes import train_together
from transil.engine.model import Model, load_model
from transil.engine.past import after
from transil.engine.recipes import load_recipe, recipe_names, resolve
from transil.engine.run_folder import RunFolder
from transil.engine.training import train, training

__all__ = [
    "Model",
    "RunConfig",
    "RunFolder",
    "after",
    "load_model",
    "load_recipe",
    "recipe_names",
    "resolve",
    "train",
    "train_together",
    "training",
]

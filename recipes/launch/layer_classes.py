"""The class of a model's repeated layer, which FSDP wraps."""

import functools

from probes.base.record import StrictRecord
from probes.base.rows import load_rows
from recipes.launch.recipe import Recipe


class LayerClass(StrictRecord, kw_only=True):
    """The class of the layers of a family of models."""

    model: str
    """Beginning of the ids of the models."""
    layer: str
    """Name of the class in Hugging Face transformers."""
    source: str
    date: str


@functools.lru_cache(maxsize=1)
def load_layer_classes() -> tuple[LayerClass, ...]:
    """Return all rows of `recipes/data/layer_classes.toml`."""
    return load_rows("recipes", "layer_classes", LayerClass)


def layer_class_of(recipe: Recipe) -> str:
    """Return the class of the layers of a recipe's model; empty for an image model or an unknown family."""
    return layer_class(recipe.model.id) if recipe.model is not None else ""


def layer_class(model_id: str) -> str:
    """Return the class of the model's layers; empty if the family is unknown."""
    rows = [row for row in load_layer_classes() if model_id.startswith(row.model)]
    return max(rows, key=lambda row: len(row.model)).layer if rows else ""

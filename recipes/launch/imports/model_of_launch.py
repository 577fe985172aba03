"""The model of an imported launch: a name in the files, or the sizes in Megatron's arguments."""

from collections.abc import Callable

from recipes.job.models.counts import load_models
from recipes.job.workload import TransformerModel
from recipes.launch.imports.resolving import Settings

FindModel = Callable[[str], TransformerModel | None]
"""A function that returns the model with a given name, or None if there is none."""
_SIZES = ("layers", "hidden", "heads", "kv_heads", "ffn_hidden", "vocab", "experts")
_ENOUGH = 3
"""Sizes that must agree before a preset is recognised: layers, hidden size and heads."""


def model_in(settings: Settings, find_model: FindModel) -> TransformerModel | None:
    """Return the model that the files name or describe; None if no known model fits, or several of different
    shapes.
    """
    for name in _names(settings):
        model = find_model(name)
        if model is not None:
            return model
    fitting = models_of_sizes(settings)
    tokenizer = settings.text("tokenizer")
    named = None if tokenizer is None else find_model(tokenizer)
    if named is not None and named in fitting:
        return named
    shapes = {_shape(model) for model in fitting}
    return fitting[0] if len(shapes) == 1 else None


def _shape(model: TransformerModel) -> tuple[object, ...]:
    return tuple(getattr(model, name) for name in (*_SIZES, "gated_mlp", "learned_positions", "norm"))


def _names(settings: Settings) -> tuple[str, ...]:
    """Return the names under which the model may be known, with the most exact name first."""
    name, family, flavor = (settings.text(key) for key in ("model", "model_family", "model_flavor"))
    joined = f"{family}-{flavor}" if family and flavor else None
    return tuple(filter(None, (name, joined)))


def models_of_sizes(settings: Settings) -> tuple[TransformerModel, ...]:
    """Return the presets with all sizes that the files state; none if the files state too few."""
    stated = {name: size for name in _SIZES if (size := settings.whole(name)) is not None}
    if len([name for name in _SIZES[:_ENOUGH] if name in stated]) < _ENOUGH:
        return ()
    # Megatron's defaults (arguments.py)
    stated.setdefault("ffn_hidden", 4 * stated["hidden"])
    stated.setdefault("kv_heads", stated["heads"])
    length = settings.whole("sequence_length") or 0
    return tuple(
        model
        for model in load_models()
        if all(getattr(model, name) == size for name, size in stated.items())
        and ("experts" in stated or not model.is_moe)
        and not 0 < model.learned_positions < length
    )

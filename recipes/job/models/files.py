"""Models from a file of the user: a row as in `data/models/`, or a `config.json` of Hugging Face."""

import json
import re
from pathlib import PurePath
from typing import Any

import msgspec

from probes.base.errors import InputError
from probes.base.record import quoted
from probes.base.toml_text import parse_toml
from recipes.job.models.hugging_face import ARCHITECTURES, MODEL_TYPES, UNREAD
from recipes.job.models.hugging_face_config import Config
from recipes.job.training_recipes import pretraining_recipe
from recipes.job.workload import TransformerModel

_MAX_SIZE = 10**9
_COUNT_IT = (
    "give the name of a preset (`rigtune list models`), or count your own module: "
    "see --own-module in `rigtune predict -h`"
)


def names_model_file(text: str) -> bool:
    """Return whether a model's name is the path of a file with sizes: a row as in `data/models/` or a
    `config.json`.
    """
    return text.endswith((".json", ".toml"))


def model_from_file(text: str, name: str) -> TransformerModel:
    """Return the model in `text`, a TOML row or a Hugging Face `config.json`.

    `name` is the path, for messages and the id. Raises InputError that names the file and the mistake.
    """
    if not text.strip():
        raise InputError(f"{name} is empty", "see `rigtune list models` for presets")
    is_json = text.lstrip().startswith("{")
    try:
        data: Any = json.loads(text) if is_json else parse_toml(text, name)
        if is_json and isinstance(data, dict) and ("architectures" in data or "model_type" in data):
            data = _from_hugging_face(data, name)
        rows = data.get("models") if isinstance(data, dict) else None
        if isinstance(rows, list):
            if len(rows) != 1:
                raise InputError(f"{name} contains {len(rows)} models", "keep only one [[models]] table")
            data = rows[0]
        model = msgspec.convert(data, TransformerModel)
    except (ValueError, RecursionError) as error:  # json and msgspec errors are ValueErrors
        raise InputError(
            f"{name} is not a model: {error}", "see `rigtune list models` for presets"
        ) from error
    require_sound(model, name)
    model = with_learning_rate(model)
    if not 0 < model.learning_rate < 1 or model.learning_rate_batch_tokens < 1:
        raise InputError(
            f"{name}: learning_rate is {model.learning_rate} at {model.learning_rate_batch_tokens} tokens",
            "give both a number between 0 and 1 and the tokens per step for which it is valid, or leave "
            "both out",
        )
    return model


_AT_LEAST_ONE = (
    "layers",
    "hidden",
    "heads",
    "kv_heads",
    "head_dim",
    "ffn_hidden",
    "vocab",
    "sequence_length",
    "output_groups",
)


def require_sound(model: TransformerModel, name: str) -> None:
    """Raise InputError for impossible sizes and for sizes that contradict each other."""
    for field in msgspec.structs.fields(TransformerModel):
        value, least = getattr(model, field.name), 1 if field.name in _AT_LEAST_ONE else 0
        if isinstance(value, int) and not least <= value <= _MAX_SIZE:
            raise InputError(
                f"{name}: {field.name} is {value}", f"give a whole number from {least} to {_MAX_SIZE}"
            )
    mistakes = (
        (
            model.heads % model.kv_heads,
            f"{model.heads} heads cannot share {model.kv_heads} kv_heads",
            "kv_heads must divide heads",
        ),
        (
            model.learned_positions and model.sequence_length > model.learned_positions,
            f"sequence_length {model.sequence_length} exceeds {model.learned_positions} learned positions",
            "shorten sequence_length",
        ),
        (
            model.is_moe and not 1 <= model.experts_per_token <= model.experts,
            f"a token cannot be sent to {model.experts_per_token} of {model.experts} experts",
            "give experts_per_token from 1 to the number of experts",
        ),
        (
            model.kind == "encoder-decoder" and not (model.encoder_layers and model.decoder_tokens > 0),
            "an encoder-decoder lacks encoder_layers or decoder_tokens",
            "give both",
        ),
        (
            model.state_space_layers
            and not (
                model.state_space_heads
                and model.state_space_groups
                and model.state_space_inner % model.state_space_heads == 0
            ),
            "state-space layers lack sizes, or state_space_heads does not divide state_space_inner",
            "give state_space_inner, _heads, _groups and _states",
        ),
        (
            not 0 < model.head_fraction <= 1,
            f"head_fraction is {model.head_fraction}",
            "give a number above 0, at most 1",
        ),
    )
    for is_wrong, problem, hint in mistakes:
        if is_wrong:
            raise InputError(f"{name}: {problem}", hint)


def _from_hugging_face(config: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the fields of TransformerModel from a `config.json`.

    Raises InputError for architectures that rigtune cannot read, and for missing or impossible sizes.
    """
    architectures = config.get("architectures")
    architecture = architectures[0] if isinstance(architectures, list) and architectures else architectures
    if not architecture:
        architecture = MODEL_TYPES.get(str(config.get("model_type")), config.get("model_type"))
    adapter = ARCHITECTURES.get(architecture) if isinstance(architecture, str) else None
    if adapter is None:
        reason = next(
            (
                words
                for pattern, words in UNREAD.items()
                if re.match(pattern, str(architecture), re.IGNORECASE)
            ),
            None,
        )
        if reason is not None:
            raise InputError(f"{name}: {quoted(str(architecture))} is not supported: {reason}", _COUNT_IT)
        known = ", ".join(sorted(ARCHITECTURES))
        raise InputError(
            f"{name}: architecture {quoted(str(architecture))} is unknown to rigtune", f"known: {known}"
        )
    sizes = adapter(Config(config))
    for field, value in sizes.items():
        if value is None or (isinstance(value, int) and value > _MAX_SIZE):
            raise InputError(
                f"{name}: {field} is {'missing' if value is None else value}",
                "is it the model's own config.json?",
            )
    path = PurePath(name)
    return {
        "id": (path.stem if path.stem != "config" else path.parent.name) or "model",
        "title": str(config.get("_name_or_path") or path.parent.name or architecture),
        **sizes,
        "source": f"sizes: {name}",
        "date": "",
    }


def with_learning_rate(model: TransformerModel) -> TransformerModel:
    """Return `model` with a learning rate.

    A model without a learning rate gets the rate of the recipe that `pretraining_recipe` returns: its own
    published recipe, or that of a model of its kind with a similar size.
    """
    if model.learning_rate:
        return model
    row = pretraining_recipe(model)
    is_own = model.id in row.models
    return msgspec.structs.replace(
        model,
        learning_rate=row.learning_rate,
        learning_rate_batch_tokens=row.batch_tokens,
        learning_rate_from="" if is_own else row.model,
        source=f"{model.source}; {'recipe' if is_own else 'learning rate'}: {row.source}",
    )

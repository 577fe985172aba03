"""Read a model that the user names: a preset, an image model, a Hugging Face id, a file or a folder."""

import os.path
from pathlib import Path

from assistant.storage import read_bytes
from probes.base.errors import UsageError
from probes.base.nearest import did_you_mean
from probes.base.record import quoted
from recipes.job.models.counts import load_models
from recipes.job.models.files import model_from_file, names_model_file
from recipes.job.models.image_models import assumed_of_name, find_vision_model, load_vision_models
from recipes.job.models.names import find_model
from recipes.job.workload import TransformerModel, VisionModel

_CONFIG = "config.json"
_NEAR = 3


def holds_model(name: str) -> bool:
    """Return whether `name` is a folder with a `config.json`, as in downloads from Hugging Face."""
    # os.path answers False for names that no file system takes, such as very long ones; Path raises.
    return bool(name) and os.path.isfile(Path(name, _CONFIG))  # noqa: PTH113


def read_model(name: str) -> TransformerModel:
    """Return the model in the file `name`, or in `config.json` if `name` is a folder. Raises InputError."""
    path = Path(name)
    path = path / _CONFIG if path.is_dir() else path
    return model_from_file(read_bytes(path).decode("utf-8", "replace"), str(path))


def model_named(name: str) -> TransformerModel | VisionModel:
    """Return the model in a file or folder, a preset, or an image model, by its id or a name in any spelling.

    A Hugging Face id (`meta-llama/Llama-3.1-8B`) is a name, unless a file or folder has this path. Raises
    UsageError with the nearest names, or InputError for a file that cannot be read.
    """
    is_file = names_model_file(name) or holds_model(name)
    exists = os.path.lexists(name)
    is_path = is_file or ("/" in name and (name.startswith(("/", ".", "~")) or exists))
    if is_path:
        return read_model(name)
    try:
        return find_model(name)
    except UsageError as error:
        # Many names of image models end with a set of weights, which the search removes.
        wanted = name.strip()
        vision = find_vision_model(wanted) if wanted.isprintable() and wanted.isascii() else None
        if vision is not None:
            return vision
        raise _unknown(name, wanted.rsplit("/", 1)[-1]) from error


def assumed_of(name: str, model: TransformerModel | VisionModel) -> tuple[str, ...]:
    """Return what is assumed about a model because its name does not state it."""
    return assumed_of_name(name.strip()) if isinstance(model, VisionModel) else ()


def transformer_named(name: str) -> TransformerModel:
    """Return the transformer with this name.

    Raises UsageError for an image model, and the errors of `model_named`.
    """
    model = model_named(name)
    if isinstance(model, VisionModel):
        raise UsageError(
            f"{model.id} is an image model: benchmarks build only transformers",
            f"plan it with `rigtune plan {model.id}`, and measure your own step with `rigtune bench --step`",
        )
    return model


def _unknown(name: str, last: str) -> UsageError:
    ids = [*(model.id for model in load_models()), *load_vision_models()]
    rest = "see `rigtune list models`, or give the path of a model file"
    return UsageError(f"there is no model {quoted(name)}", did_you_mean(last, ids, rest, most=_NEAR))

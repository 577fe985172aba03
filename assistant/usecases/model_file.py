"""Read a model from a file or folder that the user names."""

from pathlib import Path

from assistant.storage import read_bytes
from recipes.job.models.files import model_from_file
from recipes.job.workload import TransformerModel

_CONFIG = "config.json"


def holds_model(name: str) -> bool:
    """Return whether `name` is a folder with a `config.json`, as in downloads from Hugging Face."""
    return bool(name) and Path(name, _CONFIG).is_file()


def read_model(name: str) -> TransformerModel:
    """Return the model in the file `name`, or in `config.json` if `name` is a folder. Raises InputError."""
    path = Path(name)
    path = path / _CONFIG if path.is_dir() else path
    return model_from_file(read_bytes(path).decode("utf-8", "replace"), str(path))

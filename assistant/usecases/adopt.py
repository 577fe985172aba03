"""Read an existing launch into a recipe."""

from collections.abc import Sequence
from pathlib import Path

from assistant.usecases.lint import text_of_file
from assistant.usecases.model_file import model_named
from probes.base.errors import InputError, UsageError
from recipes.job.models import names
from recipes.job.workload import TransformerModel
from recipes.launch.imports.adopted import Imported
from recipes.launch.imports.importing import import_launch
from recipes.launch.imports.training_files import LaunchFile, read_launch_file

_KINDS = (
    "scripts (sbatch, torchrun, mpirun ...), accelerate YAML, ds_config JSON, torchtitan TOML, LLaMA-Factory "
    "and axolotl YAML, PyTorchJob, hostfiles and .env files"
)


def import_files(paths: Sequence[Path], given: dict[str, str]) -> Imported:
    """Return what the files of one launch state; `given` has the settings that the user gave.

    Raises the errors of `launch_files_at` and `import_read`.
    """
    return import_read(launch_files_at(paths), given)


def launch_files_at(paths: Sequence[Path]) -> tuple[LaunchFile, ...]:
    """Return the launch files at these paths; the path `-` is standard input, which is read once.

    Raises InputError for a file that is no launch file or cannot be read.
    """
    return tuple(_launch_file(path) for path in dict.fromkeys(paths))


def import_read(files: Sequence[LaunchFile], given: dict[str, str]) -> Imported:
    """Return what the files of one launch state, without reading a file again.

    Raises InputError for a file that contradicts another, and UsageError for a model that does not exist.
    """
    if "model" in given:
        model_named(given["model"])
    return import_launch(files, given, _known_model)


def _launch_file(path: Path) -> LaunchFile:
    name = "standard input" if str(path) == "-" else str(path)
    text = text_of_file(path)
    file = read_launch_file(name, text)
    if file is None:
        problem = "is empty" if not text.strip() else "is not a launch file that rigtune can import"
        raise InputError(f"{name} {problem}", f"rigtune imports {_KINDS}")
    return file


def _known_model(name: str) -> TransformerModel | None:
    """Return the transformer with this name, or in this file or folder; None if there is none."""
    known = names.model_named(name)
    if known is not None:
        return known
    try:
        model = model_named(name)
    except (UsageError, InputError):
        return None
    return model if isinstance(model, TransformerModel) else None

"""Import launch files that a test gives as text."""

from __future__ import annotations

from recipes.job.models.names import model_named
from recipes.launch.imports.adopted import Imported
from recipes.launch.imports.importing import import_launch
from recipes.launch.imports.training_files import read_launch_file

TORCHRUN = "torchrun --nnodes 2 --nproc-per-node 8 --rdzv-endpoint head:29500 "


def imported(*files: tuple[str, str], **options: object) -> Imported:
    """Return the import of files, each a name and a text; options are those of the command."""
    read = [read_launch_file(name, text) for name, text in files]
    assert None not in read
    given_settings = {name: str(value) for name, value in options.items()}
    return import_launch([file for file in read if file is not None], given_settings, model_named)


def stated(answer: Imported) -> dict[str, str]:
    """Return the settings that the files state."""
    return {each.setting: each.value for each in answer.settings}


def kept(answer: Imported) -> str:
    """Return the text that no field states."""
    return "\n".join(each.text for each in answer.kept)

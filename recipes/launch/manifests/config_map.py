"""The program's files as a ConfigMap, and the names of a job's objects."""

import re
import zlib
from typing import Any

from probes.base.errors import UsageError
from recipes.launch.manifests.container_words import carried_files
from recipes.launch.manifests.yaml_text import Literal, yaml_text
from recipes.launch.program_files import ProgramFiles
from recipes.launch.recipe import Artifact, Recipe
from recipes.launch.slots import slot_value

FILES = "files.yaml"
"""The file with the ConfigMap."""
MOST_BYTES = 1024 * 1024
"""Largest size of a ConfigMap's data (Kubernetes documentation, ConfigMaps, read 2026-11)."""
_LONGEST_NAME = 40
"""Kubernetes allows 63 characters for a pod's host name; the kinds of jobs append up to 20."""


def object_name(recipe: Recipe) -> str:
    """Return the recipe's name as a DNS label, with which the pods' host names begin.

    A name that has to be cut ends with a checksum, so that two jobs keep different names.
    """
    name = re.sub(r"[^a-z0-9]+", "-", recipe.name.lower()).strip("-")
    name = name if name[:1].isalpha() else f"job-{name}".strip("-")
    if len(name) > _LONGEST_NAME:
        name = f"{name[: _LONGEST_NAME - 9].rstrip('-')}-{zlib.crc32(recipe.name.encode()):08x}"
    return name


def config_name(recipe: Recipe) -> str:
    return f"{object_name(recipe)}-files"


def _key(path: str) -> str:
    """Return the key of a file, without slashes because a ConfigMap has no folders."""
    return path.replace("/", "__")


def items(recipe: Recipe, files: ProgramFiles) -> dict[str, Any]:
    """Return the mapping of keys to paths; empty if each key is its path."""
    paths = [file.path for file in carried_files(files, recipe)]
    if all(_key(path) == path for path in paths):
        return {}
    return {"items": [{"key": _key(path), "path": path} for path in paths]}


def config_map(recipe: Recipe, files: ProgramFiles, path: str = FILES) -> Artifact:
    """Return the ConfigMap with the plan and the program's files.

    recipe.toml stays in the export folder, because nothing in the container reads it. Raises UsageError if
    the files are too large.
    """
    carried = carried_files(files, recipe)
    size = sum(len(file.path.encode()) + len(file.text.encode()) for file in carried)
    if size > MOST_BYTES:
        raise UsageError(
            f"the program's files have {size} bytes, but a ConfigMap holds at most {MOST_BYTES}",
            "put large files into the image or on the volume (--slot volume_claim=CLAIM:PATH)",
        )
    namespace = slot_value(recipe, "namespace")
    document = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": config_name(recipe), **({"namespace": namespace} if namespace else {})},
        "data": {_key(file.path): Literal(file.text) for file in carried},
    }
    title = "The plan and the program's files, which every pod of the job finds in /rigtune."
    return Artifact(path=path, text=yaml_text((title,), document))

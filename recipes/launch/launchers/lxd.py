"""LXD: a profile with GPUs or MIG slices, and a script that starts the ranks in a container.

Keys: canonical/lxd at a83edf2a (2026-08), doc/reference: gpu devices (CDI names replaced `nvidia.runtime`),
disk devices and instance options. A container on LXD's own network cannot be reached by other nodes, so that
the job has one node.
"""

import re
from typing import Any

import msgspec

from probes.base.errors import UsageError
from probes.base.units import plural
from recipes.launch.manifests.config_map import object_name
from recipes.launch.manifests.container_words import (
    FOLDER,
    Meeting,
    is_gpu,
    mig_profile,
    node_command,
    require_mounts,
    variables,
)
from recipes.launch.manifests.engine_script import quote
from recipes.launch.manifests.yaml_text import Remark, yaml_text
from recipes.launch.program_files import ProgramFiles
from recipes.launch.recipe import EXECUTABLE, Artifact, Recipe
from recipes.launch.script_parts import render_script
from recipes.launch.slots import slot_value

PROFILE = "lxd-profile.yaml"
SCRIPT = "launch-lxd.sh"
_SLICE = re.compile(r"MIG-[0-9a-fA-F-]+")


def render(recipe: Recipe, files: ProgramFiles) -> tuple[Artifact, ...]:
    """Return the script and the profile. Raises UsageError for slots of a wrong form."""
    command, arguments = node_command(recipe, files, Meeting(node_rank="0", master="127.0.0.1"), str)
    given, left_out = variables(recipe, files, has_host_network=False, has_rdma=False)
    text = render_script(
        "lxd.sh.j2",
        recipe,
        msgspec.structs.replace(files, notes=(*files.notes, *left_out)),
        script=SCRIPT,
        profile=PROFILE,
        name=object_name(recipe),
        image=slot_value(recipe, "container_image"),
        command=(*command, *arguments),
        variables=[row for row in given if row.name not in ("HOME", "USER")],
        work=slot_value(recipe, "workdir") or recipe.command.working_directory,
        inside=FOLDER,
        quote=quote,
    )
    head = (f"Devices and limits of the containers of {recipe.title}.", f"{SCRIPT} creates the profile.")
    profile = yaml_text(head, _profile(recipe))
    return (Artifact(path=SCRIPT, text=text, mode=EXECUTABLE), Artifact(path=PROFILE, text=profile))


def start(recipe: Recipe, folder: str, arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command that starts the job."""
    del recipe  # the script names the container
    return (f"{folder}/{SCRIPT}", "--", *arguments)


def _profile(recipe: Recipe) -> dict[Any, Any]:
    mounts = {
        f"folder-{number}": {"type": "disk", "source": host, "path": inside}
        for number, (host, inside) in enumerate(require_mounts(recipe))
    }
    return {
        "description": f"Training job {object_name(recipe)}, written by rigtune",
        "config": {"limits.kernel.memlock": "unlimited"},
        "devices": {**_gpus(recipe), **mounts},
    }


def _gpus(recipe: Recipe) -> dict[Any, Any]:
    """Return all GPUs of the host, or the MIG slices of the slot. Raises UsageError if the slot
    does not name one slice for each rank.

    CDI, the container device interface, also brings the driver's libraries into the container.
    """
    named = slot_value(recipe, "mig_devices")
    if not is_gpu(recipe):
        return {}
    if not named and not mig_profile(recipe):
        whole = {"type": "gpu", "gputype": "physical", "id": "nvidia.com/gpu=all"}
        return {Remark("All GPUs of the host"): None, "gpus": whole}
    slices = [part.strip() for part in named.split(",")]
    count = recipe.parallelism.ranks_per_node
    if len(slices) != count or not all(map(_SLICE.fullmatch, slices)):
        raise UsageError(
            f"slot mig_devices: LXD needs the UUIDs of {plural(count, 'MIG slice')}, separated by commas",
            "`nvidia-smi -L` lists UUIDs, such as MIG-74c6a31a-fde5-5c61-973b-70e12346c202",
        )
    return {
        f"slice-{number}": {"type": "gpu", "gputype": "mig", "id": f"nvidia.com/mig={uuid}"}
        for number, uuid in enumerate(slices)
    }

"""SkyPilot: a task for any cloud, whose nodes run one script.

Fields and variables: SkyPilot 0.14, documentation of the task's YAML and sky/task.py, which fills the
variables of `envs` into `file_mounts` (read 2026-11).
"""

import re
import shlex
from typing import Any

from probes.base.errors import UsageError
from probes.base.record import quoted
from recipes.launch.manifests.config_map import object_name
from recipes.launch.manifests.container_words import is_gpu, refuse_arguments
from recipes.launch.manifests.node_script import node_script
from recipes.launch.manifests.yaml_text import Remark, yaml_text
from recipes.launch.program_files import ProgramFiles
from recipes.launch.recipe import Artifact, Recipe
from recipes.launch.script_parts import prediction, summary
from recipes.launch.slots import slot_value

TASK = "sky.yaml"
NODE_SCRIPT = "sky-node.sh"
_FOLDER = "RIGTUNE_FOLDER"
_GPU = re.compile(
    r"\b(?:GB300|GB200|B300|B200|H200|H100|A100|L40S|L40|L4|A10G|A10|T4|V100|P100|MI300X|MI250X)\b"
)
"""Names of GPUs that are also SkyPilot's names (`sky show-gpus`, version 0.14)."""
_PLACE = """\
node_rank=$SKYPILOT_NODE_RANK
read -r master <<<"$SKYPILOT_NODE_IPS" # one address per line, the first node's first"""
_HOSTS = r"${SKYPILOT_NODE_IPS//$'\n'/,}"


def render(recipe: Recipe, files: ProgramFiles) -> tuple[Artifact, ...]:
    """Return the task and the script of a node. Raises UsageError for a GPU whose name is unknown."""
    comments = (
        recipe.title,
        summary(recipe),
        prediction(recipe),
        f"Start in the folder with your program: {shlex.join(start(recipe, 'FOLDER', ()))}",
        "FOLDER is the folder of this file.",
        "`sky jobs launch` with the same words starts the job again after a preemption.",
        "Tokens: add --secret HF_TOKEN.",
        "Written by rigtune from recipe.toml beside this file, which has the reasons and sources of every "
        "setting.",
    )
    script = node_script(
        recipe, files, script=NODE_SCRIPT, service="SkyPilot", job=TASK, place=_PLACE, hosts=_HOSTS
    )
    return (Artifact(path=TASK, text=yaml_text(comments, _task(recipe, files))), script)


def start(recipe: Recipe, folder: str, arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command that starts the job. Raises UsageError for extra arguments."""
    refuse_arguments(TASK, arguments)
    return ("sky", "launch", "-c", object_name(recipe), "--env", f"{_FOLDER}={folder}", f"{folder}/{TASK}")


def _task(recipe: Recipe, files: ProgramFiles) -> dict[Any, Any]:
    nodes, image, bucket = (
        recipe.parallelism.nodes,
        slot_value(recipe, "container_image"),
        slot_value(recipe, "bucket"),
    )
    resources: dict[Any, Any] = {}
    if is_gpu(recipe):
        resources["accelerators"] = f"{_accelerator(recipe)}:{recipe.parallelism.ranks_per_node}"
    elif recipe.resources.cpus_per_node is not None:
        resources["cpus"] = f"{recipe.resources.cpus_per_node}+"
    if image:
        resources["image_id"] = f"docker:{image}"
    if nodes > 1 and is_gpu(recipe):
        resources |= {
            Remark("The cloud's network for training, where it has one"): None,
            "network_tier": "best",
        }
    mounts: dict[Any, Any] = {"~/rigtune": f"${{{_FOLDER}}}"}
    if bucket:
        mounts["/bucket"] = {"source": bucket, "mode": "MOUNT"}
    uses_work = not files.runs_in_folder and not slot_value(recipe, "workdir")
    return {
        "name": object_name(recipe),
        **({"resources": resources} if resources else {}),
        "num_nodes": nodes,
        **({"workdir": "."} if uses_work else {}),
        "envs": {Remark("The export folder, given by --env"): None, _FOLDER: None},
        "file_mounts": mounts,
        "run": f"bash ~/rigtune/{NODE_SCRIPT}",
    }


def _accelerator(recipe: Recipe) -> str:
    """Return SkyPilot's name of the GPU."""
    if named := slot_value(recipe, "accelerator"):
        return named
    device = recipe.resources.device_name
    match = _GPU.search(device)
    if match is None:
        raise UsageError(
            f"SkyPilot's name of the GPU {quoted(device)} is unknown",
            "`sky show-gpus` lists names; add --slot accelerator=NAME, such as H100",
        )
    return "A100-80GB" if match[0] == "A100" and "80GB" in device else match[0]

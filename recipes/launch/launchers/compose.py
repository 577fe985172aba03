"""Docker compose: one service per node; on several nodes the same file runs on each with its own NODE_RANK.

Fields: Compose specification, services and deploy (read 2026-11).
"""

from typing import Any

from probes.base.errors import UsageError
from recipes.launch.manifests.container_words import (
    FOLDER,
    Meeting,
    Variable,
    grace_s,
    is_gpu,
    node_command,
    refuse_arguments,
    require_mounts,
    require_user,
    shared_memory,
    variables,
)
from recipes.launch.manifests.engine_script import uses_rdma
from recipes.launch.manifests.yaml_text import Remark, yaml_text
from recipes.launch.program_files import ProgramFiles
from recipes.launch.recipe import Artifact, Recipe
from recipes.launch.references import braced, spelled
from recipes.launch.script_parts import job_port, prediction, remarks, summary
from recipes.launch.slots import slot_value

MANIFEST = "compose.yaml"


def render(recipe: Recipe, files: ProgramFiles) -> tuple[Artifact, ...]:
    """Return the compose file. Raises UsageError for slots of a wrong form."""
    place = "" if recipe.parallelism.nodes == 1 else "on every node: NODE_RANK=0 MASTER_ADDR=ADDRESS "
    comments = (
        recipe.title,
        summary(recipe),
        prediction(recipe),
        f"Start: {place}docker compose --file {MANIFEST} up --abort-on-container-exit",
        *(("ADDRESS is that of the first node; NODE_RANK counts the nodes from 0.",) if place else ()),
        "Written by rigtune from recipe.toml beside this file, which has the reasons and sources of every "
        "setting.",
        *remarks(recipe, files),
        *_variables(recipe, files)[1],
    )
    document = {"name": _project(recipe), "services": {"train": _service(recipe, files)}}
    return (Artifact(path=MANIFEST, text=yaml_text(comments, document)),)


def start(recipe: Recipe, folder: str, arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command that starts the job.

    Raises UsageError for several nodes and for extra arguments, which only the file can give to the program.
    """
    command = ("docker", "compose", "--file", f"{folder}/{MANIFEST}", "up", "--abort-on-container-exit")
    refuse_arguments(MANIFEST, arguments)
    if recipe.parallelism.nodes > 1:
        raise UsageError(
            f"recipe {recipe.name!r} needs {recipe.parallelism.nodes} nodes, and compose starts one",
            f"on every node: NODE_RANK=N MASTER_ADDR=ADDRESS_OF_THE_FIRST {' '.join(command)}",
        )
    return command


def _project(recipe: Recipe) -> str:
    """Return the name of the project: lower-case letters, digits, dashes and underscores."""
    name = "".join(each if each.isalnum() or each in "-_" else "-" for each in recipe.name.lower())
    return name if name[0].isalnum() else f"job{name}"


def literal(text: str) -> str:
    """Return text in which compose fills in only references to secrets."""
    return spelled(text.replace("$", "$$"), braced)


def _service(recipe: Recipe, files: ProgramFiles) -> dict[Any, Any]:
    several = recipe.parallelism.nodes > 1
    place = Meeting(node_rank="0", master="127.0.0.1")
    if several:
        place = Meeting(
            node_rank="${NODE_RANK:?the number of this node, from 0}",
            master="${MASTER_ADDR:?the address of the first node}",
            port=f"${{MASTER_PORT:-{job_port(recipe)}}}",
            hosts=",".join(recipe.resources.hosts),
        )
    command, arguments = node_command(recipe, files, place, literal)
    user, group = require_user(recipe)
    work = literal(slot_value(recipe, "workdir") or recipe.command.working_directory) or "${PWD}"
    return {
        "image": literal(slot_value(recipe, "container_image")),
        "command": [*command, *arguments],
        "working_dir": FOLDER if files.runs_in_folder else work,
        "user": f"{user}:{group}",
        "environment": _environment(recipe, files),
        "volumes": _volumes(recipe, "" if files.runs_in_folder else work),
        **_devices(recipe),
        Remark("Shared memory for NCCL and data loaders; limits as NCCL's guide recommends"): None,
        "shm_size": shared_memory(recipe).replace("Gi", "gb"),
        "ulimits": {"memlock": {"soft": -1, "hard": -1}, "stack": 67108864},
        **({"network_mode": "host"} if several else {}),
        "init": True,
        "restart": "no",
        Remark("Time for a last checkpoint after SIGTERM"): None,
        "stop_grace_period": f"{grace_s(recipe)}s",
    }


def _variables(recipe: Recipe, files: ProgramFiles) -> tuple[tuple[Variable, ...], tuple[str, ...]]:
    """Return the variables of the container, and remarks on those that it cannot have."""
    return variables(recipe, files, has_host_network=True, has_rdma=True)


def _environment(recipe: Recipe, files: ProgramFiles) -> dict[Any, Any]:
    rows: dict[Any, Any] = {}
    for variable in _variables(recipe, files)[0]:
        if variable.why:
            rows[Remark(variable.why)] = None
        rows[variable.name] = literal(variable.value)
    rows[Remark("Tokens are taken from the environment of the calling shell and written to no file")] = None
    return {**rows, "HF_TOKEN": None, "WANDB_API_KEY": None}


def _volumes(recipe: Recipe, work: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [{"type": "bind", "source": ".", "target": FOLDER, "read_only": True}]
    if work:
        rows.append({"type": "bind", "source": work, "target": work})
    for host, inside in require_mounts(recipe):
        rows.append({"type": "bind", "source": literal(host), "target": literal(inside)})
    return rows


def _devices(recipe: Recipe) -> dict[Any, Any]:
    if not is_gpu(recipe):
        return {}
    device = {"driver": "nvidia", "count": "all", "capabilities": ["gpu"]}
    gpus: dict[Any, Any] = {"deploy": {"resources": {"reservations": {"devices": [device]}}}}
    if uses_rdma(recipe):
        note = Remark("RDMA devices, which need locked memory")
        gpus |= {note: None, "devices": ["/dev/infiniband:/dev/infiniband"], "cap_add": ["IPC_LOCK"]}
    return gpus

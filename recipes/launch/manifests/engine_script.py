"""The script that starts the ranks of one node in a container of Docker or Podman.

Options: NCCL user guide, troubleshooting (shared memory, limits); Docker's and Podman's reference of `run`;
NVIDIA Container Toolkit, support for the container device interface (all read 2026-11).
"""

from typing import Literal

import msgspec

from probes.base.errors import UsageError
from probes.base.record import quoted
from recipes.launch.manifests.container_words import (
    FOLDER,
    container_executable,
    file_writer,
    grace_s,
    importing_words,
    is_gpu,
    require_mounts,
    require_user,
    shared_memory,
    variables,
)
from recipes.launch.program_files import ProgramFiles
from recipes.launch.recipe import EXECUTABLE, Artifact, Recipe
from recipes.launch.script_parts import render_script
from recipes.launch.slots import slot_value


def quote(text: str) -> str:
    """Return the text in shell quotes, even where a shell needs none, because shellcheck requires them."""
    return "'" + text.replace("'", "'\"'\"'") + "'"


def uses_rdma(recipe: Recipe) -> bool:
    """Return whether the ranks of several nodes use RDMA devices of the host."""
    if recipe.parallelism.nodes == 1 or not is_gpu(recipe):
        return False
    transport = recipe.machine.transport if recipe.machine is not None else "unknown"
    names = {variable.name for variable in recipe.environment}
    return transport in ("infiniband", "roce", "efa") or "NCCL_IB_HCA" in names


def engine_script(engine: Literal["docker", "podman"], recipe: Recipe, files: ProgramFiles) -> Artifact:
    """Return the script of one node. Raises UsageError for slots of a wrong form."""
    mounts = require_mounts(recipe)
    for path in (part for pair in mounts for part in pair):
        if '"' in path:
            raise UsageError(
                f"slot container_mounts: {quoted(path)} has a quote", "use a path without quotes"
            )
    run_as = slot_value(recipe, "run_as")
    if run_as:
        run_as = ":".join(map(str, require_user(recipe)))
    # variables that name interfaces or RDMA devices are kept: on several nodes the containers use the host's
    # network and devices; on one node the variables do no harm, because the ranks share one container
    given, left_out = variables(recipe, files, has_host_network=True, has_rdma=True)
    write = file_writer(str)
    inner = msgspec.structs.replace(files.agent, words=tuple(map(write, files.agent.words)))
    script = script_name(engine)
    text = render_script(
        "container.sh.j2",
        recipe,
        msgspec.structs.replace(files, agent=inner, notes=(*files.notes, *left_out)),
        engine=engine,
        script=script,
        image=slot_value(recipe, "container_image"),
        command=(*importing_words(files), container_executable(recipe, files)),
        words=tuple(map(write, files.words)),
        work=slot_value(recipe, "workdir") or recipe.command.working_directory,
        run_as=run_as,
        mounts=mounts,
        variables=given,
        gpus=is_gpu(recipe),
        rdma=uses_rdma(recipe),
        inside=FOLDER,
        quote=quote,
        grace_s=grace_s(recipe),
        shared_memory=shared_memory(recipe).removesuffix("i").lower(),
    )
    return Artifact(path=script, text=text, mode=EXECUTABLE)


def script_name(engine: str) -> str:
    return f"launch-{engine}.sh"


def start_command(engine: str, recipe: Recipe, folder: str, arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command that starts the job on this machine. Raises UsageError for several nodes."""
    path = f"{folder}/{script_name(engine)}"
    if recipe.parallelism.nodes == 1:
        return (path, "--", *arguments)
    raise UsageError(
        f"recipe {recipe.name!r} needs {recipe.parallelism.nodes} nodes, and {engine} starts one",
        f"on every node: MASTER_ADDR=ADDRESS_OF_THE_FIRST {path} NODE_RANK",
    )

"""MPIJob of Kubeflow's MPI operator: mpirun in a launcher pod starts every rank in the worker pods over ssh.

Source: kubeflow/mpi-operator at v0.8.0 (2026-07), pkg/controller/mpi_job_controller.go: Open MPI finds the
workers as JOB-worker-N.JOB in a host file, with `slotsPerWorker` slots each. Images need Open MPI and an ssh
server that the container's user may start, as the operator's base images (build/base) have.
"""

import msgspec

from recipes.launch.manifests.config_map import config_map, object_name
from recipes.launch.manifests.container_words import (
    FOLDER,
    container_executable,
    file_writer,
    folder,
    importing_words,
)
from recipes.launch.manifests.pod_parts import (
    Tree,
    apply_command,
    container_security,
    container_variables,
    deadline,
    environment,
    head,
    literal,
    metadata,
    mounts,
    pod_metadata,
    pod_spec,
    port,
    resources,
    secrets,
)
from recipes.launch.manifests.yaml_text import Remark, yaml_text
from recipes.launch.program_files import ProgramFiles
from recipes.launch.recipe import Artifact, Environment, Recipe
from recipes.launch.references import referenced
from recipes.launch.slots import slot_value

MANIFEST = "mpijob.yaml"
_FILES = "mpijob-files.yaml"
_HOME = "/home/mpiuser"
"""Home of the user of the operator's base images."""
_RETRIES = 3
_TOKENS = "/rigtune-tokens"
_SCRIPT = "rank.sh"
_RANK = """#!/usr/bin/env bash
# Starts one rank: gives it the variables that torch expects, from those of Open MPI.
export RANK=$OMPI_COMM_WORLD_RANK WORLD_SIZE=$OMPI_COMM_WORLD_SIZE
export LOCAL_RANK=$OMPI_COMM_WORLD_LOCAL_RANK LOCAL_WORLD_SIZE=$OMPI_COMM_WORLD_LOCAL_SIZE
# Tokens are files here, because ssh passes on no variables of the worker's container.
for file in /rigtune-tokens/*; do
  if [[ -f $file ]]; then export "${file##*/}=$(<"$file")"; fi
done
exec "$@"
"""


def render(recipe: Recipe, files: ProgramFiles) -> tuple[Artifact, ...]:
    """Return the MPIJob and its files. Raises UsageError for slots of a wrong form."""
    name = object_name(recipe)
    given = (
        Environment(name="MASTER_ADDR", value=f"{name}-worker-0.{name}", why="", source=""),
        Environment(name="MASTER_PORT", value=str(port(recipe)), why="", source=""),
    )
    names = {row.name for row in recipe.environment}
    of_rank = tuple(row for row in files.rank_environment if row.name not in names)
    home = Environment(name="HOME", value=_HOME, why="ssh reads its keys here", source="")
    recipe = msgspec.structs.replace(recipe, environment=(*recipe.environment, *of_rank, home, *given))
    script = Artifact(path=_SCRIPT, text=_RANK)
    files = msgspec.structs.replace(files, files=(*files.files, script))
    # version 0.5 is the first with launcherCreationPolicy
    needs = (
        "Needs: Kubeflow's MPI operator 0.5 or newer (kubeflow.org/v2beta1), and an image with Open MPI and "
        f"an ssh server as in the operator's base images ({_HOME}/.sshd_config)."
    )
    comments = head(recipe, files, start(recipe, ".", ()), needs)
    return (
        Artifact(path=MANIFEST, text=yaml_text(comments, _job(recipe, files))),
        config_map(recipe, files, _FILES),
    )


def start(recipe: Recipe, folder: str, arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command that creates the job. Raises UsageError for extra arguments."""
    return apply_command(recipe, folder, MANIFEST, arguments, _FILES)


def _job(recipe: Recipe, files: ProgramFiles) -> Tree:
    parallelism = recipe.parallelism
    starter = {
        "name": "launcher",
        "image": slot_value(recipe, "container_image"),
        "command": _mpirun(recipe, files),
        "args": _rank_words(recipe, files),
        "env": environment(recipe, files),
        # the launcher pod needs secrets only if the command line of mpirun refers to one
        **(secrets(recipe) if referenced(map(str, files.words)) else {}),
        "securityContext": container_security(recipe),
        "volumeMounts": mounts(recipe),
    }
    secret = slot_value(recipe, "token_secret")
    worker = {
        "name": "worker",
        "image": slot_value(recipe, "container_image"),
        "command": ["/usr/sbin/sshd"],
        "args": ["-De", "-f", f"{_HOME}/.sshd_config"],
        "resources": resources(recipe),
        "securityContext": container_security(recipe),
        "volumeMounts": [*mounts(recipe), *([{"name": "tokens", "mountPath": _TOKENS}] if secret else ())],
    }
    workers = pod_spec(recipe, files, worker)
    workers["volumes"] += [{"name": "tokens", "secret": {"secretName": secret}}] if secret else []
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": metadata(recipe, queue=True),
        "spec": {
            "mpiImplementation": "OpenMPI",
            "slotsPerWorker": parallelism.ranks_per_node,
            "sshAuthMountPath": f"{_HOME}/.ssh",
            "launcherCreationPolicy": "WaitForWorkersReady",
            "runPolicy": {"cleanPodPolicy": "Running", "backoffLimit": _RETRIES, **deadline(recipe)},
            "mpiReplicaSpecs": {
                "Launcher": _replicas(recipe, pod_spec(recipe, files, starter), 1),
                "Worker": _replicas(recipe, workers, parallelism.nodes),
            },
        },
    }


def _replicas(recipe: Recipe, pod: Tree, count: int) -> Tree:
    return {
        "replicas": count,
        "restartPolicy": "OnFailure",
        "template": {"metadata": pod_metadata(recipe), "spec": pod},
    }


def _mpirun(recipe: Recipe, files: ProgramFiles) -> list[object]:
    """Return mpirun with its options, which name every variable that Open MPI must pass on."""
    parallelism, work = recipe.parallelism, folder(recipe, files)
    exported = [row.name for row in container_variables(recipe, files)[0] if row.name not in ("HOME", "USER")]
    # the image may set this path, which ssh does not pass on
    exported += ["LD_LIBRARY_PATH"] if files.executable else []
    return [
        *("mpirun", "-np", str(parallelism.world_size)),
        *("--map-by", f"ppr:{parallelism.ranks_per_node}:node"),
        Remark("Not bound to cores: a rank's threads of NCCL and of data loaders need several"),
        *("--bind-to", "none"),
        *(("-wdir", literal(work)) if work else ()),
        *(word for name in exported for word in ("-x", name)),
    ]


def _rank_words(recipe: Recipe, files: ProgramFiles) -> list[str]:
    """Return the command of each rank."""
    write = file_writer(literal)
    executable = literal(container_executable(recipe, files))
    importing = map(literal, importing_words(files))
    return [*importing, "bash", f"{FOLDER}/{_SCRIPT}", executable, *map(write, files.words)]

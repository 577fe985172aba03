"""PyTorchJob of Kubeflow's training operator, version 1: a master and workers, one pod per node.

Source: kubeflow/training-operator at v1.9.0 (2025-02), pkg/controller.v1/pytorch/envvar.go: without an
elastic policy each pod gets MASTER_ADDR, MASTER_PORT and RANK, its number among the pods, which torchrun
needs as the rank of the node. A failed pod is created again with restartPolicy OnFailure
(pkg/controller.v1/common/pod.go).
"""

from recipes.launch.manifests.config_map import config_map, object_name
from recipes.launch.manifests.container_words import Meeting
from recipes.launch.manifests.pod_parts import (
    Tree,
    apply_command,
    container,
    deadline,
    head,
    metadata,
    pod_metadata,
    pod_spec,
)
from recipes.launch.manifests.yaml_text import Remark, yaml_text
from recipes.launch.program_files import ProgramFiles
from recipes.launch.recipe import Artifact, Recipe

MANIFEST = "pytorchjob.yaml"
_RETRIES_PER_POD = 3
"""Restarts of a pod before the job fails; the number is a choice, not a measurement."""


def render(recipe: Recipe, files: ProgramFiles) -> tuple[Artifact, ...]:
    """Return the PyTorchJob and its files. Raises UsageError for slots of a wrong form."""
    needs = "Needs: Kubeflow's training operator 1.7 to 1.9 (kubeflow.org/v1)."
    comments = head(recipe, files, start(recipe, ".", ()), needs)
    return (
        Artifact(path=MANIFEST, text=yaml_text(comments, _job(recipe, files))),
        config_map(recipe, files),
    )


def start(recipe: Recipe, folder: str, arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command that creates the job. Raises UsageError for extra arguments."""
    return apply_command(recipe, folder, MANIFEST, arguments)


def _job(recipe: Recipe, files: ProgramFiles) -> Tree:
    nodes = recipe.parallelism.nodes
    workers = {"Worker": _replicas(recipe, files, nodes - 1)} if nodes > 1 else {}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": metadata(recipe, queue=True),
        "spec": {
            "nprocPerNode": str(recipe.parallelism.ranks_per_node),
            "runPolicy": {
                "cleanPodPolicy": "Running",
                Remark("When a pod fails, the ranks of the others fail too, and all count"): None,
                "backoffLimit": _RETRIES_PER_POD * nodes,
                **deadline(recipe),
            },
            "pytorchReplicaSpecs": {"Master": _replicas(recipe, files, 1), **workers},
        },
    }


def _replicas(recipe: Recipe, files: ProgramFiles, count: int) -> Tree:
    name = object_name(recipe)
    workers = [f"{name}-worker-{index}" for index in range(recipe.parallelism.nodes - 1)]
    place = Meeting(
        node_rank="$(RANK)",
        master="$(MASTER_ADDR)",
        port="$(MASTER_PORT)",
        hosts=",".join((f"{name}-master-0", *workers)),
    )
    # the operator looks for a container of this name
    body = container(recipe, files, "pytorch", place)
    return {
        "replicas": count,
        "restartPolicy": "OnFailure",
        "template": {"metadata": pod_metadata(recipe), "spec": pod_spec(recipe, files, body)},
    }

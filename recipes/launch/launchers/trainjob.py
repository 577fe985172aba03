"""TrainJob of Kubeflow's Trainer, version 2, with a runtime of its own.

A TrainJob has no field for the working folder, for secrets or for shared memory, so a TrainingRuntime in the
same file describes the pods. Source: kubeflow/trainer at v2.3.0 (2026-08),
pkg/runtime/framework/plugins/torch/torch.go: each pod gets PET_NODE_RANK, PET_MASTER_ADDR and
PET_MASTER_PORT, and the container is called node.
"""

from recipes.launch.manifests.config_map import config_map, object_name
from recipes.launch.manifests.container_words import Meeting, node_command
from recipes.launch.manifests.job_sets import REPLICATED_JOB, failure_policy, host_names, job_spec
from recipes.launch.manifests.pod_parts import (
    Tree,
    apply_command,
    container_security,
    environment,
    head,
    literal,
    metadata,
    mounts,
    pod_spec,
    resources,
    secrets,
    working_folder,
)
from recipes.launch.manifests.yaml_text import Remark, yaml_text
from recipes.launch.program_files import ProgramFiles
from recipes.launch.recipe import Artifact, Recipe
from recipes.launch.slots import slot_value

MANIFEST = "trainjob.yaml"
_API = "trainer.kubeflow.org/v1alpha1"


def render(recipe: Recipe, files: ProgramFiles) -> tuple[Artifact, ...]:
    """Return the TrainJob with its runtime, and its files. Raises UsageError for slots of a wrong form."""
    needs = "Needs: Kubeflow Trainer 2.0 or newer (trainer.kubeflow.org/v1alpha1)."
    comments = head(recipe, files, start(recipe, ".", ()), needs)
    return (
        Artifact(path=MANIFEST, text=yaml_text(comments, _runtime(recipe, files), _job(recipe, files))),
        config_map(recipe, files),
    )


def start(recipe: Recipe, folder: str, arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command that creates the job. Raises UsageError for extra arguments."""
    return apply_command(recipe, folder, MANIFEST, arguments)


def _runtime(recipe: Recipe, files: ProgramFiles) -> Tree:
    """Return the runtime: the pods without the command."""
    body = {
        "name": "node",
        "image": slot_value(recipe, "container_image"),
        **working_folder(recipe, files),
        **secrets(recipe),
        "securityContext": container_security(recipe),
        "volumeMounts": mounts(recipe),
    }
    pod = pod_spec(recipe, files, body, restart_policy="Never")
    job = {
        Remark("The Trainer gives the command to the job with this label"): None,
        "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
        "spec": job_spec(recipe, pod),
    }
    return {
        "apiVersion": _API,
        "kind": "TrainingRuntime",
        "metadata": {**metadata(recipe), "labels": {"trainer.kubeflow.org/framework": "torch"}},
        "spec": {
            "mlPolicy": {"numNodes": recipe.parallelism.nodes, "torch": {}},
            "template": {
                "spec": {
                    "failurePolicy": failure_policy(),
                    "network": {"publishNotReadyAddresses": True},
                    "replicatedJobs": [{"name": REPLICATED_JOB, "template": job}],
                }
            },
        },
    }


def _job(recipe: Recipe, files: ProgramFiles) -> Tree:
    place = Meeting(
        node_rank="$(PET_NODE_RANK)",
        master="$(PET_MASTER_ADDR)",
        port="$(PET_MASTER_PORT)",
        hosts=",".join(host_names(recipe)),
    )
    command, arguments = node_command(recipe, files, place, literal)
    limits = resources(recipe)
    return {
        "apiVersion": _API,
        "kind": "TrainJob",
        "metadata": metadata(recipe, queue=True),
        "spec": {
            "runtimeRef": {
                "apiGroup": "trainer.kubeflow.org",
                "kind": "TrainingRuntime",
                "name": object_name(recipe),
            },
            "trainer": {
                "image": slot_value(recipe, "container_image"),
                "numNodes": recipe.parallelism.nodes,
                "numProcPerNode": recipe.parallelism.ranks_per_node,
                "command": command,
                "args": arguments,
                "env": environment(recipe, files),
                **({"resourcesPerNode": limits} if limits else {}),
            },
        },
    }

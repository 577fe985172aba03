"""Kubernetes without an operator: an indexed Job whose pods meet by the names of a headless Service.

Names of pods and the variable JOB_COMPLETION_INDEX: Kubernetes documentation, indexed Jobs (read 2026-11).
"""

from recipes.launch.manifests.config_map import config_map, object_name
from recipes.launch.manifests.pod_parts import (
    Tree,
    apply_command,
    container,
    deadline,
    head,
    meeting,
    metadata,
    pod_metadata,
    pod_spec,
    port,
)
from recipes.launch.manifests.yaml_text import Remark, yaml_text
from recipes.launch.program_files import ProgramFiles
from recipes.launch.recipe import Artifact, Recipe

MANIFEST = "job.yaml"
_RETRIES = 3
"""Attempts after the first; the number is a choice, not a measurement."""


def render(recipe: Recipe, files: ProgramFiles) -> tuple[Artifact, ...]:
    """Return the Job, with a Service if there are several nodes, and its files.

    Raises UsageError for slots of a wrong form.
    """
    nodes = recipe.parallelism.nodes
    parts = (*((_service(recipe),) if nodes > 1 else ()), _job(recipe, files))
    comments = head(
        recipe, files, start(recipe, ".", ()), "Needs: Kubernetes 1.27 or newer, and no operator."
    )
    return (
        Artifact(path=MANIFEST, text=yaml_text(comments, *parts)),
        config_map(recipe, files),
    )


def start(recipe: Recipe, folder: str, arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command that creates the job. Raises UsageError for extra arguments."""
    return apply_command(recipe, folder, MANIFEST, arguments)


def _service(recipe: Recipe) -> Tree:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(recipe),
        "spec": {
            Remark("Gives each pod a name before it is ready"): None,
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {"app.kubernetes.io/name": object_name(recipe)},
        },
    }


def _job(recipe: Recipe, files: ProgramFiles) -> Tree:
    nodes, name = recipe.parallelism.nodes, object_name(recipe)
    hosts = tuple(f"{name}-{rank}.{name}" for rank in range(nodes))
    place = meeting(recipe, "$(JOB_COMPLETION_INDEX)", hosts)
    body = container(recipe, files, "train", place, ports=(port(recipe),) if nodes > 1 else ())
    pod = pod_spec(recipe, files, body, restart_policy="Never")
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata(recipe, queue=True),
        "spec": {
            "completionMode": "Indexed",
            "completions": nodes,
            "parallelism": nodes,
            **_retries(nodes),
            **deadline(recipe),
            "template": {
                "metadata": pod_metadata(recipe),
                "spec": {**({"subdomain": name} if nodes > 1 else {}), **pod},
            },
        },
    }


def _retries(nodes: int) -> Tree:
    """Return the policy for failed pods: a job of one pod starts it again, a job of several pods ends."""
    if nodes > 1:
        return {
            Remark("When a pod fails, all end: a Job cannot start all pods again, as a JobSet does"): None,
            "backoffLimit": 0,
        }
    return {
        "backoffLimit": _RETRIES,
        "podFailurePolicy": {
            "rules": [
                Remark("Preemption and the loss of a node do not count"),
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
            ]
        },
    }

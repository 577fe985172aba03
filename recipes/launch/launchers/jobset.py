"""JobSet: an indexed Job that starts all of its pods again when one fails or is preempted."""

from recipes.launch.manifests.config_map import config_map
from recipes.launch.manifests.job_sets import REPLICATED_JOB, failure_policy, host_names, job_spec
from recipes.launch.manifests.pod_parts import (
    Tree,
    apply_command,
    container,
    head,
    meeting,
    metadata,
    pod_spec,
    port,
)
from recipes.launch.manifests.yaml_text import yaml_text
from recipes.launch.program_files import ProgramFiles
from recipes.launch.recipe import Artifact, Recipe

MANIFEST = "jobset.yaml"


def render(recipe: Recipe, files: ProgramFiles) -> tuple[Artifact, ...]:
    """Return the JobSet and its files. Raises UsageError for slots of a wrong form."""
    needs = "Needs: JobSet 0.6 or newer (jobset.x-k8s.io/v1alpha2)."
    comments = head(recipe, files, start(recipe, ".", ()), needs)
    return (
        Artifact(path=MANIFEST, text=yaml_text(comments, _job_set(recipe, files))),
        config_map(recipe, files),
    )


def start(recipe: Recipe, folder: str, arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command that creates the job. Raises UsageError for extra arguments."""
    return apply_command(recipe, folder, MANIFEST, arguments)


def _job_set(recipe: Recipe, files: ProgramFiles) -> Tree:
    place = meeting(recipe, "$(JOB_COMPLETION_INDEX)", host_names(recipe))
    ports = (port(recipe),) if recipe.parallelism.nodes > 1 else ()
    body = container(recipe, files, "train", place, ports=ports)
    pod = pod_spec(recipe, files, body, restart_policy="Never")
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": metadata(recipe, queue=True),
        "spec": {
            "failurePolicy": failure_policy(),
            "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
            "replicatedJobs": [
                {"name": REPLICATED_JOB, "replicas": 1, "template": {"spec": job_spec(recipe, pod)}}
            ],
        },
    }

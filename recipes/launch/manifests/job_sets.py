"""The indexed Job inside a JobSet, which starts all pods again when one fails.

Source: kubernetes-sigs/jobset at 08dfbdfd (2026-08), api/jobset/v1alpha2/jobset_types.go: names of pods are
JOBSET-REPLICATEDJOB-JOBINDEX-PODINDEX.SUBDOMAIN, and the subdomain is the JobSet's name.
"""

from typing import Any

from recipes.launch.manifests.config_map import object_name
from recipes.launch.manifests.pod_parts import Tree, deadline, pod_metadata
from recipes.launch.manifests.yaml_text import Remark
from recipes.launch.recipe import Recipe

MOST_RESTARTS = 3
"""Restarts of all pods before the job fails; the number is a choice, not a measurement."""
REPLICATED_JOB = "node"
"""Name of the JobSet's only job; the runtimes of Kubeflow's Trainer use the same name."""


def host_names(recipe: Recipe) -> tuple[str, ...]:
    """Return the names of all pods in the order of their ranks."""
    name = object_name(recipe)
    return tuple(f"{name}-{REPLICATED_JOB}-0-{index}.{name}" for index in range(recipe.parallelism.nodes))


def failure_policy() -> Tree:
    """Return the policy that starts all pods again: a recreated pod alone would wait for the others."""
    return {
        "maxRestarts": MOST_RESTARTS,
        "rules": [
            Remark("Preemption and the loss of a node do not count"),
            {
                "name": "disruption",
                "action": "RestartJobSetAndIgnoreMaxRestarts",
                "onJobFailureReasons": ["PodFailurePolicy"],
            },
        ],
    }


def job_spec(recipe: Recipe, pod: Tree, **fields: Any) -> Tree:
    """Return the Job of all nodes, which ends when one pod fails."""
    nodes = recipe.parallelism.nodes
    return {
        "completionMode": "Indexed",
        "completions": nodes,
        "parallelism": nodes,
        "backoffLimit": 0,
        **deadline(recipe),
        "podFailurePolicy": {
            "rules": [
                {"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
            ]
        },
        "template": {"metadata": pod_metadata(recipe), "spec": pod},
        **fields,
    }

"""Recipes for launchers of containers, and the parts of the manifests that they write."""

from __future__ import annotations

from typing import Any

import yaml

from recipes.launch.launch_files import launch_files
from recipes.launch.launcher_table import LAUNCHERS
from recipes.launch.recipe import CheckpointSettings, Command, Environment, Prediction, Recipe

KUBERNETES = ("kubernetes-job", "pytorchjob", "trainjob", "jobset", "mpijob")
IMAGE = "registry.example.org/team/train:1.2"
SITE = {
    "container_image": IMAGE,
    "network_resource": "rdma/ib=8",
    "volume_claim": "corpus:/corpus",
    "token_secret": "hub-token",
    "queue": "users",
    "namespace": "training",
    "time": "1-12:30",
}
GPU = {"device": "cuda", "backend": "nccl", "device_name": "NVIDIA H100 80GB HBM3", "cpus_per_node": 96}
H100 = {
    "nodes": 4,
    "ranks_per_node": 8,
    "resources": GPU,
    "slots": SITE,
    "command": Command(kind="script", target="train.py", arguments=("--lr", "{learning_rate}")),
    "environment": (
        Environment(name="NCCL_IB_HCA", value="=mlx5_0,mlx5_3", why="Two ports are for storage.", source="s"),
        Environment(name="NCCL_SOCKET_IFNAME", value="=ens3", why="It holds the default route.", source="s"),
    ),
    "predicted": Prediction(step_time_s=2.0, step_time_high_s=3.0),
    "checkpoints": CheckpointSettings(every_steps=100, write_s=45.0),
}
SMALL = {"slots": {"container_image": IMAGE}}
"""Fields of a recipe; with the defaults it is one node with two ranks of the reference workload."""


def needing_slots() -> tuple[str, ...]:
    return tuple(row.id for row in LAUNCHERS if row.needs)


def documents(recipe: Recipe, launcher: str) -> list[dict[str, Any]]:
    """Return all YAML documents that the launcher writes."""
    return [
        document
        for file in launch_files(recipe, launcher)
        if file.path.endswith(".yaml")
        for document in yaml.safe_load_all(file.text)
    ]


def of_kind(recipe: Recipe, launcher: str, kind: str) -> dict[str, Any]:
    (document,) = [each for each in documents(recipe, launcher) if each["kind"] == kind]
    return document


def templates(node: Any) -> list[dict[str, Any]]:
    """Return all pod templates below a node, in the order of the file."""
    if isinstance(node, list):
        return [template for item in node for template in templates(item)]
    if not isinstance(node, dict):
        return []
    if "containers" in node.get("spec", {}):
        return [node]
    return [template for value in node.values() for template in templates(value)]


def containers(recipe: Recipe, launcher: str) -> list[dict[str, Any]]:
    """Return the container of each template; a TrainJob's trainer completes the container of its runtime."""
    bodies = [
        container
        for document in documents(recipe, launcher)
        for template in templates(document)
        for container in template["spec"]["containers"]
    ]
    if launcher == "trainjob":
        trainer = of_kind(recipe, launcher, "TrainJob")["spec"]["trainer"]
        resources = trainer.get("resourcesPerNode", {})
        bodies = [{**each, **trainer, "resources": resources} for each in bodies]
    return bodies


def expanded(text: str, variables: dict[str, str]) -> str:
    """Return the text as the kubelet gives it to a process: `$(NAME)` is a variable, `$$` a dollar sign."""
    parts, at = [], 0
    while at < len(text):
        end = text.find(")", at) if text.startswith("$(", at) else -1
        if text.startswith("$$", at):
            parts.append("$")
            at += 2
        elif end > 0 and text[at + 2 : end] in variables:
            parts.append(variables[text[at + 2 : end]])
            at = end + 1
        else:
            parts.append(text[at])
            at += 1
    return "".join(parts)

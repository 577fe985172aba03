"""Kubernetes manifests: Pods, Jobs, PyTorchJob, MPIJob, TrainJob, JobSet, LeaderWorkerSet and all else that
has containers.

Whatever the kind, an `env` list, a `command` with its `args`, and a ConfigMap are found where they stand.
Other YAML with environments and scripts (Helm values, SkyPilot) is read by the same.
"""

from __future__ import annotations

import yaml

from recipes.lint.document import Document, Entry, Reach
from recipes.lint.readers.pods import Pods
from recipes.lint.readers.tree import children, get, parse, text_of

_SCRIPTS = frozenset({"run", "setup", "script"})
_MAPS = frozenset({
    "env", "envs", "extraEnv", "extraEnvs", "environment", "env_vars", "envVars", "env_variables",
    "environment_variables", "EnvironmentVariables", "environmentVariables", "literals",
})  # fmt: skip
"""Of Kubernetes, Helm values, SkyPilot, Ray, Azure ML, SageMaker and Kustomize."""


def read(name: str, text: str) -> Document:
    """Never raises. With several documents in a file, the paths of the second begin with `[1].`, and so
    on.
    """
    tree = parse(text)
    pods = Pods(tree)
    entries: list[Entry] = []
    for number, root in enumerate(tree.roots):
        prefix = f"[{number}]." if number else ""
        entries += [
            Entry(path=prefix + one.path, value=one.value, place=one.place) for one in tree.entries(root)
        ]
        _read_object(pods, root)
    return pods.document(name, "kubernetes", entries)


def _read_object(pods: Pods, root: yaml.Node) -> None:
    kind = text_of(get(root, "kind"))
    if kind == "CustomResourceDefinition":
        return
    if kind == "ConfigMap":
        _read_map(pods, get(root, "data"))
        return
    mappings = _mappings(root)
    templates = sum(get(one, "containers") is not None for one in mappings)
    reaches: Reach = "node" if templates > 1 else "all"
    for one in mappings:
        keys = dict(children(one))
        for key in _MAPS & keys.keys():
            pods.variables(keys[key], reaches)
        command, arguments = keys.get("command"), keys.get("args")
        if isinstance(command, yaml.SequenceNode | yaml.ScalarNode) or isinstance(
            arguments, yaml.SequenceNode
        ):
            pods.start((command, arguments), reaches)
        for key in _SCRIPTS & keys.keys():
            value = keys[key]
            if isinstance(value, yaml.ScalarNode) and "\n" in value.value:
                pods.script(pods.tree.span(value), "all")


def _read_map(pods: Pods, data: yaml.Node | None) -> None:
    """A ConfigMap: variables for `envFrom`, scripts and configuration files."""
    pods.variables(data, "all")
    for key, value in children(data) if data is not None else ():
        if not isinstance(value, yaml.ScalarNode):
            continue
        if str(key).endswith("nccl.conf"):
            pods.conf(value)
        elif str(key).endswith((".sh", ".bash", ".sbatch")) or value.value.startswith("#!"):
            pods.script(pods.tree.span(value), "all")
    kept = [one for one in pods.settings if "\n" not in one.written]
    pods.settings[:] = kept


def _mappings(root: yaml.Node) -> list[yaml.Node]:
    """All mappings below, each once, in the order of the file."""
    found: list[yaml.Node] = []
    stack, seen = [root], set[int]()
    while stack:
        one = stack.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, yaml.MappingNode):
            found.append(one)
        stack += reversed([value for _, value in children(one)])
    return found

"""Kubernetes manifests: Pods, Jobs, PyTorchJob, MPIJob, TrainJob, JobSet and all else with containers.

Whatever the kind, the reader finds each `env` list, each `command` with its `args`, and ConfigMaps. Other
YAML with environments and scripts (Helm values, SkyPilot) is read in the same way.
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
"""Keys of Kubernetes, Helm values, SkyPilot, Ray, Azure ML, SageMaker and Kustomize."""


def read(name: str, text: str) -> Document:
    """Return the manifests as a document. Never raises an error.

    With several YAML documents in a file, the paths of the second begin with `[1].`, and so on.
    """
    tree = parse(text)
    pods = Pods(tree)
    entries: list[Entry] = []
    for number, root in enumerate(tree.roots):
        prefix = f"[{number}]." if number else ""
        entries += [
            Entry(path=prefix + entry.path, value=entry.value, place=entry.place)
            for entry in tree.entries(root)
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
    templates = sum(get(mapping, "containers") is not None for mapping in mappings)
    reaches: Reach = "node" if templates > 1 else "all"
    for mapping in mappings:
        keys = dict(children(mapping))
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
    """Read a ConfigMap: variables for `envFrom`, scripts and configuration files."""
    pods.variables(data, "all")
    for key, value in children(data) if data is not None else ():
        if not isinstance(value, yaml.ScalarNode):
            continue
        if str(key).endswith("nccl.conf"):
            pods.conf(value)
        elif str(key).endswith((".sh", ".bash", ".sbatch")) or value.value.startswith("#!"):
            pods.script(pods.tree.span(value), "all")
    pods.settings[:] = [setting for setting in pods.settings if "\n" not in setting.written]


def _mappings(root: yaml.Node) -> list[yaml.Node]:
    """Return all mappings below a node, each once, in the order of the file."""
    mappings: list[yaml.Node] = []
    stack, visited = [root], set[int]()
    while stack:
        node = stack.pop()
        if id(node) in visited:
            continue
        visited.add(id(node))
        if isinstance(node, yaml.MappingNode):
            mappings.append(node)
        stack += reversed([value for _, value in children(node)])
    return mappings

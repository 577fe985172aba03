"""Containers in YAML and JSON: Kubernetes manifests, compose files and devcontainer.json."""

import re
from collections.abc import Iterable, Sequence

import msgspec
import yaml

from recipes.lint.document import Command, Document, DocumentKind, Entry, Place, Reach, Setting
from recipes.lint.readers.entry_lines import settings_in
from recipes.lint.readers.launching import Launches, Start, plain_inline
from recipes.lint.readers.options import ASSIGNMENT, Argued
from recipes.lint.readers.script import ScriptReader
from recipes.lint.readers.span import Span
from recipes.lint.readers.tree import Tree, children, get, parse, text_of

_NAME = re.compile(r"[A-Za-z_]\w*")
_EXPANDS = re.compile(r"\$\([A-Za-z_]\w*\)|\$\{?[A-Za-z_]")


class Pods:
    """Collector of the settings and commands of one file."""

    def __init__(self, tree: Tree, *, null_is_unknown: bool = False) -> None:
        self.tree = tree
        self._null_is_unknown = null_is_unknown
        """True if a variable without a value gets its value from outside; if False, the variable is unset."""
        self.settings: list[Setting] = []
        self.commands: list[Command] = []

    def document(self, name: str, kind: DocumentKind, entries: Iterable[Entry]) -> Document:
        """Return the collected settings and commands as the document of the whole file."""
        return Document(
            name=name,
            kind=kind,
            text=self.tree.text,
            settings=tuple(dict.fromkeys(self.settings)),
            commands=tuple(self.commands),
            entries=tuple(entries),
            problems=tuple(self.tree.problems),
            faults=tuple(self.tree.faults),
        )

    def variables(self, node: yaml.Node | None, reaches: Reach) -> None:
        """Read `- name: A` with `value: 1`, `- A=1`, or a mapping."""
        for key, value in children(node) if node is not None else ():
            name_node = get(value, "name")
            if isinstance(node, yaml.MappingNode):
                if key == "<<":
                    self.variables(value, reaches)
                elif isinstance(key, str) and _NAME.fullmatch(key) and isinstance(value, yaml.ScalarNode):
                    place = next(self.tree.place(name) for name, other in node.value if other is value)
                    self._set(key, value, place, reaches)
            elif isinstance(name_node, yaml.ScalarNode):
                self._set(name_node.value, get(value, "value"), self.tree.place(name_node), reaches)
            elif isinstance(value, yaml.ScalarNode) and (match := ASSIGNMENT.fullmatch(value.value)):
                span = self.tree.span(value)
                text = match[2]
                self.settings.append(
                    Setting(
                        name=match[1],
                        value=None if _is_open(text) else text,
                        written=text,
                        is_literal=not _is_open(text),
                        place=span.place(),
                        value_place=span.place(match.start(2)),
                        reaches=reaches,
                    )
                )

    def _set(self, name: str, node: yaml.Node | None, place: Place, reaches: Reach) -> None:
        is_null = node is not None and node.tag == "tag:yaml.org,2002:null"
        text = None if is_null else text_of(node)
        is_literal = not self._null_is_unknown if is_null else text is not None and not _is_open(text)
        self.settings.append(
            Setting(
                name=name,
                value=text if is_literal else None,
                written="" if node is None else self.tree.text[slice(*self.tree.offsets(node))][:4096],
                is_literal=is_literal,
                place=place,
                value_place=None if node is None else self.tree.place(node),
                reaches=reaches,
            )
        )

    def start(self, lists: Sequence[yaml.Node | None], reaches: Reach, how: Start | None = None) -> None:
        """Read `command` and `args` together: lists of words, or a line for a shell."""
        words: list[Argued] = []
        for node in lists:
            if isinstance(node, yaml.ScalarNode):
                self.script(self.tree.span(node), reaches, how)
            elif isinstance(node, yaml.SequenceNode):
                words += [self.tree.argued(item) for item in node.value if isinstance(item, yaml.ScalarNode)]
        launches = Launches(lambda span, inner: self.script(span, reaches, inner), plain_inline)
        first = len(self.commands)
        launches.start(words, how or Start())
        # the commands that the words state come before the commands of scripts that the words contain
        self.commands[first:first] = launches.commands
        self.settings += launches.settings

    def script(self, span: Span, reaches: Reach, how: Start | None = None) -> None:
        """Read a script in a value; each process of the pod runs it."""
        how = how or Start()
        if len(how.inside) > 8:
            return
        reader = ScriptReader(
            msgspec.structs.replace(how, in_single_quotes=True), reaches_all=reaches == "all"
        )
        reader.read(span)
        self.settings += (*reader.settings, *reader.launches.settings)
        self.commands += reader.launches.commands

    def conf(self, node: yaml.ScalarNode) -> None:
        """Read an `nccl.conf` in a ConfigMap."""
        self.settings += settings_in(self.tree.span(node))


def _is_open(text: str) -> bool:
    """Return whether Kubernetes (`$(NAME)`), compose (`${NAME}`) or a template expands a part."""
    return _EXPANDS.search(text) is not None or "{{" in text


_SCRIPTS = frozenset({"run", "setup", "script"})
_MAPS = frozenset({
    "env", "envs", "extraEnv", "extraEnvs", "environment", "env_vars", "envVars", "env_variables",
    "environment_variables", "EnvironmentVariables", "environmentVariables", "literals",
})  # fmt: skip
"""Keys for variables in Kubernetes, Helm values, SkyPilot, Ray, Azure ML, SageMaker and Kustomize."""


def kubernetes(name: str, text: str) -> Document:
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


def compose(name: str, text: str) -> Document:
    """Return the compose file as a document. Never raises an error."""
    tree = parse(text)
    pods = Pods(tree, null_is_unknown=True)
    entries = []
    for root in tree.roots[:1]:
        entries += list(tree.entries(root))
        services = get(root, "services")
        all_services = [service for _, service in children(services)] if services is not None else []
        reaches: Reach = "node" if len(all_services) > 1 else "all"
        for service in all_services:
            pods.variables(get(service, "environment"), reaches)
            pods.start((get(service, "entrypoint"), get(service, "command")), reaches)
    return pods.document(name, "compose", entries)


def devcontainer(name: str, text: str) -> Document:
    """Return the file as a document. Never raises an error.

    `runArgs` are the options of `docker run`.
    """
    tree = parse(text, is_json=True)
    pods = Pods(tree)
    root = tree.roots[0] if tree.roots else None
    for key in ("containerEnv", "remoteEnv"):
        pods.variables(get(root, key), "all")
    options = get(root, "runArgs")
    if isinstance(options, yaml.SequenceNode):
        place = tree.place(options)
        words = [Argued("docker", place), Argued("run", place)]
        words += [tree.argued(item) for item in options.value if isinstance(item, yaml.ScalarNode)]
        launches = Launches(lambda span, inner: pods.script(span, "all", inner), plain_inline)
        launches.start(words, Start())
        pods.commands += launches.commands
        pods.settings += launches.settings
    entries = tuple(tree.entries(root, is_json=True)) if root is not None else ()
    return pods.document(name, "devcontainer", entries)

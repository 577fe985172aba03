"""Variables and commands of containers in YAML: lists and mappings, words and scripts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec
import yaml

from recipes.lint.document import Command, Document, DocumentKind, Entry, Place, Reach, Setting
from recipes.lint.readers import nccl_conf
from recipes.lint.readers.launching import Launches, Start, plain_inline
from recipes.lint.readers.options import ASSIGNMENT, Argued
from recipes.lint.readers.script import ScriptReader
from recipes.lint.readers.span import Span
from recipes.lint.readers.tree import Tree, children, get, text_of
from recipes.lint.readers.waivers import waived_in

_NAME = re.compile(r"[A-Za-z_]\w*")
_EXPANDS = re.compile(r"\$\([A-Za-z_]\w*\)|\$\{?[A-Za-z_]")


class Pods:
    """Collector of the settings and commands of one file."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
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
            waived=waived_in(self.tree.text),
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
        text = text_of(node)
        is_literal = text is not None and not _is_open(text)
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
        # commands of the words come before commands of scripts in them
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
        self.settings += nccl_conf.settings_in(self.tree.span(node))


def _is_open(text: str) -> bool:
    """Return whether Kubernetes (`$(NAME)`), compose (`${NAME}`) or a template still expands something."""
    return _EXPANDS.search(text) is not None or "{{" in text

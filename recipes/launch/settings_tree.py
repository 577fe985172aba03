"""A program's settings as the tree of its configuration file, in JSON or YAML."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

import yaml

Tree = dict[str, Any]
_PATH = re.compile(r"[a-z]\w*(\.\w+)*")
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")


def tree_of(rows: Iterable[tuple[str, str]]) -> Tree:
    """Return rows of `program_settings` as nested blocks: `bf16.enabled` is the name `enabled` in `bf16`.

    Numbers, true, false and lists become values of JSON. A row without a value states names and values as
    `fp8.enabled: true, fp8.backend: AO`. Names with blanks or brackets are remarks for people, and names in
    capitals are environment variables: files have neither.
    """
    tree: Tree = {}
    for name, text in rows:
        for part in (f"{name}: {text}",) if text else name.split(", "):
            path, colon, word = part.partition(": ")
            if colon and _PATH.fullmatch(path):
                put(tree, path, _value(word))
    return tree


def variables_of(rows: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the environment variables among rows of `program_settings`."""
    return {name: text for name, text in rows if text and _VARIABLE.fullmatch(name)}


def put(tree: Tree, name: str, value: Any) -> None:
    """Set the value of a dotted name; blocks that are missing are added."""
    *blocks, last = name.split(".")
    for block in blocks:
        tree = tree.setdefault(block, {})
    tree[last] = value


def dotted_names(tree: Tree) -> Iterator[str]:
    """Yield the dotted name of every value."""
    yield from (name for name, _ in dotted_values(tree))


def dotted_values(tree: Tree, above: str = "") -> Iterator[tuple[str, object]]:
    """Yield the dotted name and the value of every value; a list is one value."""
    for name, value in tree.items():
        if isinstance(value, dict) and value:
            yield from dotted_values(value, f"{above}{name}.")
        else:
            yield above + name, value


def json_text(tree: Tree) -> str:
    """Return the tree as JSON."""
    return json.dumps(tree, indent=2) + "\n"


def yaml_text(tree: Tree, header: Iterable[str]) -> str:
    """Return the tree as YAML below comment lines.

    PyYAML writes a dot into every float (`3.0e-05`): readers of YAML 1.1 read `3e-05` as a string.
    """
    comments = "".join(f"# {' '.join(line.split())}\n" for line in header)
    body: str = yaml.safe_dump(tree, sort_keys=False, default_flow_style=False, allow_unicode=True, width=100)
    return comments + body


def _value(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text

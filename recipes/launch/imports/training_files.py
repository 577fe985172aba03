"""The files of a launch: documents of `lint`, and configuration files that `lint` does not judge."""

import re
from typing import Any

import msgspec

from probes.base.record import Record
from probes.base.toml_text import parse_toml
from recipes.lint.document import Command, Directive, Document, Entry, Place, Setting, lines_of
from recipes.lint.readers.tree import parse
from recipes.lint.reading import read_document


class LaunchFile(Record, kw_only=True):
    """A file of a launch: its entries, commands and variables, and the program that reads it."""

    name: str
    text: str
    owner: str
    """Row of `spellings.toml` for the entries; `shell` for scripts."""
    entries: tuple[Entry, ...] = ()
    commands: tuple[Command, ...] = ()
    settings: tuple[Setting, ...] = ()
    directives: tuple[Directive, ...] = ()
    document: Document | None = None
    """The document of `lint`; None for a file that `lint` does not judge."""
    faults: tuple[str, ...] = ()
    """Errors of syntax, each with its line."""


_KINDS = {
    "shell": "shell",
    "sbatch": "shell",
    "accelerate": "accelerate",
    "deepspeed": "deepspeed",
    "kubernetes": "kubernetes",
    "compose": "compose",
    "dotenv": "environment",
    "environment": "environment",
    "nccl-conf": "environment",
    "hostfile": "hostfile",
}
"""Owner of the entries, by the kind of document that `lint` reads."""
_YAML_OWNERS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("axolotl", re.compile(r"^base_model\s*:", re.MULTILINE)),
    (
        "hf-trainer",
        re.compile(r"^(?:model_name_or_path|per_device_train_batch_size|finetuning_type)\s*:", re.MULTILINE),
    ),
)
_RECIPE = re.compile(r"^ranks_per_node\s*=", re.MULTILINE)
"""A field that only recipes of rigtune have."""
_TITAN = re.compile(r"^\s*\[(?:training|parallelism|model|job|activation_checkpoint)\]", re.MULTILINE)


def read_launch_file(name: str, text: str) -> LaunchFile | None:
    """Return a launch file with its entries; None if its kind is unknown or starts no training.

    Raises InputError for TOML with an error of syntax.
    """
    lower = name.lower()
    if lower.endswith(".toml"):
        owner = "recipe" if _RECIPE.search(text) else "torchtitan"
        return _toml(name, text, owner) if owner == "recipe" or _TITAN.search(text) else None
    if lower.endswith((".yml", ".yaml")):
        for owner, pattern in _YAML_OWNERS:
            if pattern.search(text):
                return _yaml(name, text, owner)
    document = read_document(name, text)
    return None if document is None else from_document(document)


def from_document(document: Document) -> LaunchFile | None:
    """Return a document of `lint` as a launch file; None for a kind that starts no training."""
    owner = _KINDS.get(document.kind)
    if owner is None:
        return None
    return LaunchFile(
        name=document.name,
        text=document.text,
        owner=owner,
        entries=document.entries,
        commands=document.commands,
        settings=document.settings,
        directives=document.directives,
        document=document,
        faults=tuple(f"line {fault.place.line}: {fault.reason}" for fault in document.faults),
    )


def _yaml(name: str, text: str, owner: str) -> LaunchFile:
    tree = parse(text)
    entries = tuple(entry for root in tree.roots[:1] for entry in tree.entries(root))
    faults = tuple(f"line {fault.place.line}: {fault.reason}" for fault in tree.faults)
    return LaunchFile(name=name, text=text, owner=owner, entries=entries, faults=faults)


def _toml(name: str, text: str, owner: str) -> LaunchFile:
    content = parse_toml(text, name)
    places = _places(text)
    entries = tuple(
        Entry(path=path, value=value, place=places.get(path, Place(line=1)))
        for path, value in _flat(content, "")
    )
    return LaunchFile(name=name, text=text, owner=owner, entries=entries)


def _flat(value: Any, path: str) -> list[tuple[str, str | int | float | bool]]:
    if isinstance(value, dict):
        return [pair for name, part in value.items() for pair in _flat(part, f"{path}.{name}".lstrip("."))]
    scalar = value if isinstance(value, str | int | float | bool) else msgspec.json.encode(value).decode()
    return [(path, scalar)]


_TABLE = re.compile(r"\s*\[\[?([^\]]+)\]\]?")
_KEY = re.compile(r"""\s*([\w."'-]+)\s*=\s*((?:"(?:\\.|[^"\\])*"|'[^']*'|[^#"'])*?)\s*(?:#.*)?$""")


def _places(text: str) -> dict[str, Place]:
    """Return the place of each value by its path, because tomli reports no lines."""
    places: dict[str, Place] = {}
    table = ""
    for number, line in enumerate(lines_of(text), start=1):
        header, key = _TABLE.match(line), _KEY.match(line)
        if key is not None:
            path = f"{table}.{key[1]}".lstrip(".").replace('"', "").replace("'", "")
            begin, end = key.span(2)
            places[path] = Place(line=number, column=begin + 1, end_line=number, end_column=end + 1)
        elif header is not None:
            table = header[1].strip()
    return places

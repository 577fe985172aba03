"""YAML and JSON documents that a person gave: plain values, or nothing where a text is too large, too clever
or no document.
"""

from __future__ import annotations

from typing import Any

import msgspec

_LONGEST_YAML = 400_000
"""Characters; a description of a machine has 20 thousand, and the YAML parser reads a hundred thousand in a
second.
"""
_MOST_NODES = 200_000


def load_yaml(text: str) -> dict[str, Any]:
    """The mapping in `text`; empty where it is none. Aliases are refused: a few of them make a document of
    any size.
    """
    if len(text) > _LONGEST_YAML:
        return {}
    import yaml  # noqa: PLC0415 - no check of a live machine reads YAML

    class Loader(yaml.SafeLoader):  # type: ignore[misc, unused-ignore]
        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.events.AliasEvent):
                raise yaml.YAMLError("aliases are not read")
            return super().compose_node(parent, index)

    try:
        document = yaml.load(text, Loader)  # noqa: S506 - a safe loader
    except (
        yaml.YAMLError,
        ValueError,
        TypeError,
        ArithmeticError,
        RecursionError,
        AttributeError,
        LookupError,
    ):
        return {}
    return document if isinstance(document, dict) else {}


def load_json(text: str) -> dict[str, Any]:
    """The object in `text`; empty where it is none."""
    try:
        document = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return {}
    return document if isinstance(document, dict) else {}


def at(document: object, *path: str) -> Any:
    """The value at a path of names; None where there is none."""
    for name in path:
        document = document.get(name) if isinstance(document, dict) else None
    return document


def members(document: object, *path: str) -> list[Any]:
    """The list at a path; empty where there is none."""
    value = at(document, *path)
    return value[:_MOST_NODES] if isinstance(value, list) else []


def table(document: object, *path: str) -> dict[str, Any]:
    """The mapping at a path; empty where there is none."""
    value = at(document, *path)
    return {str(name): item for name, item in value.items()} if isinstance(value, dict) else {}


def whole(value: object) -> int | None:
    """A number that is none of a hostile size, also written as digits."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 18:
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if abs(value) < 1 << 63 else None


def word(value: object) -> str | None:
    """A text of one line, or a number as text; None for anything else and for the words for nothing."""
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1 << 63:
        value = str(value)
    if (
        not isinstance(value, str)
        or not value.strip()
        or len(value) > 300
        or value.strip().lower() in ("n/a", "[n/a]")
    ):
        return None
    return " ".join(value.split())

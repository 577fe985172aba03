"""Readable YAML with comments, from nested dictionaries and lists."""

import math
import re
import textwrap
from typing import Any

import yaml

_PLAIN = re.compile(r"-{0,2}[A-Za-z/][A-Za-z0-9_./=+-]*", re.ASCII)
"""Strings that need no quotes in YAML 1.1 and 1.2, apart from the words below."""
_OTHER_TYPES = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
"""Words that some YAML 1.1 readers (sigs.k8s.io/yaml, PyYAML) do not read as strings."""
_REMARK = re.compile(r'^( *)(?:- )?!remark (".*?")(?:: null)?$', re.MULTILINE)
_WIDTH = 108


class Remark(str):
    """A comment: a key without a value in a dictionary, or an item of a list."""

    __slots__ = ()


class Literal(str):
    """The text of a file, which the YAML contains as a block with the same lines."""

    __slots__ = ()


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]
    """A writer that keeps the order of keys, indents lists, and writes equal parts in full."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, indentless=False)

    def ignore_aliases(self, data: Any) -> bool:
        del data
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    is_plain = _PLAIN.fullmatch(text) and text.lower() not in _OTHER_TYPES
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if is_plain else '"')


def _literal(dumper: yaml.SafeDumper, text: Literal) -> yaml.Node:
    # other line breaks than \n and invisible characters do not survive in a block; quoted text escapes them
    is_block = text.endswith("\n") and all(line.isprintable() for line in text.split("\n"))
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if is_block else '"')


def _remark(dumper: yaml.SafeDumper, text: Remark) -> yaml.Node:
    return dumper.represent_scalar("!remark", str(text), style='"')


_Dumper.add_representer(str, _text)
_Dumper.add_representer(Literal, _literal)
_Dumper.add_representer(Remark, _remark)


def comment(text: str, indent: str = "") -> str:
    """Return `text` as lines of a comment; characters that could end the comment become blanks."""
    printable = "".join(character if character.isprintable() else " " for character in text)
    width = max(40, _WIDTH - len(indent))
    lines = textwrap.wrap(" ".join(printable.split()), width, break_long_words=False, break_on_hyphens=False)
    return "\n".join(f"{indent}# {line}" for line in lines) or f"{indent}#"


def yaml_text(head: tuple[str, ...], *documents: dict[Any, Any]) -> str:
    """Return YAML documents below a comment with a line or more for each text of `head`.

    A `Remark` becomes a comment. Each string stands on one line, so that no string can be taken for a remark;
    a document with a `Literal` therefore cannot have remarks.
    """
    texts = [_document(document) for document in documents]
    return "".join(comment(text) + "\n" for text in head) + "---\n".join(texts)


def _document(document: dict[Any, Any]) -> str:
    text: str = yaml.dump(
        document,
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=math.inf,
        default_flow_style=False,
    )
    if _has_literal(document):
        return text
    return _REMARK.sub(lambda match: comment(yaml.safe_load(match[2]), match[1]), text)


def _has_literal(value: object) -> bool:
    if isinstance(value, dict):
        return any(map(_has_literal, value.values()))
    return isinstance(value, Literal) or (isinstance(value, list) and any(map(_has_literal, value)))

"""Parse a TOML file that people edit into a strict record, or raise one clear error.

The error names the file, the field, the mistake and the advice.
"""

import re
from collections.abc import Iterable
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec

from probes.base.errors import InputError
from probes.base.nearest import did_you_mean
from probes.base.record import StrictRecord
from probes.base.toml_text import parse_toml

Kind = TypeVar("Kind", bound=StrictRecord)

_PLACE = re.compile(r" - at `\$\.?(?P<place>[^`]*)`$")
_UNKNOWN_FIELD = re.compile(r"Object contains unknown field `(?P<field>.*)`", re.DOTALL)
_SHOWN = 60
"""Maximum number of characters of a wrong name that a message shows."""


def read_strict(text: str, name: str, kind: type[Kind], *, schema_version: int, missing: str) -> Kind:
    """Parse the record in `text`.

    `name` is the name of the file for messages, `missing` the advice if a needed field is absent. Raises
    InputError. Files of a later `schema_version` are refused, because the meaning of their fields is
    unknown.
    """
    if not text.strip():
        # A file that was cut short when the disk was full must not count as a policy without expectations.
        raise InputError(f"{name} is empty", "restore the file, or write a new one")
    document = parse_toml(text, name)
    version = document.get("schema_version")
    if isinstance(version, int) and version > schema_version:
        problem = f"{name}: schema_version is {version}, this rigtune reads up to {schema_version}"
        raise InputError(problem, "the file comes from a newer rigtune: update rigtune on this machine")
    return convert_strict(document, name, kind, missing=missing)


def convert_strict(document: dict[str, Any], name: str, kind: type[Kind], *, missing: str) -> Kind:
    """Return the record in a parsed document. Raises InputError like `read_strict`."""
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        raise _explained(str(error), name, kind, missing) from error


def suggestion(word: str, names: Iterable[str], what: str) -> str:
    """Return `did you mean gpu-lost?`, or all of `names` if they are few, or the command that lists them."""
    known = tuple(names)
    rest = (
        f"{what}: {', '.join(known)}" if len(known) <= 20 else f"{what} are listed by `rigtune list checks`"
    )
    return did_you_mean(word, known) or rest


def _explained(words: str, name: str, kind: type[StrictRecord], missing: str) -> InputError:
    """Return msgspec's error message with the file, the place and advice."""
    match = _PLACE.search(words)
    place = match.group("place") if match else ""
    problem = words[: match.start()] if match else words
    unknown = _UNKNOWN_FIELD.fullmatch(problem)
    if unknown is None:
        choices = _choices_at(kind, place) if "enum value" in problem else ()
        advice = f"one of: {', '.join(choices)}" if choices else "give the field a value of that type"
        advice = missing if "missing required field" in problem else advice
        return InputError(f"{name}: {place + ': ' if place else ''}{problem.replace(' | null', '')}", advice)
    field, fields = unknown.group("field"), _fields_at(kind, place)
    advice = did_you_mean(field, fields) or f"fields here: {', '.join(fields)}"
    return InputError(
        f"{name}: {place + '.' if place else ''}{field[:_SHOWN]}: there is no such field", advice
    )


def _fields_at(kind: type[StrictRecord], place: str) -> tuple[str, ...]:
    """Return the fields of the table at a path such as `environment[0]`."""
    return tuple(_table_at(kind, place).__struct_fields__)


def _choices_at(kind: type[StrictRecord], place: str) -> tuple[str, ...]:
    """Return the choices of the field at a path such as `nic.link_layer`; empty if it has none."""
    table, _, field = place.rpartition(".")
    hint = get_type_hints(_table_at(kind, table)).get(field)
    words = (*get_args(hint), *(word for inner in get_args(hint) for word in get_args(inner)))
    return tuple(word for word in words if isinstance(word, str))


def _table_at(kind: type[StrictRecord], place: str) -> Any:
    """Return the record type at a path such as `environment[0]`."""
    table: Any = kind
    for part in re.findall(r"[a-z_]+", place):
        hint = get_type_hints(table)[part]
        table = next((inner for inner in get_args(hint) if inner is not Ellipsis), hint)
    return table

"""Parse TOML that a person wrote, within limits of size and depth."""

import re
import sys
from collections.abc import Iterator
from typing import Any

from probes.base.errors import InputError
from probes.base.units import MIB

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_MOST_CHARACTERS = 4 * MIB
_MOST_DOTS = 64
"""Maximum number of dots in one key.

The memory of Python's parser grows with the square of the number of dots: 6 GB for a key of 80 KB.
"""

_MOST_INTEGER = 1 << 63
_SHOWN = 60
_SURROGATE = re.compile("[\ud800-\udfff]")
"""Characters that stand for bytes that are not UTF-8."""


def parse_toml(text: str, name: str) -> dict[str, Any]:
    """Return the document in `text`; `name` is the name of its file for messages. Raises InputError."""
    if len(text) > _MOST_CHARACTERS:
        raise InputError(
            f"{name} is longer than {_MOST_CHARACTERS // MIB} MiB", "this is not a file of the expected kind"
        )
    for number, line in enumerate(text.splitlines(), 1):
        if _SURROGATE.search(line):
            raise InputError(f"{name}, line {number}: not UTF-8", "save the file as UTF-8 text")
        if line.partition("=")[0].count(".") > _MOST_DOTS:
            raise InputError(
                f"{name}, line {number}: more than {_MOST_DOTS} dots before a value", "no key is that deep"
            )
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        problem = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InputError(
            f"{name} is not valid TOML: {problem}", "strings need quotes, each field its own line"
        ) from error
    for place, value in _integers(document, ""):
        if not -_MOST_INTEGER <= value < _MOST_INTEGER:
            raise InputError(
                f"{name}: {place} does not fit in 64 bits", "give a number that a machine can have"
            )
    return document


def _integers(value: Any, place: str) -> Iterator[tuple[str, int]]:
    """Yield each whole number inside `value` with its place, such as `environment[0].value`."""
    match value:
        case int():
            yield place.lstrip("."), value
        case dict():
            for key, part in value.items():
                yield from _integers(part, f"{place}.{key[:_SHOWN]}")
        case list():
            for number, part in enumerate(value):
                yield from _integers(part, f"{place}[{number}]")

"""Rows of the variables that control NCCL and its callers, and the rules by which each is parsed.

The rows are in `probes/data/nccl_variables.toml`.
"""

import functools
import re
from typing import Literal

import msgspec

from probes.base.patterns import pattern
from probes.base.record import EvidenceRef, StrictRecord, quoted
from probes.base.rows import read_rows

VariableKind = Literal[
    "switch", "number", "flag", "level", "word", "words", "interfaces", "ports", "text", "path"
]
Use = Literal["system", "debugging", "forcing", "dead"]

_INTEGER = pattern(r"\s*([+-]?)(0[xX][0-9a-fA-F]+|[0-9]+)")
_LEVELS = ("LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "PXN", "P2C", "PHB", "SYS")
"""Names of the distances that NCCL uses as levels (NVIDIA/nccl, src/graph/topo.cc, read 2026-06)."""
_NUMBERED_LEVELS = ("LOC", "PIX", "PXB", "PHB", "SYS")
"""Distances that the digits 0 to 4 mean; larger digits mean the same as 4.

Source: NVIDIA/nccl, src/graph/paths.cc, ncclGetLevel, read 2026-11.
"""
_LONGEST_INTEGER = 19
_FLAGS = frozenset({"1", "y", "yes", "t", "true", "0", "n", "no", "f", "false"})
"""Words that PyTorch accepts for a switch, in upper or lower case (c10d/Utils.hpp, getCvarBool, read
2026-06).
"""


class VariableSource(StrictRecord, kw_only=True):
    """Source of rows, and the month of reading."""

    title: str
    date: str


class Variable(StrictRecord, kw_only=True):
    """One variable. The head of the data file explains the fields."""

    name: str
    kind: VariableKind
    use: Use
    minimum: int | None = None
    maximum: int | None = None
    words: tuple[str, ...] = ()
    exact: bool = False
    default: str | None = None
    harmless: tuple[str, ...] = ()
    since: str | None = None
    until: str | None = None
    costs: str = ""
    note: str = ""
    platforms: tuple[str, ...] = ()
    reader: Literal["nccl", "torch", "cuda"] = "nccl"
    source: str


class Variables(StrictRecord, kw_only=True):
    """All rows."""

    sources: dict[str, VariableSource]
    variables: tuple[Variable, ...]

    def find(self, name: str) -> Variable | None:
        return next((row for row in self.variables if row.name == name), None)

    def ref(self, row: Variable) -> EvidenceRef:
        source = self.sources[row.source]
        return EvidenceRef(source="rule", key=f"{source.title}, {row.name}", detail=source.date)


@functools.lru_cache(maxsize=1)
def load_variables() -> Variables:
    """Return the rows shipped with rigtune."""
    return msgspec.convert(read_rows("nccl_variables"), Variables)


class Integer(StrictRecord, kw_only=True):
    """Result of strtoll with base 0."""

    value: int
    """0 if the text does not begin with a number."""
    rest: str
    """Text that was not parsed."""


def read_integer(text: str) -> Integer:
    """Parse an integer as the C library does.

    A leading 0 means octal, 0x hexadecimal; text after the number is ignored.
    """
    match = _INTEGER.match(text)
    if match is None:
        return Integer(value=0, rest=text)
    digits, end = match[2], match.end()
    if digits[:2] in ("0x", "0X"):
        value = int(digits[2 : _LONGEST_INTEGER + 2], 16)
    elif digits[0] == "0":
        octal = re.match(r"[0-7]+", digits)
        end = match.start(2) + (octal.end() if octal else 1)
        value = int(octal[0][:_LONGEST_INTEGER], 8) if octal else 0
    else:
        value = int(digits[:_LONGEST_INTEGER])
    return Integer(value=-value if match[1] == "-" else value, rest=text[end:])


def misread(row: Variable, text: str) -> str | None:
    """Return how NCCL, PyTorch or CUDA misreads `text`; None if `text` is read as intended.

    The returned words complete "NCCL reads it as ...".
    """
    if not text:
        return None
    match row.kind:
        case "switch" | "number":
            return _misread_number(row, text)
        case "flag":
            return None if text.lower() in _FLAGS else "an invalid switch, and PyTorch ends with an error"
        case "level":
            return _misread_level(text)
        case "word" | "words":
            return _misread_words(row, text)
        case "text" | "path" | "interfaces" | "ports":
            return None


def is_default(row: Variable, text: str) -> bool:
    """Return whether `text` has the effect of the default, or a harmless effect."""
    if not text or row.default is None:
        return not text
    same = (row.default, *row.harmless)
    if row.kind in ("switch", "number"):
        return read_integer(text).value in {int(value) for value in same}
    if row.kind == "flag":
        return (text.lower() in ("1", "y", "yes", "t", "true")) == (row.default == "1")
    return text.upper() in {value.upper() for value in same}


def _misread_number(row: Variable, text: str) -> str | None:
    number = read_integer(text)
    if number.rest.strip():
        return f"{number.value}, because only digits are read"
    if len(text.strip().lstrip("+-")) > 1 and text.strip().lstrip("+-")[0] == "0" and "x" not in text.lower():
        return f"{number.value}, because a leading 0 means octal"
    low, high = (0, 1) if row.kind == "switch" else (row.minimum, row.maximum)
    if (low is not None and number.value < low) or (high is not None and number.value > high):
        limits = (
            f"from {low} to {high}"
            if low is not None and high is not None
            else f"at least {low}"
            if high is None
            else ""
        )
        return (
            f"{number.value}, which is out of range "
            f"({limits or f'at most {high}'}{f'; {row.note}' if row.note else ''})"
        )
    return None


def numbered_level(text: str) -> str | None:
    """Return the distance that NCCL uses for a level given in digits (an old numbering); None for a level in
    words.
    """
    if not text.isascii() or not text.isdecimal():
        return None
    return _NUMBERED_LEVELS[min(read_integer(text).value, len(_NUMBERED_LEVELS) - 1)]


def _misread_level(text: str) -> str | None:
    if text in _LEVELS:
        return None
    numbered = numbered_level(text)
    if numbered is not None:
        return f"{numbered}, by an old numbering"
    return f"nothing, and ignores it without a message; it knows {', '.join(_LEVELS)} in capitals"


def _misread_words(row: Variable, text: str) -> str | None:
    allowed = {word if row.exact else word.upper() for word in row.words}
    parts = text.lstrip("^").split(",") if row.kind == "words" else [text]
    wrong = [part for part in parts if (part if row.exact else part.upper()) not in allowed]
    if not wrong:
        return None
    return f"nothing for {quoted(wrong[0])}; it knows {', '.join(row.words)}"

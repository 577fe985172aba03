"""Words that NVIDIA tools print in place of a value, and the units that they print behind values."""

from __future__ import annotations

import re

from probes.base.record import NOT_RECORDED, Reason, Unknown
from probes.base.units import GIB, KIB, MIB

_WORDS: tuple[tuple[str, Reason], ...] = (
    ("n/a", Reason.NOT_SUPPORTED),
    ("not supported", Reason.NOT_SUPPORTED),
    ("not available", Reason.NOT_SUPPORTED),
    ("deprecated", Reason.NOT_SUPPORTED),
    ("permission", Reason.PERMISSION),
    ("timeout", Reason.TIMEOUT),
    ("unknown", Reason.ERROR),
    ("error", Reason.ERROR),
    ("err!", Reason.ERROR),
    ("lost", Reason.ERROR),
    ("reset", Reason.ERROR),
    ("not found", Reason.ERROR),
    ("uninitialized", Reason.ERROR),
    ("invalid argument", Reason.ERROR),
    ("driver not loaded", Reason.ERROR),
)
"""Substrings in lower case with the reason that each one means; the first match counts.

The texts come from `nvmlErrorString` (nvml.h, NVML 12 and 13); `ERR!` comes from the nvidia-smi table. All
occur in real outputs of drivers 418 to 610.
"""

_QUANTITY = re.compile(r"(-?\d+(?:\.\d+)?)\s*([A-Za-z%]*)")
_MEMORY_UNITS = {"B": 1, "KiB": KIB, "MiB": MIB, "GiB": GIB, "MB": MIB, "GB": GIB}
"""Bytes per unit. Old drivers print MB and mean MiB."""


def printed(text: str | None, what: str) -> str | Unknown:
    """Return the value in `text`, or the reason why it is missing; `what` names the field in that reason."""
    value = (text or "").strip()
    bare = value.strip("[]").strip()
    if not bare:
        return Unknown(NOT_RECORDED.reason, f"no {what}")
    lower = bare.lower()
    for word, reason in _WORDS:
        if word in lower:
            return Unknown(reason, f"{what}: {bare[:60]}")
    return value


def number(text: str | None, what: str, unit: str = "") -> float | Unknown:
    """Return the number in `text`, which must end with `unit`: `39 C`, `700.00 W`, `1980 MHz`, `0 %`."""
    value = printed(text, what)
    if isinstance(value, Unknown):
        return value
    match = _QUANTITY.fullmatch(value)
    if match is None or match[2] != unit:
        return Unknown(Reason.UNPARSABLE, f"{what}: {value[:60]!r}")
    return float(match[1])


def whole(text: str | None, what: str, unit: str = "") -> int | Unknown:
    """Return the whole number in `text`, which must end with `unit`."""
    value = number(text, what, unit)
    if isinstance(value, Unknown):
        return value
    return int(value) if value.is_integer() else Unknown(Reason.UNPARSABLE, f"{what}: {value}")


def memory_bytes(text: str | None, what: str) -> int | Unknown:
    """Return the bytes of a memory size with a unit, such as `81559 MiB`."""
    value = printed(text, what)
    if isinstance(value, Unknown):
        return value
    match = _QUANTITY.fullmatch(value)
    if match is None or match[2] not in _MEMORY_UNITS or match[1].startswith("-"):
        return Unknown(Reason.UNPARSABLE, f"{what}: {value[:60]!r}")
    return int(float(match[1]) * _MEMORY_UNITS[match[2]])


def switch(text: str | None, what: str) -> bool | Unknown:
    """Return True for `Enabled`, `Yes`, `Active` and `On`, and False for their opposites."""
    value = printed(text, what)
    if isinstance(value, Unknown):
        return value
    if value in ("Enabled", "Yes", "Active", "On"):
        return True
    if value in ("Disabled", "No", "Not Active", "Off"):
        return False
    return Unknown(Reason.UNPARSABLE, f"{what}: {value[:60]!r}")

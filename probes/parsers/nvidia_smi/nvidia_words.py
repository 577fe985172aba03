"""The words that NVIDIA tools print where a value should stand, and the units that they print behind
values.
"""

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
"""Substrings in lower case, first match counts: the texts of `nvmlErrorString` (nvml.h, NVML 12 and 13) and
`ERR!` of the nvidia-smi table, as seen in real outputs of drivers 418 to 610.
"""

_QUANTITY = re.compile(r"(-?\d+(?:\.\d+)?)\s*([A-Za-z%]*)")
_MEMORY_UNITS = {"B": 1, "KiB": KIB, "MiB": MIB, "GiB": GIB, "MB": MIB, "GB": GIB}
"""Old drivers print MB and mean MiB."""


def printed(text: str | None, what: str) -> str | Unknown:
    """The value in `text`, or why there is none. `what` names the field for the detail."""
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
    """The number in `text`, which must carry `unit` behind it: `39 C`, `700.00 W`, `1980 MHz`, `0 %`."""
    value = printed(text, what)
    if isinstance(value, Unknown):
        return value
    match = _QUANTITY.fullmatch(value)
    if match is None or match[2] != unit:
        return Unknown(Reason.UNPARSABLE, f"{what}: {value[:60]!r}")
    return float(match[1])


def whole(text: str | None, what: str, unit: str = "") -> int | Unknown:
    """Like `number`, for counts."""
    value = number(text, what, unit)
    if isinstance(value, Unknown):
        return value
    return int(value) if value.is_integer() else Unknown(Reason.UNPARSABLE, f"{what}: {value}")


def memory_bytes(text: str | None, what: str) -> int | Unknown:
    """A memory size with its unit: `81559 MiB`."""
    value = printed(text, what)
    if isinstance(value, Unknown):
        return value
    match = _QUANTITY.fullmatch(value)
    if match is None or match[2] not in _MEMORY_UNITS or match[1].startswith("-"):
        return Unknown(Reason.UNPARSABLE, f"{what}: {value[:60]!r}")
    return int(float(match[1]) * _MEMORY_UNITS[match[2]])


def switch(text: str | None, what: str) -> bool | Unknown:
    """`Enabled`, `Yes`, `Active` and `On` against their opposites."""
    value = printed(text, what)
    if isinstance(value, Unknown):
        return value
    if value in ("Enabled", "Yes", "Active", "On"):
        return True
    if value in ("Disabled", "No", "Not Active", "Off"):
        return False
    return Unknown(Reason.UNPARSABLE, f"{what}: {value[:60]!r}")

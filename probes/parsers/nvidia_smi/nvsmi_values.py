"""Readers of single values of nvidia-smi.

Each takes `(text, what)`, where `what` names the field, and returns a value or Unknown.
"""

from __future__ import annotations

from collections.abc import Callable

from probes.base.record import Reason, Unknown
from probes.parsers.nvidia_smi.nvidia_words import number, printed, switch, whole
from probes.parsers.topology.pci_addresses import link_width, normal_address

Reader = Callable[[str | None, str], object]

_COMPUTE_MODES = {
    "default": "default",
    "exclusive_process": "exclusive process",
    "exclusive process": "exclusive process",
    "e. process": "exclusive process",
    "exclusive_thread": "exclusive thread",
    "exclusive thread": "exclusive thread",
    "e. thread": "exclusive thread",
    "prohibited": "prohibited",
}
_RECOVERY_ACTIONS = {
    "reset": "gpu reset",
    "reboot": "node reboot",
    "drain and reset recommended": "drain and reset",
}
_FAILURES = ("unknown error", "gpu is lost", "gpu requires reset", "err!")
"""Words in lower case of an error of the GPU."""
_LONGEST = 120


def is_failure(text: str) -> bool:
    """Return whether the driver answered with an error of the GPU, in contrast to a missing value."""
    return len(text) < 60 and any(words in text.lower() for words in _FAILURES)


def words(text: str | None, what: str) -> str | Unknown:
    """Return a text in lower case, such as `completed` or `pass-through`."""
    value = printed(text, what)
    return value if isinstance(value, Unknown) else value.strip("[]").lower()[:_LONGEST]


def compute_mode(text: str | None, what: str) -> str | Unknown:
    value = words(text, what)
    if isinstance(value, Unknown):
        return value
    return _COMPUTE_MODES.get(value, Unknown(Reason.UNPARSABLE, f"{what}: {value[:60]!r}"))


def recovery_action(text: str | None, what: str) -> str | Unknown:
    """Return `none`, or the action that the driver requests.

    nvidia-smi prints `Reset` where NVML has GPU_RESET.
    """
    bare = (text or "").strip().strip("[]").lower()
    if "reset" in bare and "unknown" not in bare:
        return _RECOVERY_ACTIONS.get(bare, bare[:_LONGEST])
    value = words(text, what)
    return value if isinstance(value, Unknown) else _RECOVERY_ACTIONS.get(value, value)


def reset_flag(text: str | None, what: str) -> bool | Unknown:
    """Return a flag of a field about resets; `reset` in its text is not an error."""
    value = (text or "").strip().lower()
    if value in ("yes", "no"):
        return value == "yes"
    printed_text = printed(text, what)
    return (
        printed_text
        if isinstance(printed_text, Unknown)
        else Unknown(Reason.UNPARSABLE, f"{what}: {printed_text[:60]!r}")
    )


def flag(text: str | None, what: str) -> bool | Unknown:
    """Return a switch that some queries print as a number: `Yes`, or 1."""
    value = switch(text, what)
    bare = (text or "").strip()
    return bare == "1" if isinstance(value, Unknown) and bare in ("0", "1") else value


def width(text: str | None, what: str) -> int | Unknown:
    value = printed(text, what)
    return value if isinstance(value, Unknown) else link_width(value)


def bus_id(text: str | None, what: str) -> str | Unknown:
    value = printed(text, what)
    return value if isinstance(value, Unknown) else normal_address(value)


def device_id(text: str | None, what: str) -> str | Unknown:
    """Return vendor and device of a combined number: `10de:2330` for `0x233010DE`."""
    value = printed(text, what)
    if isinstance(value, Unknown):
        return value
    digits = value.lower().removeprefix("0x")
    if len(digits) != 8 or not set(digits) <= set("0123456789abcdef") or digits.startswith("0000"):
        return Unknown(Reason.UNPARSABLE, f"{what}: {value[:60]!r}")
    return f"{digits[4:]}:{digits[:4]}"


def banks(text: str | None, what: str) -> int | Unknown:
    """Return the count of a text such as `639 bank(s)`."""
    return whole((text or "").replace("bank(s)", "").strip(), what)


def validity(text: str | None, what: str) -> bool | Unknown:
    """Return True for `valid`, and False for `invalid` or `corrupted`."""
    value = words(text, what)
    if isinstance(value, Unknown):
        return value
    if value in ("valid", "invalid", "corrupted"):
        return value == "valid"
    return Unknown(Reason.UNPARSABLE, f"{what}: {value[:60]!r}")


def measured(unit: str) -> Reader:
    """Return a reader of numbers with a unit."""
    return lambda text, what: number(text, what, unit)


def counted(unit: str = "") -> Reader:
    """Return a reader of whole numbers with a unit."""
    return lambda text, what: whole(text, what, unit)


def is_positive_memory(size: Callable[[str | None, str], int | Unknown]) -> Reader:
    """Return a reader that checks whether a memory size is above zero."""

    def read(text: str | None, what: str) -> bool | Unknown:
        value = size(text, what)
        return value if isinstance(value, Unknown) else value > 0

    return read

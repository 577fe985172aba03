"""Values as NVIDIA's tools print them, and names for the numbers of NVML.

The readers of single values get `(text, what)`: the printed text and the name of the field. They return a
value or Unknown.
"""

from collections.abc import Callable
from typing import TypeVar

from probes.base.patterns import pattern
from probes.base.record import NOT_RECORDED, Reason, Unknown, map_known, quoted
from probes.base.units import GIB, KIB, MIB
from probes.parsers.topology.pci_addresses import link_width, normal_address

T = TypeVar("T")
Reader = Callable[[str | None, str], object]

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
"""Substrings in lower case with the reason that each one means; the first match is used.

The texts come from `nvmlErrorString` (nvml.h, NVML 12 and 13); `ERR!` comes from the nvidia-smi table. All of
these texts occur in real outputs of drivers 418 to 610.
"""

_QUANTITY = pattern(r"(-?\d+(?:\.\d+)?)\s*([A-Za-z%]*)")
_MEMORY_UNITS = {"B": 1, "KiB": KIB, "MiB": MIB, "GiB": GIB, "MB": MIB, "GB": GIB}
"""Bytes per unit. Old drivers print MB although the unit is MiB."""
_SWITCH = {
    **dict.fromkeys(("Enabled", "Yes", "Active", "On"), True),
    **dict.fromkeys(("Disabled", "No", "Not Active", "Off"), False),
}
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
_ACTIONS = {"reset": "gpu reset", "reboot": "node reboot", "drain and reset recommended": "drain and reset"}
"""NVML's name of a recovery action by nvidia-smi's name, if the two differ."""
_DEVICE_ID = pattern(r"(?:0x)?(?!0000)([0-9a-f]{4})([0-9a-f]{4})")
_FAILURES = ("unknown error", "gpu is lost", "gpu requires reset", "err!")
"""Words, in lower case, in an error message of the GPU."""
_LONGEST = 120

EVENT_REASONS = {
    0x1: "gpu_idle",
    0x2: "applications_clocks_setting",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
}
"""Names by bit of nvmlClocksEventReasons (nvml.h of NVML 13)."""
RECOVERY_ACTIONS = {
    0: "none",
    1: "gpu reset",
    2: "node reboot",
    3: "drain p2p",
    4: "drain and reset",
    5: "recover imex domain",
    6: "bus reset",
    7: "system reboot",
}
"""Names by number of nvmlDeviceGpuRecoveryAction_t (nvml.h of NVML 13)."""
VIRTUALIZATION_MODES = {0: "none", 1: "pass-through", 2: "vgpu", 3: "host vgpu", 4: "host vsga"}
"""Names by number of nvmlGpuVirtualizationMode_t (nvml.h of NVML 13)."""
_HEALTH_FLAGS = {0: "degraded_bandwidth", 2: "route_recovery", 4: "route_unhealthy", 6: "access_timeout"}
"""Names of flags by the position of their two bits (NVML_GPU_FABRIC_HEALTH_MASK_*).

The value of the two bits is 0 (not supported), 1 (true) or 2 (false).
"""
_CONFIGURATION_SHIFT, _CONFIGURATION_MASK = 8, 0xF
_CONFIGURATION_RIGHT = (0, 1)


def is_failure(text: str) -> bool:
    """Return whether the driver answered with an error of the GPU, in contrast to a missing value."""
    return len(text) < 60 and any(words in text.lower() for words in _FAILURES)


def printed(text: str | None, what: str) -> str | Unknown:
    """Return the value in `text`, or the reason why it is missing; `what` names the field in that reason."""
    value = (text or "").strip()
    bare = value.strip("[]").strip()
    if not bare:
        return Unknown(NOT_RECORDED.reason, f"no {what}")
    lower = bare.lower()
    reason = next((reason for word, reason in _WORDS if word in lower), None)
    return value if reason is None else Unknown(reason, f"{what}: {bare[:60]}")


def converted(text: str | None, what: str, convert: Callable[[str], T | None]) -> T | Unknown:
    """Return the result of `convert` for the printed text; Unknown (unparsable) if `convert` returns None."""
    value = printed(text, what)
    if isinstance(value, Unknown):
        return value
    result = convert(value)
    return Unknown(Reason.UNPARSABLE, f"{what}: {quoted(value)}") if result is None else result


def unreadable(text: str | None, what: str) -> Unknown:
    """Return the reason why a field has no value: the meaning of the text in its place, if known."""
    return converted(text, what, lambda _: None)


def number(text: str | None, what: str, unit: str = "") -> float | Unknown:
    """Return the number in `text`, which must end with `unit`: `39 C`, `700.00 W`, `1980 MHz`, `0 %`."""

    def convert(value: str) -> float | None:
        match = _QUANTITY.fullmatch(value)
        return float(match[1]) if match and match[2] == unit else None

    return converted(text, what, convert)


def whole(text: str | None, what: str, unit: str = "") -> int | Unknown:
    """Return the whole number in `text`, which must end with `unit`."""
    value = number(text, what, unit)
    if isinstance(value, Unknown):
        return value
    return int(value) if value.is_integer() else Unknown(Reason.UNPARSABLE, f"{what}: {value}")


def memory_bytes(text: str | None, what: str) -> int | Unknown:
    """Return the bytes of a memory size with a unit, such as `81559 MiB`."""

    def convert(value: str) -> int | None:
        match = _QUANTITY.fullmatch(value)
        is_size = match is not None and match[2] in _MEMORY_UNITS and not match[1].startswith("-")
        return int(float(match[1]) * _MEMORY_UNITS[match[2]]) if match and is_size else None

    return converted(text, what, convert)


def switch(text: str | None, what: str) -> bool | Unknown:
    """Return True for `Enabled`, `Yes`, `Active` and `On`, and False for their opposites."""
    return converted(text, what, _SWITCH.get)


def words(text: str | None, what: str) -> str | Unknown:
    """Return a text in lower case, such as `completed` or `pass-through`."""
    return map_known(printed(text, what), lambda value: value.strip("[]").lower()[:_LONGEST])


def compute_mode(text: str | None, what: str) -> str | Unknown:
    return map_known(
        words(text, what),
        lambda mode: _COMPUTE_MODES.get(mode) or Unknown(Reason.UNPARSABLE, f"{what}: {quoted(mode)}"),
    )


def recovery_action(text: str | None, what: str) -> str | Unknown:
    """Return `none`, or the action that the driver requests, by NVML's name.

    `Reset` is an action here, although it marks an error elsewhere.
    """
    bare = (text or "").strip().strip("[]").lower()
    if "reset" in bare and "unknown" not in bare:
        return _ACTIONS.get(bare, bare[:_LONGEST])
    return map_known(words(text, what), lambda action: _ACTIONS.get(action, action))


def reset_flag(text: str | None, what: str) -> bool | Unknown:
    """Return a flag that is printed as `Yes` or `No`."""
    value = (text or "").strip().lower()
    return value == "yes" if value in ("yes", "no") else unreadable(text, what)


def flag(text: str | None, what: str) -> bool | Unknown:
    """Return a switch that is printed as a word (`Yes`) or as a number (1)."""
    bare = (text or "").strip()
    return bare == "1" if bare in ("0", "1") else switch(text, what)


def width(text: str | None, what: str) -> int | Unknown:
    return map_known(printed(text, what), link_width)


def bus_id(text: str | None, what: str) -> str | Unknown:
    return map_known(printed(text, what), normal_address)


def device_id(text: str | None, what: str) -> str | Unknown:
    """Return vendor and device of a combined number: `10de:2330` for `0x233010DE`."""

    def convert(value: str) -> str | None:
        match = _DEVICE_ID.fullmatch(value.lower())
        return f"{match[2]}:{match[1]}" if match else None

    return converted(text, what, convert)


def banks(text: str | None, what: str) -> int | Unknown:
    """Return the count in a text such as `639 bank(s)`."""
    return whole((text or "").replace("bank(s)", "").strip(), what)


def validity(text: str | None, what: str) -> bool | Unknown:
    """Return True for `valid`, and False for `invalid` or `corrupted`."""
    valid = {"valid": True, "invalid": False, "corrupted": False}
    return converted(text, what, lambda value: valid.get(value.strip("[]").lower()))


def measured(unit: str) -> Reader:
    """Return a reader of numbers with a unit."""
    return lambda text, what: number(text, what, unit)


def counted(unit: str = "") -> Reader:
    """Return a reader of whole numbers with a unit."""
    return lambda text, what: whole(text, what, unit)


def is_positive_memory(text: str | None, what: str) -> bool | Unknown:
    return map_known(memory_bytes(text, what), lambda size: size > 0)


def event_reasons(mask: str | int) -> tuple[str, ...] | Unknown:
    """Return the names of the bits that are set in a mask such as `0x0000000000000004`."""
    try:
        bits = mask if isinstance(mask, int) else int(mask[:40], 16)
    except ValueError:
        return Unknown(Reason.UNPARSABLE, f"clock event reasons {quoted(str(mask))}")
    return tuple(name for bit, name in EVENT_REASONS.items() if bits & bit)


def fabric_health(mask: int) -> tuple[str, ...] | Unknown:
    """Return the flags that are true in a fabric health mask; Unknown if the GPU supports none of them."""
    if mask == 0:
        return Unknown(Reason.NOT_SUPPORTED, "the GPU reports no fabric health")
    raised = [name for shift, name in _HEALTH_FLAGS.items() if (mask >> shift) & 3 == 1]
    if (mask >> _CONFIGURATION_SHIFT) & _CONFIGURATION_MASK not in _CONFIGURATION_RIGHT:
        raised.append("incorrect_configuration")
    return tuple(raised)

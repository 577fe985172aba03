"""Convert CPU masks in hexadecimal words, as sysfs, NCCL and hwloc print them, to lists and back."""

from __future__ import annotations

from collections.abc import Iterable

from probes.base.patterns import pattern
from probes.base.record import Reason, Unknown

_WORD = r"(?:0x[0-9a-fA-F]{1,8}|[0-9a-fA-F]{0,8})"
_MASK = pattern(rf"{_WORD}(?:,{_WORD}){{0,2047}}")
_SINGLE = pattern(r"0x[0-9a-fA-F]{1,4096}")


def mask_cpus(text: str) -> tuple[int, ...] | Unknown:
    """Return the numbers of the bits that are set: 0 to 15 for `00000000,0000ffff` and `0x0000ffff`.

    Words have 32 bits, the last one the lowest; hwloc leaves words of zeros empty, or prints one long number.
    """
    text = text.strip()
    if _SINGLE.fullmatch(text):
        value = int(text, 16)
    elif text and _MASK.fullmatch(text):
        value = 0
        for word in text.split(","):
            value = value << 32 | int(word.removeprefix("0x") or "0", 16)
    else:
        return Unknown(Reason.UNPARSABLE, f"{text[:60]!r} is not a CPU mask")
    digits = bin(value)[2:]
    return tuple(position for position, digit in enumerate(reversed(digits)) if digit == "1")


def cpu_list(cpus: Iterable[int]) -> str:
    """Return the numbers as the kernel prints them: `0-3,8` for 0, 1, 2, 3 and 8."""
    parts: list[str] = []
    first = last = -2
    for cpu in sorted(set(cpus)):
        if cpu == last + 1:
            parts[-1] = f"{first}-{cpu}"
        else:
            parts.append(str(cpu))
            first = cpu
        last = cpu
    return ",".join(parts)


def mask_list(text: str) -> str | Unknown:
    """Return a mask as a list in the kernel's format."""
    cpus = mask_cpus(text)
    return cpus if isinstance(cpus, Unknown) else cpu_list(cpus)

"""Parse and print sets of CPUs and nodes: lists (`0-51,104-155`), and masks of hexadecimal words.

The kernel prints lists and masks; NCCL and hwloc print masks.
"""

from probes.base.grouping import folded
from probes.base.patterns import pattern
from probes.base.record import Reason, Unknown, map_known, quoted

_LIST = pattern(r"\d{1,6}(-\d{1,6})?(,\d{1,6}(-\d{1,6})?)*")
_MOST = 1 << 16
"""Maximum number of entries of a list; kernels support fewer CPUs (CONFIG_NR_CPUS is at most 8192 on x86)."""

_WORD = r"(?:0x[0-9a-fA-F]{1,8}|[0-9a-fA-F]{0,8})"
_MASK = pattern(rf"{_WORD}(?:,{_WORD}){{0,2047}}")
_SINGLE = pattern(r"0x[0-9a-fA-F]{1,4096}")


def is_cpu_list(text: str) -> bool:
    """Return whether the text is a list in the kernel's format with at least one entry."""
    return _LIST.fullmatch(text) is not None


def parse_cpu_list(text: str) -> tuple[int, ...] | Unknown:
    """Return the numbers of a list, in its order.

    An empty text is an empty list, as for a node without CPUs.
    """
    text = text.strip()
    if not text:
        return ()
    if not is_cpu_list(text):
        return Unknown(Reason.UNPARSABLE, f"{quoted(text)} is not a CPU list")
    numbers: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        start, end = int(first), int(last or first)
        if end < start or end - start + len(numbers) >= _MOST:
            return Unknown(Reason.UNPARSABLE, f"{quoted(text)} is not a CPU list")
        numbers.extend(range(start, end + 1))
    return tuple(numbers)


def mask_cpus(text: str) -> tuple[int, ...] | Unknown:
    """Return the numbers of the bits that are set: 0 to 15 for `00000000,0000ffff` and `0x0000ffff`.

    Words have 32 bits, and the last word has the lowest numbers. hwloc leaves zero words empty, or prints one
    long number.
    """
    text = text.strip()
    if _SINGLE.fullmatch(text):
        value = int(text, 16)
    elif text and _MASK.fullmatch(text):
        value = 0
        for word in text.split(","):
            value = value << 32 | int(word.removeprefix("0x") or "0", 16)
    else:
        return Unknown(Reason.UNPARSABLE, f"{quoted(text)} is not a CPU mask")
    digits = bin(value)[2:]
    return tuple(position for position, digit in enumerate(reversed(digits)) if digit == "1")


def mask_list(text: str) -> str | Unknown:
    """Return a mask as a list in the kernel's format."""
    return map_known(mask_cpus(text), folded)

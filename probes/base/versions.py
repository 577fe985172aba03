"""Dotted version numbers as drivers, kernels and libraries write them."""

from __future__ import annotations

from probes.base.record import Reason, Unknown


def numbers_of(version: str) -> tuple[int, ...]:
    """Return the leading numbers: (5, 15, 0) for `5.15.0-91-generic`; empty if the text starts with none."""
    numbers: list[int] = []
    for part in version.strip().split("."):
        digits = ""
        for character in part:
            if not "0" <= character <= "9":
                break
            digits += character
        if digits:
            numbers.append(int(digits[:9]))
        if digits != part:
            break
    return tuple(numbers)


def at_least(version: str, minimum: str) -> bool | Unknown:
    """Return whether `version` is `minimum` or newer; missing parts count as zero.

    Unknown if `version` is not a version.
    """
    have, need = numbers_of(version), numbers_of(minimum)
    if not have:
        return Unknown(Reason.UNPARSABLE, f"{version[:40]!r} is not a version")
    length = max(len(have), len(need))
    return have + (0,) * (length - len(have)) >= need + (0,) * (length - len(need))

"""Dotted version numbers as drivers, kernels and libraries write them."""

import itertools

from probes.base.record import Reason, Unknown, quoted


def numbers_of(version: str) -> tuple[int, ...]:
    """Return the leading numbers: (5, 15, 0) for `5.15.0-91-generic`; empty if the text does not start with a
    number.
    """
    leading = "".join(itertools.takewhile("0123456789.".__contains__, version.strip()))
    return tuple(int(part[:9]) for part in leading.split(".") if part)


def at_least(version: str, minimum: str) -> bool | Unknown:
    """Return whether `version` is `minimum` or newer; missing parts are treated as zero.

    Unknown if `version` is not a version.
    """
    have, need = numbers_of(version), numbers_of(minimum)
    if not have:
        return Unknown(Reason.UNPARSABLE, f"{quoted(version)} is not a version")
    length = max(len(have), len(need))
    return have + (0,) * (length - len(have)) >= need + (0,) * (length - len(need))

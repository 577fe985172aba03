"""Compare versions with those that a policy expects: an exact version, a pattern or a range."""

from __future__ import annotations

import fnmatch
import re

from probes.base.versions import numbers_of

_OPERATORS = ("==", "!=", ">=", "<=", ">", "<")
_PLAIN = re.compile(r"[0-9]+(\.[0-9]+)*")


def complaint_of(wanted: str) -> str | None:
    """Return the mistake in an expected version; None if it can be compared with a version."""
    if wanted[:1] not in "<>=!":
        return None
    for part in wanted.split(","):
        operator, version = _split(part)
        if not operator:
            return (
                f"{part.strip()!r} has no comparison; write one of {' '.join(_OPERATORS)} before each "
                "version of a range"
            )
        if not numbers_of(version):
            return f"{version!r} is not a version"
    return None


def any_matches(version: str, wanted: str | tuple[str, ...]) -> bool:
    """Return whether `version` matches one of the expected versions."""
    return any(_matches(version, expected) for expected in ((wanted,) if isinstance(wanted, str) else wanted))


def words_of(wanted: str | tuple[str, ...]) -> str:
    return wanted if isinstance(wanted, str) else " or ".join(wanted)


def _matches(version: str, wanted: str) -> bool:
    """Return whether a version matches an expected version.

    A plain dotted number also matches any build: `2.6.0` matches `2.6.0+cu124`. Other words must be
    equal.
    """
    if wanted[:1] in "<>=!":
        return all(_holds(version, *_split(part)) for part in wanted.split(","))
    if any(character in wanted for character in "*?["):
        return fnmatch.fnmatchcase(version, wanted)
    return version == wanted or (_PLAIN.fullmatch(wanted) is not None and _order(version, wanted) == 0)


def _holds(version: str, operator: str, wanted: str) -> bool:
    order = _order(version, wanted)
    if order is None:
        return False
    match operator:
        case "==":
            return order == 0
        case "!=":
            return order != 0
        case ">=":
            return order >= 0
        case "<=":
            return order <= 0
        case ">":
            return order > 0
        case _:
            return order < 0


def _order(version: str, wanted: str) -> int | None:
    """Return -1, 0 or 1 if `version` is older, the same or newer; None if it is no version.

    Missing parts count as zero.
    """
    have, need = numbers_of(version), numbers_of(wanted)
    if not have:
        return None
    length = max(len(have), len(need))
    have, need = have + (0,) * (length - len(have)), need + (0,) * (length - len(need))
    return (have > need) - (have < need)


def _split(part: str) -> tuple[str, str]:
    part = part.strip()
    operator = next((operator for operator in _OPERATORS if part.startswith(operator)), "")
    return operator, part[len(operator) :].strip()

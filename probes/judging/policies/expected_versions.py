"""Compare versions with the expectations of a policy: an exact version, a pattern or a range."""

import fnmatch
import operator
from collections.abc import Callable

from probes.base.patterns import pattern
from probes.base.record import quoted
from probes.base.versions import numbers_of

_OPERATORS: dict[str, Callable[[int, int], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
"""Comparison by operator. A longer operator comes before the shorter one that it begins with."""
_INTEGER = pattern(r"-?[0-9]{1,20}")
_PLAIN = pattern(r"[0-9]+(\.[0-9]+)*")


def complaint_of(wanted: str) -> str | None:
    """Return the mistake in an expected version; None if it can be compared with a version."""
    if wanted[:1] not in "<>=!":
        return None
    for part in wanted.split(","):
        sign, version = _split(part)
        if not sign:
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


def setting_complaint(wanted: str) -> str | None:
    """Return the mistake in an expected kernel setting; None if it can be compared with a value."""
    if wanted[:1] not in "<>=!":
        return None
    for part in wanted.split(","):
        sign, number = _split(part)
        if not sign or _INTEGER.fullmatch(number) is None:
            return f"{quoted(part.strip())} is not a comparison with a whole number"
    return None


def setting_matches(value: int | str, wanted: int | str | tuple[str, ...]) -> bool:
    """Return whether a kernel setting is the expected number or text, or matches a pattern or range."""
    if isinstance(wanted, int):
        return value == wanted
    for expected in (wanted,) if isinstance(wanted, str) else wanted:
        if expected[:1] not in "<>=!":
            if fnmatch.fnmatchcase(*(" ".join(text.split()) for text in (str(value), expected))):
                return True
        elif isinstance(value, int):
            parts = map(_split, expected.split(","))
            if all(_OPERATORS[sign](value, int(number)) for sign, number in parts):
                return True
    return False


def words_of(wanted: str | tuple[str, ...]) -> str:
    return wanted if isinstance(wanted, str) else " or ".join(wanted)


def _matches(version: str, wanted: str) -> bool:
    """Return whether a version matches an expected version.

    A plain dotted number also matches any build: `2.6.0` matches `2.6.0+cu124`. Any other exact version must
    be equal.
    """
    if wanted[:1] in "<>=!":
        return all(_holds(version, *_split(part)) for part in wanted.split(","))
    if any(character in wanted for character in "*?["):
        return fnmatch.fnmatchcase(version, wanted)
    return version == wanted or (_PLAIN.fullmatch(wanted) is not None and _order(version, wanted) == 0)


def _holds(version: str, sign: str, wanted: str) -> bool:
    order = _order(version, wanted)
    return order is not None and _OPERATORS[sign](order, 0)


def _order(version: str, wanted: str) -> int | None:
    """Return -1, 0 or 1 if `version` is older, the same or newer; None if it is not a version.

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
    sign = next((sign for sign in _OPERATORS if part.startswith(sign)), "")
    return sign, part[len(sign) :].strip()

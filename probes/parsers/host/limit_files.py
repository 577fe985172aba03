"""Parse the files that set resource limits: units of systemd, and limits.conf of pam_limits.

Sources: systemd.exec(5), Process Properties; systemd.unit(5); limits.conf(5) of Linux-PAM (read 2026-11).
"""

from typing import Literal

from probes.base.patterns import pattern
from probes.base.units import KIB

Number = int | Literal["unlimited"]

_UNIT_LINE = pattern(r"(?m)^[ \t]{0,8}Limit(MEMLOCK|NOFILE)[ \t]{0,8}=[ \t]{0,8}([0-9A-Za-z:]{0,41})[ \t]*$")
_PAM_LINE = pattern(
    r"(?m)^[ \t]{0,8}\*[ \t]{1,32}(soft|-)[ \t]{1,32}(memlock|nofile)[ \t]{1,32}(-?[0-9A-Za-z]{1,20})(?!\S)"
)
_SIZE = pattern(r"([0-9]{1,19})([KMGTPE]?)")
_UNLIMITED = ("infinity", "unlimited", "-1")
_BYTES_OF_ITEM = {"memlock": KIB, "nofile": 1}
"""Unit of an item in limits.conf."""


def parse_unit(text: str) -> dict[str, Number | None]:
    """Return the soft limits `memlock` (bytes) and `nofile` of a unit file; None if a line resets a limit."""
    limits: dict[str, Number | None] = {}
    for name, value in _UNIT_LINE.findall(text):
        soft = value.partition(":")[0]
        size = _SIZE.fullmatch(soft)
        if soft in _UNLIMITED or not soft:
            limits[name.lower()] = "unlimited" if soft else None
        elif size is not None:
            limits[name.lower()] = int(size[1]) * KIB ** " KMGTPE".index(size[2] or " ")
    return limits


def parse_pam_limits(text: str) -> dict[str, Number]:
    """Return the soft limits `memlock` (bytes) and `nofile` that limits.conf sets for every user (`*`)."""
    limits: dict[str, Number] = {}
    for _, item, value in _PAM_LINE.findall(text):
        if value in _UNLIMITED:
            limits[item] = "unlimited"
        elif value.isdecimal():
            limits[item] = int(value) * _BYTES_OF_ITEM[item]
    return limits

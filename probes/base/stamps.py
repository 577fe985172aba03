"""Time stamps of log lines, converted to seconds."""

import calendar
import re

from probes.base.patterns import pattern

_FRACTION = r"(?:[.,](?P<fraction>\d{1,9}))?"
_ZONE = r"(?: ?(?P<zone>(?:Z|UTC|GMT)(?!\w)|[+-]\d\d:?\d\d(?![\w:]))|(?![\w:]))"
_CLOCK = rf"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d){_FRACTION}"
ISO = rf"(?P<year>\d{{4}})[-/](?P<month>\d\d)[-/](?P<day>\d\d)[T_ ]{_CLOCK}{_ZONE}"
"""`2024-05-01T10:00:00.123Z`, `2024-05-01 10:00:00,123 +0200`, `2024/05/01 10:00:00`."""
SYSLOG = rf"(?P<name>[A-Z][a-z]{{2}}) {{1,2}}(?P<day>\d{{1,2}}) {_CLOCK}"
"""`Nov  1 10:00:00`, without a year."""
WEEKDAY = rf"[A-Z][a-z]{{2}} (?P<name>[A-Z][a-z]{{2}}) {{1,2}}(?P<day>\d{{1,2}}) {_CLOCK} (?P<year>\d{{4}})"
"""`Fri May  3 10:00:00 2024`."""
US = rf"(?P<month>\d\d)/(?P<day>\d\d)/(?P<year>\d{{4}}) {_CLOCK}"
"""`05/01/2024 10:00:00`."""
_GLOG = pattern(rf"[\[\s]{{0,2}}[IWEF](?P<month>\d\d)(?P<day>\d\d) {_CLOCK} ")
"""Stamp of torch's own lines, without a year: `[E1121 12:10:11.123456789 ProcessGroupNCCL.cpp:616]`."""
_FABRIC_MANAGER = pattern(rf"\[(?P<name>[A-Z][a-z]{{2}}) (?P<day>\d\d) (?P<year>\d{{4}}) {_CLOCK}\]")
_MONTHS = {name: number for number, name in enumerate(calendar.month_abbr) if name}
_FEWEST_DATED_S = 1e8
"""Times of at least this many seconds are seconds since 1970; smaller times are seconds since the boot."""


def has_date(time_s: float | None) -> bool:
    """Return whether a time has a date, so that times of different sources can be compared."""
    return time_s is not None and time_s >= _FEWEST_DATED_S


def seconds(match: re.Match[str], year: int | None) -> float | None:
    """Return the seconds since 1970 of a time stamp, read as UTC if it names no time zone.

    Return None if the stamp is not a valid date. `year` is used if the stamp has no year; if `year` is also
    None, the result is None.
    """
    parts = match.groupdict()
    stated = parts.get("year") or year
    month = _MONTHS.get(parts.get("name") or "") or int(parts.get("month") or 0)
    day, hour, minute, second = (int(parts[name]) for name in ("day", "hour", "minute", "second"))
    if not stated or not (1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60 and second <= 60):
        return None
    whole = calendar.timegm((max(int(stated), 1970), month, day, hour, minute, second))
    fraction = parts.get("fraction")
    return whole + (float(f"0.{fraction}") if fraction else 0.0) - _offset_s(parts.get("zone"))


def inner_seconds(text: str, year: int | None) -> float | None:
    """Return the time at the start of a message, for kinds of messages that contain a time stamp."""
    match = _GLOG.match(text) or _FABRIC_MANAGER.match(text)
    return seconds(match, year) if match else None


def _offset_s(zone: str | None) -> int:
    if not zone or zone[0] not in "+-":
        return 0
    digits = zone[1:].replace(":", "")
    offset_s = int(digits[:2]) * 3600 + int(digits[2:]) * 60
    return offset_s if zone[0] == "+" else -offset_s

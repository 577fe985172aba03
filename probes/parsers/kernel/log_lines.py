"""What stands before a message in a log line: the forms in which kernels, journals and people hand logs
on.
"""

from __future__ import annotations

from typing import NamedTuple

from probes.base.patterns import pattern

_CLOCK = r"\d{1,2}:\d\d:\d\d(?:[.,]\d{1,9})?"
_ISO = rf"\d{{4}}-\d\d-\d\d[T ]{_CLOCK}(?:Z|[+-]\d\d:?\d\d)?"
_MONTH = r"(?:[^\W\d_]{3,5}\.?|\d{1,2}月)"
"""Journals write it in the language of the machine: `Okt`, `févr.`, `11月`."""
_SYSLOG = rf"{_MONTH} {{1,2}}\d{{1,2}} {_CLOCK}"
_WEEKDAY = rf"[A-Z][a-z]{{2}} [A-Z][a-z]{{2}} [ \d]?\d {_CLOCK} \d{{4}}"
_PRIORITY = pattern(r"<\d{1,3}>(?:1 )?")
_DECODED = pattern(
    r"\s{0,8}(?:kern|user|mail|daemon|auth|syslog|lpr|news|uucp|cron|authpriv|ftp|local\d)\s{0,4}:\s?[a-z]{3,7}\s{0,4}:\s?"
)
_RECORD = pattern(r"\d{1,3},\d{1,20},(\d{1,20}),[^;\n]{1,40};")
_UPTIME = pattern(
    r"\[\s{0,8}(\d{1,12}\.\d{1,9})(?:\s*<\s*\d{1,12}\.\d{1,9}>)?\](?:\[\s{0,8}[TC]\d{1,9}\])? ?"
)
_DATE = pattern(rf"(?:\[({_WEEKDAY}|{_ISO})\]:? ?|({_ISO}|{_SYSLOG})(?: |$))")
_LEVEL = r"(?:(EMERG|ALERT|CRIT|ERR|ERROR|WARN|WARNING|NOTICE|INFO|DEBUG) )?"
"""What rsyslog adds where it is told to, as on switches."""
_TAG = pattern(rf"(\S{{1,80}}) {_LEVEL}([A-Za-z][\w@.+/#-]{{0,60}})(\[\d{{1,9}}\])?: ")
_KERNEL_TAG = "kernel: "
_JSON_MESSAGE = pattern(r'\s{0,16}"msg"\s?: "(.{0,4000}?)"\s{0,4}$')

KERNEL = ""
"""The origin of what the kernel itself says."""


class LogLine(NamedTuple):
    """A line taken apart."""

    time: str
    """As the log prints it; empty where it has none."""
    origin: str
    """The program that wrote it, where a syslog or journal names one other than the kernel; `KERNEL` else."""
    message: str


def take_apart(line: str) -> LogLine:
    """Time, writer and message of one line in any form; the message alone where there is nothing before
    it.
    """
    if line.startswith("{"):
        return _journal(line)
    start, time = 0, ""
    if not line.startswith("["):  # most lines of most logs need none of these
        if (match := _JSON_MESSAGE.match(line)) is not None:
            return LogLine("", KERNEL, match[1])
        if (match := _RECORD.match(line)) is not None:
            return LogLine(f"{int(match[1]) / 1e6:.6f}", KERNEL, line[match.end() :])
        for pattern in (_PRIORITY, _DECODED):
            if (match := pattern.match(line, start)) is not None:
                start = match.end()
    if (match := _UPTIME.match(line, start)) is not None:
        start, time = match.end(), match[1]
    elif (match := _DATE.match(line, start)) is not None:
        start, time = match.end(), match[1] or match[2]
    start, origin = _writer(line, start) if time else (start, KERNEL)
    if line.startswith(_KERNEL_TAG, start):  # somebody cut time and host off
        start += len(_KERNEL_TAG)
    return LogLine(time, origin, line[start:].strip())


def _writer(line: str, start: int) -> tuple[int, str]:
    """The program that a host's tag behind the time names, and where its message begins."""
    tag = _TAG.match(line, start)
    if tag is None or tag[1].endswith(":"):
        return start, KERNEL
    if tag[3] == "kernel":
        uptime = _UPTIME.match(line, tag.end())
        return uptime.end() if uptime else tag.end(), KERNEL
    # A word and a colon alone may well be the kernel's own message, where the log has no host.
    return (tag.end(), tag[3]) if tag[2] or tag[4] else (start, KERNEL)


def _journal(line: str) -> LogLine:
    """A record of `journalctl -o json`."""
    import json  # noqa: PLC0415 - few logs are JSON

    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return LogLine("", KERNEL, line)
    message = record.get("MESSAGE") if isinstance(record, dict) else None
    if not isinstance(message, str):
        return LogLine("", KERNEL, "")
    kernel = record.get("_TRANSPORT") == "kernel" or record.get("SYSLOG_IDENTIFIER") == "kernel"
    origin = KERNEL if kernel else str(record.get("SYSLOG_IDENTIFIER", "journal"))
    time = record.get("__REALTIME_TIMESTAMP", "")
    return LogLine(time if isinstance(time, str) else "", origin, message.partition("\n")[0])


_KERNEL_SIGNS = (
    pattern(r"(?:<\d{1,3}>)?\[\s{0,8}\d{1,12}\.\d{3,9}\](?:\[\s{0,8}[TC]\d{1,9}\])? ?\S"),
    pattern(r"kern\s{0,4}:\s?[a-z]{3,7}\s{0,4}:"),
    _RECORD,
    pattern(rf"\[{_WEEKDAY}\] \S"),
    pattern(
        rf"(?:{_SYSLOG}|{_ISO}) \S{{1,80}} {_LEVEL}(?:kernel|systemd\[1\]|systemd-networkd\[\d{{1,9}}\]): "
    ),
    pattern(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d,\d{6}[+-]\d\d:\d\d \S"),
    pattern(r"\[\s{0,8}\d{1,12}\.\d{3,9}\] \S{1,80} kernel: "),
)


def is_log_line(line: str) -> bool:
    """Whether a line bears the mark of a kernel log, a journal or a syslog, whatever it says."""
    if line.startswith("{"):
        return '"MESSAGE"' in line and ('"_TRANSPORT"' in line or '"SYSLOG_IDENTIFIER"' in line)
    return any(sign.match(line) for sign in _KERNEL_SIGNS)


def is_syslog_line(line: str) -> bool:
    """Whether a line has the form that syslog and journal give to those of all programs: time, host,
    program.
    """
    date = _DATE.match(line)
    return date is not None and date[2] is not None and _TAG.match(line, date.end()) is not None

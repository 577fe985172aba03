"""Separate the messages of log lines from the prefixes of kernels, journals and the tools that people use."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from probes.base.patterns import pattern

_CLOCK = r"\d{1,2}:\d\d:\d\d(?:[.,]\d{1,9})?"
_ISO = rf"\d{{4}}-\d\d-\d\d[T ]{_CLOCK}(?:Z|[+-]\d\d:?\d\d)?"
_MONTH = r"(?:[^\W\d_]{3,5}\.?|\d{1,2}月)"
"""Name of a month. Journals print it in the language of the machine: `Okt`, `févr.`, `11月`."""
_SYSLOG = rf"{_MONTH} {{1,2}}\d{{1,2}} {_CLOCK}"
_FULL = rf"[A-Z][a-z]{{2}} \d{{4}}-\d\d-\d\d {_CLOCK} [A-Z]{{3,5}}"
"""Time of `journalctl -o short-full`."""
_EPOCH = r"\d{9,10}\.\d{6}(?= [\w.-]{1,80} kernel: )"
_WEEKDAY = rf"[A-Z][a-z]{{2}} [A-Z][a-z]{{2}} [ \d]?\d {_CLOCK} \d{{4}}"
_PRIORITY = pattern(r"<\d{1,3}>(?:1 )?")
_DECODED = pattern(
    r"\s{0,8}(?:kern|user|mail|daemon|auth|syslog|lpr|news|uucp|cron|authpriv|ftp|local\d)\s{0,4}:"
    r"\s{0,8}[a-z]{3,7}\s{0,4}:\s?"
)
_RECORD = pattern(r"\d{1,3},\d{1,20},(\d{1,20}),[^;\n]{1,40};")
_UPTIME = pattern(
    r"\[\s{0,8}(\d{1,12}\.\d{1,9})(?:\s*<\s*\d{1,12}\.\d{1,9}>)?\](?:\[\s{0,8}[TC]\d{1,9}\])? ?"
)
_DATE = pattern(rf"(?:\[({_WEEKDAY}|{_ISO})\]:? ?|({_ISO}|{_SYSLOG}|{_FULL}|{_EPOCH})(?: |$))")
HUMAN_TIME = r"\[(\s{0,8}\+\d{1,9}\.\d{3,9}|[A-Z][a-z]{2} ?\d{1,2} \d\d:\d\d)\] "
"""Time of `dmesg -e` and `-H`: a moment without seconds, or the seconds since the line before."""
_HUMAN = pattern(HUMAN_TIME)
KERNEL_BEGINS = (
    r"(?:<\d{1,3}>)?\[\s{0,8}\d{1,10}\.\d{6}\] |\[[A-Z][a-z]{2} [A-Z][a-z]{2} |"
    r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d{1,6})? \S{1,80} kernel: |kern\s{0,4}: "
)
"""Start of a kernel message, which shows that the text before it is a prefix."""
GREP_OR_QUOTE = r"(?:[\w./-]{1,160}:(?:\d{1,9}:)?|\d{1,9}:|> ?)"
"""Prefix of grep, and of quotes in mails."""
HOST_BEFORE = r"[A-Za-z\d][\w.,\[\]-]{0,80}: "
"""Prefix of pdsh and clush."""
CONTAINER_BEFORE = rf"{_ISO} (?:stdout|stderr) [FP] "
"""Prefix of the container runtimes of Kubernetes."""
_OUTER = pattern(rf"(?:\s{{1,8}}|{GREP_OR_QUOTE}|{HOST_BEFORE}|{CONTAINER_BEFORE})(?={KERNEL_BEGINS})")
_SYSLOG_5424 = pattern(r"\S{1,80} ([A-Za-z][\w@.+/#-]{0,60}) (?:\d{1,9}|-) \S{1,40} (?:-|\[[^\]]{0,200}\]) ")
_LEVEL = r"(?:(EMERG|ALERT|CRIT|ERR|ERROR|WARN|WARNING|NOTICE|INFO|DEBUG) )?"
"""Log level that rsyslog adds if its configuration requests it, as on many network switches."""
_TAG = pattern(rf"(\S{{1,80}}) {_LEVEL}([A-Za-z][\w@.+/#-]{{0,60}})(\[\d{{1,9}}\])?: ")
_KERNEL_TAG = "kernel: "
_JSON_MESSAGE = pattern(r'\s{0,16}"msg"\s?: "(.{0,4000}?)"\s{0,4}$')

_LOGGED = pattern(rf'"(?:log|message)"\s?:\s?"(?:{KERNEL_BEGINS})')

LONGEST_LINE = 8192
"""Maximum number of characters of a line that are read."""
_WINDOW = 1 << 20

KERNEL = ""
"""The origin of the kernel's own messages."""


class LogLine(NamedTuple):
    """The parts of a line."""

    time: str
    """Time as the log prints it; empty if the line has no time."""
    origin: str
    """The program that a syslog or journal names as the writer; `KERNEL` for all other lines."""
    message: str


def lines_with(text: str, words: Mapping[str, int]) -> Iterator[tuple[int, str, int]]:
    """Return the lines that contain a word, in order: number from 1, the line, and the bits of its words.

    `words` contains the bits of each word. The text is searched in windows, so that the positions of all
    lines never have to be kept at once.
    """
    following = {word: text.find(word) for word in words}
    low, number, counted = 0, 1, 0
    while low < len(text):
        end_of_line = text.find("\n", low + _WINDOW)
        high = end_of_line if end_of_line != -1 else len(text)
        bits_by_start: dict[int, int] = {}
        for word, bits in words.items():
            position = following[word]
            while 0 <= position < high:
                start = text.rfind("\n", 0, position) + 1
                bits_by_start[start] = bits_by_start.get(start, 0) | bits
                end = text.find("\n", position)
                position = text.find(word, end) if end != -1 else -1
            following[word] = position
        for start, bits in sorted(bits_by_start.items()):
            number += text.count("\n", counted, start)
            counted = start
            yield number, text[start : start + LONGEST_LINE].partition("\n")[0], bits
        low = high


def take_apart(line: str) -> LogLine:
    """Return time, writer and message of a line in any form; a line without a prefix is a message.

    `explain` has an `Unwrapper` (`probes/logs/envelopes.py`) for the same prefixes, and the two share
    patterns. They stay two functions because their results differ: `check` needs the time as printed and the
    program that wrote the line, and reads only lines with known words. `Unwrapper` removes the prefixes of
    launchers too, computes seconds, remembers hosts from line to line and leaves the program in the text;
    each of these takes time for every line.
    """
    if line.startswith("{"):
        return _journal(line)
    start = 0
    if not line.startswith("["):  # Most lines begin with a bracket; the forms below do not.
        if (match := _JSON_MESSAGE.match(line)) is not None:
            return LogLine("", KERNEL, match[1])
        if (match := _RECORD.match(line)) is not None:
            return LogLine(f"{int(match[1]) / 1e6:.6f}", KERNEL, line[match.end() :])
        for before in (_OUTER, _PRIORITY, _DECODED):
            if (match := before.match(line, start)) is not None:
                start = match.end()
    start, time = _stamp(line, start)
    start, origin = _writer(line, start) if time else (start, KERNEL)
    if line.startswith(_KERNEL_TAG, start):  # Somebody removed time and host.
        start += len(_KERNEL_TAG)
    return LogLine(time, origin, line[start:].strip())


def _stamp(line: str, start: int) -> tuple[int, str]:
    """Return the end of the time stamp, and the time as the log prints it; empty if there is none."""
    if (match := _UPTIME.match(line, start)) is not None:
        return match.end(), match[1]
    if (match := _DATE.match(line, start)) is not None:
        return match.end(), match[1] or match[2]
    if (match := _HUMAN.match(line, start)) is not None:
        return match.end(), match[1].strip()
    return start, ""


def _writer(line: str, start: int) -> tuple[int, str]:
    """Return the start of the message behind the time stamp, and the program that the syslog tag names."""
    if line.startswith("<") and (modern := _SYSLOG_5424.match(line, start)) is not None:
        return modern.end(), KERNEL if modern[1] == "kernel" else modern[1]
    tag = _TAG.match(line, start)
    if tag is None or tag[1].endswith(":"):
        return start, KERNEL
    if tag[3] == "kernel":
        uptime = _UPTIME.match(line, tag.end())
        return uptime.end() if uptime else tag.end(), KERNEL
    # If there is no level and no process id, a word and a colon may be the start of the kernel's message.
    return (tag.end(), tag[3]) if tag[2] or tag[4] else (start, KERNEL)


def _journal(line: str) -> LogLine:
    """Return the parts of a record of `journalctl -o json`."""
    import json  # noqa: PLC0415 - few logs are JSON

    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return LogLine("", KERNEL, line)
    if not isinstance(record, dict):
        return LogLine("", KERNEL, "")
    message, time = record.get("MESSAGE"), record.get("__REALTIME_TIMESTAMP")
    if not isinstance(message, str):
        return _logged(record)
    origin = str(record.get("SYSLOG_IDENTIFIER", "journal"))
    is_kernel = origin == "kernel" or record.get("_TRANSPORT") == "kernel"
    printed_time = time if isinstance(time, str) else ""
    return LogLine(printed_time, KERNEL if is_kernel else origin, message.partition("\n")[0])


def _logged(record: dict[str, object]) -> LogLine:
    """Return the parts of the line in a record of Docker or of a cloud's log."""
    payload = record.get("jsonPayload")
    text = payload.get("message") if isinstance(payload, dict) else record.get("log")
    line = text.partition("\n")[0] if isinstance(text, str) else ""
    return LogLine("", KERNEL, "") if line.startswith("{") else take_apart(line)


_KERNEL_SIGNS = (
    pattern(
        r"(?:<\d{1,3}>)?\[\s{0,8}\d{1,12}\.\d{3,9}(?:\s*<\s*\d{1,12}\.\d{1,9}>)?\]"
        r"(?:\[\s{0,8}[TC]\d{1,9}\])? ?\S"
    ),
    pattern(r"kern\s{0,4}:\s?[a-z]{3,7}\s{0,4}:"),
    _RECORD,
    pattern(rf"\[{_WEEKDAY}\] \S"),
    pattern(
        rf"(?:{_SYSLOG}|{_ISO}|{_FULL}|{_EPOCH}) \S{{1,80}} {_LEVEL}"
        r"(?:kernel|systemd\[1\]|systemd-networkd\[\d{1,9}\]): "
    ),
    pattern(rf"<\d{{1,3}}>1 {_ISO} \S{{1,80}} kernel (?:\d{{1,9}}|-) "),
    pattern(rf"{HUMAN_TIME}\s{{0,8}}\S"),
    _OUTER,
    pattern(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d,\d{6}[+-]\d\d:\d\d \S"),
    pattern(r"\[\s{0,8}\d{1,12}\.\d{3,9}\] \S{1,80} kernel: "),
)


def is_log_line(line: str) -> bool:
    """Return whether a line has the prefix of a kernel log, a journal or a syslog."""
    if line.startswith("{"):
        is_journal = '"MESSAGE"' in line and ('"_TRANSPORT"' in line or '"SYSLOG_IDENTIFIER"' in line)
        return is_journal or _LOGGED.search(line) is not None
    return any(sign.match(line) for sign in _KERNEL_SIGNS)


def is_syslog_line(line: str) -> bool:
    """Return whether a line begins with time, host and program, as syslog and journal print it."""
    date = _DATE.match(line)
    return date is not None and date[2] is not None and _TAG.match(line, date.end()) is not None

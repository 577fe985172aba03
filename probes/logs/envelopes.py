"""Envelopes of lines: prefixes of launchers, containers, journals and clocks, read as host, rank and time.

NCCL's `host:pid:tid [gpu]` is part of NCCL's own line and stays. Only text that is certainly an envelope is
removed.
"""

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from probes.base import stamps
from probes.base.patterns import pattern
from probes.logs.event import LogLine
from probes.logs.file_names import writer_of
from probes.parsers.kernel.log_lines import GREP_OR_QUOTE, HUMAN_TIME, KERNEL_BEGINS

_MOST_LAYERS = 8
_NCCL = r"[\w.-]{1,80}:\d{1,9}:\d{1,9} \[-?\d{1,3}\] "
_BEGINS = (
    rf"(?:{_NCCL}|\[(?:rank|default|trainer)\d|\[(?:\d{{1,2}},)?\d{{1,6}}\]<std|\[[EWI]\d{{0,4}} |Traceback |"
    rf"\d{{4}}-\d\d-\d\d[T ]\d\d:|\d{{1,6}}: |"
    rf"\[\s{{0,8}}\d{{1,10}}\.\d{{6}}\] |\[[A-Z][a-z]{{2}} [A-Z][a-z]{{2}} |kern\s{{0,4}}: )"
)
"""Starts of messages: a doubtful prefix counts as an envelope if such a start follows it."""
_NCCL_START = pattern(_NCCL)
_GLUED = pattern(rf"{_NCCL}(?:[\w./-]{{1,80}}:\d{{1,6}} (?:\(\w{{1,80}}\) )?)?NCCL (?:INFO|WARN|CALL|TRACE) ")


_RANK_NAME = pattern(r"(?P<local>local[_-]?)?(?:rank|task|proc|process)[_-]?(?P<number>\d{1,7})")
_NO_HOST_NAME = pattern(
    r"(?:std(?:out|err|in)|out|err|line|step|epoch|iter|attempt|pid|tid|thread|python|py|pip|cuda|"
    r"v)?[_-]?\d{0,9}(?:\.\d{1,9}){0,2}|"
    r"[\w.-]{1,80}\.(?:py|sh|bash|c|cc|cpp|cu|h|hpp|rs|go|so|log|out|err|txt|json|yaml|yml|sbatch|service)"
)
_LONGEST_PREFIX = 40
_PREFIX_AT_END = pattern(
    r"(?:(?:(?<=\s)|(?<=[^\W\d]))\d{1,6}: |\[\w{0,20}\d{1,6}\]: ?|\[\d{1,2},\d{1,6}\]<std(?:out|"
    r"err)>: ?){1,3}\Z"
)
"""Prefix of a launcher between the end of one line and the start of the next, if a newline is missing."""


class _Opened(NamedTuple):
    """Text of a line with the facts of the envelopes that were removed from it."""

    text: str
    host: str | None = None
    rank: int | None = None
    local_rank: int | None = None
    pid: int | None = None
    time_s: float | None = None
    is_kernel: bool = False


_Opener = Callable[[re.Match[str], _Opened, "Unwrapper"], _Opened]


class Unwrapper:
    """Removes the envelopes from the lines of one source.

    `year` is the year of time stamps without a year: the year in which the file was written.
    """

    def __init__(self, source: str, year: int | None = None) -> None:
        self.source = source
        self.year = year
        self._writer = writer_of(source)
        self._hosts: dict[str, None] = {}

    def lines(self, number: int, raw: bytes) -> tuple[LogLine, ...]:
        """Return the line, or its parts if several processes wrote into one line. Never raises."""
        text = raw.decode("utf-8", "replace")
        parts = self._parts(text)
        return tuple(self._line(number, part, text) for part in parts)

    def may_be_host(self, name: str) -> bool:
        """Return whether a name may be a host: the name has a number or a domain, or NCCL used it as a host.

        Names of streams and steps, and versions of Python, also contain numbers; they are excluded.
        """
        is_likely = name in self._hosts or "." in name or any(map(str.isdecimal, name))
        return is_likely and not name.isdecimal() and _NO_HOST_NAME.fullmatch(name) is None

    def _line(self, number: int, text: str, raw: str) -> LogLine:
        line = _Opened(text)
        for _ in range(_MOST_LAYERS):
            opened = self._opened(line)
            if opened is None:
                break
            line = opened
        time_s = line.time_s
        if time_s is None:
            time_s = stamps.inner_seconds(line.text, self.year)
        if line.rank is None and line.local_rank is None:
            line = line._replace(rank=self._writer.rank, local_rank=self._writer.local_rank)
        if line.host is None and line.is_kernel:
            # Other lines get no host from the file's name, because NCCL may print another form of it.
            line = line._replace(host=self._writer.host)
        return LogLine(
            self.source,
            number,
            line.text,
            line.host,
            line.rank,
            line.local_rank,
            line.pid,
            time_s,
            raw,
            line.is_kernel,
        )

    def _opened(self, line: _Opened) -> _Opened | None:
        """Return the text without its outermost envelope; None if there is none."""
        text = line.text
        if text[:1] == "{":
            return _json(line, self)
        if _NCCL_START.match(text) is not None:
            return None
        first = text[:1]
        start = "1" if first.isdecimal() else "a" if first.isalpha() else " " if first.isspace() else first
        for envelope, opener in _BY_START.get(start, ()):
            match = envelope.match(text)
            if match is not None:
                opened = opener(match, line, self)
                return opened if len(opened.text) < len(text) else None
        return None

    def _parts(self, text: str) -> list[str]:
        """Return the parts of a line into which several processes wrote.

        Every part after the first begins with NCCL's own prefix, or with the launcher's prefix before it.
        """
        if text.count(" NCCL ") < 2 or text.startswith("{"):
            self._learn(text)
            return [text]
        starts = [0]
        for match in _GLUED.finditer(text):
            start = self._start(text, match.start())
            if start > starts[-1] + 1 and _GLUED.search(text, starts[-1], start):
                starts.append(start)
        return [text[start:end] for start, end in zip(starts, [*starts[1:], None], strict=True)]

    def _start(self, text: str, start: int) -> int:
        """Return where a glued line starts: at its launcher's prefix, or else at the host's name."""
        name = text[start : text.find(":", start)]
        start = max(
            (start + len(name) - len(host) for host in self._hosts if name.endswith(host)), default=start
        )
        prefix = _PREFIX_AT_END.search(text, max(start - _LONGEST_PREFIX, 0), start)
        return start if prefix is None else prefix.start()

    def _learn(self, text: str) -> None:
        match = _GLUED.search(text)
        if (
            match is not None
            and len(self._hosts) < 64
            and (match.start() == 0 or text[match.start() - 1] in " :]")
        ):
            self._hosts[text[match.start() : text.find(":", match.start())]] = None


def _stamp(match: re.Match[str], line: _Opened, of: Unwrapper) -> _Opened:
    time_s = stamps.seconds(match, of.year)
    return line._replace(
        text=line.text[match.end() :], time_s=line.time_s if line.time_s is not None else time_s
    )


def _kernel_stamp(match: re.Match[str], line: _Opened, of: Unwrapper) -> _Opened:
    return _stamp(match, line, of)._replace(is_kernel=True)


def _syslog(match: re.Match[str], line: _Opened, of: Unwrapper) -> _Opened:
    opened = _stamp(match, line, of)
    tag, text = match["tag"], line.text[match.end() :]
    pid = int(match["pid"]) if match["pid"] else line.pid
    if tag == "kernel":
        return opened._replace(text=text, host=match["host"], pid=pid, is_kernel=True)
    return opened._replace(text=f"{tag}: {text}", host=match["host"], pid=pid)


def _strip(match: re.Match[str], line: _Opened, _of: Unwrapper) -> _Opened:
    """Remove the prefix and keep the matched groups.

    Values of an inner prefix override values of an outer prefix.
    """
    groups = match.groupdict()
    numbers: dict[str, Any] = {
        name: int(groups[name]) for name in ("rank", "local_rank", "pid") if groups.get(name)
    }
    if groups.get("task") and line.local_rank is None:
        numbers["rank"] = int(groups["task"])
    opened = line._replace(text=line.text[match.end() :], host=groups.get("host") or line.host)
    if "local_rank" in numbers and "rank" not in numbers:
        opened = opened._replace(rank=None)  # the outer prefix numbers launchers, not ranks
    return opened._replace(**numbers)


def _named(match: re.Match[str], line: _Opened, of: Unwrapper) -> _Opened:
    """Remove a name before a line, such as pdsh's host: a rank, a host, a program or a stream."""
    name, opened = match["name"], line._replace(text=line.text[match.end() :])
    rank = _RANK_NAME.fullmatch(name)
    if rank is not None:
        number = int(rank["number"])
        return opened._replace(local_rank=number) if rank["local"] else opened._replace(rank=number)
    return opened._replace(host=name) if line.host is None and of.may_be_host(name) else opened


def _uptime(match: re.Match[str], line: _Opened, _of: Unwrapper) -> _Opened:
    time_s = line.time_s if line.time_s is not None else float(match["uptime"])
    return line._replace(text=line.text[match.end() :], time_s=time_s, is_kernel=True)


def _kernel(match: re.Match[str], line: _Opened, _of: Unwrapper) -> _Opened:
    """Remove a prefix that only kernel messages have; keep the host and microseconds, if it has them."""
    groups = match.groupdict()
    clock_us = groups.get("clock_us")
    time_s = int(clock_us) / 1e6 if clock_us and line.time_s is None else line.time_s
    host = groups.get("host") or line.host
    return line._replace(text=line.text[match.end() :], host=host, time_s=time_s, is_kernel=True)


_MARKS_OF_LOGS = frozenset({"stream", "severity", "level", "levelname", "record"})
"""Keys of log records.

If a JSON object has none of these keys, its `text` is training data, not a log message.
"""


def _json(line: _Opened, of: Unwrapper) -> _Opened | None:
    """Open a line of Docker's json-file, of `journalctl -o json` or of a cloud's log."""
    try:
        record: Any = json.loads(line.text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None
    inner = record.get("jsonPayload")
    keys = ("log", "MESSAGE", "message", "msg", "textPayload")
    for key in keys if _MARKS_OF_LOGS.isdisjoint(record) else (*keys, "text"):
        text = record.get(key) or (inner.get(key) if isinstance(inner, dict) else None)
        if isinstance(text, str) and len(text) < len(line.text):
            break
    else:
        return None
    host, pid = record.get("_HOSTNAME"), record.get("_PID")
    return line._replace(
        text=text.split("\n", 1)[0],
        host=host if isinstance(host, str) else line.host,
        pid=int(pid)
        if isinstance(pid, str) and pid.isascii() and pid.isdecimal() and len(pid) < 10
        else line.pid,
        time_s=_json_time(record, of),
        is_kernel=record.get("_TRANSPORT") == "kernel" or record.get("SYSLOG_IDENTIFIER") == "kernel",
    )


def _json_time(record: dict[str, Any], of: Unwrapper) -> float | None:
    for key in ("__REALTIME_TIMESTAMP", "time", "timestamp", "ts", "@timestamp"):
        value = record.get(key)
        if isinstance(value, str) and (match := _BARE_ISO.match(value)) is not None:
            return stamps.seconds(match, of.year)
        if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) == 16:
            return int(value) / 1e6
        if isinstance(value, int | float) and not isinstance(value, bool) and 1e8 < value < 1e10:
            return float(value)
    return None


_BARE_ISO = pattern(stamps.ISO)
_ENVELOPES: tuple[tuple[str, re.Pattern[str], _Opener], ...] = (
    # Syslog and journal, then lines that begin with a time stamp only.
    (
        " <a",
        pattern(
            rf"\s{{0,8}}(?:<\d{{1,3}}>(?:1 )?)?(?:{stamps.SYSLOG}) (?P<host>[\w.-]{{1,80}}) "
            r"(?P<tag>[A-Za-z][\w@.+/#-]{0,60})(?:\[(?P<pid>\d{1,9})\])?: ?"
        ),
        _syslog,
    ),
    (
        " <1",
        pattern(
            rf"\s{{0,8}}(?:<\d{{1,3}}>(?:1 )?)?(?:{stamps.ISO}) (?P<host>[\w.-]{{1,80}}) "
            r"(?P<tag>kernel|[A-Za-z][\w@.+/#-]{0,60}(?=\[\d))(?:\[(?P<pid>\d{1,9})\])?: ?"
        ),
        _syslog,
    ),
    (
        "<",
        pattern(
            rf"<\d{{1,3}}>1 {stamps.ISO} (?P<host>[\w.-]{{1,80}}) (?P<tag>[A-Za-z][\w@.+/#-]{{0,60}}) (?:"
            rf"(?P<pid>\d{{1,9}})|-) "
            r"\S{1,40} (?:-|\[[^\]]{0,200}\]) "
        ),
        _syslog,
    ),
    # Kubernetes' container runtimes: `2024-05-01T10:00:00.1Z stdout F `.
    ("1", pattern(rf"{stamps.ISO} (?:stdout|stderr) [FP] "), _stamp),
    ("a", pattern(rf"[A-Z][a-z]{{2}} {stamps.ISO} "), _stamp),
    # `dmesg --time-format=iso`.
    (
        "1",
        pattern(rf"(?=\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d,\d{{6}}[+-]\d\d:\d\d ){stamps.ISO} "),
        _kernel_stamp,
    ),
    (" [1", pattern(rf"\s{{0,8}}\[?{stamps.ISO}\]?:?[ \t]{{0,4}}"), _stamp),
    # `dmesg -T`.
    (" [", pattern(rf"\s{{0,8}}\[{stamps.WEEKDAY}\] {{0,4}}"), _kernel_stamp),
    (" a", pattern(rf"\s{{0,8}}{stamps.WEEKDAY}(?=\[|<std| ) {{0,4}}"), _stamp),
    (" [1", pattern(rf"\s{{0,8}}\[?{stamps.US}\]? {{0,4}}"), _stamp),
    ("a", pattern(rf"{stamps.SYSLOG} {{1,4}}"), _stamp),
    # The kernel's own clock; also `kernel:` alone, if somebody cut off time and host.
    (
        " <[",
        pattern(
            r"\s{0,8}(?:<\d{1,3}>)?\[\s{0,8}(?P<uptime>\d{1,10}\.\d{3,9})"
            r"(?:\s{0,4}<\s{0,8}\d{1,10}\.\d{3,9}>)?\]"
            r"(?:\[\s{0,8}[TC]\d{1,9}\])? ?"
        ),
        _uptime,
    ),
    ("[", pattern(HUMAN_TIME), _kernel),
    ("1", pattern(r"\d{1,3},\d{1,20},(?P<clock_us>\d{1,18}),[^;\n]{1,40};"), _kernel),
    (" a", pattern(r"\s{0,8}kern\s{0,4}:\s{0,8}[a-z]{3,7}\s{0,4}:\s{0,8}"), _kernel),
    ("1", pattern(r"\d{9,10}\.\d{6} (?=[\w.-]{1,80} kernel: )"), _strip),
    ("1a", pattern(r"(?:(?P<host>[\w.-]{1,80}) )?kernel: (?=\S)"), _kernel),
    # grep, mail.
    ("1a/>", pattern(rf"{GREP_OR_QUOTE}(?={KERNEL_BEGINS})"), _strip),
    # mpirun of Open MPI and PRRTE, and the prefixes of SageMaker and Horovod: `[1,2]<stdout>:`.
    (
        "<[",
        pattern(
            r"(?:<stdout>|<stderr>)?\[(?:[^\]\s@]{1,80}@)?(?:\d{1,9},)?(?:mpirank:)?(?P<rank>\d{1,7})(?:,"
            r"(?P<host>[\w.-]{1,80}))?\]"
            r"<(?:stdout|stderr|stddiag)>: ?"
        ),
        _strip,
    ),
    # Colour codes that have lost their escape character.
    ("[", pattern(r"\[\d{1,2}(?:;\d{1,3}){0,3}m ?"), _strip),
    # torchrun: the global rank from torch itself, and the local rank after the agent's role name.
    ("[", pattern(r"\[rank ?(?P<rank>\d{1,7})\](?:\[\w{1,40}\])?: ?"), _strip),
    ("[", pattern(r"\[(?:[A-Za-z][A-Za-z_-]{0,40})?(?P<local_rank>\d{1,4})\]: ?"), _strip),
    # Accelerate.
    ("[", pattern(r"\[RANK (?P<rank>\d{1,7})\] "), _strip),
    # Ray: `(RayTrainWorker pid=1234, ip=10.0.0.1) `, with a count if Ray merges equal lines.
    (
        "(",
        pattern(
            r"\((?:[^()\n]{1,120} )?pid=(?P<pid>\d{1,9})(?:, ip=(?P<host>[\w.:-]{1,80}))?\)"
            r" ?(?:\[repeated \d{1,9}x across cluster\] ?)?"
        ),
        _strip,
    ),
    # Quote marks of mails and issues, and the time column of a cloud console: `| 2024-05-01T10:00:00.1Z | `.
    (">", pattern(r"(?:> ?){1,3}(?=\S)"), _strip),
    (" |", pattern(rf"\s{{0,8}}\| {{0,2}}{stamps.ISO} {{0,2}}\| ?"), _stamp),
    # kubectl logs --prefix, docker compose.
    ("[", pattern(r"\[pod/(?P<host>[\w.-]{1,253})/[\w.-]{1,253}\] "), _strip),
    ("a", pattern(r"(?P<host>[A-Za-z][\w.]{0,60}[-_]\d{1,6}) {1,20}\| "), _strip),
    # srun --label; further forms only if the following text proves that they are prefixes.
    (" 1", pattern(r"\s{0,8}(?P<task>\d{1,6}): (?!\s{0,4}\d{1,20}(?:\.\d{1,9})?\s{0,8}$)"), _strip),
    ("[", pattern(rf"\[(?P<task>\d{{1,6}})\] (?={_BEGINS})"), _strip),
    ("1a", pattern(rf"(?P<name>[A-Za-z\d][\w.,\[\]-]{{0,80}}): (?={_BEGINS})"), _named),
    ("a", pattern(rf"[A-Za-z]\w{{0,40}}/(?P<task>\d{{1,6}}) (?={_BEGINS})"), _strip),
)
"""Envelopes: first characters (`1` any digit, `a` any letter), pattern, and the function that removes it."""
_BY_START = {start: tuple(row[1:] for row in _ENVELOPES if start in row[0]) for start in " <[(1a/>|"}

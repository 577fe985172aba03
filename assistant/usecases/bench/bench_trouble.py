"""Why a worker gave no complete answer, in one line: from its exit code, its log, the kernel's counters and
the disk.
"""

from __future__ import annotations

import re
import shutil
import signal
from pathlib import Path

from probes.base.units import KIB

_LEAST_FREE_BYTES = 64 * KIB
"""Less, and a worker may have failed at writing its answer, and at saying so."""
_EXCEPTION = re.compile(
    r"(?:\[\w+\]:\s*)?"  # torch puts the rank before each line
    r"((?:\w+\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Warning)\b(?::.*)?|Fatal Python error:.*|.*No space left on device.*)"
)
_OF_AGENT = ("ChildFailedError", "SignalException")
"""What torch's agent raises because a rank failed: never the cause."""
_RANK_FAILED = re.compile(r"^\s*rank\s*:\s*(\d+)\b.*\n\s*exitcode\s*:\s*(-?\d+)", re.MULTILINE)
"""Each rank in the report of torch's agent, and its exit code, -N after signal N. What the agent takes for
the root cause stands last, but of ranks that failed within one second it takes the first.
"""
_STOPPED_BY_AGENT = signal.SIGTERM
_MOST_WORDS = 300


def decisive_line(log: str) -> str:
    """The last line of the log that names an exception of the worker; empty where none does."""
    for line in reversed(log.splitlines()):
        match = _EXCEPTION.fullmatch(line.strip())
        if (
            match
            and "Warning" not in match[1].split(":")[0]
            and not any(name in match[1] for name in _OF_AGENT)
        ):
            return match[1][:_MOST_WORDS]
    return ""


def failed_rank(log: str) -> tuple[int, int] | None:
    """The rank that brought the others down, and its exit code, 128 + N after signal N; None where torch's
    agent does not tell.

    A rank that was killed or crashed comes first, one that aborted (SIGABRT) after it: torch aborts ranks
    that wait for others.
    """
    found = [
        (int(rank), int(code)) for rank, code in _RANK_FAILED.findall(log) if int(code) != -_STOPPED_BY_AGENT
    ]
    if not found:
        return None
    crashed = [(rank, 128 - code) for rank, code in found if code < 0]
    return (
        next((each for each in crashed if each[1] != 128 + signal.SIGABRT), crashed[0])
        if crashed
        else found[-1]
    )


def cause_of_end(title: str, code: int, log: str, *, kernel_killed: bool) -> tuple[str, str]:
    """The kind of failure and the one line for a worker that ended with `code`, 128 + N after signal N."""
    who = f"the worker of {title}"
    failed = failed_rank(log)
    if failed is not None:
        rank, code = failed
        who = f"rank {rank} of {title}"
    words = decisive_line(log)
    because = f": {words}" if words else ""
    if code <= 128:
        return "crashed", f"{who} ended with exit code {code}{because}"
    ended = f"{who} was ended by signal {code - 128}{_name(code - 128)}"
    if code - 128 != signal.SIGKILL:
        return "crashed", f"{ended}{because}"
    if kernel_killed:
        return "out_of_memory", f"{ended}: the kernel killed it because memory ran out"
    return "crashed", f"{ended}: somebody killed it, or the kernel did because memory ran out"


def _name(number: int) -> str:
    try:
        return f" ({signal.Signals(number).name})"
    except ValueError:
        return ""


def oom_kills() -> int:
    """How many processes the kernel has killed for want of memory since it started (/proc/vmstat, Linux
    4.13); 0 if unknown.
    """
    try:
        words = Path("/proc/vmstat").read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return 0
    return int(words[words.index("oom_kill") + 1]) if "oom_kill" in words else 0


def lost_folder(directory: Path) -> str:
    """That the disk of the work folder is full, or that somebody removed the folder; empty where neither is
    so.
    """
    if not directory.exists():
        return f"somebody removed {directory} meanwhile"
    try:
        free_bytes = shutil.disk_usage(directory).free
    except OSError:
        return ""
    return f"the disk of {directory} is full" if free_bytes < _LEAST_FREE_BYTES else ""

"""Explain in one line why a worker gave no complete answer.

The sources are its exit code, its log, the kernel's counters and the disk.
"""

import re
import shutil
import signal
from pathlib import Path

from probes.base.units import KIB

_LEAST_FREE_BYTES = 64 * KIB
"""Free space below which a worker probably failed to write its answer and its error."""
_EXCEPTION = re.compile(
    r"(?:\[\w+\]:\s*)?"  # torch writes the rank before each line
    r"((?:\w+\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Warning)\b(?::.*)?"
    r"|Fatal Python error:.*|.*No space left on device.*)"
)
_OF_AGENT = ("ChildFailedError", "SignalException")
"""Exceptions that torch's agent raises because a rank failed; they are never the cause."""
_RANK_FAILED = re.compile(r"^\s*rank\s*:\s*(\d+)\b.*\n\s*exitcode\s*:\s*(-?\d+)", re.MULTILINE)
"""Each rank in the report of torch's agent, with its exit code; the code is -N after signal N.

The last rank listed is the rank that the agent considers the root cause; among ranks that failed within the
same second, the agent considers the first rank of its list the root cause.
"""
_STOPPED_BY_AGENT = signal.SIGTERM
_MOST_WORDS = 300


def decisive_line(log: str) -> str:
    """Return the last line of the log that names an exception of the worker; empty if there is none."""
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
    """Return the rank that failed first, and its exit code (128 + N after signal N); None if unknown.

    A rank that was killed or crashed has precedence over a rank that aborted (SIGABRT), because torch aborts
    ranks that wait for a failed rank.
    """
    failed = [
        (int(rank), int(code)) for rank, code in _RANK_FAILED.findall(log) if int(code) != -_STOPPED_BY_AGENT
    ]
    if not failed:
        return None
    crashed = [(rank, 128 - code) for rank, code in failed if code < 0]
    return (
        next((each for each in crashed if each[1] != 128 + signal.SIGABRT), crashed[0])
        if crashed
        else failed[-1]
    )


def cause_of_end(title: str, code: int, log: str, *, kernel_killed: bool) -> tuple[str, str]:
    """Return the kind of failure and one line for a worker that ended with `code`, 128 + N after signal N."""
    who = f"the worker of {title}"
    failed = failed_rank(log)
    if failed is not None:
        rank, code = failed
        who = f"rank {rank} of {title}"
    words = decisive_line(log)
    because = f": {words}" if words else ""
    if code <= 128:
        return "crashed", f"{who} ended with exit code {code}{because}"
    number = code - 128
    names = {each.value: f" ({each.name})" for each in signal.Signals}
    ended = f"{who} was ended by signal {number}{names.get(number, '')}"
    if number != signal.SIGKILL:
        return "crashed", f"{ended}{because}"
    if kernel_killed:
        return "out_of_memory", f"{ended}: the kernel killed it because memory ran out"
    return "crashed", f"{ended}: a user or program killed it, or the kernel killed it because memory ran out"


def oom_kills() -> int:
    """Return how many processes the kernel has killed for lack of memory since boot; 0 if unknown.

    The source is /proc/vmstat (Linux 4.13 and newer).
    """
    try:
        words = Path("/proc/vmstat").read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return 0
    return int(words[words.index("oom_kill") + 1]) if "oom_kill" in words else 0


def lost_folder(directory: Path) -> str:
    """Return a message if the work folder was removed or its disk is full, else an empty text."""
    if not directory.exists():
        return f"{directory} was removed during the run"
    try:
        free_bytes = shutil.disk_usage(directory).free
    except OSError:
        return ""
    return f"the disk of {directory} is full" if free_bytes < _LEAST_FREE_BYTES else ""

"""Why a worker gave no complete answer, in one line: from its exit code, its log, the kernel's counters and the disk."""

from __future__ import annotations

import re
import shutil
import signal
from pathlib import Path

from probes.units import KIB

_LEAST_FREE_BYTES = 64 * KIB
"""Less, and a worker may have failed at writing its answer, and at saying so."""
_EXCEPTION = re.compile(
    r"(?:\[\w+\]:\s*)?"  # torch puts the rank before each line
    r"((?:\w+\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Warning)\b(?::.*)?|Fatal Python error:.*|.*No space left on device.*)"
)
_OF_AGENT = ("ChildFailedError", "SignalException")
"""What torch's agent raises because a rank failed: never the cause."""
_ROOT_CAUSE = re.compile(r"Root Cause.*?rank\s*:\s*(\d+).*?exitcode\s*:\s*(-?\d+)", re.DOTALL)
"""In the report of torch's agent: the first rank that failed and its code, -N after signal N."""
_MOST_WORDS = 300


def decisive_line(log: str) -> str:
    """The last line of the log that names an exception of the worker; empty where none does."""
    for line in reversed(log.splitlines()):
        match = _EXCEPTION.fullmatch(line.strip())
        if match and "Warning" not in match[1].split(":")[0] and not any(name in match[1] for name in _OF_AGENT):
            return match[1][:_MOST_WORDS]
    return ""


def cause_of_end(title: str, code: int, log: str, *, kernel_killed: bool) -> tuple[str, str]:
    """The kind of failure and the one line for a worker that ended with `code`, 128 + N after signal N."""
    who = f"the worker of {title}"
    root = _ROOT_CAUSE.search(log)
    if root is not None:
        rank, rank_code = int(root[1]), int(root[2])
        who, code = f"rank {rank} of {title}", 128 - rank_code if rank_code < 0 else rank_code
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
    """How many processes the kernel has killed for want of memory since it started (/proc/vmstat, Linux 4.13); 0 if unknown."""
    try:
        words = Path("/proc/vmstat").read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return 0
    return int(words[words.index("oom_kill") + 1]) if "oom_kill" in words else 0


def full_disk(directory: Path) -> str:
    """`the disk of DIRECTORY is full`; empty where it is not."""
    try:
        free_bytes = shutil.disk_usage(directory).free
    except OSError:
        return ""
    return f"the disk of {directory} is full" if free_bytes < _LEAST_FREE_BYTES else ""

"""Read NCCL's messages about its transports from the file that NCCL_DEBUG_FILE names, without torch."""

from __future__ import annotations

import glob

SIGNS = (" via ", "Connected NVLS tree", "NVLS comm ")
"""Words in the lines that name a transport."""
MOST_CHARACTERS = 20000


def transport_lines(pattern: str, pid: int) -> str:
    """Return the ends of the lines about transports in this process's log, without duplicates.

    Channel and peer are left out. `pattern` is the value of NCCL_DEBUG_FILE, in which NCCL replaces %h by the
    host's name and %p by the process's number.
    """
    endings: dict[str, None] = {}
    for path in glob.glob(pattern.replace("%h", "*").replace("%p", str(pid))) if pattern else ():
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                for line in file:
                    for sign in SIGNS:
                        if sign in line:
                            endings.setdefault(line[line.index(sign) :].strip())
        except OSError:
            continue
    return "\n".join(endings)[:MOST_CHARACTERS]

"""What NCCL wrote about its transports into the file that NCCL_DEBUG_FILE names. Needs no torch."""

from __future__ import annotations

import glob

SIGNS = (" via ", "Connected NVLS tree", "NVLS comm ")
"""Of the lines that tell a transport."""
MOST_CHARACTERS = 20000


def transport_lines(pattern: str, pid: int) -> str:
    """The ends of the lines about transports in this process's log, each once, without channel and peer.

    `pattern` is the value of NCCL_DEBUG_FILE, in which NCCL replaces %h by the host's name and %p by the
    process's number.
    """
    found: dict[str, None] = {}
    for path in glob.glob(pattern.replace("%h", "*").replace("%p", str(pid))) if pattern else ():
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                for line in file:
                    for sign in SIGNS:
                        if sign in line:
                            found.setdefault(line[line.index(sign) :].strip())
        except OSError:
            continue
    return "\n".join(found)[:MOST_CHARACTERS]

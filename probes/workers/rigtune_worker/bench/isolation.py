"""All-reduce over the layers between ranks that the environment leaves, with what NCCL logged about the layers it used."""

from __future__ import annotations

import glob
import os
from typing import Any

import torch

from ..protocol import Answer
from .collectives import run as run_collectives

SIGNS = (" via ", "Connected NVLS tree")
"""Of the lines that tell a transport."""
MOST_CHARACTERS = 20000


def run(request: dict[str, Any], answer: Answer, device: torch.device) -> None:
    """Measure every case {collective, bytes}. What NCCL wrote to NCCL_DEBUG_FILE goes into the answer's end as `nccl_log`."""
    run_collectives(request, answer, device)
    answer.seen["nccl_log"] = transport_lines(os.environ.get("NCCL_DEBUG_FILE", ""), os.getpid())


def transport_lines(pattern: str, pid: int) -> str:
    """The lines about transports in this process's log, each ending once, without channel and peer.

    `pattern` is the value of NCCL_DEBUG_FILE, in which NCCL replaces %h by the host's name and %p by the process.
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

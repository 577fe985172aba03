"""Control the life of a worker process: it ends with its launcher, and without Python's own cleanup."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import traceback
from typing import Callable, Optional

PR_SET_PDEATHSIG = 1
"""linux/prctl.h"""


def die_with_parent(parent: Optional[int] = None) -> None:
    """Let the kernel kill this process when its parent ends, so that no rank outlives its launcher (Linux).

    A process that forks passes its own process id as `parent`, because the parent may end before the new
    process calls this function.
    """
    if not sys.platform.startswith("linux"):
        return
    parent = os.getppid() if parent is None else parent
    try:
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    except (OSError, AttributeError):
        return
    if os.getppid() != parent:
        sys.exit(1)


def run_and_leave(main: Callable[[], int]) -> None:
    """Run `main` and end this process immediately with the exit code of `main`, 1 for an exception.

    Python's own cleanup is not safe for torch's threads. A thread of gloo that still uses the tensor of the
    last collective aborts the process (SIGABRT after all work is done), and a failed rank would wait in
    NCCL's cleanup for ranks that wait for this rank.
    """
    code = 1
    try:
        code = main()
    except SystemExit:
        raise  # wrong usage: no thread of torch runs yet
    except BaseException:
        print_exception()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def print_exception() -> None:
    """Print the current exception to the log, unless the disk of the log is full."""
    with contextlib.suppress(OSError, ValueError):
        traceback.print_exc()
